"""Counts, made in the very commit that brings the rows: of ten seconds or a minute, merged to longer times once they are old.

So they hold each row once, whatever happens in between, and stay when the rows leave (retention.py).
"""

# ruff: noqa: S608 (statements are put together from names of our own, once, at import)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import duckdb

from indoubt.lifecycle.durations import HOUR_MS, MINUTE_MS

MINUTES_KEPT_MS = 30 * 24 * HOUR_MS
TEN_SECONDS_KEPT_MS = 20 * MINUTE_MS
LENGTHS_PER_MINUTE_MS = 2 * HOUR_MS
"""They have a row for each length that occurs, and are looked at a day at a time."""
EXPLAINED_AT_ONCE = 500
EXPLAINED_AFTER_MS = 10_000
"""A producer that took over the id shows within seconds, and proves that the abort was its doing."""

APPLICATION_FORM = "application_form"
"""The function of SQL that is ``application_ids.form_of``: counts go by it, and get their application's name when they are read."""
_PIPELINE = f"{APPLICATION_FORM}(pipeline || '-0-0')"
_ENDED = "status in ('COMPLETE_COMMIT', 'COMPLETE_ABORT') and start_ms is not null"
_TEN_SECONDS, _MINUTE = "{} // 10000 * 10000, 10000", "{} // 60000 * 60000, 60000"

# What each table's rows are counted as, when they arrive: they stand in ``arrived``.
COUNTS: dict[str, tuple[str, ...]] = {
    "transaction_records": (
        f"""create or replace temp table ended as
        select *, {APPLICATION_FORM}(transaction_id) as application,
               greatest(update_ms - start_ms, 0) as length_ms from arrived where {_ENDED}""",
        f"""insert into transaction_counts
        select {_TEN_SECONDS.format("update_ms")}, application,
               case status when 'COMPLETE_COMMIT' then 'committed' else 'aborted' end, count(*)
        from ended group by all""",
        """insert into aborts_to_explain
        select transaction_id, producer_id, start_ms, update_ms, application from ended where status = 'COMPLETE_ABORT'""",
        f"""insert into transaction_lengths
        select {_MINUTE.format("update_ms")}, application, timeout_ms,
               status = 'COMPLETE_ABORT' and length_ms >= timeout_ms, floor(8 * log2(greatest(length_ms, 1)))::smallint,
               count(*), max(length_ms), arg_max(transaction_id, length_ms)
        from ended where timeout_ms > 0 group by all""",
    ),
    "lifecycle_events": (
        # A database has no log of its own: what became of its branches is known from the events alone.
        f"""insert into transaction_counts
        select {_TEN_SECONDS.format("at_ms")}, {_PIPELINE},
               if(type = 'transaction.committed', 'branch committed', 'branch aborted'), count(*)
        from arrived where type in ('transaction.committed', 'transaction.aborted')
            and coalesce(try(event ->> '$.data.resource_manager'), 'kafka') <> 'kafka' group by all""",
        f"""insert into longest_checkpoints
        select {_MINUTE.format("at_ms")}, pipeline, max(duration_ms)
        from (select at_ms, pipeline, try_cast(try(event ->> '$.data.duration_ms') as bigint) as duration_ms
              from arrived where type = 'checkpoint.completed')
        where duration_ms is not null group by all""",
    ),
    "checkpoint_files": (
        f"""insert into longest_checkpoints
        select {_MINUTE.format("a.at_ms")}, a.pipeline, max(a.at_ms - p.at_ms)
        from arrived a join (
            select source, number, max(at_ms) as at_ms from checkpoint_files where kind = 'offsets' group by all) p
            using (source, number)
        where a.kind = 'commits' and a.at_ms >= p.at_ms group by all""",
    ),
}

SAMPLES_KEPT_MS = 25 * HOUR_MS
"""Of groups and partitions: a day is shown at most."""
_MOST = "max(waiting), max(longest_wait_ms), max(hidden), max(lag)"
_SAMPLES = ("group_lags", "partition_ends")
_MERGED = (
    ("transaction_counts", TEN_SECONDS_KEPT_MS, MINUTE_MS, "application, outcome", "sum(transactions)"),
    ("transaction_counts", MINUTES_KEPT_MS, HOUR_MS, "application, outcome", "sum(transactions)"),
    ("abort_counts", MINUTES_KEPT_MS, HOUR_MS, "application, cause", "sum(transactions)"),
    ("longest_checkpoints", MINUTES_KEPT_MS, HOUR_MS, "pipeline", "max(longest_ms)"),
    (
        "transaction_lengths",
        LENGTHS_PER_MINUTE_MS,
        HOUR_MS,
        "application, timeout_ms, timed_out, bucket",
        "sum(transactions), max(longest_ms), arg_max(longest_transaction, longest_ms)",
    ),
    ("reader_waits", TEN_SECONDS_KEPT_MS, MINUTE_MS, "application", _MOST),
    ("reader_waits", MINUTES_KEPT_MS, HOUR_MS, "application", _MOST),
    ("group_lags", TEN_SECONDS_KEPT_MS, MINUTE_MS, "consumer_group", "max(lag), max(hidden)"),
    ("partition_ends", TEN_SECONDS_KEPT_MS, MINUTE_MS, "topic, partition", "max(high_watermark), max(hidden)"),
)
"""Of each table how long its rows are kept apart, into what spans they go then, its keys, and what its rows become together."""


def _merge_of(table: str, kept_ms: int, into_ms: int, keys: str, sums: str) -> tuple[str, str, str]:
    """Return the statements that note what is to be merged, delete its parts, and put the sums in their place."""
    # What is sampled here never comes late.
    begin = f"greatest($from, $before - {2 * HOUR_MS})" if table in _SAMPLES else "$from"
    old = f"begin_ms < ($today - {kept_ms}) // {into_ms} * {into_ms}"
    same = " and ".join(f"t.{key} = m.{key}" for key in keys.split(", "))
    return (
        f"""create or replace temp table merged as
        select first_ms as begin_ms, length_ms as span_ms, {keys}, {sums}
        from (select *, if({old} and span_ms < {into_ms}, begin_ms // {into_ms} * {into_ms}, begin_ms) as first_ms,
                     if({old}, greatest(span_ms, {into_ms}), span_ms) as length_ms
              from {table} where begin_ms >= {begin} and begin_ms < $before)
        group by all having count(*) > 1 or min(span_ms) < length_ms""",
        f"""delete from {table} t using merged m
        where t.begin_ms >= m.begin_ms and t.begin_ms < m.begin_ms + m.span_ms and {same}""",
        f"insert into {table} select * from merged",
    )


_MERGES = [_merge_of(*how) for how in _MERGED]
_LEAVING = [f"delete from {table} where begin_ms < $before" for table in _SAMPLES]
_KEEP_CAUSES = """
insert into explained_aborts select unnest(?::varchar[]), unnest(?::bigint[]), unnest(?::bigint[]), unnest(?::bigint[]),
       unnest(?::varchar[])"""
_TO_EXPLAIN = "select *, rowid from aborts_to_explain where ended_ms <= ? order by rowid limit ?"

Aborted = tuple[str, int, int]
"""Transactional id, producer id, start time."""
Explain = Callable[[Sequence[Aborted]], Sequence[str]]
"""Returns the cause of each abort."""


def count(cursor: duckdb.DuckDBPyConnection, table: str) -> None:
    """Count what stands in ``arrived`` for ``table``; part of the transaction that inserts it. Raises duckdb.Error."""
    for statement in COUNTS.get(table, ()):
        cursor.execute(statement)


def merge(cursor: duckdb.DuckDBPyConnection, from_ms: int, before_ms: int, today_ms: int) -> None:
    """Make one row of the rows of each minute from ``from_ms`` until ``before_ms``, one an hour of those that are old.

    Samples of groups and partitions leave after a day.

    Raises duckdb.Error.
    """
    values = {"today": today_ms, "from": from_ms, "before": before_ms}
    cursor.begin()
    for note, delete, insert in _MERGES:
        cursor.execute(note, values)
        cursor.execute(delete)
        cursor.execute(insert)
    for leaving in _LEAVING:
        cursor.execute(leaving, {"before": before_ms - SAMPLES_KEPT_MS})
    cursor.commit()


def explain_aborts(cursor: duckdb.DuckDBPyConnection, now_ms: int, explain: Explain, *, kept: bool = False) -> bool:
    """Count the causes of some aborts; return whether more wait. ``kept``: keep the cause of each, too. Raises duckdb.Error."""
    rows: list[tuple[Any, ...]] = cursor.execute(
        _TO_EXPLAIN, [now_ms - EXPLAINED_AFTER_MS, EXPLAINED_AT_ONCE]
    ).fetchall()
    if not rows:
        return False
    causes = explain([(id_, producer_id, start_ms) for id_, producer_id, start_ms, *_ in rows])
    counts: dict[tuple[int, str, str], int] = {}
    for (_, _, _, ended_ms, application, _), cause in zip(rows, causes, strict=True):
        key = (ended_ms // MINUTE_MS * MINUTE_MS, application, cause)
        counts[key] = counts.get(key, 0) + 1
    cursor.begin()
    cursor.execute("delete from aborts_to_explain where rowid in (select unnest(?))", [[row[-1] for row in rows]])
    for (minute_ms, application, cause), transactions in counts.items():
        cursor.execute(
            "insert into abort_counts values (?, ?, ?, ?, ?)", [minute_ms, MINUTE_MS, application, cause, transactions]
        )
    if kept:
        ids, producer_ids, starts, ends = ([row[place] for row in rows] for place in range(4))
        cursor.execute(_KEEP_CAUSES, [ids, producer_ids, starts, ends, list(causes)])
    cursor.commit()
    return len(rows) == EXPLAINED_AT_ONCE
