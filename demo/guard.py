"""The guard: ends every process of one demo run once the demo itself is gone, however it went (kill -9 too).

The run's mark is an environment variable that every process of the run inherits, so a driver that stands still, its JVM
and its Python workers are found as well as direct children. ``python -m demo.guard MARK`` waits for the end of its standard
input, which the demo holds open for as long as it lives. Linux only, by /proc; elsewhere it finds nothing.
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
    """Return the process ids of the run, zombies and this process left out, in no order."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(folder.name) != os.getpid() and wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def end_marked(mark: str) -> list[int]:
    """End every process of the run by SIGKILL, again until none is left; return the ids. Raises TimeoutError after 10 s."""
    ended: list[int] = []
    deadline = time.monotonic() + LIMIT_S
    while pids := marked(mark):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {pids} of the demo could not be ended in {LIMIT_S:.0f} s")
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended += [pid for pid in pids if pid not in ended]
        time.sleep(0.05)
    return ended


def main() -> int:
    """Wait for the demo's end, then end what it left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end_marked(sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
