"""``python -m benchmarks.growth.named_threads ARGUMENTS``: the collector, whose threads have their names in /proc as well.

So the processor time of each thread can be read from outside. Python before 3.14 does not tell the kernel a thread's name.
"""

from __future__ import annotations

import ctypes
import runpy
import threading

PR_SET_NAME = 15


def name_threads() -> None:
    """Have every thread that Python starts from now on tell the kernel its name, of which that keeps 15 bytes."""
    prctl, run = ctypes.CDLL(None).prctl, threading.Thread.run

    def named(self: threading.Thread) -> None:
        prctl(PR_SET_NAME, self.name.encode())
        run(self)

    setattr(threading.Thread, run.__name__, named)


if __name__ == "__main__":
    name_threads()
    runpy.run_module("indoubt.collector", run_name="__main__", alter_sys=True)
