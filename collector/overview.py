"""The overview: what needs a hand first, then counts; computed from a snapshot and the time that is passed in."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collector import queries
from collector.clock import now_ms
from collector.current_state import CurrentState
from collector.facts import CheckpointFacts
from collector.judging import Judged, percentile
from collector.store import Store
from collector.transaction_rows import urgency
from lifecycle.checkpoints import CheckpointState
from lifecycle.states import TransactionState
from lifecycle.verdicts import Verdict

NEEDS_HAND = frozenset(
    {Verdict.COMMIT_IT, Verdict.LOST, Verdict.HANGING, Verdict.ABORT_IT, Verdict.AT_RISK, Verdict.UNKNOWN}
)
MINUTE_MS = 60_000
MINUTES = 60
RECOUNT_MS = 2_000
WATCH_EVERY_S = 0.5


def needs_hand(judged: Iterable[Judged], at_ms: int, foreign_old_ms: int) -> list[Judged]:
    """Return what an operator must look at, most urgent first; a foreign transaction once it is open for long."""
    found = [one for one in judged if _needs_hand(one, at_ms, foreign_old_ms)]
    return sorted(found, key=urgency)


def _needs_hand(one: Judged, at_ms: int, foreign_old_ms: int) -> bool:
    if one.judgement.verdict is not Verdict.FOREIGN:
        return one.judgement.verdict in NEEDS_HAND
    opened = one.view.opened_ms
    return one.view.is_running and opened is not None and at_ms - opened >= foreign_old_ms


def groups(urgent: Sequence[Judged]) -> list[dict[str, Any]]:
    """Return what needs a hand, grouped by verdict, pipeline and batch, in the order given."""
    found: dict[tuple[Verdict, str, int | None], list[Judged]] = {}
    for one in urgent:
        about = one.view.about
        found.setdefault((one.judgement.verdict, one.view.pipeline, about.batch if about else None), []).append(one)
    return [_group(*key, members) for key, members in found.items()]


def _group(verdict: Verdict, pipeline: str, batch: int | None, members: Sequence[Judged]) -> dict[str, Any]:
    views = [one.view for one in members]
    decided = [v.listing[1].at_ms for v in views if v.listing is not None]
    deadlines = [v.deadline_ms for v in views if v.deadline_ms is not None]
    # The parts of a batch in each resource manager hold the same rows.
    held: dict[str, int] = {}
    for view in views:
        if view.handle is not None:
            held[view.resource_manager] = held.get(view.resource_manager, 0) + view.handle.rows
    rows = max(held.values(), default=None)
    return {
        "verdict": verdict.value,
        "pipeline": pipeline,
        "batch": batch,
        "keys": [v.key for v in views],
        "rows": rows,
        "decided_at_ms": min(decided, default=None),
        "deadline_ms": min(deadlines, default=None),
        "headline": headline(verdict, pipeline, batch, len(views), rows),
        "partitions": sorted({p for v in views if v.broker is not None for p in v.broker.partitions}),
    }


def headline(verdict: Verdict, pipeline: str, batch: int | None, count: int, rows: int | None) -> str:
    """Return one sentence that says what stands and what follows from it."""
    what = f"{count} transaction{'' if count == 1 else 's'} of {pipeline}{'' if batch is None else f', batch {batch}'}"
    one = count == 1
    is_, holds = ("is", "holds") if one else ("are", "hold")
    held = "" if rows is None else f" of {rows:,} rows"
    match verdict:
        case Verdict.COMMIT_IT:
            return f"{what} {is_} decided but not committed: commit {'it' if one else 'them'}, an abort would lose data{held}."
        case Verdict.LOST:
            return f"{what} {'was' if one else 'were'} decided and then aborted{held}: the batch must be replayed."
        case Verdict.ABORT_IT:
            return f"{what} {is_} undecided and the driver is gone: abort, the batch will be replayed."
        case Verdict.AT_RISK:
            return f"{what} {'has' if one else 'have'} less time left than a recovery of the pipeline needs."
        case Verdict.HANGING:
            return f"{what} {holds} partitions open that no coordinator will end."
        case Verdict.UNKNOWN:
            return f"{what} cannot be judged: evidence is missing."
        case Verdict.FOREIGN:
            return f"{what} {holds} its partitions open for long: only its owner knows what an abort would lose."
        case Verdict.IN_PROGRESS | Verdict.SETTLED:
            return f"{what} {'needs' if one else 'need'} nothing."


class Watch:
    """Judges at intervals, since verdicts change by time alone: tells of changes, and since when nothing needed a hand."""

    def __init__(self, current: CurrentState, foreign_old_ms: int) -> None:
        self._current, self._foreign_old_ms = current, foreign_old_ms
        self._quiet_since_ms: int | None = now_ms()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="verdict watch", daemon=True)

    @property
    def quiet_since_ms(self) -> int | None:
        """Return since when nothing needed a hand, or None while something does."""
        return self._quiet_since_ms

    def start(self) -> None:
        """Start watching, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; returns when the thread has ended."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        before: set[tuple[str, Verdict, bool]] = set()
        while not self._stopping.wait(WATCH_EVERY_S):
            at_ms = now_ms()
            judged = self._current.judged(at_ms=at_ms)
            urgent = {one.view.key for one in needs_hand(judged, at_ms, self._foreign_old_ms)}
            verdicts = {(one.view.key, one.judgement.verdict, one.view.key in urgent) for one in judged}
            if urgent:
                self._quiet_since_ms = None
            elif self._quiet_since_ms is None:
                self._quiet_since_ms = at_ms
            if verdicts != before:
                before = verdicts
                self._current.changed()


def overview(current: CurrentState, counted: CountedNowAndThen, watch: Watch, foreign_old_ms: int) -> dict[str, Any]:
    """Return the answer of GET /overview. Raises StoreFailed."""
    at_ms = now_ms()
    counts = counted.at(at_ms)
    judged = current.judged(at_ms=at_ms)
    running = [one.view for one in judged if one.view.is_running]
    lost = [one.view.ended_ms for one in judged if one.view.state is TransactionState.LOST]
    lost_now = sum(1 for at in lost if at is not None and at >= at_ms - MINUTE_MS)
    urgent = needs_hand(judged, at_ms, foreign_old_ms)
    return {
        "now_ms": at_ms,
        "needs_hand": groups(urgent),
        "counts": {
            "open": len(running),
            "prepared": sum(1 for view in running if view.state.is_in_doubt),
            "committed_per_minute": counts.committed,
            "aborted_per_minute": max(0, counts.aborted - lost_now),
        },
        "oldest_open_at_ms": min((v.opened_ms for v in running if v.opened_ms is not None), default=None),
        "quiet_since_ms": None if urgent else watch.quiet_since_ms,
        "per_minute": per_minute(counts.ends, lost, at_ms),
        "checkpoints": counts.checkpoints,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What takes a look at thousands of rows. ``ends``: minute -> (committed, aborted and lost), of the last hour."""

    committed: int
    aborted: int
    """In the last minute; lost ones too."""
    ends: Mapping[int, tuple[int, int]]
    checkpoints: Mapping[str, int | None]


class CountedNowAndThen:
    """Counts at most every 2 s, however many pages ask."""

    def __init__(self, current: CurrentState, store: Store) -> None:
        self._current, self._store = current, store
        self._lock = threading.Lock()
        self._counted_ms = 0
        self._counts: Counts | None = None

    def at(self, at_ms: int) -> Counts:
        """Return the counts as of at most 2 s ago. Raises StoreFailed."""
        with self._lock:
            if self._counts is None or not 0 <= at_ms - self._counted_ms < RECOUNT_MS:
                self._counts = self._counted(at_ms)
                self._counted_ms = at_ms
            return self._counts

    def _counted(self, at_ms: int) -> Counts:
        ((committed, aborted),) = self._store.rows(queries.ENDS_SINCE, at_ms - MINUTE_MS)
        ends = self._store.rows(queries.ENDS_PER_MINUTE, _first_minute_ms(at_ms))
        return Counts(
            committed=committed,
            aborted=aborted,
            ends={minute: (of_it, undone) for minute, of_it, undone in ends},
            checkpoints=checkpoint_figures(self._current.checkpoints()),
        )


def _first_minute_ms(at_ms: int) -> int:
    return at_ms // MINUTE_MS * MINUTE_MS - (MINUTES - 1) * MINUTE_MS


def per_minute(ends: Mapping[int, tuple[int, int]], lost: Iterable[int | None], at_ms: int) -> list[dict[str, int]]:
    """Return the last 60 minutes, oldest first, minutes without an end too; ``lost``: when transactions were lost."""
    lost_in: dict[int, int] = {}
    for lost_ms in lost:
        if lost_ms is not None:
            minute = lost_ms // MINUTE_MS * MINUTE_MS
            lost_in[minute] = lost_in.get(minute, 0) + 1
    first_ms, rows = _first_minute_ms(at_ms), []
    for minute in range(first_ms, first_ms + MINUTES * MINUTE_MS, MINUTE_MS):
        committed, aborted = ends.get(minute, (0, 0))
        gone = lost_in.get(minute, 0)
        rows.append({"minute_ms": minute, "committed": committed, "aborted": max(0, aborted - gone), "lost": gone})
    return rows


def checkpoint_figures(checkpoints: Sequence[CheckpointFacts]) -> dict[str, int | None]:
    """Return percentiles of the completed ones' durations, how many failed, and how many are known."""
    durations = [c.duration_ms for c in checkpoints if c.state is CheckpointState.COMPLETED]
    return {
        "p50_ms": percentile(durations, 0.5),
        "p99_ms": percentile(durations, 0.99),
        "failed": sum(1 for c in checkpoints if c.failed_ms is not None),
        "total": len(checkpoints),
    }
