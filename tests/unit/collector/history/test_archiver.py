"""What is archived, and that each row is read once, from wherever it is: the file, the archive, or both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from indoubt.collector.history import transaction_sql
from indoubt.collector.history.observation_tables import TABLES
from indoubt.collector.history.store import StoreFailed
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS, MINUTE_MS
from indoubt.resource_managers.history_archive import SCHEMA_VERSION, ArchiveFailed, ArchiveTaken, HistoryArchive
from tests.unit.collector.history.archived_history import ABORTED, NOW, History

pytestmark = pytest.mark.slow


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    made = History(tmp_path / "collector", tmp_path / "archive")
    yield made
    made.store.close()


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*.parquet"))


def test_closed_days_become_files_and_then_leave(history: History, tmp_path: Path) -> None:
    history.transaction("two-days-ago", NOW - 2 * DAY_MS)
    history.transaction("yesterday", NOW - DAY_MS)
    history.transaction("today", NOW - MINUTE_MS)
    history.archive()
    folder = "v1/transaction_records/cluster=kafka%2F1"
    assert [path.rpartition("/")[0] for path in files(tmp_path / "archive")] == [
        f"{folder}/day=2026-12-11",
        f"{folder}/day=2026-12-12",
    ]
    assert history.read() == {"two-days-ago": 3, "yesterday": 3, "today": 3}, "nothing has left, and nothing is doubled"
    history.retire()
    assert history.in_file() == 6, "the older day has left the file"
    assert history.read() == {"two-days-ago": 3, "yesterday": 3, "today": 3}


def test_a_file_says_of_which_schema_it_is_and_has_what_the_job_needs(history: History, tmp_path: Path) -> None:
    start_ms = NOW - DAY_MS
    history.transaction("fails", start_ms, ABORTED)
    history.transaction("good", start_ms)
    history.lost = [("fails", 7, start_ms)]
    history.retire(days=30)  # explains the abort
    history.archive()
    (path,) = files(tmp_path / "archive")
    table = pq.read_table(tmp_path / "archive" / path, partitioning=None)
    told = table.schema.metadata
    assert (told[b"indoubt.schema_version"], told[b"indoubt.cluster"]) == (b"1", b"kafka/1")
    ends = [
        (row["transaction_id"], row["application"], row["cause"], row["lost"])
        for row in table.to_pylist()
        if row["status"].startswith("COMPLETE")
    ]
    assert ends == [
        ("fails", "application of fails", "fenced", True),
        ("good", "application of good", None, None),
    ]
    assert table["cause"].null_count == 5


def test_rows_stay_until_they_are_archived(history: History) -> None:
    history.transaction("old", NOW - 40 * DAY_MS)
    history.transaction("today", NOW - MINUTE_MS)
    history.retire()
    assert history.in_file() == 6
    history.archive()
    history.transaction("late", NOW - 40 * DAY_MS)
    history.retire()
    assert history.in_file() == 6, "what came late is not archived yet"
    assert history.read() == {"old": 3, "today": 3}, "... and is read as soon as it is"
    history.now_ms += DAY_MS
    history.archive()
    history.retire()
    assert history.in_file() == 3
    assert history.read() == {"old": 3, "today": 3, "late": 3}


def test_an_hour_is_archived_where_many_rows_wait(tmp_path: Path) -> None:
    history = History(tmp_path / "collector", tmp_path / "archive", hour_rows=5)
    history.transaction("an-hour-ago", NOW - 90 * MINUTE_MS)
    history.archive()
    assert not files(tmp_path / "archive"), "few rows wait for the end of their day"
    history.transaction("before", NOW - 80 * MINUTE_MS)
    history.transaction("now", NOW - 90_000)
    history.archive()
    assert not files(tmp_path / "archive"), "it is looked for once an hour"
    history.now_ms += HOUR_MS
    history.archive()
    assert len(files(tmp_path / "archive")) == 2, "the hour with so many rows, and the rest"
    assert history.store.past.until_ms == NOW
    history.store.close()


def test_an_abort_that_is_not_explained_yet_waits(history: History, tmp_path: Path) -> None:
    history.transaction("fails", NOW - DAY_MS, ABORTED)
    history.archive()
    assert not files(tmp_path / "archive")


def test_of_a_row_out_of_order_all_before_it_goes_too(history: History) -> None:
    history.transaction("now", NOW - MINUTE_MS)
    history.transaction("clock-behind", NOW - 3 * DAY_MS)
    history.archive()
    history.transaction("later", NOW - MINUTE_MS)
    history.retire()
    assert history.read() == {"now": 3, "clock-behind": 3, "later": 3}
    history.now_ms += DAY_MS
    history.archive()
    history.retire(days=1)
    history.now_ms += 2 * DAY_MS
    history.archive()
    history.retire(days=1)
    assert history.read() == {"now": 3, "clock-behind": 3, "later": 3}


def test_what_a_killed_collector_wrote_without_a_list_is_removed(history: History, tmp_path: Path) -> None:
    history.transaction("yesterday", NOW - DAY_MS)
    archive, history.archiver._archive = tmp_path / "archive", _Killed.open(str(tmp_path / "archive"))
    with pytest.raises(_Kill):
        history.archive()
    assert len(files(archive)) == 1, "the file is there, and in no list"
    history.store.close()
    again = History(tmp_path / "collector", archive)
    again.archive()
    again.retire(days=1)
    assert [len(files(archive)), again.read()] == [1, {"yesterday": 3}]
    with duckdb.connect() as reader:
        found = reader.read_parquet(f"{archive}/v1/transaction_records/**/*.parquet").count("*").fetchall()
    assert found == [(3,)], "who reads the folder counts each row once, too"
    again.store.close()


class _Kill(BaseException):
    pass


class _Killed(HistoryArchive):
    """Ends as the process is killed between a file and the list that has it."""

    def publish(self, manifest):  # type: ignore[no-untyped-def]
        if manifest.files:
            raise _Kill
        return super().publish(manifest)


def test_a_new_file_of_history_reads_what_is_archived_and_archives_no_topic_twice(tmp_path: Path) -> None:
    first = History(tmp_path / "first", tmp_path / "archive")
    first.transaction("yesterday", NOW - DAY_MS)
    first.archive()
    first.store.close()
    again = History(tmp_path / "second", tmp_path / "archive")
    again.archive()
    again.transaction("yesterday", NOW - DAY_MS)  # the topic is read from its start
    again.transaction("also-yesterday", NOW - DAY_MS)
    assert again.read() == {"yesterday": 3}
    again.now_ms += DAY_MS
    again.archive()
    again.retire()
    assert again.read() == {"yesterday": 3, "also-yesterday": 3}
    again.store.close()


def test_where_no_topic_counts_a_new_file_begins_anew(tmp_path: Path) -> None:
    first = History(tmp_path / "first", tmp_path / "archive", source="polled")
    first.transaction("first", NOW - DAY_MS)
    first.archive()
    first.store.close()
    again = History(tmp_path / "second", tmp_path / "archive", source="polled")
    again.transaction("second", NOW - DAY_MS)  # before the archive could be reached
    again.now_ms += DAY_MS
    again.archive()
    again.retire()
    assert again.read() == {"first": 3, "second": 3}
    again.store.close()


def test_two_collectors_do_not_share_an_archive(tmp_path: Path) -> None:
    first = History(tmp_path / "first", tmp_path / "archive")
    second = History(tmp_path / "second", tmp_path / "archive")
    first.archive()
    second.archive()
    first.transaction("one", NOW - DAY_MS)
    second.transaction("two", NOW - DAY_MS)
    first.now_ms += DAY_MS
    second.now_ms += DAY_MS
    second.archive()
    with pytest.raises(ArchiveTaken, match="give each of two collectors an INDOUBT_HISTORY_ARCHIVE of its own"):
        first.archive()
    first.store.close()
    second.store.close()


def test_files_without_any_list_are_left_alone(tmp_path: Path) -> None:
    stray = tmp_path / "archive" / "v1" / "transaction_records" / "cluster=kafka%2F1" / "day=2026-12-11" / "1.parquet"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"")
    history = History(tmp_path / "collector", tmp_path / "archive")
    with pytest.raises(ArchiveFailed, match="has no list, and there are files of that cluster"):
        history.archive()
    assert stray.exists()
    history.store.close()


def test_newest_of_an_id_are_found_across_file_and_archive(history: History) -> None:
    starts = [NOW - days * DAY_MS for days in (5, 4, 3, 1)]
    for start_ms in starts:
        history.transaction("same", start_ms)
    history.archive()
    history.retire(days=2)
    assert history.in_file() == 6
    found = history.store.rows(transaction_sql.OF_ID_BEFORE, "same", NOW, 0, 0, 3)
    assert [start_ms for _, start_ms in found] == sorted(starts, reverse=True)[:3]
    of_id = history.store.rows(transaction_sql.TRANSACTIONS_OF_ID, "same", NOW, 0, 6)
    assert sorted(row[2] for row in of_id) == starts[-2:], "the newest records come first"
    later = history.store.rows(transaction_sql.OF_ID_BEFORE, "same", NOW, 0, starts[1], 9, since_ms=starts[1])
    assert [start_ms for _, start_ms in later] == sorted(starts[1:], reverse=True)


def test_what_has_left_is_not_silently_missing_while_the_archive_is_away(tmp_path: Path) -> None:
    first = History(tmp_path / "collector", tmp_path / "archive")
    first.transaction("old", NOW - 3 * DAY_MS)
    first.transaction("today", NOW - MINUTE_MS)
    first.archive()
    first.retire()
    first.store.close()
    (tmp_path / "archive").rename(tmp_path / "away")
    (tmp_path / "archive").write_text("no directory")
    again = History(tmp_path / "collector", tmp_path / "archive")
    with pytest.raises(ArchiveFailed):
        again.archive()
    with pytest.raises(StoreFailed, match="is archived, and the archive was not read yet"):
        again.read()
    query = "select transaction_id from past.transaction_records where start_ms >= ?"
    assert len(again.store.rows(query, NOW - DAY_MS, since_ms=NOW - DAY_MS)) == 3, "what is in the file is answered"
    (tmp_path / "archive").unlink()
    (tmp_path / "away").rename(tmp_path / "archive")
    again.archive()
    assert again.read() == {"old": 3, "today": 3}
    again.store.close()


COLUMNS = {
    "transaction_records": "source partition offset transaction_id producer_id producer_epoch status start_ms update_ms timeout_ms "
    "partitions client_version application cause lost",
    "lifecycle_events": "source partition offset type at_ms pipeline event",
    "decision_records": "source partition offset type at_ms prefix record counts",
    "prepared_branches": "source partition offset instance resource_manager transaction_id what at_ms proof prepared_ms owner "
    "database server application",
}
"""Of version 1: where a table has others, SCHEMA_VERSION is another one."""


def test_the_columns_are_those_of_the_schema_version(history: History, tmp_path: Path) -> None:
    history.transaction("yesterday", NOW - DAY_MS)
    history.archiver.round()
    (path,) = files(tmp_path / "archive")
    written = {"transaction_records": pq.read_schema(tmp_path / "archive" / path).names}
    written |= {name: TABLES[name].schema.names for name in ("lifecycle_events", "decision_records")}
    written["prepared_branches"] = [*TABLES["prepared_branches"].schema.names, "application"]
    assert SCHEMA_VERSION == 1
    assert {name: " ".join(columns) for name, columns in written.items()} == COLUMNS
