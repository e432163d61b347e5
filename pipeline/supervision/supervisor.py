"""The supervisor: keeps a driver running, with a fixed delay between restarts, as Flink's fixed-delay strategy does."""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import psutil

from indoubt import pipeline
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.pipeline_orders import PipelineAction, PipelineOrder, Run
from indoubt.pipeline.config.settings import PipelineSettings
from indoubt.pipeline.config.sink_settings import connect
from indoubt.pipeline.runtime.event_sender import EventSender
from indoubt.pipeline.runtime.status_file import STOPPED, SUPERSEDED, WRONG_SETTINGS, StatusFile
from indoubt.pipeline.supervision.order_watch import OrderWatch

log = logging.getLogger(__name__)

STOP_LIMIT_S = 60.0
KILL_LIMIT_S = 10.0
"""How long the end of a killed process is waited for: one in an uninterruptible wait (a disk that is gone) ends much later."""
SWEEP_LIMIT_S = 20.0
EVENT_LIMIT_S = 5.0
LONGEST_STOP_S = STOP_LIMIT_S + KILL_LIMIT_S + KILL_LIMIT_S + SWEEP_LIMIT_S + KILL_LIMIT_S
"""Until a supervisor that was asked to stop has ended: driver, by force, its children, the sweep, by force."""
RUNS_KEPT = 1_000
"""Ids of drivers that are remembered, so that a sweep can tell their runs from others'."""

HEALTHY_AFTER_S = 60.0
"""A driver that ran this long ends a row of failures: the count of restarts starts over."""
CHECK_EVERY_S = 0.2
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


class Supervisor:
    """Starts drivers, one after the other; a frozen or dead one leaves no process behind."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._settings = settings
        self._stop = threading.Event()
        self._status = StatusFile(settings.status_file)
        self._restarts = 0
        self._in_a_row = 0
        self._orders = OrderWatch(connect(settings), settings.orders_topic, settings.prefix)
        self._runs: deque[str] = deque(maxlen=RUNS_KEPT)
        self._run_file = self._scratch = Path()

    def run(self) -> int:
        """Run until asked to stop, or until restarts are used up; return the exit code of the last driver."""
        with tempfile.TemporaryDirectory(prefix="indoubt-") as directory:
            self._run_file, self._scratch = Path(directory) / "run.json", Path(directory) / "driver"
            self._orders.start()
            try:
                return self._supervise()
            finally:
                self._orders.stop()

    def _supervise(self) -> int:
        adopt_orphans()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        while True:
            self._status.update(state="starting", supervisor_pid=os.getpid(), restarts=self._restarts)
            started = time.monotonic()
            code, order = self._run_driver()
            if time.monotonic() - started > HEALTHY_AFTER_S:
                self._in_a_row = 0
            if order is None:
                if self._stop.is_set() or code in (STOPPED, WRONG_SETTINGS, SUPERSEDED):
                    return self._end("stopped", code)
                if self._in_a_row >= self._settings.restart_attempts:
                    log.error("gave up after %d restarts in a row; the checkpoint is kept", self._in_a_row)
                    return self._end("failed", code)
                self._in_a_row += 1
                self._restarts += 1
                self._report_restart(code)
                order = self._pause(self._settings.restart_delay_ms / 1000)
                if self._stop.is_set():
                    return self._end("stopped", code)
            else:
                self._in_a_row = 0
                self._restarts += order.action is PipelineAction.RESTART
            if order is not None:
                if order.action is PipelineAction.STOP:
                    # First the sweep: an answer that it stopped means that nothing stays open.
                    self._end("stopped", STOPPED)
                    self._report_order(order)
                    return STOPPED
                self._report_order(order)

    def _end(self, state: str, code: int) -> int:
        """Sweep when no driver will come that does, and say how it ended; return the exit code."""
        if code != SUPERSEDED and self._runs:
            self._sweep()
        self._status.update(state=state, exit_code=code)
        return code

    def _sweep(self) -> None:
        """Roll back what the drivers left open, in a process of its own that may take no longer than its limit."""
        command = [sys.executable, "-m", pipeline.__name__, "sweep"]
        command += [part for run in self._runs for part in ("--run-id", run)]
        process = start_with_settings(command, self._settings)
        try:
            code: int | str = process.wait(SWEEP_LIMIT_S)
        except subprocess.TimeoutExpired:
            kill(process)
            code = f"no end in {SWEEP_LIMIT_S:.0f} s"
        if code:
            log.error(
                "the sweep after the last run failed (%s): transactions of %r may stay open until the next start; those of "
                "Kafka end at their timeout, those of a database only there",
                code,
                self._settings.prefix,
            )

    def _run_driver(self) -> tuple[int, PipelineOrder | None]:
        """Run one driver to its end; return its exit code, and the order that ended it if there was one."""
        self._run_file.unlink(missing_ok=True)
        try:
            self._scratch.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            # A full disk, say: the driver's temporary files are then where they are by default.
            log.warning("no directory for the driver's temporary files: %s", error)
        run = uuid4().hex
        self._runs.append(run)
        process = start_with_settings(
            driver_command(self._run_file, run),
            self._settings,
            env={"SPARK_LOCAL_DIRS": str(self._scratch)} | os.environ | {"TMPDIR": str(self._scratch)},
        )
        order: PipelineOrder | None = None
        try:
            while process.poll() is None:
                stopping = self._stop.wait(0.1)
                order = None if stopping else self._next_order()
                if stopping or order is not None:
                    _end(process)
                    break
            code = -signal.SIGKILL if process.returncode is None else process.returncode
            if code == WRONG_SETTINGS:
                # It opened nothing.
                self._runs.remove(run)
            return code, order
        finally:
            if left := end_children():
                log.error("processes of the last driver did not end in %.0f s: %s", KILL_LIMIT_S, left)
            # A driver that was killed, and its JVM, leave all their temporary files.
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _next_order(self) -> PipelineOrder | None:
        """Return the next order that is meant for the present run; orders wait until the driver has written which one it is."""
        if not self._orders.has_any() or not self._run_file.exists():
            return None
        return self._orders.take(Run(**json.loads(self._run_file.read_text())))

    def _pause(self, delay_s: float) -> PipelineOrder | None:
        """Wait before a restart; return at once when asked to stop, and with the order when one comes for the run that ended."""
        self._status.update(state="restarting", restarts=self._restarts)
        deadline = time.monotonic() + delay_s
        while time.monotonic() < deadline and not self._stop.wait(0.1):
            if (order := self._next_order()) is not None:
                return order
        return None

    def _report_restart(self, code: int) -> None:
        delay_s = self._settings.restart_delay_ms / 1000
        reason = f"driver ended by {signal.Signals(-code).name}" if code < 0 else f"driver ended with code {code}"
        log.error("%s: restart %d in %.0f s", reason, self._restarts, delay_s)
        self._sender(None).pipeline(
            EventType.PIPELINE_RESTARTING, self._settings.job, restart=self._restarts, reason=reason, delay_s=delay_s
        )

    def _report_order(self, order: PipelineOrder) -> None:
        """Answer an order that was carried out: the run that it names has ended."""
        reason = f"{order.action.value} ordered by {order.who}: {order.reason}"
        log.warning("run %d: %s (order %s)", order.run.attempt, reason, order.id)
        events = self._sender(order.run)
        if order.action is PipelineAction.STOP:
            events.pipeline(EventType.PIPELINE_STOPPED, self._settings.job, reason=reason, order=order.id)
            events.flush(EVENT_LIMIT_S)
            return
        self._status.update(state="restarting", restarts=self._restarts)
        events.pipeline(
            EventType.PIPELINE_RESTARTING,
            self._settings.job,
            restart=self._restarts,
            reason=reason,
            delay_s=0.0,
            order=order.id,
        )

    def _sender(self, run: Run | None) -> EventSender:
        checkpoint_id, attempt = ("", -1) if run is None else (run.checkpoint_id, run.attempt)
        topic = self._settings.lifecycle_topic
        return EventSender(
            connect(self._settings), topic, pipeline=self._settings.prefix, checkpoint_id=checkpoint_id, attempt=attempt
        )


def driver_command(run_file: Path, run: str) -> list[str]:
    """Return the command of one driver; ``run_file``: where it writes which run it is, ``run``: its id in the decision log."""
    return [sys.executable, "-m", pipeline.__name__, "driver", "--run-file", str(run_file), "--run-id", run]


def start_with_settings(
    command: Sequence[str], settings: PipelineSettings, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a process of this pipeline and give it the settings on its standard input.

    They may hold secrets, and every user of the machine can read a command line.
    """
    process = subprocess.Popen(
        command, env=env, start_new_session=True, stdin=subprocess.PIPE, preexec_fn=die_with_parent
    )
    assert process.stdin is not None
    # One that has died already is noticed by who waits for it.
    with contextlib.suppress(BrokenPipeError), process.stdin as out:
        out.write(settings.to_json().encode())
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a driver in order; one that stands still (SIGSTOP) or does not end in time, by force."""
    process.terminate()
    deadline = time.monotonic() + STOP_LIMIT_S
    while time.monotonic() < deadline and not stands_still(process.pid):
        try:
            process.wait(0.1)
            return
        except subprocess.TimeoutExpired:
            continue
    log.error("the driver stands still or did not stop in %.0f s: killed", STOP_LIMIT_S)
    if not kill(process):
        log.error("the driver (process %d) was killed and did not end in %.0f s", process.pid, KILL_LIMIT_S)


def adopt_orphans() -> None:
    """Have the orphans of a dead child (Spark's Python workers, say) become children of this process."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill(process: subprocess.Popen[bytes]) -> bool:
    """Kill a child; return whether its end was seen in time."""
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(KILL_LIMIT_S)
    return process.returncode is not None


def stands_still(pid: int) -> bool:
    """Say whether a process was stopped by a signal: it would not even hear that it shall end."""
    try:
        return bool(psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP))
    except psutil.Error:
        return False


def end_children() -> list[int]:
    """Kill every descendant of this process, frozen ones too, until none is left; return those that did not end in time.

    A process that starts others while it is looked at is no trouble: who is left is looked for again.
    """
    deadline = time.monotonic() + KILL_LIMIT_S
    while children := psutil.Process().children(recursive=True):
        if time.monotonic() > deadline:
            return [child.pid for child in children]
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(children, timeout=CHECK_EVERY_S)
    return []
