"""A pipeline whose processes are found by their mark, so that tests can kill, freeze and wake all of them or each of them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from indoubt.pipeline.config.settings import CRASH_POINTS_VARIABLE
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.pipeline_process import PipelineProcess, wait_until

EXECUTOR_OF = "INDOUBT_EXECUTOR_OF"
"""Environment variable of executors on a cluster: a kill of the driver leaves them to notice it, as on machines of their own."""
END_LIMIT_S = 30.0
STOP_LIMIT_S = 120.0


class Part(Enum):
    """A process of a pipeline by its role."""

    SUPERVISOR = "supervisor"
    DRIVER = "driver"
    JVM = "jvm"
    WORKER = "worker"
    """Spark's Python processes: the daemon, and the workers that it forks."""


class CrashPipeline(PipelineProcess):
    """A supervised pipeline; all of its processes inherit the name of its own crash point directory.

    ``signals`` counts the sent signals by signal and process.
    """

    def __init__(self, connection: KafkaConnection, directory: Path, signals: Counter[str], **settings: Any) -> None:
        super().__init__(connection, directory, **settings)
        self.signals = signals
        self._mark = f"{CRASH_POINTS_VARIABLE}={self.crash_points}".encode()
        self._mark_of_executors = f"{EXECUTOR_OF}={self.crash_points}".encode()
        if not self.settings.get("spark_master", "local").startswith("local"):
            marked = f"spark.executorEnv.{EXECUTOR_OF}={self.crash_points}"
            self.settings["spark_properties"] = f"{self.settings['spark_properties']},{marked}"

    def arm(self, point: str, deed: str) -> None:
        """Arm a crash point atomically, because a task may read the file at the same time."""
        self.forget(point)
        draft = self.crash_points / f".{point}"
        draft.write_text(deed)
        draft.rename(self.crash_points / point)

    def forget(self, point: str) -> None:
        """Disarm a point and forget that it was reached."""
        for name in (point, f"{point}.taken", f"{point}.reached"):
            (self.crash_points / name).unlink(missing_ok=True)

    @property
    def pids(self) -> list[int]:
        """Return all processes of this pipeline including the supervisor, without executors and zombies, in no order."""
        return _marked(self._mark)

    @property
    def executor_pids(self) -> list[int]:
        """Return the processes that run its tasks on the workers of a cluster, without zombies, in no order."""
        return _marked(self._mark_of_executors)

    def pids_of(self, part: Part) -> list[int]:
        """Return the processes with this role; a supervisor has at most one driver and one JVM."""
        return sorted(pid for pid in self.pids if _part_of(pid) is part)

    def wake(self) -> None:
        """Wake every frozen process."""
        send(signal.SIGCONT, [*self.pids, *self.executor_pids])

    def kill_driver(self) -> None:
        """End driver, JVM and Python workers by SIGKILL, frozen or not; the supervisor starts another."""
        self.signals["SIGKILL driver"] += 1
        send(signal.SIGKILL, [pid for pid in self.pids if pid != self.process.pid])

    def kill_all(self) -> None:
        """End every process by SIGKILL, the supervisor first, like a dying machine, and wait for their end."""
        self.signals["SIGKILL pipeline"] += 1
        send(signal.SIGKILL, [self.process.pid])
        self.process.wait(END_LIMIT_S)
        self._end_rest()

    def stop(self) -> None:
        """Stop in order, even if the driver is frozen; then end every remaining process by SIGKILL."""
        self.wake()
        super().stop()
        self._end_rest()

    def stop_in_order(self) -> None:
        """Ask the supervisor to stop and wait for it. Raises AssertionError if it does not stop, or stops with an error."""
        code = self.terminate()
        assert code == 0, f"stopped on request, the pipeline ended with code {code}"

    def terminate(self) -> int:
        """Ask the supervisor to stop, and return its exit code. Raises AssertionError if it does not stop."""
        self.signals["SIGTERM supervisor"] += 1
        self.process.terminate()
        wait_until("the pipeline's end after SIGTERM", lambda: self.process.poll() is not None, STOP_LIMIT_S)
        return int(self.process.returncode)

    def _end_rest(self) -> None:
        def ended() -> bool:
            pids = self.pids
            send(signal.SIGKILL, pids)
            # Executors end when their driver has.
            return not pids and not self.executor_pids

        wait_until(f"the end of what is left of {self.directory}", ended, END_LIMIT_S)


def _marked(mark: bytes) -> list[int]:
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                pids.append(int(folder.name))
    return pids


def send(number: signal.Signals, pids: Iterable[int]) -> int:
    """Send a signal to each of these processes; return how many of them existed."""
    reached = 0
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            reached += 1
    return reached


def _part_of(pid: int) -> Part | None:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    if words[0].endswith("/java"):
        return Part.JVM
    named = {"run": Part.SUPERVISOR, "driver": Part.DRIVER}
    if words[1:3] == ["-m", "indoubt.pipeline"] and len(words) > 3:
        return named.get(words[3])
    # Spark's start script is replaced by the JVM, so the script itself has no role.
    return Part.WORKER if "python" in Path(words[0]).name else None
