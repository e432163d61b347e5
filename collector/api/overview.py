"""The overview: what needs attention, then counts; everything from one look that all who ask share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from collector.history import sql
from collector.history.store import Store
from collector.records.facts import CheckpointFacts
from collector.rows.action_required import (
    RequiredGroup,
    action_required,
    by_urgency,
    groups,
    hanging_groups,
)
from collector.rows.attention.listing import AttentionList, in_progress
from collector.rows.attention.observers import existing, up
from collector.rows.attention.pipelines import alive, awaited
from collector.rows.attention.situation import AttentionLimits, Situation
from collector.runtime.answers import ANSWERS
from collector.runtime.clock import now_ms
from collector.runtime.remembered import Remembered
from collector.runtime.timed_cache import NowAndThen
from collector.sources.source import ObserverStatus
from collector.verdicts.judging import Judged, percentile
from collector.verdicts.partition_state import NOTHING_SEEN, PartitionFindings
from collector.views.application_names import applications_of_hanging
from collector.views.current_state import CurrentState
from collector.views.drivers import drivers
from lifecycle.checkpoints import CheckpointState
from lifecycle.durations import MINUTE_MS
from lifecycle.rows.alerts import AlertRow
from lifecycle.rows.attention import Attention, AttentionKind
from lifecycle.rows.cut_lists import cut_lists
from lifecycle.rows.order_request import MAX_KEYS
from lifecycle.rows.overview import AwaitedPipeline, CheckpointFigures, InProgress, MinuteRow, Overview, OverviewCounts
from lifecycle.rows.status import ObserverRow
from lifecycle.states import TransactionState

MINUTES = 60
RECOUNT_MS = 2_000
WATCH_EVERY_MS = 500
PAUSE_TIMES, MAX_PAUSE_MS = 25, 1_500
"""With thousands of cards a look takes long: it stands for so many times as long. A verdict is shown within 2 s all the same."""
LONG_MS = 5
"""A look that takes so long is left to the watch: who asks is told of the last one."""
MOST_NAMED = 100
MOST_REQUIRED = {"keys": MAX_KEYS, "partitions": MOST_NAMED}
MOST_LISTED = {**MOST_REQUIRED, "waits": MOST_NAMED, "alerts": MOST_NAMED}
"""So much of each list of a card is answered: as many keys as an order takes, and more names than anyone reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What else than transactions the overview is made from, asked anew at each look."""

    observers: Callable[[], Sequence[ObserverStatus]] = tuple
    partitions: Callable[[], PartitionFindings] = lambda: NOTHING_SEEN
    firing: Callable[[], Sequence[AlertRow]] = tuple
    """The alerts that fire and are not silenced."""
    history_error: Callable[[], str] = str
    startable: Collection[str] = ()
    """Prefixes of the pipelines that an order may start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Transactions that are open, how many of them are prepared, since when the oldest is; when others were lost (epoch ms)."""

    open: int
    prepared: int
    oldest_open_at_ms: int | None
    lost_ms: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Look:
    """Everything as it was seen and judged at one moment, of one version of the present state.

    Without slots: what all who ask are told is counted once.
    """

    version: int
    situation: Situation
    attention: tuple[Attention, ...]
    awaited: tuple[AwaitedPipeline, ...]
    is_all_well: bool
    """Nothing needs attention, every pipeline shows life, and every observer sees its source."""
    stands_ms: int
    """So long it is shown although something changed since: it took a while."""

    @cached_property
    def running(self) -> Running:
        """Return the counts of the transactions whose timeout's clock runs, and when others were lost."""
        running = [item.view for item in self.situation.judged if item.view.is_running]
        lost = [item.view.ended_ms for item in self.situation.judged if item.view.state is TransactionState.LOST]
        return Running(
            open=len(running),
            prepared=sum(1 for view in running if view.state.is_in_doubt),
            oldest_open_at_ms=min((v.opened_ms for v in running if v.opened_ms is not None), default=None),
            lost_ms=tuple(at for at in lost if at is not None),
        )

    @cached_property
    def in_progress(self) -> tuple[InProgress, ...]:
        """Return what goes on by itself."""
        return in_progress(self.situation)


class Watch:
    """Judges at intervals, since verdicts change by time alone: announces changes, and knows since when all was well."""

    def __init__(self, current: CurrentState, limits: AttentionLimits, surroundings: Surroundings) -> None:
        self._current, self._limits, self._surroundings = current, limits, surroundings
        self._quiet_since_ms: int | None = now_ms()
        self._well_since_ms: int | None = None
        self._kept: Look | None = None
        self._urgent: tuple[Sequence[Judged], list[Judged], int | None] = ((), [], None)
        """The transactions of the last look, those that require an action, and when age alone adds the next (epoch ms)."""
        self._groups: Remembered[RequiredGroup] = Remembered()
        self._required: Remembered[tuple[RequiredGroup, ...]] = Remembered()
        self._attention = AttentionList()
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
            if kept is not None:
                stands_ms = max(kept.stands_ms, WATCH_EVERY_MS if kept.version == version else 0)
                if 0 <= at_ms - kept.situation.now_ms < stands_ms:
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
        current, around, began_s = self._current, self._surroundings, time.thread_time()
        partitions, judged = around.partitions(), current.judged(at_ms=at_ms)
        urgent = self._required_of(judged, at_ms)
        with current.reading() as state:
            applications = applications_of_hanging(state, partitions.hanging)
        situation = Situation(
            now_ms=at_ms,
            limits=self._limits,
            judged=judged,
            required=self._grouped(urgent, hanging_groups(partitions, applications)),
            partitions=partitions,
            drivers=drivers(current, judged, at_ms),
            jobs=current.jobs(),
            alerts=around.firing(),
            observers=[observer_row(status) for status in around.observers()],
            history_error=around.history_error(),
            startable=around.startable,
        )
        found = self._attention.of(situation)
        missing = awaited(situation)
        is_all_well = not (found or missing) and len(up(situation)) == len(existing(situation))
        took_ms = int(1000 * (time.thread_time() - began_s))
        stands_ms = min(MAX_PAUSE_MS, max(PAUSE_TIMES * took_ms, WATCH_EVERY_MS if took_ms >= LONG_MS else 0))
        return Look(
            version=version,
            situation=situation,
            attention=found,
            awaited=missing,
            is_all_well=is_all_well,
            stands_ms=stands_ms,
        )

    def _required_of(self, judged: Sequence[Judged], at_ms: int) -> list[Judged]:
        before, urgent, next_ms = self._urgent
        is_earlier = self._kept is not None and at_ms < self._kept.situation.now_ms
        if judged is not before or is_earlier or (next_ms is not None and at_ms >= next_ms):
            urgent, next_ms = action_required(judged, at_ms, self._limits.foreign_old_ms)
            self._urgent = judged, urgent, next_ms
        return urgent

    def _grouped(self, urgent: list[Judged], hanging: list[RequiredGroup]) -> tuple[RequiredGroup, ...]:
        self._required.next_round()
        return self._required.of("", (urgent, hanging), lambda: by_urgency([*hanging, *groups(urgent, self._groups)]))

    def _run(self) -> None:
        seen: tuple[object, object, object] = (None, None, None)
        before: object = None
        while not self._stopping.wait(WATCH_EVERY_MS / 1000) and not ANSWERS.give_way(self._stopping.wait):
            look = self.look()
            if look.situation.judged is seen[0] and look.attention is seen[1] and look.awaited == seen[2]:
                continue
            seen = look.situation.judged, look.attention, look.awaited
            verdicts = {item.view.key: item.judgement.verdict for item in look.situation.judged}
            cards = [(card.key, card.severity, card.keys, card.alerts, card.remedy) for card in look.attention]
            if (verdicts, cards, look.awaited) != before:
                before = (verdicts, cards, look.awaited)
                self._current.changed()


def overview(counted: NowAndThen[Counts], watch: Watch, limit: int | None = None) -> Overview:
    """Return the answer of GET /overview, of each list at most ``limit``. Raises StoreFailed."""
    look = watch.look()
    situation, at_ms = look.situation, now_ms()
    counts = counted.at(at_ms)
    running = look.running
    lost_now = sum(1 for at in running.lost_ms if at >= at_ms - MINUTE_MS)
    waiting = [blocked for blocked in situation.partitions.blocked if blocked.waiting]
    return Overview(
        now_ms=at_ms,
        action_required=tuple(cut_lists(group.needed, MOST_REQUIRED) for group in situation.required[:limit]),
        counts=OverviewCounts(
            open=running.open,
            prepared=running.prepared,
            committed_per_minute=counts.committed,
            aborted_per_minute=max(0, counts.aborted - lost_now),
            blocked_partitions=len(waiting),
            waiting_groups=len({reader.group for blocked in waiting for reader in blocked.waiting}),
            hanging=len(situation.partitions.hanging),
        ),
        oldest_open_at_ms=running.oldest_open_at_ms,
        quiet_since_ms=None if situation.required else watch.quiet_since_ms,
        attention=tuple(cut_lists(card, MOST_LISTED) for card in look.attention[:limit]),
        attention_total=len(look.attention),
        alerts_firing=len(situation.alerts),
        all_well_since_ms=watch.all_well_since_ms if look.is_all_well else None,
        awaited=look.awaited[:limit],
        pipelines_alive=alive(situation),
        observers_up=len(up(situation)),
        observers=len(existing(situation)),
        in_progress=look.in_progress[:limit],
        in_progress_total=len(look.in_progress),
        per_minute=per_minute(counts.ends, running.lost_ms, at_ms),
        checkpoints=counts.checkpoints,
    )


def attention_about(watch: Watch, kind: AttentionKind | None, keys: Collection[str]) -> list[Attention]:
    """Return the cards of this kind, in the order of the overview; with ``keys`` those about any of them.

    A card is about its transactions, its alerts and what its remedy is for. What was asked for stands first in its lists.
    """
    wanted = frozenset(keys)
    return [
        cut_lists(card, MOST_LISTED, wanted)
        for card in watch.look().attention
        if kind in (None, card.kind) and (not wanted or not wanted.isdisjoint((*card.keys, *card.alerts, card.target)))
    ]


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
