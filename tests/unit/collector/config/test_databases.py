"""How the databases, and directories of files sinks, that the collector looks into are named and read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from indoubt.collector.config import databases
from indoubt.lifecycle.errors import SettingsError


def properties(directory: Path, name: str, **kinds: str) -> Path:
    file = directory / name
    lines = [
        f"{kind}.{part}"
        for kind, host in kinds.items()
        for part in (f"host={host}", "user=u", "database=d", "password=secret-word")
    ]
    file.write_text("\n".join(lines))
    return file


def test_databases_are_called_by_kind_or_by_name_and_kind(tmp_path: Path) -> None:
    one = properties(tmp_path, "one", mysql="a", postgres="a")
    two = properties(tmp_path, "two", mysql="b")
    found = databases.read_databases([str(one), f"shop={two}"], {"INDOUBT_MYSQL_PASSWORD": "other-word"})
    assert [(instance, c.host, c.password) for instance, c in found.items()] == [
        ("mysql", "a", "other-word"),
        ("postgres", "a", "secret-word"),
        ("shop-mysql", "b", "other-word"),
    ]
    assert "-word" not in repr(found)
    assert databases.listing_instances(found) == {"mysql", "postgres", "shop-mysql"}


def test_of_two_databases_on_one_mysql_server_one_lists(tmp_path: Path) -> None:
    one, two = properties(tmp_path, "one", mysql="a"), properties(tmp_path, "two", mysql="a")
    two.write_text(two.read_text().replace("database=d", "database=e"))
    found = databases.read_databases([f"x={one}", f"y={two}"], {})
    assert databases.listing_instances(found) == {"x-mysql"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["{a}", "{b}"], "there is a database 'mysql' already; write NAME=FILE"),
        (["{a}", "x={a}"], "mysql at a:3306, database d is 'mysql' already"),
        (["{a}.not"], "cannot be read"),
    ],
)
def test_a_wrong_database_is_named(given: list[str], says: str, tmp_path: Path) -> None:
    files = {"a": properties(tmp_path, "a", mysql="a"), "b": properties(tmp_path, "b", mysql="b")}
    with pytest.raises(SettingsError, match=re.escape(says)):
        databases.read_databases([text.format(**files) for text in given], {})


def test_directories_are_called_files_or_by_name() -> None:
    found = databases.read_files(["/data/orders", "shop=s3://bucket/orders?region=eu-west-1", "old=file:///data/old"])
    assert found == {
        "files": "/data/orders",
        "shop-files": "s3://bucket/orders?region=eu-west-1",
        "old-files": "file:///data/old",
    }
    assert databases.file_managers(found).keys() == found.keys()
    assert {manager.name for manager in databases.file_managers(found).values()} == {"files"}


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
def test_wrong_options_of_files_are_refused_by_name(given: list[str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        databases.read_files(given)
