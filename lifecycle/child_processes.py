"""Child processes that never outlive the process that started them."""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent dies (a preexec_fn; prctl(2) PR_SET_PDEATHSIG).

    The kernel means the parent's *thread*: start such children from a thread that lives as long as they should.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
