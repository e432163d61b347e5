"""Archives what is over: rows of closed hours and days, as Parquet files that are written once; a thread of its own.

A row is archived by its place in its source: all up to one offset are, and none behind it. So a collector that is killed between a
file and the list that has it writes the file again, and a row that comes late goes into another file of its day.
"""

# ruff: noqa: S608 (statements are put together from names and numbers of our own)

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pyarrow as pa

from indoubt.collector.history import past, sql
from indoubt.collector.history.past import TIMES
from indoubt.collector.history.rollups import Aborted
from indoubt.collector.history.store import Store, StoreFailed
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS, MINUTE_MS
from indoubt.resource_managers.history_archive import (
    BRANCHES,
    TABLES,
    TRANSACTIONS,
    ArchivedFile,
    ArchiveFailed,
    ArchiveTaken,
    HistoryArchive,
    Manifest,
    SourceEnd,
    file_path,
    metadata_of,
)

ROUND_S, BEGIN_LIMIT_S = 30.0, 5.0
LATE_MS = 5 * MINUTE_MS
"""An hour or a day is closed so long after its end: what was observed meanwhile is in the file, and explained."""
HOUR_ROWS = 500_000
"""Hours are archived when so many rows wait, days whatever they hold: few large files are read faster than many small ones."""
ROW_GROUP = 100_000
UNFINISHED = "archive-unfinished"
_DAY = "least(greatest({time}, 0), 253402300799999) // 86400000"
"""Of rows whose clock was far off too: no day is after the year 9999."""
# {table} and {time}: see _of. Bound: the end of the time (epoch ms).
_PENDING = """
from {table} t left join archived_to a on a.table_name = '{table}' and a.source = t.source and a.partition = t.partition
where t."offset" >= coalesce(a.next_offset, 0) and {time} is not null and {time} < ?"""
_HOURS = f"select {{time}} // 3600000 * 3600000 as hour, count(*) {_PENDING} group by all order by all"
# Of each source all up to the last row of this time.
_NOTE_CHUNK = f"""
create or replace temp table chunk as
select t.source, t.partition, coalesce(any_value(a.next_offset), 0) as first_offset, max(t."offset") + 1 as next_offset
{_PENDING} group by all"""
_OF_CHUNK = """
from {table} t join chunk c on c.source = t.source and c.partition = t.partition
    and t."offset" >= c.first_offset and t."offset" < c.next_offset
where {time} is not null"""
_DAYS = f"select {_DAY} as day, count(*), min({{time}}), max({{time}}) {_OF_CHUNK} group by all order by all"
_IDS = f"select distinct t.transaction_id {_OF_CHUNK}"
_ENDS = "select source, partition, next_offset, source in (select source from source_epochs) from chunk order by all"
_UNEXPLAINED = "select min(ended_ms) from aborts_to_explain"
# Beside the columns of history. cause and lost: of the record of an abort's end, else null.
_OF_ENDS = """
t.status = 'COMPLETE_ABORT' and t.start_ms is not null"""
_MORE_COLUMNS = {
    TRANSACTIONS: f""", n.application, if({_OF_ENDS}, coalesce(e.cause, 'unknown'), null) as cause,
        if({_OF_ENDS}, l.transaction_id is not null, null) as lost""",
    BRANCHES: ", n.application",
}
_MORE_ROWS = {
    TRANSACTIONS: """
        left join names n on n.transaction_id = t.transaction_id
        left join (select transaction_id, producer_id, start_ms, any_value(cause) as cause from explained_aborts group by all) e
            on e.transaction_id = t.transaction_id and e.producer_id = t.producer_id and e.start_ms = t.start_ms
        left join lost_ones l
            on l.transaction_id = t.transaction_id and l.producer_id = t.producer_id and l.start_ms = t.start_ms""",
    BRANCHES: "left join names n on n.transaction_id = t.transaction_id",
}
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What the archive says beside what was observed.

    ``names``: the application of each id, or of each branch where that is asked. ``lost``: the transactions that are judged lost.
    """

    names: Callable[[Sequence[str], bool], Sequence[str]]
    lost: Callable[[], Sequence[Aborted]]


class Archiver:
    """Archives one collector's history. ``cluster``: what its partition is called, empty while that is not known."""

    def __init__(
        self,
        store: Store,
        location: str,
        knowledge: Knowledge,
        cluster: Callable[[], str],
        clock_ms: Callable[[], int],
        hour_rows: int = HOUR_ROWS,
    ) -> None:
        self.error = ""
        """Why the last round failed; empty after one that did not."""
        self._store, self._location, self._knowledge = store, location, knowledge
        self._cluster, self._clock_ms, self._hour_rows = cluster, clock_ms, hour_rows
        self._stopping, self._tried = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="archiver", daemon=True)
        self._archive: HistoryArchive | None = None
        self._manifest: Manifest | None = None
        store.past.is_archived = True
        self._offsets_at_start: dict[tuple[str, int], int] | None = None
        self._has_begun = False
        self._looked_until_ms = 0
        """The end of the last hour that was looked at: once an hour is enough."""

    def start(self) -> None:
        """Start before anything is observed, in a thread; returns once the archive is read, or after 5 s. Raises StoreFailed."""
        self._note_start()
        self._thread.start()
        self._tried.wait(BEGIN_LIMIT_S)

    def stop(self) -> None:
        """Stop; returns when the file under way is written, or after 20 s."""
        self._stopping.set()
        self._thread.join(20.0)

    def round(self) -> None:
        """Archive what is over and not archived yet. Raises ArchiveFailed, StoreFailed."""
        if self._offsets_at_start is None:
            self._note_start()
        if self._manifest is None and not self._begin():
            return
        self._tried.set()
        with self._store.reading() as cursor:
            self._archive_until(cursor, self._closed_until(cursor))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.round()
                self.error = ""
            except ArchiveTaken as error:
                self.error = str(error)
                log.error("history is not archived any more, and is kept: %s", error)
                return
            except (ArchiveFailed, StoreFailed, OSError) as error:
                if not self.error:
                    log.error("history cannot be archived, and is kept until it can: %s", error)
                self.error = str(error)
                self._manifest = None  # as it is there now: another list may be in its place
                self._looked_until_ms = 0
            except Exception as error:
                self.error = f"history is not archived: {error!r}"
                log.exception("history is not archived any more, and is kept")
                return
            self._tried.set()
            self._stopping.wait(ROUND_S)

    def _note_start(self) -> None:
        """Note how far each source is in history: what no topic counts may be counted anew from here on. Raises StoreFailed."""
        offsets = self._store.rows(sql.SOURCE_OFFSETS)
        self._offsets_at_start = {(source, partition): next_offset for source, partition, next_offset in offsets}
        for _, left_before_ms in self._store.rows(past.NOTED):
            self._store.past.expect(left_before_ms)

    def _begin(self) -> bool:
        """Find out what is archived; return whether that is known. Raises ArchiveFailed, StoreFailed."""
        ((noted, left_before_ms),) = self._store.rows(past.NOTED) or [("", 0)]
        cluster = noted or self._cluster()
        if not cluster:
            return False
        archive = self._archive or HistoryArchive.open(self._location)
        manifest = archive.begin(cluster)
        if not self._has_begun:
            if not noted or any(self._offset_at_start(end) < end.next_offset for end in manifest.ends):
                # This file is new, or was restored: what the archive has is read there, whatever a topic brings once more.
                left_before_ms = max(left_before_ms, manifest.until_ms)
            ends = tuple(self._with_start(end, is_new=not noted) for end in manifest.ends)
            if ends != manifest.ends:
                manifest = archive.publish(replace(manifest, ends=ends))
            self._store.transact([(past.LEAVE, [cluster, left_before_ms])])
            self._has_begun = True
        self._archive, self._manifest = archive, manifest
        self._store.past.begin(archive, manifest, left_before_ms)
        return True

    def _with_start(self, end: SourceEnd, *, is_new: bool) -> SourceEnd:
        """Return how far a source is archived as its offsets are counted now: where no topic counts them, they may begin anew.

        ``is_new``: nothing of this file was ever archived.
        """
        if end.is_topic:
            return end
        return replace(end, next_offset=0 if is_new else min(end.next_offset, self._offset_at_start(end)))

    def _offset_at_start(self, end: SourceEnd) -> int:
        return (self._offsets_at_start or {}).get((end.source, end.partition), 0)

    def _closed_until(self, cursor: duckdb.DuckDBPyConnection) -> int:
        """Return the end of the last closed hour, or day where few rows wait (epoch ms)."""
        closed_ms = self._clock_ms() - LATE_MS
        ((unexplained_ms,),) = cursor.execute(_UNEXPLAINED).fetchall()
        if unexplained_ms is not None:
            closed_ms = min(closed_ms, unexplained_ms)
        hour_ms, day_ms = closed_ms // HOUR_MS * HOUR_MS, closed_ms // DAY_MS * DAY_MS
        if self._manifest is None or hour_ms <= max(self._manifest.until_ms, self._looked_until_ms):
            return 0
        past.register_ends(cursor, self._manifest)
        waiting = sum(rows for table in TABLES for _, rows in _hours(cursor, table, hour_ms))
        self._looked_until_ms = hour_ms
        until_ms = hour_ms if waiting >= self._hour_rows else day_ms
        return until_ms if until_ms > self._manifest.until_ms else 0

    def _archive_until(self, cursor: duckdb.DuckDBPyConnection, until_ms: int) -> None:
        if not until_ms or self._manifest is None:
            return
        for table in TABLES:
            for end_ms in _parts(_hours(cursor, table, until_ms), self._hour_rows, until_ms):
                if self._stopping.is_set():
                    return
                self._write_chunk(cursor, table, end_ms)
        self._publish(replace(self._manifest, until_ms=until_ms))

    def _write_chunk(self, cursor: duckdb.DuckDBPyConnection, table: str, end_ms: int) -> None:
        """Write a file for each day of what is older than this, and is not archived yet; then the list that has them."""
        if self._manifest is None or self._archive is None:
            return
        past.register_ends(cursor, self._manifest)
        cursor.execute(_of(table, _NOTE_CHUNK), [end_ms])
        days = cursor.execute(_of(table, _DAYS)).fetchall()
        if not days:
            return
        self._register_knowledge(cursor, table)
        files = []
        with tempfile.TemporaryDirectory(dir=self._unfinished()) as directory:
            for day, rows, first_ms, last_ms in days:
                path = Path(directory) / f"{day}.parquet"
                cursor.execute(self._copy(table, day, path))
                name = file_path(table, self._manifest.cluster, day * DAY_MS, self._manifest.number + 1)
                self._archive.put(name, path)
                files.append(
                    ArchivedFile(
                        table=table,
                        path=name,
                        rows=rows,
                        bytes=path.stat().st_size,
                        first_ms=first_ms,
                        last_ms=last_ms,
                    )
                )
                path.unlink()
        ends = [
            SourceEnd(table=table, source=source, partition=partition, next_offset=next_offset, is_topic=is_topic)
            for source, partition, next_offset, is_topic in cursor.execute(_ENDS).fetchall()
        ]
        self._publish(self._manifest.with_files(files, ends))
        log.info("%d rows of %s are archived in %d files", sum(file.rows for file in files), table, len(files))

    def _publish(self, manifest: Manifest) -> None:
        if self._archive is None:
            return
        self._manifest = self._archive.publish(manifest)
        self._store.past.publish(self._manifest)

    def _register_knowledge(self, cursor: duckdb.DuckDBPyConnection, table: str) -> None:
        """Make what the columns beside history's are taken from: ``names`` and ``lost_ones``."""
        if table not in _MORE_COLUMNS:
            return
        ids = [id_ for (id_,) in cursor.execute(_of(table, _IDS)).fetchall()]
        names = self._knowledge.names(ids, table == BRANCHES)
        _put(
            cursor, "names", {"transaction_id": pa.array(ids, pa.string()), "application": pa.array(names, pa.string())}
        )
        if table == TRANSACTIONS:
            lost = set(self._knowledge.lost())
            _put(
                cursor,
                "lost_ones",
                {
                    "transaction_id": pa.array([one[0] for one in lost], pa.string()),
                    "producer_id": pa.array([one[1] for one in lost], pa.int64()),
                    "start_ms": pa.array([one[2] for one in lost], pa.int64()),
                },
            )

    def _copy(self, table: str, day: int, path: Path) -> str:
        if self._manifest is None:
            return ""
        columns = ", ".join(f"t.{name}" for name in past.columns_of(table).split(", "))
        joined, _, chosen = _OF_CHUNK.partition("\nwhere ")
        of_day = _of(
            table,
            f"""select {columns}{_MORE_COLUMNS.get(table, "")} {joined} {_MORE_ROWS.get(table, "")}
            where {chosen} and {_DAY} = {day} order by {{time}}, t.source, t.partition, t."offset" """,
        )
        metadata = metadata_of(table, self._manifest.cluster).items()
        named = ", ".join(f'"{name}": {_quoted(value)}' for name, value in metadata)
        return f"""copy ({of_day}) to {_quoted(str(path))}
            (format parquet, compression zstd, row_group_size {ROW_GROUP}, kv_metadata {{{named}}})"""

    def _unfinished(self) -> Path:
        """Return an empty directory beside the history file, in which files are made before they are put into the archive."""
        directory = self._store.path.parent / UNFINISHED
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        return directory


def _hours(cursor: duckdb.DuckDBPyConnection, table: str, until_ms: int) -> list[tuple[int, int]]:
    """Return how many rows wait of each hour."""
    return cursor.execute(_of(table, _HOURS), [until_ms]).fetchall()


def _of(table: str, statement: str) -> str:
    """Return a statement about a table."""
    return statement.replace("{table}", table).replace("{time}", f"t.{TIMES[table]}")


def _parts(hours: Iterable[tuple[int, int]], rows_at_once: int, until_ms: int) -> list[int]:
    """Return the ends of parts of the time until then, each with so many rows at least, but for the last (epoch ms)."""
    ends, waiting = [], 0
    for hour_ms, rows in hours:
        waiting += rows
        if waiting >= rows_at_once and hour_ms + HOUR_MS < until_ms:
            ends.append(hour_ms + HOUR_MS)
            waiting = 0
    return [*ends, until_ms]


def _put(cursor: duckdb.DuckDBPyConnection, name: str, columns: dict[str, pa.Array]) -> None:
    statement = f"create or replace temp table {name} as select * from given"
    cursor.register("given", pa.table(columns))
    cursor.execute(statement)
    cursor.unregister("given")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
