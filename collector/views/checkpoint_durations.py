"""How long the checkpoints in memory took, by pipeline, in so few buckets that a page can draw thousands of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.runtime.timed_cache import TtlCache
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.checkpoints import CheckpointState
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from indoubt.lifecycle.rows.pipelines import CheckpointDurationsRow

MOST_BUCKETS = 240
RECOUNT_MS, KEPT = 2_000, 32
_LENGTHS_MS = (
    *(seconds * SECOND_MS for seconds in (1, 2, 5, 10, 15, 30)),
    *(minutes * MINUTE_MS for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * HOUR_MS for hours in (1, 3, 6, 12)),
)
_Ended = tuple[int, int]
"""When a checkpoint was completed (epoch ms), and how long it took (ms)."""


def cached_checkpoint_durations(
    current: CurrentState,
) -> TtlCache[Sequence[CheckpointDurationsRow], str | None, int | None, int | None]:
    """Return the rows of a pipeline (None: of all) from then until then, as ``checkpoint_durations`` does, at most 2 s old."""

    def found(
        at_ms: int, pipeline: str | None, from_ms: int | None, until_ms: int | None
    ) -> Sequence[CheckpointDurationsRow]:
        chosen = [c for c in current.checkpoints() if c.kind == "checkpoint" and pipeline in (None, c.pipeline)]
        return checkpoint_durations(chosen, at_ms, from_ms, until_ms)

    return TtlCache(found, RECOUNT_MS, most=KEPT)


def checkpoint_durations(
    checkpoints: Iterable[CheckpointFacts], now_ms: int, from_ms: int | None, until_ms: int | None
) -> list[CheckpointDurationsRow]:
    """Return a row for each of their pipelines, by name, all of the same time.

    ``from_ms``: None: since the first of them began, a day at most. ``until_ms``: None: until now.
    """
    known_from_ms: dict[str, int] = {}
    ended: dict[str, list[_Ended]] = {}
    for one in checkpoints:
        begun_ms = one.begun_ms if one.begun_ms is not None else one.ended_ms
        if begun_ms is None:
            continue
        known_from_ms[one.pipeline] = min(begun_ms, known_from_ms.get(one.pipeline, begun_ms))
        if one.completed_ms is not None and one.state is CheckpointState.COMPLETED and one.duration_ms is not None:
            ended.setdefault(one.pipeline, []).append((one.completed_ms, one.duration_ms))
    end_ms = now_ms if until_ms is None else until_ms
    begin_ms = max(end_ms - DAY_MS, min(known_from_ms.values(), default=end_ms)) if from_ms is None else from_ms
    length_ms = max(1, end_ms - begin_ms)
    bucket_ms = next((one for one in _LENGTHS_MS if length_ms <= one * (MOST_BUCKETS - 1)), 0)
    bucket_ms = bucket_ms or ceil(length_ms / (MOST_BUCKETS - 1) / DAY_MS) * DAY_MS
    begin_ms, end_ms = begin_ms // bucket_ms * bucket_ms, (end_ms // bucket_ms + 1) * bucket_ms
    return [
        _row(name, ended.get(name, []), known_from_ms[name], range(begin_ms, end_ms, bucket_ms))
        for name in sorted(known_from_ms)
    ]


def _row(pipeline: str, ended: Sequence[_Ended], known_from_ms: int, buckets: range) -> CheckpointDurationsRow:
    of_each: list[list[int]] = [[] for _ in buckets]
    for at_ms, took_ms in ended:
        if buckets.start <= at_ms < buckets.stop:
            of_each[(at_ms - buckets.start) // buckets.step].append(took_ms)
    for lengths in of_each:
        lengths.sort()
    together = sorted(took_ms for lengths in of_each for took_ms in lengths)
    return CheckpointDurationsRow(
        pipeline=pipeline,
        from_ms=buckets.start,
        until_ms=buckets.stop,
        bucket_ms=buckets.step,
        known_from_ms=known_from_ms,
        completed=len(together),
        p50_ms=_percentile(together, 50),
        p99_ms=_percentile(together, 99),
        longest_ms=_percentile(together, 100),
        bucket_completed=tuple(len(lengths) for lengths in of_each),
        bucket_p50_ms=tuple(_percentile(lengths, 50) for lengths in of_each),
        bucket_longest_ms=tuple(_percentile(lengths, 100) for lengths in of_each),
    )


def _percentile(lengths: Sequence[int], percent: int) -> int | None:
    """Return the value that so many of a hundred do not exceed, of values in order; None without any."""
    return lengths[ceil(len(lengths) * percent / 100) - 1] if lengths else None
