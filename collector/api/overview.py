"""The overview: what needs attention, then counts; everything from one look that all who ask share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from collector.history import sql
from collector.history.store import Store
from collector.records.facts import CheckpointFacts
from collector.rows.action_required import action_required, by_urgency, groups, hanging_groups
from collector.rows.attention.listing import attention, in_progress
from collector.rows.attention.observers import existing, up
from collector.rows.attention.pipelines import alive
from collector.rows.attention.situation import AttentionLimits, Situation
from collector.runtime.clock import now_ms
from collector.runtime.timed_cache import NowAndThen
from collector.sources.source import ObserverStatus
from collector.verdicts.judging import percentile
from collector.verdicts.partition_state import NOTHING_SEEN, PartitionFindings
from collector.views.application_names import applications_of_hanging
from collector.views.current_state import CurrentState
from collector.views.drivers import drivers
from lifecycle.checkpoints import CheckpointState
from lifecycle.durations import MINUTE_MS
from lifecycle.rows.alerts import AlertRow
from lifecycle.rows.attention import Attention
from lifecycle.rows.overview import CheckpointFigures, MinuteRow, Overview, OverviewCounts
from lifecycle.rows.status import ObserverRow
from lifecycle.states import TransactionState

MINUTES = 60
RECOUNT_MS = 2_000
WATCH_EVERY_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What else than transactions the overview is made from, asked anew at each look."""

    observers: Callable[[], Sequence[ObserverStatus]] = tuple
    partitions: Callable[[], PartitionFindings] = lambda: NOTHING_SEEN
    firing: Callable[[], Sequence[AlertRow]] = tuple
    """The alerts that fire and are not silenced."""
    history_error: Callable[[], str] = str


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Everything as it was seen and judged at one moment, of one version of the present state."""

    version: int
    situation: Situation
    attention: tuple[Attention, ...]
    is_all_well: bool
    """Nothing needs attention, and every observer sees its source."""


class Watch:
    """Judges at intervals, since verdicts change by time alone: announces changes, and knows since when all was well."""

    def __init__(self, current: CurrentState, limits: AttentionLimits, surroundings: Surroundings) -> None:
        self._current, self._limits, self._surroundings = current, limits, surroundings
        self._quiet_since_ms: int | None = now_ms()
        self._well_since_ms: int | None = None
        self._kept: Look | None = None
        self._looking = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="verdict watch", daemon=True)

    @property
    def quiet_since_ms(self) -> int | None:
        """Return since when no action was required, or None while one is."""
        return self._quiet_since_ms

    @property
    def all_well_since_ms(self) -> int | None:
        """Return since when nothing needs attention and everything is seen, or None while that is not so."""
        return self._well_since_ms

    def start(self) -> None:
        """Start watching, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; returns when the thread has ended."""
        self._stopping.set()
        self._thread.join()

    def look(self) -> Look:
        """Return everything as it is now; while nothing changes it is judged twice a second, however many ask."""
        with self._looking:
            version, at_ms, kept = self._current.version, now_ms(), self._kept
            if kept is not None and kept.version == version and 0 <= at_ms - kept.situation.now_ms < WATCH_EVERY_MS:
                return kept
            self._kept = look = self._look(version, at_ms)
            if look.situation.required:
                self._quiet_since_ms = None
            elif self._quiet_since_ms is None:
                self._quiet_since_ms = at_ms
            if not look.is_all_well:
                self._well_since_ms = None
            elif self._well_since_ms is None:
                self._well_since_ms = at_ms
            return look

    def _look(self, version: int, at_ms: int) -> Look:
        current, around = self._current, self._surroundings
        partitions, judged = around.partitions(), current.judged(at_ms=at_ms)
        urgent = action_required(judged, at_ms, self._limits.foreign_old_ms)
        with current.reading() as state:
            applications = applications_of_hanging(state, partitions.hanging)
        situation = Situation(
            now_ms=at_ms,
            limits=self._limits,
            judged=judged,
            required=by_urgency([*hanging_groups(partitions, applications), *groups(urgent)]),
            partitions=partitions,
            drivers=drivers(current, judged, at_ms),
            jobs=current.jobs(),
            alerts=around.firing(),
            observers=[observer_row(status) for status in around.observers()],
            history_error=around.history_error(),
        )
        found = attention(situation)
        is_all_well = not found and len(up(situation)) == len(existing(situation))
        return Look(version=version, situation=situation, attention=found, is_all_well=is_all_well)

    def _run(self) -> None:
        before: object = None
        while not self._stopping.wait(WATCH_EVERY_MS / 1000):
            look = self.look()
            verdicts = {(item.view.key, item.judgement.verdict) for item in look.situation.judged}
            cards = [(card.key, card.severity, card.keys, card.alerts) for card in look.attention]
            if (verdicts, cards) != before:
                before = (verdicts, cards)
                self._current.changed()


def overview(counted: NowAndThen[Counts], watch: Watch) -> Overview:
    """Return the answer of GET /overview. Raises StoreFailed."""
    look = watch.look()
    situation, at_ms = look.situation, now_ms()
    counts = counted.at(at_ms)
    judged = situation.judged
    running = [item.view for item in judged if item.view.is_running]
    lost = [item.view.ended_ms for item in judged if item.view.state is TransactionState.LOST]
    lost_now = sum(1 for at in lost if at is not None and at >= at_ms - MINUTE_MS)
    waiting = [blocked for blocked in situation.partitions.blocked if blocked.waiting]
    return Overview(
        now_ms=at_ms,
        action_required=tuple(group.needed for group in situation.required),
        counts=OverviewCounts(
            open=len(running),
            prepared=sum(1 for view in running if view.state.is_in_doubt),
            committed_per_minute=counts.committed,
            aborted_per_minute=max(0, counts.aborted - lost_now),
            blocked_partitions=len(waiting),
            waiting_groups=len({reader.group for blocked in waiting for reader in blocked.waiting}),
            hanging=len(situation.partitions.hanging),
        ),
        oldest_open_at_ms=min((v.opened_ms for v in running if v.opened_ms is not None), default=None),
        quiet_since_ms=None if situation.required else watch.quiet_since_ms,
        attention=look.attention,
        all_well_since_ms=watch.all_well_since_ms if look.is_all_well else None,
        pipelines_alive=alive(situation),
        observers_up=len(up(situation)),
        observers=len(existing(situation)),
        in_progress=in_progress(situation),
        per_minute=per_minute(counts.ends, lost, at_ms),
        checkpoints=counts.checkpoints,
    )


def observer_row(status: ObserverStatus) -> ObserverRow:
    """Return one observer as GET /status has it."""
    return ObserverRow(
        name=status.name,
        state=status.state.value,
        delay_ms=status.delay_ms,
        since_ms=status.since_ms,
        error=status.error,
        records=status.records,
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
