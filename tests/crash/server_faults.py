"""Faults of servers at a step of the protocol: a broker that restarts or stays away, one of two brokers, a database."""

from __future__ import annotations

from typing import Any, Protocol

from demo.object_store import UNAVAILABLE
from tests.crash.run import Run
from tests.crash.schedule import Strike
from tests.crash.steps import disturb, let_pass, reach_point

AWAY_S = 5.0
FILES_LATE_S = "1"
"""A commit of a file asks the store some ten times, one after another."""


class Server(Protocol):
    """A broker or a database that can end and start again on the same data."""

    @property
    def pid(self) -> int | None: ...
    def start(self) -> Any: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...


def broker_restart(run: Run, planned: Strike) -> None:
    """Stop (hard: SIGKILL) the broker at the point and start it on the same data; then the driver continues."""
    reach_point(run, planned, "freeze", planned.point)
    _restart_broker(run, planned)


def broker_away(run: Run, planned: Strike) -> None:
    """The same, and the broker stays away for longer than the transaction timeout."""
    reach_point(run, planned, "freeze", planned.point)
    _restart_broker(run, planned, away_s=run.schedule.timeout_ms / 1000 + 1)


def _restart_broker(run: Run, planned: Strike, away_s: float = 0) -> None:
    (broker,) = run.servers.brokers
    _end(run, broker, "broker", planned.hard)
    if away_s:
        let_pass(run, away_s)
    broker.start()
    run.servers.await_broker()
    run.pipeline.wake()


def broker_of_two_lost(run: Run, planned: Strike) -> None:
    """Stop (hard: SIGKILL) one of two brokers at the point; the pipeline continues with the other. Then the reverse.

    If a record must be on both brokers, the pipeline cannot continue before the broker is back, so it is away only for seconds.
    """
    cluster = run.servers.cluster
    assert cluster is not None
    first = planned.records % 2
    for broker in (cluster.brokers[first], cluster.brokers[1 - first]):
        reach_point(run, planned, "freeze", planned.point)
        _end(run, broker, "broker", planned.hard)
        if run.schedule.min_isr == 1:
            cluster.await_led_by_others(run.servers.admin, broker)
        run.pipeline.wake()
        if run.schedule.min_isr == 1:
            run.settle("the loss of one of two brokers")
        else:
            let_pass(run, AWAY_S)
        broker.start()
        run.servers.await_broker()
        run.settle("the return of one of two brokers")


def database_restart(run: Run, planned: Strike) -> None:
    """Stop (hard: SIGKILL) the database between prepare and commit and start it on the same data; the driver continues."""
    reach_point(run, planned, "freeze", planned.point)
    database = run.servers.database
    assert database is not None
    _end(run, database, "database", planned.hard)
    database.start()
    run.pipeline.wake()


def files_unavailable(run: Run, planned: Strike) -> None:
    """The store of the files answers 503 for some seconds (hard: for longer than its client tries)."""
    assert run.servers.store is not None
    disturb(run, planned, run.servers.store, UNAVAILABLE)


def files_late(run: Run, planned: Strike) -> None:
    """Each answer of the store comes seconds late."""
    assert run.servers.store is not None
    disturb(run, planned, run.servers.store, FILES_LATE_S)


def _end(run: Run, server: Server, name: str, hard: bool) -> None:
    if hard:
        server.kill()
    else:
        server.stop()
    run.signals[f"{'SIGKILL' if hard else 'SIGTERM'} {name}"] += 1
