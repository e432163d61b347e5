"""The guard: ends every process of a demo run once the demo itself has ended, even by kill -9.

The run's mark is an environment variable that every process of the run inherits. So the guard finds a frozen driver, its
JVM and its Python workers as well as direct children. ``python -m demo.guard MARK`` waits for the end of its standard
input, which the demo holds open while it runs. It reads /proc, so it works only on Linux; elsewhere it finds nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

MARK = "INDOUBT_DEMO_RUN"
LIMIT_S = 10.0


def marked(mark: str) -> list[int]:
    """Return the process ids of the run, without zombies and without this process, in no order."""
    variable = f"{MARK}={mark}".encode()
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(folder.name) != os.getpid() and variable in (folder / "environ").read_bytes().split(b"\0"):
                pids.append(int(folder.name))
    return pids


def end_marked(mark: str) -> list[int]:
    """End every process of the run by SIGKILL until none is left; return their ids. Raises TimeoutError after 10 s."""
    ended: list[int] = []
    deadline = time.monotonic() + LIMIT_S
    while pids := marked(mark):
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"processes {pids} of the demo still run {LIMIT_S:.0f} s after SIGKILL: end them by hand"
            )
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended += [pid for pid in pids if pid not in ended]
        time.sleep(0.05)
    return ended


def main() -> int:
    """Wait for the demo's end, then end the processes that it left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end_marked(sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
