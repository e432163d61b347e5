"""The faults that the demo can cause: their names, descriptions and crash points."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Fault(Enum):
    """A fault; the value is its name on the command line."""

    NONE = "none"
    CRASH_AFTER_PREPARE = "crash-after-prepare"
    CRASH_AFTER_DECISION = "crash-after-decision"
    CRASH_MID_COMMIT = "crash-mid-commit"
    FREEZE_AFTER_DECISION = "freeze-after-decision"
    ABANDONED_PRODUCER = "abandoned-producer"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPoint:
    """Where the driver fails during a commit: the pipeline's name of the point, and ``kill`` (SIGKILL) or ``freeze`` (SIGSTOP)."""

    point: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The texts of the fault's button. ``crash_point`` is None for a fault outside the pipeline."""

    title: str
    what_happens: str
    crash_point: CrashPoint | None = None


DESCRIPTIONS: dict[Fault, Description] = {
    Fault.FREEZE_AFTER_DECISION: Description(
        title="Freeze the driver after its decision",
        what_happens="The Spark driver freezes just after it decided to commit a batch. Its transactions stay in doubt and "
        "readers wait. After 60 s the broker aborts them. Commit them on Overview, then restart the driver on Pipelines.",
        crash_point=CrashPoint(point="after-decision", how="freeze"),
    ),
    Fault.ABANDONED_PRODUCER: Description(
        title="Abandon a foreign transaction",
        what_happens="Another application opens a transaction on the sink topic, writes, and dies. It blocks read_committed "
        "readers for 10 minutes, unless you abort it.",
    ),
    Fault.CRASH_AFTER_PREPARE: Description(
        title="Kill the driver after prepare",
        what_happens="kill -9 after the flush and before the decision. The restarted pipeline rolls the transactions back "
        "and replays the batch.",
        crash_point=CrashPoint(point="after-prepare", how="kill"),
    ),
    Fault.CRASH_AFTER_DECISION: Description(
        title="Kill the driver after its decision",
        what_happens="kill -9 after the commit decision and before the first commit. The restarted pipeline commits the "
        "transactions that the decision log lists.",
        crash_point=CrashPoint(point="after-decision", how="kill"),
    ),
    Fault.CRASH_MID_COMMIT: Description(
        title="Kill the driver in the middle of the commit",
        what_happens="kill -9 when only some transactions of the batch are committed. The restarted pipeline commits the "
        "others.",
        crash_point=CrashPoint(point="mid-commit", how="kill"),
    ),
}
"""Every fault except ``none``, in the page's order."""
