"""/metrics: Prometheus' text exposition. Labels have bounded sets of values: never a transactional id, so many pipelines at most.

docs/monitoring/README.md names every metric; a test compares.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from indoubt.collector.assess import rules
from indoubt.collector.assess.findings import Severity
from indoubt.collector.assess.rules.checkpoints import CheckpointHistory, by_pipeline
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.history.store import StoreFailed
from indoubt.collector.notify.evaluator import ShownAlert
from indoubt.collector.notify.notifiers.delivery import Outcome
from indoubt.collector.notify.service import AlertService
from indoubt.collector.notify.state_machine import AlertState
from indoubt.collector.notify.store import ReceiverStatus
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.records.log_settings import LogSettings
from indoubt.collector.records.standing_orders import StandingReport
from indoubt.collector.serve.api import application_metrics, partition_metrics
from indoubt.collector.serve.api.application_metrics import ApplicationEnds, Ends, PipelineLabels, counter, gauge
from indoubt.collector.serve.api.dependencies import ApiDependencies
from indoubt.collector.serve.api.partition_metrics import SeenDatabase, SeenPartitions
from indoubt.collector.verdicts.judging import Judged, percentile
from indoubt.lifecycle.states import FINAL, TransactionState
from indoubt.lifecycle.verdicts import Verdict
from indoubt.lifecycle.version import VERSION

CONTENT_TYPE = CONTENT_TYPE_LATEST
PERCENTILES = ((0.5, "50"), (0.99, "99"))
Values = dict[tuple[str, ...], float]
UNSETTLED = tuple(state for state in TransactionState if state not in FINAL or state is TransactionState.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one scrape shows. ``receiver_statuses`` is None while history cannot be read."""

    now_ms: int
    transactions: Sequence[Judged]
    ends: tuple[int, int]
    ends_of_applications: Ends
    lost_forgotten: int
    counts: tuple[int, int]
    checkpoints: Sequence[CheckpointFacts]
    observers: Sequence[ObserverStatus]
    alerts: Sequence[ShownAlert]
    receiver_statuses: Sequence[ReceiverStatus] | None
    attempts: Mapping[tuple[str, Outcome], int]
    history_waiting: int
    history_error: str
    log_settings: LogSettings | None
    partitions: SeenPartitions
    databases: Sequence[SeenDatabase]
    standing: StandingReport
    leads: bool | None = None
    """None where there is no other collector."""


def see(
    dependencies: ApiDependencies, alerts: AlertService, ends: ApplicationEnds, standing: StandingReport, now_ms: int
) -> Seen:
    """Return what is to be shown now."""
    try:
        receiver_statuses = alerts.receiver_statuses()
    except StoreFailed:
        receiver_statuses = None
    return Seen(
        now_ms=now_ms,
        transactions=dependencies.assessor.now().judged,
        ends=dependencies.current.ends(),
        ends_of_applications=ends.now(dependencies.current),
        lost_forgotten=dependencies.current.lost_forgotten(),
        counts=dependencies.current.counts(),
        checkpoints=dependencies.current.checkpoints(),
        observers=dependencies.observers(),
        alerts=alerts.evaluator.alerts(),
        receiver_statuses=receiver_statuses,
        attempts=alerts.dispatcher.attempts,
        history_waiting=dependencies.store.waiting,
        history_error=dependencies.store.error,
        log_settings=dependencies.current.log_settings,
        partitions=partition_metrics.see(dependencies.current, dependencies.partitions()),
        databases=partition_metrics.see_databases(dependencies.current),
        standing=standing,
        leads=None if dependencies.leadership is None else dependencies.leadership.leads,
    )


def exposition(shown: Iterable[Metric], cluster: str = "") -> bytes:
    """Return metrics in the text format; all have the label ``cluster``, if it has a name."""
    shown = list(shown)
    for metric in shown if cluster else ():
        metric.samples = [sample._replace(labels={"cluster": cluster, **sample.labels}) for sample in metric.samples]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(shown))
    return generate_latest(registry)


def families(seen: Seen, labels: PipelineLabels) -> Iterator[Metric]:
    """Yield every metric, those without a value too where their labels are known."""
    yield InfoMetricFamily("indoubt_build", "What runs.", {"version": VERSION, "python": platform.python_version()})
    yield from _transactions(seen, labels)
    yield from application_metrics.families(seen.ends_of_applications)
    yield from partition_metrics.families(seen.partitions, seen.now_ms, labels)
    yield from partition_metrics.of_groups(seen.partitions.findings, labels)
    yield from partition_metrics.of_databases(seen.databases, seen.now_ms)
    yield from _checkpoints(seen, labels)
    yield from _observers(seen)
    yield from _decision_log(seen)
    yield from _history(seen)
    yield from _alerts(seen)
    yield from _notifications(seen)
    yield from _standing_orders(seen)
    leads = {} if seen.leads is None else {(): float(seen.leads)}
    yield gauge("indoubt_collector_leads", "1 while this collector of two leads, 0 while it is the standby.", (), leads)


class _Once(Collector):
    def __init__(self, shown: Sequence[Metric]) -> None:
        self._shown = shown

    def collect(self) -> Iterable[Metric]:
        """Return the metrics it was made with."""
        return self._shown


def _transactions(seen: Seen, labels: PipelineLabels) -> Iterator[Metric]:
    unsettled = [judged for judged in seen.transactions if judged.judgement.verdict is not Verdict.SETTLED]
    shown = [verdict for verdict in Verdict if verdict is not Verdict.SETTLED]
    counts: dict[tuple[TransactionState, Verdict], int] = {
        (state, verdict): 0 for state in UNSETTLED for verdict in shown
    }
    for judged in unsettled:
        counts[judged.view.state, judged.judgement.verdict] = (
            counts.get((judged.view.state, judged.judgement.verdict), 0) + 1
        )
    yield gauge(
        "indoubt_transactions",
        "Transactions that are not settled. In doubt are those in state prepared or decided.",
        ("state", "verdict"),
        {(state.value, verdict.value): count for (state, verdict), count in counts.items()},
    )
    running = [judged.view for judged in unsettled if judged.view.is_running]
    open_, oldest, least, share = _by_pipeline(running, seen.now_ms, labels)
    yield gauge("indoubt_open_transactions", "Transactions that are open, by pipeline.", ("pipeline",), open_)
    yield gauge(
        "indoubt_oldest_open_transaction_age_seconds", "Age of the oldest open transaction.", ("pipeline",), oldest
    )
    yield gauge(
        "indoubt_transaction_time_left_seconds",
        "Least time before the broker aborts one of the open transactions.",
        ("pipeline",),
        least,
    )
    yield gauge(
        "indoubt_transaction_time_left_ratio",
        "Least share of its timeout that is left to one of the open transactions, from 1 down.",
        ("pipeline",),
        share,
    )
    committed, aborted = seen.ends
    yield counter("indoubt_commits", "Transactions seen to be committed by the coordinators.", (), {(): committed})
    yield counter("indoubt_aborts", "Transactions seen to be aborted by the coordinators.", (), {(): aborted})
    words = "Lost transactions that were not replayed and left memory, as there were too many of them."
    yield counter("indoubt_lost_transactions_forgotten", words, (), {(): seen.lost_forgotten})


def _by_pipeline(running: Sequence[TransactionView], now_ms: int, labels: PipelineLabels) -> list[Values]:
    """Return, by pipeline: how many, the age of the oldest in s, the least time left in s, and the least share of a timeout."""
    open_, oldest, least, share = found = [Values(), Values(), Values(), Values()]
    for view in running:
        at = (labels.of_transaction(view),)
        open_[at] = open_.get(at, 0) + 1
        if view.opened_ms is not None:
            oldest[at] = max(oldest.get(at, 0.0), (now_ms - view.opened_ms) / 1000)
        if view.deadline_ms is not None and view.timeout_ms:
            left_ms = view.deadline_ms - now_ms
            least[at] = min(least.get(at, math.inf), left_ms / 1000)
            share[at] = min(share.get(at, math.inf), left_ms / view.timeout_ms)
    return found


def _checkpoints(seen: Seen, labels: PipelineLabels) -> Iterator[Metric]:
    by_label: dict[str, list[CheckpointFacts]] = {}
    for checkpoint in seen.checkpoints:
        by_label.setdefault(labels.of(checkpoint.pipeline), []).append(checkpoint)
    durations = {
        (label, text): value / 1000
        for label, of_it in by_label.items()
        for share, text in PERCENTILES
        if (value := percentile([c.duration_ms for c in of_it if c.completed_ms is not None], share)) is not None
    }
    names = ("pipeline", "percentile")
    yield gauge(
        "indoubt_checkpoint_duration_seconds", "Durations of the completed checkpoints in memory.", names, durations
    )
    histories = [(labels.of(history.pipeline), history) for history in by_pipeline(seen.checkpoints)]
    yield gauge(
        "indoubt_checkpoint_completed_timestamp_seconds",
        "When the last checkpoint was completed.",
        ("pipeline",),
        _greatest(
            (label, (history.completed_ms or 0) / 1000)
            for label, history in histories
            if history.completed_ms is not None
        ),
    )
    yield gauge(
        "indoubt_checkpoint_unfinished_seconds",
        "How long the newest checkpoint is not completed; 0 when it is.",
        ("pipeline",),
        _greatest((label, _unfinished_s(history, seen.now_ms)) for label, history in histories),
    )
    yield gauge(
        "indoubt_checkpoint_failures",
        "Attempts that failed since the last completed checkpoint.",
        ("pipeline",),
        _greatest((label, float(history.failures)) for label, history in histories),
    )


def _unfinished_s(history: CheckpointHistory, now_ms: int) -> float:
    begun_ms = history.newest.begun_ms
    return 0.0 if history.newest.ended_ms is not None or begun_ms is None else max(0, now_ms - begun_ms) / 1000


def _observers(seen: Seen) -> Iterator[Metric]:
    up = {
        (observer.name,): float(observer.state in (ObserverState.UP, ObserverState.ABSENT))
        for observer in seen.observers
    }
    delays = {
        (observer.name,): observer.delay_ms / 1000 for observer in seen.observers if observer.delay_ms is not None
    }
    records = {(observer.name,): float(observer.records) for observer in seen.observers}
    yield gauge(
        "indoubt_observer_up",
        "1 while the observer sees its source, or the source does not exist yet.",
        ("observer",),
        up,
    )
    yield gauge("indoubt_observer_delay_seconds", "Age of the observer's last good poll.", ("observer",), delays)
    yield counter("indoubt_observer_records", "Records that the observer handed over.", ("observer",), records)


def _decision_log(seen: Seen) -> Iterator[Metric]:
    settings = seen.log_settings
    forgets: dict[tuple[str, ...], float] = {} if settings is None else {(): float(bool(settings.wrong))}
    words = "1 while the decision log's topic is finite or compacted; absent where that is unknown."
    yield gauge("indoubt_decision_log_forgets", words, (), forgets)


def _history(seen: Seen) -> Iterator[Metric]:
    events, quarantined = seen.counts
    yield gauge(
        "indoubt_history_lag_observations", "Observations that wait to be written.", (), {(): seen.history_waiting}
    )
    writable = float(not seen.history_error and seen.receiver_statuses is not None)
    yield gauge("indoubt_history_writable", "0 while history cannot be written or read.", (), {(): writable})
    yield counter("indoubt_events", "Observations folded since history began.", (), {(): events})
    yield counter("indoubt_quarantined_records", "Records quarantined since history began.", (), {(): quarantined})


def _alerts(seen: Seen) -> Iterator[Metric]:
    counts = {
        (rule.number, state.value, severity.value): 0.0
        for rule in rules.RULES.values()
        for state in (AlertState.PENDING, AlertState.FIRING)
        for severity in Severity
    }
    silenced = 0
    for listed in seen.alerts:
        finding, state = listed.alert.finding, listed.alert.state
        if state is AlertState.RESOLVED:
            continue
        counts[finding.rule, state.value, finding.severity.value] += 1
        silenced += listed.silence is not None
    yield gauge("indoubt_alerts", "Alerts by rule, state and severity.", ("rule", "state", "severity"), counts)
    yield gauge("indoubt_alerts_silenced", "Pending and firing alerts that a silence covers.", (), {(): silenced})


def _notifications(seen: Seen) -> Iterator[Metric]:
    receiver_statuses = seen.receiver_statuses or ()
    waiting = {(status.receiver,): float(status.waiting) for status in receiver_statuses}
    given_up = {(status.receiver,): float(status.given_up) for status in receiver_statuses}
    ages = {
        (status.receiver,): (seen.now_ms - status.oldest_ms) / 1000 if status.oldest_ms is not None else 0.0
        for status in receiver_statuses
    }
    attempts = {(receiver, outcome.name.lower()): float(n) for (receiver, outcome), n in seen.attempts.items()}
    yield gauge("indoubt_notifications_waiting", "Notifications not delivered yet.", ("receiver",), waiting)
    yield gauge("indoubt_notifications_oldest_seconds", "Age of the oldest of them.", ("receiver",), ages)
    yield gauge("indoubt_notifications_given_up", "Notifications given up within 7 days.", ("receiver",), given_up)
    yield counter("indoubt_notification_attempts", "Attempts by outcome.", ("receiver", "outcome"), attempts)


def _standing_orders(seen: Seen) -> Iterator[Metric]:
    orders, names = seen.standing.orders, ("standing_order", "act")
    yield gauge(
        "indoubt_standing_orders_stopped",
        "1 while all of them are stopped.",
        (),
        {(): float(seen.standing.switch.stopped)},
    )
    counted = (
        ("indoubt_standing_order_acts", "Orders given without a person that ended as ordered.", "acted"),
        ("indoubt_standing_order_failures", "Attempts that were refused or failed.", "failed"),
        ("indoubt_standing_order_dry_runs", "Orders that were only dry runs.", "dry_run_count"),
        ("indoubt_standing_order_held_back", "Transactions that were due and held back.", "held_back"),
    )
    for name, words, field in counted:
        yield counter(name, words, names, {(o.name, o.act.value): float(getattr(o, field)) for o in orders})


def _greatest(pairs: Iterable[tuple[str, float]]) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for label, value in pairs:
        found[label,] = max(found.get((label,), value), value)
    return found
