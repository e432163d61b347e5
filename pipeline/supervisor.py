"""The supervisor: keeps a driver running, with a fixed delay between restarts, as Flink's fixed-delay strategy does."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from lifecycle.events import EventType
from pipeline.driver import OVERTAKEN, STOPPED, WRONG_SETTINGS, connect
from pipeline.event_sender import EventSender
from pipeline.settings import ROOT, PipelineSettings
from pipeline.status_file import StatusFile

log = logging.getLogger("pipeline")

STOP_LIMIT_S = 60.0
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

    def run(self) -> int:
        """Run until asked to stop, or until restarts are used up; return the exit code of the last driver."""
        # Orphans of a dead driver (Spark's Python workers) become our children, so that they can be ended too.
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        while True:
            self._status.update(state="starting", supervisor_pid=os.getpid(), restarts=self._restarts)
            started = time.monotonic()
            code = self._run_driver()
            if time.monotonic() - started > HEALTHY_AFTER_S:
                self._in_a_row = 0
            if self._stop.is_set() or code in (STOPPED, WRONG_SETTINGS, OVERTAKEN):
                self._status.update(state="stopped", exit_code=code)
                return code
            if self._in_a_row >= self._settings.restart_attempts:
                log.error("gave up after %d restarts in a row; the checkpoint is kept", self._in_a_row)
                self._status.update(state="failed", exit_code=code)
                return code
            self._restarts += 1
            self._in_a_row += 1
            self._tell_restart(code)
            self._status.update(state="restarting", restarts=self._restarts)
            if self._stop.wait(self._settings.restart_delay_ms / 1000):
                self._status.update(state="stopped", exit_code=code)
                return code

    def _run_driver(self) -> int:
        command = [sys.executable, "-m", "pipeline", "driver", "--settings", self._settings.to_json()]
        process = subprocess.Popen(
            command, cwd=ROOT, start_new_session=True, stdin=subprocess.DEVNULL, preexec_fn=_die_with_supervisor
        )
        try:
            while process.poll() is None:
                if self._stop.wait(0.1):
                    process.terminate()
                    try:
                        process.wait(STOP_LIMIT_S)
                    except subprocess.TimeoutExpired:
                        log.error("the driver did not stop in %.0f s: killed", STOP_LIMIT_S)
                        process.kill()
                        process.wait()
            return process.returncode
        finally:
            _end_children()

    def _tell_restart(self, code: int) -> None:
        delay_s = self._settings.restart_delay_ms / 1000
        reason = f"driver ended by {signal.Signals(-code).name}" if code < 0 else f"driver ended with code {code}"
        log.error("%s: restart %d in %.0f s", reason, self._restarts, delay_s)
        events = EventSender(
            connect(self._settings), self._settings.lifecycle_topic, pipeline=self._settings.prefix, life="", attempt=-1
        )
        events.pipeline(
            EventType.PIPELINE_RESTARTING, self._settings.job, restart=self._restarts, reason=reason, delay_s=delay_s
        )


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
