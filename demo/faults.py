"""What the demo's page offers: the faults that it can cause, and a tour of what to press and look at, in five minutes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from indoubt.lifecycle.orders import Action


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: a few words, and what to do in two or three sentences; it is done once its fault struck, or its order was given."""

    title: str
    text: str
    fault: Fault | None = None
    order: Action | None = None


def _button(fault: Fault) -> str:
    return f"“{DESCRIPTIONS[fault].title}”"


STEPS: tuple[Step, ...] = (
    Step(
        title="All is well",
        text="Overview shows a pipeline that writes in transactions. Each batch opens transactions, prepares them, decides, "
        "and commits. No reader waits.",
    ),
    Step(
        title="A batch in doubt",
        text=f"Press {_button(Fault.FREEZE_AFTER_DECISION)} below. Within seconds Overview has a card: a batch is decided and "
        "not committed, and its time runs out.",
        fault=Fault.FREEZE_AFTER_DECISION,
    ),
    Step(
        title="Commit it",
        text="Press Commit on the card. The dialog says why it is safe. Give a reason and commit; Audit then has your order. "
        "After 60 s the broker would have aborted the batch.",
        order=Action.COMMIT,
    ),
    Step(
        title="Restart the driver",
        text="The driver is still frozen. Press Restart on its card: the pipeline goes on where it stood.",
        order=Action.RESTART,
    ),
    Step(
        title="A transaction of others",
        text=f"Press {_button(Fault.ABANDONED_PRODUCER)} below. Readers shows which group waits behind it, and on which "
        "partitions. Only its owner knows whether it may be aborted, so the dialog has you type its id.",
        fault=Fault.ABANDONED_PRODUCER,
    ),
    Step(
        title="What was it?",
        text="History lists what was aborted, why, and whether data was lost. A click on a transaction opens its page. The "
        "other faults below heal by themselves: watch Overview while they do.",
    ),
)
"""In the order of the tour."""
