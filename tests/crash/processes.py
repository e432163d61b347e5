"""A pipeline whose processes are found by their mark: killed whole, frozen or woken, and none left behind."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

from pipeline.settings import CRASH_POINTS_VARIABLE
from resource_managers.kafka_connection import KafkaConnection
from tests.integration.pipeline_process import PipelineProcess, wait_until

END_LIMIT_S = 30.0
STOP_LIMIT_S = 120.0


class CrashPipeline(PipelineProcess):
    """A supervised pipeline; every process of it inherits the name of its crash points' directory, which is its own."""

    def __init__(self, connection: KafkaConnection, directory: Path, **settings: Any) -> None:
        super().__init__(connection, directory, **settings)
        self._mark = f"{CRASH_POINTS_VARIABLE}={self.crash_points}".encode()

    def arm(self, point: str, deed: str) -> None:
        """Arm a crash point at once: a task that looks meanwhile must not read half of it."""
        self.forget(point)
        draft = self.crash_points / f".{point}"
        draft.write_text(deed)
        draft.rename(self.crash_points / point)

    def forget(self, point: str) -> None:
        """Disarm a point and forget that it was reached."""
        for name in (point, f"{point}.reached"):
            (self.crash_points / name).unlink(missing_ok=True)

    @property
    def pids(self) -> list[int]:
        """Return all processes of this pipeline, the supervisor too, in no order; zombies left out."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self._mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found

    def wake(self) -> None:
        """Let everything that stands still go on."""
        self._send(signal.SIGCONT, self.pids)

    def kill_driver(self) -> None:
        """End driver, JVM and Python workers by SIGKILL, frozen or not; the supervisor starts another."""
        self._send(signal.SIGKILL, [pid for pid in self.pids if pid != self.process.pid])

    def kill_all(self) -> None:
        """End every process by SIGKILL, the supervisor first, as when the machine dies; return when none is left."""
        self._send(signal.SIGKILL, [self.process.pid])
        self.process.wait(END_LIMIT_S)
        self._end_rest()

    def stop(self) -> None:
        """Stop in order, also when the driver stands still; whatever is left then ends by SIGKILL."""
        self.wake()
        super().stop()
        self._end_rest()

    def stop_in_order(self) -> None:
        """Ask the supervisor to stop, and wait until it did. Raises AssertionError when it does not, or with an error."""
        self.process.terminate()
        wait_until("the pipeline's end after SIGTERM", lambda: self.process.poll() is not None, STOP_LIMIT_S)
        code = self.process.returncode
        assert code == 0, f"stopped on request, the pipeline ended with code {code}"

    def _end_rest(self) -> None:
        def ended() -> bool:
            pids = self.pids
            self._send(signal.SIGKILL, pids)
            return not pids

        wait_until(f"the end of what is left of {self.directory}", ended, END_LIMIT_S)

    @staticmethod
    def _send(number: signal.Signals, pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
