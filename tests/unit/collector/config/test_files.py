"""How the directories of files sinks that the collector looks into are named."""

from __future__ import annotations

import pytest

from indoubt.collector.config import files
from indoubt.lifecycle.errors import SettingsError


def test_directories_are_called_files_or_by_name() -> None:
    found = files.read_files(["/data/orders", "shop=s3://bucket/orders?region=eu-west-1", "old=file:///data/old"])
    assert found == {
        "files": "/data/orders",
        "shop-files": "s3://bucket/orders?region=eu-west-1",
        "old-files": "file:///data/old",
    }
    assert files.managers(found).keys() == found.keys()
    assert {manager.name for manager in files.managers(found).values()} == {"files"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["/a", "/b"], "there is a directory 'files' already; write NAME=DIR"),
        (["x=/a", "x=/b"], "there is a directory 'x-files' already"),
        (["/a", "x=file:///a"], "file:///a is 'files' already"),
        (["s3://bucket/a", "x=s3a://bucket//a/"], "s3://bucket/a is 'files' already"),
        (["ftp://host/a"], "--files directory 'ftp://host/a' is not understood"),
    ],
)
def test_wrong_options_are_refused_by_name(given: list[str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        files.read_files(given)
