"""Whether a process has a terminal: SIGHUP then also says that its window was closed."""

from __future__ import annotations

import os


def has_terminal() -> bool:
    """Return whether there is a terminal that this process was started in."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
