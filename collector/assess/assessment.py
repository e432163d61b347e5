"""What is open as it was judged at one moment, with what needs attention; immutable, and the same for all who read it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from indoubt.collector.assess.attention.listing import in_progress, parts
from indoubt.collector.assess.attention.pipelines import awaited
from indoubt.collector.assess.incidents import incidents
from indoubt.collector.assess.rules.observers import existing, up
from indoubt.collector.assess.situation import RunUnderWay, Situation, no_losses, no_standing_orders
from indoubt.collector.assess.transaction_groups import required
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.facts import transaction_join
from indoubt.collector.facts.state import State
from indoubt.collector.observe.source import ObserverStatus
from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.records.standing_orders import StandingReport
from indoubt.collector.verdicts import judging
from indoubt.collector.verdicts.data_loss import Loss
from indoubt.collector.verdicts.driver_state import DriverState, driver_state, plain_state
from indoubt.collector.verdicts.judging import Judged, PipelineNow
from indoubt.collector.verdicts.partition_state import NOTHING_SEEN, PartitionFindings
from indoubt.collector.verdicts.verdict_case import Case
from indoubt.collector.views.application_names import applications_of_hanging
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.checkpoints import CheckpointState
from indoubt.lifecycle.rows.alerts import AlertRow
from indoubt.lifecycle.rows.incidents import Incident
from indoubt.lifecycle.rows.overview import AwaitedPipeline, InProgress
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Verdict

_LOST = (TransactionState.LOST, TransactionState.WRITTEN_AGAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What else than transactions an assessment is made from, asked anew for each."""

    observers: Callable[[], Sequence[ObserverStatus]] = tuple
    partitions: Callable[[], PartitionFindings] = lambda: NOTHING_SEEN
    firing: Callable[[], Sequence[AlertRow]] = tuple
    """The alerts that fire and are not silenced."""
    losses: Callable[[int], Sequence[Loss]] = no_losses
    """What others' transactions lost of late."""
    standing: Callable[[], StandingReport] = no_standing_orders
    history_error: Callable[[], str] = str
    runs: Callable[[], Sequence[RunUnderWay]] = tuple
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
class Assessment:
    """What is open, of one version of the present state. Without slots: counts are made once for all who ask."""

    version: int
    cases: tuple[Case, ...]
    """What the rules read of each transaction in ``judged``, in the same order."""
    situation: Situation
    incidents: tuple[Incident, ...]
    """Those that last, the most urgent first; behind them those that ended of late, the newest first."""
    awaited: tuple[AwaitedPipeline, ...]
    """Of no incident."""
    all_well_since_ms: int | None
    """Since when nothing needs attention, every pipeline shows life and every observer sees its source; None: that is not so."""

    @property
    def now_ms(self) -> int:
        """Return when it was judged."""
        return self.situation.now_ms

    @property
    def judged(self) -> Sequence[Judged]:
        """Return in no order every transaction whose verdict may be another than settled."""
        return self.situation.judged

    @cached_property
    def running(self) -> Running:
        """Return the counts of the transactions whose timeout's clock runs, and when others were lost."""
        running = [item.view for item in self.judged if item.view.is_running]
        lost = [item.view.ended_ms for item in self.judged if item.view.state in _LOST]
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


def assess(
    current: CurrentState,
    limits: AlertSettings,
    around: Surroundings,
    now_ms: int,
    before: Assessment | None = None,
) -> Assessment:
    """Return what is open as it is at ``now_ms``; ``before``: the last assessment, which knows since when all was well."""
    # Before it is read: what changes meanwhile is seen in the next one.
    version, observers, seen = current.version, tuple(around.observers()), around.partitions()
    cases = tuple(current.transactions.cases(at_ms=now_ms))
    judged = judging.judged(cases)
    with current.reading() as state:
        applications = applications_of_hanging(state, seen.hanging)
        partitions = _still_held(seen, judged, state)
    situation = Situation(
        now_ms=now_ms,
        limits=limits,
        current=current,
        judged=judged,
        required=required(judged, partitions, applications, now_ms, current.limits.foreign_old_ms),
        applications=applications,
        partitions=partitions,
        drivers=drivers(current, judged, now_ms),
        jobs=current.jobs(),
        alerts=around.firing(),
        observers=observers,
        losses=around.losses,
        standing=around.standing,
        history_error=around.history_error(),
        startable=around.startable,
        runs=around.runs(),
    )
    found = incidents(situation, parts(situation), before.incidents if before is not None else ())
    open_of = {incident.application for incident in found if not incident.is_over}
    missing = tuple(one for one in awaited(situation) if one.pipeline not in open_of)
    is_all_well = not (open_of or missing) and len(up(situation)) == len(existing(situation))
    well_since_ms = before.all_well_since_ms if before is not None else None
    return Assessment(
        version=version,
        cases=cases,
        situation=situation,
        incidents=found,
        awaited=missing,
        all_well_since_ms=_first(well_since_ms, now_ms) if is_all_well else None,
    )


def _still_held(seen: PartitionFindings, judged: Sequence[Judged], state: State) -> PartitionFindings:
    """Return what brokers said without the partitions whose transaction has ended: they are asked once a second only."""
    running = {one.view.key for one in judged if one.view.is_running}
    others = {one.holder.key for one in seen.blocked if one.holder is not None} - running - {""}
    found = {key: transaction_join.find(state, key) for key in others}
    ended = {key for key, view in found.items() if view is not None and not view.is_running}
    kept = tuple(one for one in seen.blocked if one.holder is None or one.holder.key not in ended)
    return replace(seen, blocked=kept)


def _first(since_ms: int | None, now_ms: int) -> int:
    return now_ms if since_ms is None else since_ms


def drivers(current: CurrentState, judged: Sequence[Judged], now_ms: int) -> list[DriverState]:
    """Return every pipeline that ever started a run, in no order; ``judged``: the transactions at ``now_ms``."""
    limits = current.limits
    plain = [(run, plain_state(run, limits, now_ms)) for run in current.newest_runs()]
    doubtful = {run.facts.pipeline for run, state in plain if state is None}
    histories = current.pipelines(doubtful)
    unfinished = unfinished_batches(judged, current.checkpoints()) if doubtful else {}

    def state_of(run: PipelineNow) -> DriverState:
        name = run.facts.pipeline
        return driver_state(run, histories[name], unfinished.get(name), limits, now_ms)

    return [state or state_of(run) for run, state in plain]


def unfinished_batches(judged: Iterable[Judged], checkpoints: Iterable[CheckpointFacts]) -> dict[str, int]:
    """Return pipeline -> since when (epoch ms) a batch of it is begun and not finished, by transactions and by checkpoints."""
    found: dict[str, int] = {}
    for item in judged:
        is_unfinished = item.view.is_running or item.judgement.verdict is Verdict.LOST
        if item.view.managed and is_unfinished and item.view.opened_ms is not None:
            _put(found, item.view.pipeline, item.view.opened_ms)
    newest: dict[str, CheckpointFacts] = {}
    for checkpoint in checkpoints:
        known = newest.get(checkpoint.pipeline)
        if not checkpoint.job and (known is None or (checkpoint.begun_ms or 0) >= (known.begun_ms or 0)):
            newest[checkpoint.pipeline] = checkpoint
    for name, checkpoint in newest.items():
        if checkpoint.state is not CheckpointState.COMPLETED and checkpoint.begun_ms is not None:
            _put(found, name, checkpoint.begun_ms)
    return found


def _put(found: dict[str, int], name: str, at_ms: int) -> None:
    found[name] = min(at_ms, found.get(name, at_ms))
