"""Signals at random times under traffic: any process of the pipeline, any server, killed or frozen for a while."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import TracebackType

from indoubt.lifecycle.child_processes import with_descendants
from tests.crash.processes import Part, send
from tests.crash.run import Run
from tests.crash.schedule import Hit, Strike
from tests.crash.server_faults import Server
from tests.crash.steps import REACH_LIMIT_S, let_pass

PRODUCE_EVERY_S = 0.25
PRODUCE_AT_ONCE = 8
END_LIMIT_S = 90.0


class Traffic:
    """Produces a few records repeatedly while its context is open, so that there is always a batch to hit."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._produce, name=f"traffic-{run.source}", daemon=True)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(END_LIMIT_S)
        if error is None and self._failure is not None:
            raise self._failure

    def _produce(self) -> None:
        try:
            while not self._stop.wait(PRODUCE_EVERY_S):
                self._run.workload.produce(PRODUCE_AT_ONCE)
        except BaseException as failure:
            self._failure = failure


def random_process(run: Run, planned: Strike, part: Part) -> None:
    """Kill or freeze this process of the pipeline at random times; a process that has not started is hit at its start."""
    run.workload.produce(planned.records)
    with Traffic(run):
        for hit in planned.hits:
            let_pass(run, hit.after_s)
            pid = _hit(run, part, hit)
            if not hit.kills:
                let_pass(run, hit.for_s)
                send(signal.SIGCONT, [pid])
            elif part is Part.SUPERVISOR:
                # A service manager starts the next supervisor at once, whatever the last one left running.
                run.take_over(run.start_another())


def _hit(run: Run, part: Part, hit: Hit) -> int:
    """Send the signal to a process of this role; return its id."""
    number = signal.SIGKILL if hit.kills else signal.SIGSTOP

    def struck() -> int | None:
        pids = run.pipeline.pids_of(part)
        pid = run.dice.choice(pids) if pids else None
        # A process that ended in the meantime was not hit.
        return pid if pid is not None and send(number, [pid]) else None

    pid: int = run.wait_until(f"a {part.value} to hit", struck, REACH_LIMIT_S)
    run.signals[f"{number.name} {part.value}"] += 1
    return pid


def random_broker(run: Run, planned: Strike) -> None:
    """Kill or freeze the broker, or one of two, at random times; the next hit may come before recovery from the last."""
    brokers = run.servers.brokers
    _hit_servers(run, planned, "broker", lambda hit: brokers[hit.which % len(brokers)])
    run.servers.await_broker()


def random_database(run: Run, planned: Strike) -> None:
    """Kill or freeze the database at random times."""
    database = run.servers.database
    assert database is not None
    _hit_servers(run, planned, "database", lambda _: database)


def _hit_servers(run: Run, planned: Strike, name: str, victim: Callable[[Hit], Server]) -> None:
    run.workload.produce(planned.records)
    with Traffic(run):
        for hit in planned.hits:
            let_pass(run, hit.after_s)
            server = victim(hit)
            if hit.kills:
                server.kill()
                let_pass(run, hit.for_s)
                server.start()
            else:
                assert server.pid is not None
                processes = with_descendants([server.pid])
                send(signal.SIGSTOP, processes)
                let_pass(run, hit.for_s)
                send(signal.SIGCONT, processes)
            run.signals[f"{'SIGKILL' if hit.kills else 'SIGSTOP'} {name}"] += 1
