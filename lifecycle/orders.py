"""What may be ordered, and by whom: the words that the collector's API and those who ask it share."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

PIPELINE_KEY = "pipeline:"
"""What a pipeline's key begins with; its prefix follows."""
HANGING_KEY = "hanging:"
"""What the key of a hanging transaction begins with."""


class Action(Enum):
    """What an operator may order; the value is the API's word."""

    COMMIT = "commit"
    ABORT = "abort"
    SETTLE = "settle"
    """Of a batch as a whole: commit all that its decision lists, or abort all of an undecided one."""
    RESTART = "restart"
    """Of a pipeline: end its driver in order, start the next run."""
    START = "start"
    """Of a pipeline that does not run: start it, by the command that its collector was given for that."""
    STOP = "stop"
    """Of a pipeline: end its driver in order, and its supervisor."""

    @property
    def is_of_pipeline(self) -> bool:
        """True for orders about a pipeline, not about transactions."""
        return self in (Action.RESTART, Action.START, Action.STOP)


class Role(Enum):
    """What a caller may do; the value is what the API says."""

    VIEWER = "viewer"
    OPERATOR = "operator"


def common_beginning(texts: Sequence[str]) -> str:
    """Return what all of these begin with, empty without any: what an order about several of them must repeat."""
    if not texts:
        return ""
    # What the first and the last in order have in common, all between them have.
    first, last = min(texts), max(texts)
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:same]
