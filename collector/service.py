"""The collector's own process: observe, keep, judge, serve; reads in the order in which data flows."""

from __future__ import annotations

import collector.small_process  # noqa: F401 (before what it keeps small)

# isort: split
import contextlib
import functools
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType

import uvicorn

from collector import (
    alert_api,
    backup_api,
    database_actor,
    http_server,
    request_log,
    retention,
    tls,
    token_file,
    undone,
)
from collector import settings as collector_settings
from collector.acting import Actors, KafkaActor
from collector.actions import Actions
from collector.alert_service import AlertService
from collector.api import application
from collector.authentication import KnownTokens
from collector.changes import Changes
from collector.clock import now_ms
from collector.cluster import ClusterName
from collector.current_state import CurrentState
from collector.databases import managers
from collector.observers.aborted_offsets import AbortedOffsets
from collector.observers.databases import database_observers
from collector.observers.decision_topic import DecisionTopic
from collector.observers.lifecycle_topic import LifecycleTopic
from collector.observers.observer import Observer
from collector.observers.partitions import Pace, Partitions
from collector.observers.transaction_log import TransactionLog
from collector.observers.transaction_polling import TransactionPolling
from collector.ordering.follow_up import FollowUp, Look
from collector.ordering.hanging import HangingOrders
from collector.ordering.looks import TransactionLooks
from collector.ordering.order_history import OrderHistory
from collector.ordering.pipelines import KIND, PipelineOrders
from collector.ordering.plan import Reach
from collector.overview import Watch
from collector.process_memory import GiveBack
from collector.rate_limits import RequestLimits
from collector.retention import Upkeep
from collector.served import Served
from collector.settings import Settings, TransactionSource
from collector.store import Store, StoreFailed
from collector.verdicts import Limits
from lifecycle.errors import SettingsError
from resource_managers.decision_log import DecisionLog
from resource_managers.kafka import KafkaResourceManager
from resource_managers.kafka_connection import KafkaConnection
from resource_managers.kafka_partitions import KafkaPartitions
from resource_managers.kafka_record_offsets import KafkaRecordOffsets

HISTORY = "history.duckdb"
GC_THRESHOLDS = (50_000, 20, 50)
SWITCH_INTERVAL_S = 0.001
"""A record that has arrived waits for the interpreter at most this long behind each busy thread (Python's default: 5 ms)."""
Running = Observer | Watch | ClusterName | AlertService | FollowUp
LOOK_LIMIT_S = 2.0
"""How long one look of the follow-up at one transaction retries transient answers."""
log = logging.getLogger("collector")


def run(arguments: Sequence[str]) -> int:
    """Run until SIGINT or SIGTERM; return the exit code: 2 for wrong settings, 1 for a history that cannot be opened."""
    request_log.configure()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        settings = collector_settings.read(arguments, os.environ)
        request_log.set_level(settings.tunable.log_level)
        connection = KafkaConnection.from_environment(os.environ, settings.bootstrap_servers)
        tokens = KnownTokens.given(settings.tokens) if settings.tokens else _kept_tokens(settings)
        if settings.tls is not None:
            tls.check(settings.tls)
        listening = _listen(settings.host, settings.port)
    except SettingsError as error:
        print(f"collector: {error}", file=sys.stderr)
        return 2
    try:
        store = Store(settings.directory / HISTORY)
    except StoreFailed as error:
        print(f"collector: {error}", file=sys.stderr)
        return 1
    with contextlib.closing(store):
        _serve(settings, connection, tokens, store, listening)
    return 0


def _serve(
    settings: Settings, connection: KafkaConnection, tokens: KnownTokens, store: Store, listening: socket.socket
) -> None:
    tunable = settings.tunable
    limits = Limits(commit_overdue_ms=tunable.commit_overdue_ms, driver_silent_ms=tunable.driver_silent_ms)
    current = CurrentState(
        store, settled_kept=tunable.settled_kept, checkpoints_kept=tunable.checkpoints_kept, limits=limits
    )
    broker = KafkaResourceManager(connection, decisions_topic=tunable.decision_topic)
    partitions = Partitions(current, connection, Pace.of(tunable), tunable.decision_topic, tunable.retry_most_ms)
    observers: list[Observer] = []

    def running() -> list[Running]:
        kept = retention.Limits(days=tunable.history_days, megabytes=tunable.history_megabytes)
        store.keep_up(Upkeep(kept, functools.partial(undone.causes, current), now_ms))
        store.keep_up(GiveBack())
        # Not before history is loaded: each observer asks it how far its source was read.
        observers.extend([*_observers(settings, connection, current, store, broker), partitions])
        observers.extend(database_observers(current, store, settings.databases, databases, tunable))
        return [cluster, *observers, watch, alerts, follow_up]

    changes, watch, cluster = Changes(), Watch(current, tunable.foreign_old_ms), ClusterName(connection)
    current.listen(changes.tell)
    decision_log = DecisionLog(connection, tunable.decision_topic)
    databases = managers(settings.databases)
    actors = Actors(
        {broker.name: KafkaActor(broker), **database_actor.actors(databases, tunable.database_answer_ms / 1000)}
    )
    hanging = HangingOrders(
        lambda: partitions.picture, current, broker, KafkaPartitions(connection, tunable.decision_topic)
    )
    pipelines = PipelineOrders(
        current,
        connection,
        DecisionLog(connection, tunable.decision_topic),
        tunable.pipeline_order_topic,
        limit_ms=tunable.pipeline_order_limit_ms,
    )
    more_looks = {**hanging.by_kind(), KIND: pipelines.look}
    follow_up = _follow_up(settings, connection, current, store, actors, more_looks)
    actions = Actions(
        current,
        store,
        actors,
        decision_log,
        pipelines,
        follow_up,
        hanging,
        read_only=settings.read_only,
        limit_ms=tunable.order_limit_ms,
    )
    ready = threading.Event()
    served = Served(
        current=current,
        store=store,
        actions=actions,
        watch=watch,
        changes=changes,
        tokens=tokens,
        read_only=settings.read_only,
        bootstrap_servers=settings.bootstrap_servers,
        foreign_old_ms=tunable.foreign_old_ms,
        foreign_recovery_ms=tunable.alert_foreign_recovery_ms,
        is_ready=ready.is_set,
        cluster=lambda: cluster.name,
        observers=lambda: [observer.status for observer in observers if observer.is_listed],
        limits=RequestLimits(
            requests_per_second=tunable.requests_per_second,
            orders_per_minute=tunable.orders_per_minute,
            failed_authentications_per_minute=tunable.failed_authentications_per_minute,
        ),
        body_bytes_most=tunable.body_bytes_most,
        partitions=lambda: partitions.picture,
    )
    alerts = AlertService(current, store, served.observers, tunable, settings.receivers, served.partitions)
    app = application(served)
    backup_api.serve(app, served)
    alert_api.serve(app, served, alerts, tunable.metrics_access, tunable.metrics_pipelines)
    server = _Server(http_server.config(app, settings.tls, settings.trusted_proxies), changes)
    with _loading(current, ready, running):
        host, port = listening.getsockname()[:2]
        print(f"{'https' if settings.tls else 'http'}://{host}:{port}", flush=True)
        server.run(sockets=[listening])


@contextlib.contextmanager
def _loading(current: CurrentState, ready: threading.Event, running: Callable[[], list[Running]]) -> Iterator[None]:
    """Load history while the API already answers health, then start whatever looks; stop all of it at the end."""
    started: list[Running] = []
    stopping = threading.Event()

    def load() -> None:
        try:
            current.load()
        except Exception:
            log.exception("history could not be loaded: the collector stays unready")
            return
        # What stands in memory now stays: the collector of garbage need not look through it, nor at each 700 new objects.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        for one in running():
            if stopping.is_set():
                return
            one.start()
            started.append(one)
        ready.set()

    loader = threading.Thread(target=load, name="load history")
    loader.start()
    try:
        yield
    finally:
        stopping.set()
        loader.join()
        # What judges ends before what it judges: an observer that was stopped is not down.
        for one in reversed(started):
            one.stop()


def _observers(
    settings: Settings, connection: KafkaConnection, current: CurrentState, store: Store, broker: KafkaResourceManager
) -> list[Observer]:
    tunable, retry_most_ms = settings.tunable, settings.tunable.retry_most_ms
    found: list[Observer] = [
        LifecycleTopic(current, store, connection, tunable.lifecycle_topic, retry_most_ms),
        DecisionTopic(current, store, connection, tunable.decision_topic, retry_most_ms),
    ]
    needed: threading.Event | None = None
    if tunable.transaction_source is not TransactionSource.POLLING:
        transaction_log = TransactionLog(current, store, connection, retry_most_ms)
        found.append(transaction_log)
        needed = transaction_log.denied
    if tunable.transaction_source is not TransactionSource.LOG:
        interval_ms = tunable.transaction_polling_ms
        found.append(
            TransactionPolling(
                current, store, broker, interval_ms=interval_ms, retry_most_ms=retry_most_ms, needed=needed
            )
        )
    # What needs libraries of its own is imported where it is wanted.
    if settings.checkpoints:
        from collector.observers.spark_checkpoint import SparkCheckpoint
    for name, location in settings.checkpoints.items():
        is_local = location.startswith("file://") or "://" not in location
        interval_ms = tunable.checkpoint_polling_ms if is_local else tunable.remote_checkpoint_polling_ms
        found.append(
            SparkCheckpoint(current, store, name, location, interval_ms=interval_ms, retry_most_ms=retry_most_ms)
        )
    record_offsets, interval_ms = KafkaRecordOffsets(connection), tunable.offsets_polling_ms
    found.append(AbortedOffsets(current, store, record_offsets, interval_ms=interval_ms, retry_most_ms=retry_most_ms))
    if settings.flink:
        from collector.observers.flink_rest import FlinkRest
    for name, url in settings.flink.items():
        interval_ms = tunable.flink_polling_ms
        found.append(FlinkRest(current, store, name, url, interval_ms=interval_ms, retry_most_ms=retry_most_ms))
    return found


def _follow_up(
    settings: Settings,
    connection: KafkaConnection,
    current: CurrentState,
    store: Store,
    actors: Actors,
    more_looks: Mapping[str, Look],
) -> FollowUp:
    tunable = settings.tunable
    # A decision log of its own: its thread looks while orders are given.
    decision_log = DecisionLog(connection, tunable.decision_topic)
    reach = Reach(current=current, actors=actors, log=decision_log, limit_s=LOOK_LIMIT_S)
    looks = TransactionLooks(reach, read_only=settings.read_only)
    return FollowUp(
        current,
        OrderHistory(store),
        {**looks.by_kind(), **more_looks},
        pause_ms=tunable.follow_up_pause_ms,
        most_ms=tunable.follow_up_most_ms,
    )


def _kept_tokens(settings: Settings) -> KnownTokens:
    _, clear_files = token_file.read_or_make(settings.directory)
    for path in clear_files:
        print(f"token: {path} (keep it elsewhere and delete the file: the collector needs its hash alone)", flush=True)
    return KnownTokens.of_file(settings.directory / token_file.FILE_NAME)


def _listen(host: str, port: int) -> socket.socket:
    """Take the API's port first: a port that is taken is said before anything else is touched."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off (40 ms per answer) only where the protocol is named.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise SettingsError(
            f"--host {host} --port {port} cannot be listened on: {error.strerror}; give another"
        ) from None
    return listening


class _Server(uvicorn.Server):
    """A server that SIGINT and SIGTERM end in order.

    uvicorn would raise the signal again once it has stopped, which kills the process before history is closed.
    """

    def __init__(self, config: uvicorn.Config, changes: Changes) -> None:
        super().__init__(config)
        self._changes = changes

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at the first signal: end the streams of changes, which would keep the server from stopping, then the server."""

        def stop(number: int, frame: FrameType | None) -> None:
            self._changes.close()
            self.should_exit = True

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
