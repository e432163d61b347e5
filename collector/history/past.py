"""What has left the history file is read beside it: queries of the past name ``past.<table>``, and get both without a double.

Rows that are older than ``left_before_ms`` are read from the archive, whatever of them is still in the file; younger ones from the
file. Every older row is archived before that time moves on.
"""

from __future__ import annotations

# ruff: noqa: S608 (what is put together here are names and numbers of our own, and paths with their quotes doubled)
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from indoubt.collector.history.database_file import StoreFailed
from indoubt.collector.history.observation_tables import POSITION, TABLES
from indoubt.collector.runtime.time_format import utc
from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER
from indoubt.resource_managers.history_archive import BRANCHES, TRENDS, HistoryArchive, Manifest, day_of

TIMES = {
    "transaction_records": "update_ms",
    "lifecycle_events": "at_ms",
    "decision_records": "at_ms",
    "prepared_branches": "at_ms",
}
"""The tables that are archived, and the time by which a row belongs to a day; one without a time stays in the file."""
STAYS = {"decision_records": "type in ('run_started', 'checkpoint_taken_over')"}
"""Rows that the file keeps however old they are, and that are read there alone."""
_NAMED = re.compile(r"\bpast\.(\w+)")
_OLDEST = 1 << 61
"""Rows of the archive come before all of the file in the order of rowid."""
NOTED = "select cluster, before_ms from left_history"
"""As which cluster the file is archived, and the time before which rows may have left it."""
LEAVE = "insert or replace into left_history values (?, ?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Archived:
    """An archive, the list of its files, and the time before which rows are read there."""

    archive: HistoryArchive
    manifest: Manifest
    left_before_ms: int


class Past:
    """What a query of the past reads. Thread-safe; without an archive it reads the file alone."""

    def __init__(self) -> None:
        self.is_archived = False
        """Whether rows may leave the file only once they are archived."""
        self._archived: _Archived | None = None
        self._expected_ms = 0
        self._lock = threading.Lock()

    @property
    def until_ms(self) -> int:
        """Return the time before which everything is archived; 0 while nothing is."""
        known = self._archived
        return known.manifest.until_ms if known is not None else 0

    @property
    def left_before_ms(self) -> int:
        """Return the time before which rows are read from the archive."""
        known = self._archived
        return known.left_before_ms if known is not None else 0

    @property
    def manifest(self) -> Manifest | None:
        """Return the list of archived files, None while it is not known."""
        known = self._archived
        return known.manifest if known is not None else None

    def results(self, cursor: duckdb.DuckDBPyConnection, from_ms: int, until_ms: int) -> str:
        """Return where a query reads what the job history_rollup made of the days in a time; empty where there is nothing.

        Raises ArchiveFailed.
        """
        known = self._archived
        if known is None:
            return ""
        days = day_of(from_ms), day_of(until_ms)
        paths = known.archive.trend_files(known.manifest.cluster, *days)
        return _files(cursor, known.archive, TRENDS, paths) if paths else ""

    def expect(self, left_before_ms: int) -> None:
        """Note that rows older than this are in an archive that was not read yet: who asks for them is told so."""
        self._expected_ms = left_before_ms

    def begin(self, archive: HistoryArchive, manifest: Manifest, left_before_ms: int) -> None:
        """Read from this archive from now on what is older than that time."""
        with self._lock:
            self._archived = _Archived(archive=archive, manifest=manifest, left_before_ms=left_before_ms)

    def publish(self, manifest: Manifest) -> None:
        """Note that more is archived."""
        with self._lock:
            if (known := self._archived) is not None:
                self._archived = replace(known, manifest=manifest)

    def leave(self, cursor: duckdb.DuckDBPyConnection, before_ms: int) -> None:
        """Note that rows older than this may leave the file; ``archived_to`` has how far each source is archived.

        Called in the writer's thread before the first of them leaves. Raises duckdb.Error.
        """
        if (known := self._archived) is None:
            return
        register_ends(cursor, known.manifest)
        left_ms = max(before_ms, known.left_before_ms)
        cursor.execute(LEAVE, [known.manifest.cluster, left_ms])
        with self._lock:
            self._archived = replace(known, left_before_ms=left_ms)

    def statement(self, cursor: duckdb.DuckDBPyConnection, query: str, since_ms: int, until_ms: int) -> str:
        """Return a query with what it reads of the past in place of ``past.<table>``.

        ``since_ms``, ``until_ms``: the query asks for no row of another time (epoch ms), but for branches of databases. Raises
        StoreFailed where what is asked for left the file, and its archive was not read yet.
        """
        known = self._archived
        if known is None and since_ms < self._expected_ms > 0 and _NAMED.search(query):
            raise StoreFailed(
                f"history before {utc(self._expected_ms)} is archived, and the archive was not read yet: GET /api/v1/status "
                "says why, in history.archive_error"
            )
        if known is None:
            return _NAMED.sub(r"\1", query)
        rowid = "rowid" in query
        return _NAMED.sub(lambda name: _both(cursor, known, name[1], since_ms, until_ms, rowid=rowid), query)


def register_ends(cursor: duckdb.DuckDBPyConnection, manifest: Manifest) -> None:
    """Make the temporary table ``archived_to``: how far each source is archived in each table. Raises duckdb.Error."""
    ends = pa.table(
        {
            "table_name": pa.array([end.table for end in manifest.ends], pa.string()),
            "source": pa.array([end.source for end in manifest.ends], pa.string()),
            "partition": pa.array([end.partition for end in manifest.ends], pa.int32()),
            "next_offset": pa.array([end.next_offset for end in manifest.ends], pa.int64()),
        }
    )
    cursor.register("known_ends", ends)
    cursor.execute("create or replace temp table archived_to as select * from known_ends")
    cursor.unregister("known_ends")


def columns_of(table: str) -> str:
    """Return the columns of a table, as SQL lists them."""
    names = [*(field.name for field in POSITION), *(column.name for column in TABLES[table].columns)]
    return ", ".join(f'"{name}"' for name in names)


def _both(
    cursor: duckdb.DuckDBPyConnection, known: _Archived, table: str, since_ms: int, until_ms: int, *, rowid: bool
) -> str:
    time, left_ms = TIMES[table], known.left_before_ms
    if table == BRANCHES:
        # They are few, and how one ended is told long after it was listed.
        since_ms, until_ms = 0, MAX_WHOLE_NUMBER
    if since_ms >= left_ms:
        return table
    files = [
        file
        for file in known.manifest.files_of(table)
        if file.first_ms < left_ms and file.last_ms >= since_ms and file.first_ms <= until_ms
    ]
    if not files:
        return table
    columns, stays = columns_of(table), STAYS.get(table, "false")
    here, there = (", rowid", f", {time} - {_OLDEST} as rowid") if rowid else ("", "")
    paths = [known.archive.path_of(file) for file in files]
    return f"""(
    select {columns}{here} from {table} where {time} >= {left_ms} or {time} is null or {stays}
    union all
    select {columns}{there} from {_files(cursor, known.archive, table, paths)}
    where {time} < {left_ms} and not ({stays}))"""


def _files(cursor: duckdb.DuckDBPyConnection, archive: HistoryArchive, name: str, paths: Sequence[str]) -> str:
    """Return what a query reads of files: DuckDB reads those of this machine itself, and Arrow hands it those elsewhere."""
    if archive.location.path:
        listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
        return f"read_parquet([{listed}], hive_partitioning = false)"
    from pyarrow import dataset

    schema = TABLES[name].schema if name in TABLES else None
    found = dataset.dataset(list(paths), schema=schema, filesystem=archive.filesystem, format="parquet")
    cursor.register(f"archived_{name}", found)
    return f"archived_{name}"
