"""What is wrong with a pipeline's checkpoints over time: times without one, failures, those that did not end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.verdicts.watched_times import Span, overlap_ms
from indoubt.lifecycle.checkpoints import CheckpointState
from indoubt.lifecycle.durations import duration
from indoubt.lifecycle.rows.series import CheckpointFailure, CheckpointGap, CheckpointGapsRow, HungCheckpoint

FACTOR = 3
"""A time without a checkpoint is a gap when it is this many times as long as usual."""
SHORTEST_MS = 10_000
"""A shorter one is none: whoever looks at minutes does not see it."""


def checkpoint_gaps(
    checkpoints: Iterable[CheckpointFacts],
    interval_ms: int | None,
    now_ms: int,
    unobserved: Sequence[Span] = (),
    starting: Sequence[Span] = (),
) -> CheckpointGapsRow:
    """Return what is wrong with the checkpoints of one pipeline until ``now_ms``; where it has ended, pass when.

    ``interval_ms``: the configured one, None where it is not known: then what was usual is taken alone. ``unobserved``: when the
    collector was not there to see a checkpoint. ``starting``: when a run may have needed the time to start; they do not overlap.
    """
    known = sorted((c for c in checkpoints if c.kind == "checkpoint"), key=lambda c: (c.begun_ms or 0, c.number))
    done_ms = sorted({c.ended_ms for c in known if c.state is CheckpointState.COMPLETED and c.ended_ms is not None})
    usual_ms = _usual_ms(done_ms, interval_ms)
    limit_ms = max(SHORTEST_MS, FACTOR * usual_ms) if usual_ms is not None else None
    failures = tuple(
        CheckpointFailure(number=c.number, at_ms=c.failed_ms, failures=max(1, c.failures), reason=c.reason)
        for c in known
        if c.failed_ms is not None
    )
    hung = _hung(known, done_ms, limit_ms, now_ms, starting) if limit_ms is not None else ()
    # The time until now is a gap like any other, but it goes on.
    gaps = [
        _gap((begin, end), end not in done_ms, failures, hung, unobserved)
        for begin, end in pairwise([*done_ms, now_ms])
        if limit_ms is not None and end - begin - overlap_ms(starting, begin, end) > limit_ms
    ]
    return CheckpointGapsRow(
        pipeline=known[0].pipeline if known else "", usual_ms=usual_ms, gaps=tuple(gaps), failures=failures, hung=hung
    )


def _usual_ms(done_ms: Sequence[int], interval_ms: int | None) -> int | None:
    """Return the usual time between two: at least the interval, more where checkpoints take longer than that."""
    seen = [end - begin for begin, end in pairwise(done_ms)]
    found = [value for value in (interval_ms, round(median(seen)) if seen else None) if value]
    return max(found, default=None)


def _hung(
    checkpoints: Sequence[CheckpointFacts],
    done_ms: Sequence[int],
    limit_ms: int,
    now_ms: int,
    starting: Sequence[Span],
) -> tuple[HungCheckpoint, ...]:
    found = []
    for checkpoint in checkpoints:
        begun_ms = checkpoint.begun_ms
        if checkpoint.state is not CheckpointState.STARTED or begun_ms is None:
            continue
        until_ms = next((at for at in done_ms if at > begun_ms), now_ms)
        if until_ms - begun_ms - overlap_ms(starting, begun_ms, until_ms) > limit_ms:
            name = f"checkpoint {checkpoint.number} did not end within {duration(until_ms - begun_ms)}"
            number = checkpoint.number
            found.append(HungCheckpoint(number=number, started_at_ms=begun_ms, until_ms=until_ms, name=name))
    return tuple(found)


def _gap(
    span: Span,
    ongoing: bool,
    failures: Sequence[CheckpointFailure],
    hung: Sequence[HungCheckpoint],
    unobserved: Sequence[Span],
) -> CheckpointGap:
    from_ms, until_ms = span
    observed = 2 * overlap_ms(unobserved, from_ms, until_ms) <= until_ms - from_ms
    length = duration(until_ms - from_ms)
    seen = [f"checkpoint {f.number} failed" for f in failures if from_ms <= f.at_ms <= until_ms]
    seen += [h.name for h in hung if from_ms <= h.started_at_ms <= until_ms]
    if not observed:
        seen.append("the collector did not observe checkpoints meanwhile")
    return CheckpointGap(
        from_ms=from_ms,
        until_ms=until_ms,
        ongoing=ongoing,
        observed=observed,
        name=f"no checkpoint for {length}" if observed else f"not observed for {length}",
        why="; ".join(seen),
    )
