"""The overview: what requires an action, then counts; computed from a snapshot and the time that is passed in."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from collector.history import sql
from collector.history.store import Store
from collector.records.facts import CheckpointFacts
from collector.rows.action_required import action_required, by_urgency, groups, hanging_groups
from collector.runtime.clock import now_ms
from collector.runtime.timed_cache import NowAndThen
from collector.verdicts.judging import percentile
from collector.verdicts.partition_state import PartitionFindings
from collector.views.current_state import CurrentState
from lifecycle.checkpoints import CheckpointState
from lifecycle.durations import MINUTE_MS
from lifecycle.rows.overview import CheckpointFigures, MinuteRow, Overview, OverviewCounts
from lifecycle.states import TransactionState
from lifecycle.verdicts import Verdict

MINUTES = 60
RECOUNT_MS = 2_000
WATCH_EVERY_S = 0.5


class Watch:
    """Judges at intervals, since verdicts change by time alone: announces changes, and knows since when no action was required."""

    def __init__(self, current: CurrentState, foreign_old_ms: int) -> None:
        self._current, self._foreign_old_ms = current, foreign_old_ms
        self._quiet_since_ms: int | None = now_ms()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="verdict watch", daemon=True)

    @property
    def quiet_since_ms(self) -> int | None:
        """Return since when no action was required, or None while one is."""
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
            urgent = {item.view.key for item in action_required(judged, at_ms, self._foreign_old_ms)}
            verdicts = {(item.view.key, item.judgement.verdict, item.view.key in urgent) for item in judged}
            if urgent:
                self._quiet_since_ms = None
            elif self._quiet_since_ms is None:
                self._quiet_since_ms = at_ms
            if verdicts != before:
                before = verdicts
                self._current.changed()


def overview(
    current: CurrentState,
    counted: NowAndThen[Counts],
    watch: Watch,
    foreign_old_ms: int,
    partitions: PartitionFindings,
) -> Overview:
    """Return the answer of GET /overview. Raises StoreFailed."""
    at_ms = now_ms()
    counts = counted.at(at_ms)
    judged = current.judged(at_ms=at_ms)
    running = [item.view for item in judged if item.view.is_running]
    lost = [item.view.ended_ms for item in judged if item.view.state is TransactionState.LOST]
    lost_now = sum(1 for at in lost if at is not None and at >= at_ms - MINUTE_MS)
    required = by_urgency([*hanging_groups(partitions), *groups(action_required(judged, at_ms, foreign_old_ms))])
    waiting = [blocked for blocked in partitions.blocked if blocked.waiting]
    return Overview(
        now_ms=at_ms,
        action_required=required,
        counts=OverviewCounts(
            open=len(running),
            prepared=sum(1 for view in running if view.state.is_in_doubt),
            committed_per_minute=counts.committed,
            aborted_per_minute=max(0, counts.aborted - lost_now),
            blocked_partitions=len(waiting),
            waiting_groups=len({reader.group for blocked in waiting for reader in blocked.waiting}),
            hanging=len(partitions.hanging),
        ),
        oldest_open_at_ms=min((v.opened_ms for v in running if v.opened_ms is not None), default=None),
        quiet_since_ms=None if required else watch.quiet_since_ms,
        per_minute=per_minute(counts.ends, lost, at_ms),
        checkpoints=counts.checkpoints,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What reads thousands of rows. ``ends``: minute -> (committed, aborted and lost), of the last hour."""

    committed: int
    aborted: int
    """In the last minute; lost ones too."""
    ends: Mapping[int, tuple[int, int]]
    checkpoints: CheckpointFigures


def counts_now_and_then(current: CurrentState, store: Store) -> NowAndThen[Counts]:
    """Return the counts as of at most 2 s ago, however many pages ask; it raises StoreFailed."""

    def counted(at_ms: int) -> Counts:
        ((committed, aborted),) = store.rows(sql.ENDS_SINCE, at_ms - MINUTE_MS)
        ends = store.rows(sql.ENDS_PER_MINUTE, _first_minute_ms(at_ms))
        return Counts(
            committed=committed,
            aborted=aborted,
            ends={minute: (of_it, undone) for minute, of_it, undone in ends},
            checkpoints=checkpoint_figures(current.checkpoints()),
        )

    return NowAndThen(counted, RECOUNT_MS)


def _first_minute_ms(at_ms: int) -> int:
    return at_ms // MINUTE_MS * MINUTE_MS - (MINUTES - 1) * MINUTE_MS


def per_minute(ends: Mapping[int, tuple[int, int]], lost: Iterable[int | None], at_ms: int) -> tuple[MinuteRow, ...]:
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
        rows.append(MinuteRow(minute_ms=minute, committed=committed, aborted=max(0, aborted - gone), lost=gone))
    return tuple(rows)


def checkpoint_figures(checkpoints: Sequence[CheckpointFacts]) -> CheckpointFigures:
    """Return percentiles of the completed ones' durations, how many failed, and how many are known."""
    durations = [c.duration_ms for c in checkpoints if c.state is CheckpointState.COMPLETED]
    return CheckpointFigures(
        p50_ms=percentile(durations, 0.5),
        p99_ms=percentile(durations, 0.99),
        failed=sum(1 for c in checkpoints if c.failed_ms is not None),
        total=len(checkpoints),
    )
