"""The collector put together: observe, keep, judge, serve; reads in the order in which data flows. ``start.py`` begins it.

Its threads by their names, and what they hand on:

    load history --> (all that follow begin once it has ended)
    one an observer --> CurrentState --> assessor --> alerts --> notifications
         |                   ^              |-------> standing orders --+
         v                   |              +-------> requests ---------+--> Actions --> brokers, databases
      history             follow-up <--------------------------------------- (an end that is not known)

A request orders by itself, or through a thread ``order run`` that goes on without it. ``history`` writes what observers append.
``archiver`` takes out of it what is over. ``refresher`` keeps answers ready that read history, ``time samples`` notes how many
wait and how late sources are, ``cluster id`` asks once. Requests are answered by the web server's threads, under the main one.
"""

from __future__ import annotations

from indoubt.collector.runtime import lean_process  # before what it keeps small

# isort: split
import contextlib
import functools
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from queue import SimpleQueue
from types import FrameType

import uvicorn

from indoubt.collector.act.orders import database_participant
from indoubt.collector.act.orders.audit import OrderHistory
from indoubt.collector.act.orders.bulk_selection import Previews
from indoubt.collector.act.orders.file_participant import FileParticipant
from indoubt.collector.act.orders.hanging import HangingOrders
from indoubt.collector.act.orders.order_runs import OrderRuns
from indoubt.collector.act.orders.outcome_probes import OutcomeProbes
from indoubt.collector.act.orders.outcome_resolver import OutcomeResolver, Probe
from indoubt.collector.act.orders.participants import KafkaParticipant, Participant, Participants
from indoubt.collector.act.orders.pipelines import KIND, PipelineOrders
from indoubt.collector.act.orders.plan import OrderContext
from indoubt.collector.act.orders.service import Actions
from indoubt.collector.act.standing_orders.own_checks import News, Owners
from indoubt.collector.act.standing_orders.service import StandingOrderService
from indoubt.collector.assess.assessment import Surroundings
from indoubt.collector.assess.assessor import Assessor
from indoubt.collector.assess.rules.losses import RecentLosses
from indoubt.collector.config.settings import Settings
from indoubt.collector.config.variables import TransactionSource
from indoubt.collector.history.archiver import Archiver
from indoubt.collector.history.retention import Maintenance
from indoubt.collector.history.store import Store
from indoubt.collector.notify.service import AlertService, alert_settings
from indoubt.collector.observe.aborted_offsets import AbortedOffsets
from indoubt.collector.observe.clocks import Clocks
from indoubt.collector.observe.cluster_id import ClusterName
from indoubt.collector.observe.decision_log import DecisionTopic
from indoubt.collector.observe.iceberg_connect import IcebergConnect
from indoubt.collector.observe.lifecycle_topic import LifecycleTopic
from indoubt.collector.observe.partitions import Partitions
from indoubt.collector.observe.source import Observer, ObserverStatus
from indoubt.collector.observe.time_samples import TimeSamples
from indoubt.collector.observe.transaction_polling import TransactionPolling
from indoubt.collector.observe.transaction_state_log import TransactionLog
from indoubt.collector.observe.watching import Watching
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.serve.api import alert_routes, standing_order_routes
from indoubt.collector.serve.api.app import application, server_config
from indoubt.collector.serve.api.auth.authentication import KnownTokens
from indoubt.collector.serve.api.auth.rate_limits import RequestLimits
from indoubt.collector.serve.api.dependencies import ApiDependencies
from indoubt.collector.serve.api.event_stream import Changes
from indoubt.collector.standby.leadership import Leadership
from indoubt.collector.views import aborts_and_losses
from indoubt.collector.views.archive_knowledge import archive_knowledge
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.loading import Loading, Part
from indoubt.lifecycle.resource_manager_kinds import FLINK_SINKS
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.group_questions import members
from indoubt.resource_managers.kafka.partitions import KafkaPartitions
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from indoubt.resource_managers.topics.decision_log import DecisionLog

READ_LIMIT_S = 2.0
"""How long one probe of one transaction retries transient answers."""


def serve(
    settings: Settings,
    connection: KafkaConnection,
    tokens: KnownTokens,
    store: Store,
    current: CurrentState,
    loading: Loading,
    listening: socket.socket,
    news: SimpleQueue[object],
    read_again: Callable[[], Settings],
) -> None:
    """Serve until SIGINT or SIGTERM; what observes begins once history is loaded.

    ``news``: has a READ_AGAIN for each SIGHUP; ``read_again`` then returns the settings.
    """
    tunable = settings.tunable
    broker = KafkaResourceManager(connection, decisions_topic=tunable.decision_topic)
    partitions = Partitions(
        current,
        connection,
        tunable.decision_topic,
        round_ms=tunable.partition_round_ms,
        reader_stalled_ms=tunable.reader_stalled_ms,
    )
    observers: list[Observer] = []

    def running() -> list[Part]:
        kept = {"days": tunable.history_days, "megabytes": tunable.history_megabytes}
        causes = functools.partial(aborts_and_losses.causes, current)
        store.add_maintenance(Maintenance(causes, now_ms, store.past, **kept))
        store.add_maintenance(lean_process.MallocTrimmer())
        # Not before history is loaded: each observer asks it how far its source was read.
        observers.extend([*_observers(settings, connection, current, store, broker), partitions])
        acting = [leadership] if leadership is not None else acts
        archiving = [archiver] if archiver is not None else []
        return [
            *(cluster, *archiving, *observers, watching, assessor, alerts.evaluator),
            *(*acting, samples, dependencies.refresher),
        ]

    def statuses() -> list[ObserverStatus]:
        return [observer.status for observer in (*observers, *watching.observers) if observer.is_listed]

    leadership = (
        Leadership(connection, tunable.standby_name, tunable.standby_peer, store, current, lambda: acts)
        if tunable.standby_name
        else None
    )
    limits = alert_settings(tunable)
    losses = RecentLosses(
        lambda since_ms: aborts_and_losses.losses_in_memory(current, since_ms=since_ms)[0],
        lambda since_ms: aborts_and_losses.duplicates(current, since_ms),
    )
    changes, cluster = Changes(), ClusterName(connection)
    archiver = (
        Archiver(
            store,
            tunable.history_archive,
            archive_knowledge(current),
            lambda: settings.cluster or cluster.name,
            now_ms,
        )
        if tunable.history_archive
        else None
    )
    assessor = Assessor(
        current,
        limits,
        Surroundings(
            observers=statuses,
            partitions=lambda: partitions.findings,
            firing=lambda: alert_routes.firing_rows(alerts.evaluator),
            losses=losses.at,
            standing=lambda: standing.report(),
            history_error=lambda: store.error,
            runs=lambda: order_runs.under_way(),
            startable=settings.start_commands.keys(),
        ),
    )
    current.listen(changes.tell)
    decision_log = DecisionLog(connection, tunable.decision_topic)
    always: dict[str, Participant] = {
        broker.name: KafkaParticipant(broker),
        **dict.fromkeys(FLINK_SINKS, FileParticipant(current.flink)),
    }
    participants = Participants(always)
    watching = Watching(
        settings,
        current,
        store,
        news,
        read_again,
        lambda databases: participants.take({**always, **database_participant.participants(databases)}),
    )
    hanging = HangingOrders(
        lambda: partitions.findings, current, broker, KafkaPartitions(connection, tunable.decision_topic)
    )
    pipelines = PipelineOrders(
        current,
        connection,
        DecisionLog(connection, tunable.decision_topic),
        tunable.pipeline_order_topic,
        start_commands=settings.start_commands,
    )
    more_probes = {**hanging.by_kind(), KIND: pipelines.probe}
    follow_up = _follow_up(settings, connection, current, store, participants, more_probes)
    actions = Actions(
        current,
        store,
        participants,
        decision_log,
        pipelines,
        follow_up,
        hanging,
        read_only=settings.read_only,
    )
    previews = Previews(current)
    order_runs = OrderRuns(current, store, actions, previews)
    ready = threading.Event()
    dependencies = ApiDependencies(
        current=current,
        store=store,
        actions=actions,
        previews=previews,
        order_runs=order_runs,
        assessor=assessor,
        changes=changes,
        tokens=tokens,
        read_only=settings.read_only,
        bootstrap_servers=settings.bootstrap_servers,
        foreign_recovery_ms=tunable.alert.foreign_recovery_ms,
        is_ready=ready.is_set,
        cluster=lambda: cluster.name,
        cluster_name=settings.cluster,
        observers=statuses,
        limits=RequestLimits(requests_per_second=tunable.requests_per_second),
        partitions=lambda: partitions.findings,
        startable=settings.start_commands.keys(),
        leadership=leadership,
        authority=settings.authority,
        archive_error=lambda: archiver.error if archiver is not None else "",
    )
    standing = StandingOrderService(
        settings.standing_orders,
        current,
        assessor,
        store,
        actions,
        Owners(broker=broker, members=functools.partial(members, connection), flink=_flink_news(current, watching)),
        silent_ms=limits.observer_down_ms,
        read_only=settings.read_only,
    )
    alerts = AlertService(
        current,
        store,
        assessor,
        tunable,
        settings.receivers,
        public_url=settings.public_url,
        cluster=settings.cluster,
        leads=lambda: leadership is None or leadership.leads,
    )
    acts: list[Part] = [alerts.dispatcher, follow_up, order_runs, standing]
    samples = TimeSamples(current, store, dependencies.partitions, dependencies.observers)
    app = application(dependencies)
    standing_order_routes.serve(app, dependencies, standing)
    alert_routes.serve(
        app, dependencies, alerts, tunable.metrics_access, tunable.metrics_pipelines, standing=standing.report
    )
    server = _Server(server_config(app, settings.tls, settings.trusted_proxies), changes)
    loading.go_on(ready, running, store.partition_names.all, server.end)
    host, port = listening.getsockname()[:2]
    print(f"{'https' if settings.tls else 'http'}://{host}:{port}", flush=True)
    server.run(sockets=[listening])


def _observers(
    settings: Settings, connection: KafkaConnection, current: CurrentState, store: Store, broker: KafkaResourceManager
) -> list[Observer]:
    tunable = settings.tunable
    found: list[Observer] = [
        LifecycleTopic(current, store, connection, tunable.lifecycle_topic),
        DecisionTopic(current, store, connection, tunable.decision_topic),
    ]
    needed: threading.Event | None = None
    if tunable.transaction_source is not TransactionSource.POLLING:
        transaction_log = TransactionLog(current, store, connection)
        found.append(transaction_log)
        needed = transaction_log.denied
    if tunable.transaction_source is not TransactionSource.LOG:
        found.append(
            TransactionPolling(
                current,
                store,
                KafkaPartitions(connection, tunable.decision_topic),
                interval_ms=tunable.transaction_polling_ms,
                needed=needed,
            )
        )
    interval_ms = tunable.remote_checkpoint_polling_ms
    found += [IcebergConnect(current, connection, topic, interval_ms=interval_ms) for topic in tunable.control_topics]
    found.append(Clocks(current, connection, broker))
    found.append(AbortedOffsets(current, store, KafkaPartitions(connection, tunable.decision_topic)))
    return found


def _flink_news(current: CurrentState, watching: Watching) -> Callable[[], Mapping[str, News]]:
    def found() -> Mapping[str, News]:
        if not watching.flink:
            return {}
        # What needs libraries of its own is imported where it is wanted.
        from indoubt.collector.observe.flink_rest import flink_news

        return flink_news(current, watching.flink)

    return found


def _follow_up(
    settings: Settings,
    connection: KafkaConnection,
    current: CurrentState,
    store: Store,
    participants: Participants,
    more_probes: Mapping[str, Probe],
) -> OutcomeResolver:
    # A decision log of its own: its thread probes while orders are given.
    decision_log = DecisionLog(connection, settings.tunable.decision_topic)
    context = OrderContext(current=current, participants=participants, log=decision_log, limit_s=READ_LIMIT_S)
    probes = OutcomeProbes(context, read_only=settings.read_only)
    return OutcomeResolver(current, OrderHistory(store), {**probes.by_kind(), **more_probes})


class _Server(uvicorn.Server):
    """A server that SIGINT and SIGTERM end in order.

    uvicorn would raise the signal again once it has stopped, which kills the process before history is closed.
    """

    def __init__(self, config: uvicorn.Config, changes: Changes) -> None:
        super().__init__(config)
        self._changes = changes

    def end(self) -> None:
        """Stop as at a signal: end the streams of changes, which would keep the server from stopping, then the server."""
        self._changes.close()
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at the first signal."""

        def stop(number: int, frame: FrameType | None) -> None:
            self.end()

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
