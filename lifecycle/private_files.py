"""What a process writes is for its own user: its history, its logs, and the copies of both."""

from __future__ import annotations

import os

_OWNER_ONLY = 0o077
_given: list[int] = []


def close_to_others() -> None:
    """Let nobody else read or write the files that this process makes from now on, and those of programs that it starts."""
    _given.append(os.umask(_OWNER_ONLY))


def given_umask() -> int:
    """Return the umask with which this process was started: -1, which changes nothing, unless it was changed."""
    return _given[0] if _given else -1
