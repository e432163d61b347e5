"""What rows become as files, and the directories of partitions, as readers that are not ours take them."""

from __future__ import annotations

import datetime
import decimal
import json

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from indoubt.lifecycle.errors import SettingsError
from indoubt.resource_managers.files.access import FilesAccess
from indoubt.resource_managers.files.formats import check, encode, partitions, suffix_of

WORDS = ["plain", "with space", "a/b", "x=y", "50%", "ü", "quote'd", "", None, "a\\b", "#1"]


def write(directory, table, partition_by, format_="parquet"):
    for number, (partition, rows) in enumerate(partitions(table, partition_by)):
        (directory / partition).mkdir(parents=True, exist_ok=True)
        (directory / partition / f"part-{number}.{suffix_of(format_)}").write_bytes(encode(rows, format_))


def test_partitions_hold_each_row_once_whatever_its_value_is(tmp_path):
    table = pa.table({"word": WORDS * 2, "number": range(2 * len(WORDS))})
    write(tmp_path, table, ["word"])
    expected = sorted(((word or "", n) for n, word in enumerate(WORDS * 2)))
    schema = ds.partitioning(pa.schema([("word", pa.string())]), flavor="hive")
    by_pyarrow = ds.dataset(tmp_path, format="parquet", partitioning=schema).to_table().to_pylist()
    assert sorted((row["word"] or "", row["number"]) for row in by_pyarrow) == expected
    query = "select word, number from read_parquet($1, hive_partitioning = true, hive_types_autocast = false)"
    by_duckdb = duckdb.execute(query, [f"{tmp_path}/**/*.parquet"]).fetchall()
    assert sorted((word or "", number) for word, number in by_duckdb) == expected
    assert (tmp_path / "word=__HIVE_DEFAULT_PARTITION__").is_dir()


def test_several_columns_are_directories_in_directories(tmp_path):
    day = datetime.date(2026, 11, 30)
    table = pa.table({"day": [day, day, None], "ok": [True, False, True], "n": [1, 2, 3], "left": ["a", "b", "c"]})
    found = {partition: rows.to_pylist() for partition, rows in partitions(table, ["day", "ok", "n"])}
    assert found == {
        "day=2026-11-30/ok=true/n=1": [{"left": "a"}],
        "day=2026-11-30/ok=false/n=2": [{"left": "b"}],
        "day=__HIVE_DEFAULT_PARTITION__/ok=true/n=3": [{"left": "c"}],
    }


def test_json_lines_hold_what_spark_would_write():
    row = {
        "bytes": b"\x00\xff",
        "when": datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC),
        "price": decimal.Decimal("1.10"),
        "nan": float("nan"),
        "nested": {"inf": [float("inf"), 1.5]},
        "text": "ü\n",
        "null": None,
    }
    (line,) = encode(pa.Table.from_pylist([row]), "jsonl").decode().splitlines()
    assert json.loads(line) == {
        "bytes": "AP8=",
        "when": "2026-11-30T12:00:00+00:00",
        "price": "1.10",
        "nan": "NaN",
        "nested": {"inf": ["Infinity", 1.5]},
        "text": "ü\n",
        "null": None,
    }


@pytest.mark.parametrize(
    ("columns", "access", "said"),
    [
        ([("a", pa.string())], FilesAccess(partition_by=("b",)), "names column 'b', and the job has: a"),
        ([("a", pa.string())], FilesAccess(partition_by=("a",)), "names every column"),
        ([("a", pa.float64()), ("b", pa.int8())], FilesAccess(partition_by=("a",)), "column 'a' is double"),
        ([("a", pa.month_day_nano_interval())], FilesAccess(), "which parquet does not hold"),
        ([("a", pa.duration("us"))], FilesAccess(format="jsonl"), "which JSON does not hold"),
        ([("a", pa.list_(pa.duration("us")))], FilesAccess(format="jsonl"), "which JSON does not hold"),
    ],
)
def test_columns_that_cannot_be_written_are_refused_by_name(columns, access, said):
    with pytest.raises(SettingsError, match=said):
        check(columns, access)


@pytest.mark.parametrize(
    ("format_", "partition_by", "said"),
    [
        ("csv", "", "files_format is 'csv'; it takes parquet or jsonl"),
        ("parquet", "_day", "files_partition_by names '_day'"),
        ("parquet", "a/b", "files_partition_by names 'a/b'"),
        ("parquet", "day, day", "names a column twice"),
    ],
)
def test_wrong_settings_are_refused_with_what_they_take(format_, partition_by, said):
    with pytest.raises(SettingsError, match=said):
        FilesAccess.read(format_, partition_by, {})


def test_access_travels_as_text_and_shows_no_key():
    given = {"spark.hadoop.fs.s3a.secret.key": "secret-word", "spark.executor.memory": "1g"}
    access = FilesAccess.read("jsonl", "day, hour", given)
    assert FilesAccess.from_json(access.to_json()) == access
    assert access.partition_by == ("day", "hour")
    assert access.properties == {"spark.hadoop.fs.s3a.secret.key": "secret-word"}
    assert "secret-word" not in repr(access)
