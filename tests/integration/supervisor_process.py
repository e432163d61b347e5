"""The real supervisor as a process, over a driver that does all but Spark: it recovers, prepares one batch and commits it.

``python -m tests.integration.supervisor_process`` takes the settings as JSON on standard input; the driver stops for good where a
crash point is armed. One that has committed stays until it is asked to stop.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.lifecycle.events import EventType
from indoubt.pipeline.config.settings import CRASH_POINTS_VARIABLE, ROOT, PipelineSettings, crash_points_directory
from indoubt.pipeline.config.sink_settings import connect, connect_databases
from indoubt.pipeline.recovery.recovery import Recovered, Recovery
from indoubt.pipeline.runtime.crash_points import CrashPoints
from indoubt.pipeline.runtime.event_sender import EventSender
from indoubt.pipeline.runtime.status_file import STOPPED, StatusFile
from indoubt.pipeline.sink.coordinator import Coordinator
from indoubt.pipeline.sink.slot_writer import SlotWriter
from indoubt.pipeline.supervision import supervisor
from tests.integration.pipeline_process import wait_until
from tests.integration.protocol_run import COLUMNS, ProtocolSinks, rows, spark_checkpoint

SLOTS = 2
LIMIT_S = 60.0
ASKED_TO_STOP = {signal.SIGTERM, signal.SIGINT}


class SupervisorProcess:
    """A context manager that leaves no process behind; ``point``: where the driver does ``deed``."""

    def __init__(self, sinks: ProtocolSinks, directory: Path, point: str, deed: str, **changes: Any) -> None:
        points = directory / "crash-points"
        points.mkdir()
        (points / point).write_text(deed)
        self._reached = points / f"{point}.reached"
        self.log_file = directory / "supervisor.log"
        settings = sinks.pipeline_settings(status_file=str(directory / "status.json"), **changes)
        self._settings = settings
        self._environment = {**os.environ, CRASH_POINTS_VARIABLE: str(points)}

    def __enter__(self) -> SupervisorProcess:
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        assert self._process.stdin is not None
        with self._process.stdin as settings_in:
            settings_in.write(self._settings.to_json().encode())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(LIMIT_S)
        if error is not None:
            error.add_note(f"the supervisor's log ends:\n{self.log[-3000:]}")

    @property
    def log(self) -> str:
        """Return everything that supervisor and driver said."""
        return self.log_file.read_text(errors="replace")

    def wait_until_struck(self) -> None:
        """Wait until the driver came to its crash point."""
        wait_until(f"{self._reached.name}", self._reached.exists, LIMIT_S)

    def terminate(self) -> None:
        """Ask the supervisor to stop."""
        self._process.terminate()

    def wait_exit(self) -> int:
        """Return the supervisor's exit code."""
        return self._process.wait(LIMIT_S)


def supervise(settings: PipelineSettings) -> int:
    """Run the supervisor with this module's driver."""
    supervisor.driver_command = lambda run_file, run: [sys.executable, "-m", __spec__.name, str(run_file), run]
    return supervisor.Supervisor(settings).run()


def drive(settings: PipelineSettings, run_file: str, run: str) -> int:
    """Recover, prepare every slot of batch 0 and commit it, as driver, tasks and commit worker do in turn."""
    # Whoever asks it to stop meanwhile is heard when it waits for that.
    signal.pthread_sigmask(signal.SIG_BLOCK, ASKED_TO_STOP)
    steps = CrashPoints(directory=crash_points_directory())
    recovery = Recovery(settings, connect(settings), connect_databases(settings), steps)
    recovery.verify(COLUMNS)
    recovered = recovery.recover(run)
    StatusFile(run_file).update(
        prefix=settings.prefix, checkpoint_id=recovered.identity.checkpoint_id, attempt=recovered.attempt
    )
    _report_start(settings, recovered)
    options = dataclasses.replace(
        recovery.options(recovered), crash_points=crash_points_directory(), driver_pids=str(os.getpid())
    )
    spark_checkpoint(Path(settings.checkpoint), planned=0, committed=-1)
    written = [SlotWriter(options, slot=slot, batch=0).write(iter([rows(b"%d" % slot)])) for slot in range(SLOTS)]
    Coordinator(options).commit(written, 0)
    signal.sigwait(ASKED_TO_STOP)
    return STOPPED


def _report_start(settings: PipelineSettings, recovered: Recovered) -> None:
    run = {"checkpoint_id": recovered.identity.checkpoint_id, "attempt": recovered.attempt}
    events = EventSender(connect(settings), settings.lifecycle_topic, pipeline=settings.prefix, **run)
    names = ("restart_delay_ms", "transaction_timeout_ms", "sink")
    events.pipeline(
        EventType.PIPELINE_STARTED, settings.job, settings={name: getattr(settings, name) for name in names}
    )


if __name__ == "__main__":
    given = PipelineSettings.read(json.load(sys.stdin))
    sys.exit(drive(given, *sys.argv[1:]) if len(sys.argv) > 1 else supervise(given))
