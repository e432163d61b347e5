"""A path or URI names one directory, however it is spelled; Spark is told it so that it reads the same one."""

from __future__ import annotations

from pathlib import Path

import pytest

from indoubt.lifecycle.errors import SettingsError, Unreachable
from indoubt.resource_managers.checkpoint_location import CheckpointLocation


@pytest.mark.parametrize(
    ("text", "uri", "for_spark"),
    [
        ("/a/b", "file:///a/b", "file:///a/b"),
        ("/a//b/", "file:///a/b", "file:///a/b"),
        ("file:/a/b", "file:///a/b", "file:///a/b"),
        ("file:///a/b/", "file:///a/b", "file:///a/b"),
        ("file://localhost/a/b", "file:///a/b", "file:///a/b"),
        ("file:///a%20b", "file:///a b", "file:///a b"),
        ("/a:b/c", "file:///a:b/c", "file:///a:b/c"),
        ("s3a://bucket/a//b/", "s3://bucket/a/b", "s3a://bucket/a/b"),
        ("S3://bucket/a/b", "s3://bucket/a/b", "s3://bucket/a/b"),
        ("hdfs://nn:8020/a/b", "hdfs://nn:8020/a/b", "hdfs://nn:8020/a/b"),
        ("hdfs:///a", "hdfs:///a", "hdfs:///a"),
        ("abfss://box@account.dfs.core.windows.net/a", *["abfss://box@account.dfs.core.windows.net/a"] * 2),
    ],
)
def test_every_spelling_of_a_directory_names_it_alike(text, uri, for_spark):
    location = CheckpointLocation.read(text)
    assert (location.uri, location.for_spark) == (uri, for_spark)
    assert (location.path != "") == uri.startswith("file:")


def test_a_relative_path_is_of_the_present_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in ("ck", "./ck", "x/../ck"):
        assert CheckpointLocation.read(text).uri == f"file://{Path.cwd()}/ck"


@pytest.mark.parametrize(
    ("text", "what_to_do"),
    [
        ("nope://bucket/a", "give a path, or a URI that begins with file://, s3://, s3a://"),
        ("a:b/c", r"as \./a:b/c"),
        ("file://host/a", "write file:///host/a"),
        ("file:a", "needs the whole path"),
        ("s3a://bucket", "s3a://BUCKET/PATH"),
        ("s3:///a", "s3://BUCKET/PATH"),
        ("s3:bucket/a", "is not understood"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_to_write(text, what_to_do):
    with pytest.raises(SettingsError, match=what_to_do):
        CheckpointLocation.read(text)


def test_what_cannot_be_opened_is_refused_by_its_name(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", "/nowhere")
    with pytest.raises(SettingsError, match="hdfs://nn:8020/a cannot be opened"):
        CheckpointLocation.read("hdfs://nn:8020/a").filesystem()


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 7", Unreachable),
        ("AWS Error SLOW_DOWN during PutObject operation", Unreachable),
        # An answer to HEAD has no body that would say more.
        ("AWS Error UNKNOWN (HTTP status 503) during HeadObject operation: No response body.", Unreachable),
        ("AWS Error UNKNOWN (HTTP status 429) during HeadObject operation: No response body.", Unreachable),
        ("AWS Error ACCESS_DENIED (HTTP status 403) during HeadObject operation: No response body.", SettingsError),
        ("AWS Error NO_SUCH_BUCKET during GetObject operation", SettingsError),
    ],
)
def test_a_store_that_is_away_is_another_error_than_a_wrong_name(said, kind):
    assert isinstance(CheckpointLocation.read("s3://bucket/a").refusal(OSError(f"When reading: {said}")), kind)
