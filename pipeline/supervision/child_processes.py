"""The processes that a supervisor started, and what these started: found, ended, and never waited for without a limit."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
import time

import psutil

KILL_LIMIT_S = 10.0
"""How long the end of a killed process is waited for: one in an uninterruptible wait (a disk that is gone) ends much later."""
CHECK_EVERY_S = 0.2
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Have the orphans of a dead child (Spark's Python workers, say) become children of this process."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Have Linux kill this process when its parent dies; for ``preexec_fn``."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


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
