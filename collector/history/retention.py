"""What leaves history, by age and by size: oldest first, a few rows at a time, in the writer's thread between two commits."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import duckdb

from indoubt.collector.history import rollups
from indoubt.collector.history.past import TIMES, Past
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS, MINUTE_MS

ROWS_AT_ONCE = 20_000
PAUSE_S = 0.5
ROUND_S = 60.0
FULL_ROUND = 60
log = logging.getLogger(__name__)

# Ids with a transaction whose end is not in history: their rows stay.
_NOTE_OPEN = """
create or replace temp table still_open as
select transaction_id from (
    select transaction_id, arg_max(status, "offset") as status, arg_max(coalesce(start_ms, -1), "offset") as start_ms
    from transaction_records group by source, partition, transaction_id)
where start_ms >= 0 and status not in ('COMPLETE_COMMIT', 'COMPLETE_ABORT')"""
DECISIONS_KEPT = 1_000
# Of each prefix and log the first of the newest decisions and outcomes: these stay however old they are, since what was decided
# last may be open still, in a database for ever.
_NOTE_NEWEST = f"""
create or replace temp table newest_decisions as
select prefix, source, min("offset") as first from (
    select prefix, source, "offset" from decision_records where type not in ('run_started', 'checkpoint_taken_over')
    qualify row_number() over (partition by prefix, source order by "offset" desc) <= {DECISIONS_KEPT})
group by all"""  # noqa: S608 (a number of our own)
FLINK_CHECKPOINTS_KEPT = 100
FILES_KEPT = 8_000
# Of each job or directory the newest stay: what a source still tells would be taken in, and counted, again.
_OF_NEWEST = """rowid not in (
        select rowid from {table} qualify row_number() over (partition by {of} order by rowid desc) <= {most})"""
# The newest time that another machine wrote: a coordinator, or a pipeline.
_NEWEST = """
select greatest((select max(start_ms) from transaction_records), (select max(at_ms) from lifecycle_events),
                (select max(at_ms) from decision_records))"""
# The rows of each table that may leave: what tells who runs stays, and since when a branch is listed.
_LEAVING = {
    "transaction_records": "update_ms < $before and transaction_id not in (from still_open)",
    "lifecycle_events": "at_ms < $before and type not like 'pipeline.%'",
    "decision_records": """at_ms < $before and type not in ('run_started', 'checkpoint_taken_over') and "offset" < (
        select first from newest_decisions n
        where n.prefix = decision_records.prefix and n.source = decision_records.source)""",
    "prepared_branches": """at_ms < $before and (instance, transaction_id) in (
        select instance, transaction_id from prepared_branches group by all having arg_max(what, "offset") = 'gone')""",
    "quarantined": "at_ms < $before",
    "transaction_offsets": "start_ms < $before and transaction_id not in (from still_open)",
    "checkpoint_files": "at_ms < $before and "
    + _OF_NEWEST.format(table="checkpoint_files", of="source", most=FILES_KEPT),
    "flink_checkpoints": "triggered_ms < $before and "
    + _OF_NEWEST.format(table="flink_checkpoints", of="cluster, job", most=FLINK_CHECKPOINTS_KEPT),
    # A job that has ended is not reported any more; of one that runs the newest row says how it stands.
    "flink_jobs": "changed_ms < $before and (ended_ms is not null or "
    + _OF_NEWEST.format(table="flink_jobs", of="cluster, job", most=1)
    + ")",
}
_NOTED = ("transaction_records", "decision_records", "transaction_offsets")
"""Tables whose rows may only be told apart by what is noted at the beginning of a round."""


_ANY_OLDER = f"""
select {" or ".join(f"exists (from {table} where {rows})" for table, rows in _LEAVING.items() if table not in _NOTED)}
    or exists (from transaction_records where update_ms < $before)
    or exists (select prefix from decision_records where type not in ('run_started', 'checkpoint_taken_over')
               group by prefix, source having min(at_ms) < $before and count(*) > {DECISIONS_KEPT})"""  # noqa: S608 (names of our own)


def _let_leave(archived: str = "") -> dict[str, str]:
    """Return for each table the statement by which some rows leave; ``archived``: a condition besides, with the table's name."""
    return {
        table: f"""delete from {table} where rowid in (
        select rowid from {table} where {rows}{archived.format(table=table) if table in TIMES else ""}
        order by rowid limit $most)"""  # noqa: S608 (names of our own)
        for table, rows in _LEAVING.items()
    }


_LET_LEAVE = _let_leave()
_LET_ARCHIVED_LEAVE = _let_leave(""" and exists (
            from archived_to a where a.table_name = '{table}' and a.source = {table}.source
                and a.partition = {table}.partition and {table}."offset" < a.next_offset)""")
# The archive has them.
_FORGET_CAUSES = "delete from explained_aborts where ended_ms < ?"


class Maintenance:
    """A step each time it is called: counts causes, merges counts, lets old rows leave. Never longer than one small step.

    Rows stay that are younger than ``days``, and no more of them than fit into ``megabytes``. ``past``: where history is
    archived, rows of its tables leave only once they are there.
    """

    def __init__(
        self,
        explain: rollups.Explain,
        clock_ms: Callable[[], int],
        past: Past | None = None,
        *,
        days: int,
        megabytes: int,
    ) -> None:
        self._explain, self._clock_ms, self._days, self._megabytes = explain, clock_ms, days, megabytes
        self._past = past if past is not None and past.is_archived else None
        self._next_s = self._round_s = 0.0
        self._leaving: list[str] = []
        self._before_ms = self._round = 0
        self._has_left = False

    def __call__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Do one step when one is due. Raises duckdb.Error."""
        at_s = time.monotonic()
        if at_s < self._next_s:
            return
        if self.do_step(cursor, is_round_due=at_s >= self._round_s):
            self._round_s = at_s + ROUND_S
        self._next_s = time.monotonic() + PAUSE_S

    def do_step(self, cursor: duckdb.DuckDBPyConnection, *, is_round_due: bool) -> bool:
        """Do one step now; return whether it began a round. Raises duckdb.Error."""
        more = rollups.explain_aborts(cursor, self._clock_ms(), self._explain, kept=self._past is not None)
        if self._leaving:
            self._let_leave(cursor)
        elif not more and is_round_due:
            self._begin_round(cursor)
            return True
        return False

    def _begin_round(self, cursor: duckdb.DuckDBPyConnection) -> None:
        now_ms = self._clock_ms()
        today_ms = _today_ms(cursor, now_ms)
        # What comes late, from a topic that is read from its start, is merged once an hour.
        from_ms = 0 if self._round % FULL_ROUND == 0 else now_ms - 2 * HOUR_MS
        rollups.merge(cursor, from_ms, now_ms // MINUTE_MS * MINUTE_MS, today_ms)
        self._round += 1
        if self._has_left:
            cursor.execute("checkpoint")  # now the file has the room again
            self._has_left = False
        too_old_ms = today_ms - self._days * DAY_MS
        self._before_ms = max(too_old_ms, _beyond_size(cursor, self._megabytes))
        if self._past is not None:
            self._before_ms = min(self._before_ms, self._past.until_ms)
        if cursor.execute(_ANY_OLDER, {"before": self._before_ms}).fetchall() != [(False,)]:
            cursor.execute(_NOTE_OPEN)
            cursor.execute(_NOTE_NEWEST)
            if self._past is not None:
                self._past.leave(cursor, self._before_ms)
                cursor.execute(_FORGET_CAUSES, [self._before_ms])
            self._leaving = list(_LEAVING)

    def _let_leave(self, cursor: duckdb.DuckDBPyConnection) -> None:
        table = self._leaving[0]
        cursor.begin()
        statements = _LET_LEAVE if self._past is None else _LET_ARCHIVED_LEAVE
        cursor.execute(statements[table], {"before": self._before_ms, "most": ROWS_AT_ONCE})
        row = cursor.fetchone()
        gone = int(row[0]) if row is not None else 0
        if gone:
            cursor.execute(
                """insert into retired_rows values ($table, $rows)
                on conflict (table_name) do update set retired = retired + excluded.retired""",
                {"table": table, "rows": gone},
            )
        cursor.commit()
        self._has_left |= gone > 0
        if gone < ROWS_AT_ONCE:
            self._leaving.pop(0)
        if gone:
            log.info("%d rows of %s older than the limits have left history", gone, table)


def _today_ms(cursor: duckdb.DuckDBPyConnection, now_ms: int) -> int:
    """Return the time from which days are counted back: the newest that another machine reported, where our own is later.

    So nothing leaves because this machine's clock was wrong, and where all stands still the last days stay.
    """
    row = cursor.execute(_NEWEST).fetchone()
    return now_ms if row is None or row[0] is None else min(now_ms, int(row[0]))


def _beyond_size(cursor: duckdb.DuckDBPyConnection, megabytes: int) -> int:
    """Return the time before which rows must leave so that the file's used blocks fit; 0 while they do."""
    row = cursor.execute("select block_size * used_blocks from pragma_database_size()").fetchone()
    used = int(row[0]) if row is not None else 0
    if used <= megabytes << 20:
        return 0
    share = 1.1 - (megabytes << 20) / used  # some more than needed, so that not every round has to
    found = cursor.execute(
        """select quantile_cont(at_ms, ?) from (
        select update_ms as at_ms from transaction_records union all select at_ms from lifecycle_events
        union all select triggered_ms from flink_checkpoints)""",
        [min(1.0, share)],
    ).fetchone()
    return int(found[0]) if found is not None and found[0] is not None else 0
