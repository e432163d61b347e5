"""SIGHUP: the settings are to be read again. It may come before the settings were read once; then it is heard later."""

from __future__ import annotations

import os
import signal
from queue import SimpleQueue

from indoubt.lifecycle.terminal import has_terminal

READ_AGAIN = "read the settings again"


def listen() -> SimpleQueue[object]:
    """Return a queue in which each SIGHUP from now on is a READ_AGAIN. Where it says that the terminal is gone, it is SIGTERM.

    Where SIGHUP was ignored (nohup), it never ends the process.
    """
    heard: SimpleQueue[object] = SimpleQueue()
    had_terminal = has_terminal() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN

    def hear(*_: object) -> None:
        if had_terminal and not has_terminal():
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            # A queue's put may interrupt another put of the same thread; an event's set may not.
            heard.put(READ_AGAIN)

    signal.signal(signal.SIGHUP, hear)
    return heard
