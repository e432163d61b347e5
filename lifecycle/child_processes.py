"""Child processes: ones that never outlive the process that started them, and all that a process started."""

from __future__ import annotations

import contextlib
import ctypes
import signal
from collections.abc import Iterable
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent dies (a preexec_fn; prctl(2) PR_SET_PDEATHSIG).

    The kernel means the parent's *thread*: start such children from a thread that lives as long as they should.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def with_descendants(pids: Iterable[int]) -> list[int]:
    """Return these processes and all that they started, each once, parents first (Linux: /proc)."""
    found = list(dict.fromkeys(pids))
    for pid in found:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            # A process may end while it is looked at.
            with contextlib.suppress(OSError):
                found += [child for child in map(int, children.read_text().split()) if child not in found]
    return found
