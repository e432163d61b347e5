"""The faults that the demo can cause: what each is called, what it does, and how it is done."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Fault(Enum):
    """A way to hurt the pipeline or its topic; the value is what the command line takes."""

    NONE = "none"
    CRASH_AFTER_PREPARE = "crash-after-prepare"
    CRASH_AFTER_DECISION = "crash-after-decision"
    CRASH_MID_COMMIT = "crash-mid-commit"
    FREEZE_AFTER_DECISION = "freeze-after-decision"
    ABANDONED_PRODUCER = "abandoned-producer"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPoint:
    """Where in its commit the driver is hit: the pipeline's name of the point, and ``kill`` (SIGKILL) or ``freeze`` (SIGSTOP)."""

    point: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a newcomer reads before pressing the button. ``crash_point`` is None for a fault outside the pipeline."""

    title: str
    what_happens: str
    crash_point: CrashPoint | None = None


DESCRIPTIONS: dict[Fault, Description] = {
    Fault.FREEZE_AFTER_DECISION: Description(
        title="Freeze the driver after its decision",
        what_happens="The Spark driver stands still just after it decided to commit a batch. Its transactions stay in doubt, "
        "readers wait, and in 60 s the broker aborts them. You can commit them by hand, then restart it (page Pipelines).",
        crash_point=CrashPoint(point="after-decision", how="freeze"),
    ),
    Fault.ABANDONED_PRODUCER: Description(
        title="Abandon a foreign transaction",
        what_happens="Another application opens a transaction on the sink topic, writes, and dies. For 10 minutes no "
        "read_committed reader gets past it, unless somebody aborts it.",
    ),
    Fault.CRASH_AFTER_PREPARE: Description(
        title="Kill the driver after prepare",
        what_happens="kill -9 when everything is flushed and nothing is decided. The restarted pipeline rolls the "
        "transactions back and replays the batch.",
        crash_point=CrashPoint(point="after-prepare", how="kill"),
    ),
    Fault.CRASH_AFTER_DECISION: Description(
        title="Kill the driver after its decision",
        what_happens="kill -9 when the commit is decided and none is sent. The restarted pipeline commits them from the "
        "decision log.",
        crash_point=CrashPoint(point="after-decision", how="kill"),
    ),
    Fault.CRASH_MID_COMMIT: Description(
        title="Kill the driver in the middle of the commit",
        what_happens="kill -9 when some transactions of the batch are committed and some are not. The restarted pipeline "
        "finishes the others.",
        crash_point=CrashPoint(point="mid-commit", how="kill"),
    ),
}
"""Every fault but ``none``, in the order in which a page offers them."""
