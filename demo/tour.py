"""The guided tour of the demo: what to press and what to look at, in five minutes."""

from __future__ import annotations

from dataclasses import dataclass

from demo.faults import DESCRIPTIONS, Fault
from indoubt.lifecycle.orders import Action


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
