"""The supervisor: keeps a driver running, with a fixed delay between restarts, as Flink's fixed-delay strategy does."""

from __future__ import annotations

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
from pathlib import Path

from lifecycle.events import EventType
from lifecycle.pipeline_orders import PipelineAction, PipelineOrder, Run
from pipeline.connections import connect
from pipeline.event_sender import EventSender
from pipeline.exit_codes import OVERTAKEN, STOPPED, WRONG_SETTINGS
from pipeline.order_watch import OrderWatch
from pipeline.settings import ROOT, PipelineSettings
from pipeline.status_file import StatusFile

log = logging.getLogger("pipeline")

STOP_LIMIT_S = 60.0
EVENT_LIMIT_S = 5.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None, use_errno=True)

HEALTHY_AFTER_S = 60.0
"""A driver that ran this long ends a row of failures: the count of restarts begins anew."""


class Supervisor:
    """Starts drivers, one after the other; a frozen or dead one leaves no process behind."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._settings = settings
        self._stop = threading.Event()
        self._status = StatusFile(settings.status_file)
        self._restarts = 0
        self._in_a_row = 0
        self._orders = OrderWatch(connect(settings), settings.orders_topic, settings.prefix)
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
        # Orphans of a dead driver (Spark's Python workers) become our children, so that they can be ended too.
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        while True:
            self._status.update(state="starting", supervisor_pid=os.getpid(), restarts=self._restarts)
            started = time.monotonic()
            code, order = self._run_driver()
            if time.monotonic() - started > HEALTHY_AFTER_S:
                self._in_a_row = 0
            if order is None:
                if self._stop.is_set() or code in (STOPPED, WRONG_SETTINGS, OVERTAKEN):
                    self._status.update(state="stopped", exit_code=code)
                    return code
                if self._in_a_row >= self._settings.restart_attempts:
                    log.error("gave up after %d restarts in a row; the checkpoint is kept", self._in_a_row)
                    self._status.update(state="failed", exit_code=code)
                    return code
                self._in_a_row += 1
                self._restarts += 1
                self._tell_restart(code)
                order = self._pause(self._settings.restart_delay_ms / 1000)
                if self._stop.is_set():
                    self._status.update(state="stopped", exit_code=code)
                    return code
            else:
                self._in_a_row = 0
                self._restarts += order.action is PipelineAction.RESTART
            if order is not None:
                self._tell_ordered(order)
                if order.action is PipelineAction.STOP:
                    self._status.update(state="stopped", exit_code=STOPPED)
                    return STOPPED

    def _run_driver(self) -> tuple[int, PipelineOrder | None]:
        """Run one driver to its end; return its exit code, and the order that ended it if there was one."""
        self._run_file.unlink(missing_ok=True)
        try:
            self._scratch.mkdir(exist_ok=True)
        except OSError as error:
            # A full disk, say: the driver's temporary files are then where they are by default.
            log.warning("no directory for the driver's temporary files: %s", error)
        command = [sys.executable, "-m", "pipeline", "driver", "--settings", self._settings.to_json()]
        command += ["--run-file", str(self._run_file)]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={"SPARK_LOCAL_DIRS": str(self._scratch)} | os.environ | {"TMPDIR": str(self._scratch)},
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            preexec_fn=_die_with_supervisor,
        )
        order: PipelineOrder | None = None
        try:
            while process.poll() is None:
                stopping = self._stop.wait(0.1)
                order = None if stopping else self._next_order()
                if stopping or order is not None:
                    _end(process)
            return process.returncode, order
        finally:
            _end_children()
            # A driver that was killed, and its JVM, leave all their temporary files.
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _next_order(self) -> PipelineOrder | None:
        """Return the next order that is meant for the present run; orders wait until the driver has told which one it is."""
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

    def _tell_restart(self, code: int) -> None:
        delay_s = self._settings.restart_delay_ms / 1000
        reason = f"driver ended by {signal.Signals(-code).name}" if code < 0 else f"driver ended with code {code}"
        log.error("%s: restart %d in %.0f s", reason, self._restarts, delay_s)
        self._sender(None).pipeline(
            EventType.PIPELINE_RESTARTING, self._settings.job, restart=self._restarts, reason=reason, delay_s=delay_s
        )

    def _tell_ordered(self, order: PipelineOrder) -> None:
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
        life, attempt = ("", -1) if run is None else (run.life, run.attempt)
        topic = self._settings.lifecycle_topic
        return EventSender(connect(self._settings), topic, pipeline=self._settings.prefix, life=life, attempt=attempt)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a driver in order; one that stands still (SIGSTOP) or does not end in time, by force."""
    process.terminate()
    deadline = time.monotonic() + STOP_LIMIT_S
    while time.monotonic() < deadline and not _stands_still(process.pid):
        try:
            process.wait(0.1)
            return
        except subprocess.TimeoutExpired:
            continue
    log.error("the driver stands still or did not stop in %.0f s: killed", STOP_LIMIT_S)
    process.kill()
    process.wait()


def _stands_still(pid: int) -> bool:
    """Say whether a process was stopped by a signal: it would not even hear that it shall end."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in ("T", "t")


def _die_with_supervisor() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_children() -> None:
    """Kill what a driver left: its JVM, and Python workers, frozen ones too; they are all our children now."""
    deadline = time.monotonic() + STOP_LIMIT_S
    while children := _children():
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
        if time.monotonic() > deadline:
            log.error("processes of the last driver did not end: %s", children)
            return


def _children() -> list[int]:
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split()]
