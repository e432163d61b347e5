"""The guided tour of the demo: what to press and what to look at, in five minutes."""

from __future__ import annotations

from dataclasses import dataclass

from demo.faults import DESCRIPTIONS, Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: a few words, and what to do in two or three sentences."""

    title: str
    text: str


def _button(fault: Fault) -> str:
    return f"“{DESCRIPTIONS[fault].title}”"


STEPS: tuple[Step, ...] = (
    Step(
        title="All is well",
        text="Page Overview says what goes on: a pipeline that writes in transactions, and that no reader waits. "
        "Each batch opens transactions, prepares them, decides, and commits.",
    ),
    Step(
        title="A batch in doubt",
        text=f"Press {_button(Fault.FREEZE_AFTER_DECISION)} below. Within seconds Overview has a card: the batch, which is "
        "decided and not committed, with the time left until the broker aborts it. Half a minute later it has a second "
        "one: its driver, which has given no sign of life for that long.",
    ),
    Step(
        title="Commit it",
        text="Press Commit on the card of the batch. The dialog shows why it is safe. Give a reason and commit. Page Audit "
        "has a row with your order. Had you waited 60 s, the batch would be lost until the pipeline starts again.",
    ),
    Step(
        title="Restart the driver",
        text="Press Restart on the card of the driver. The pipeline goes on where it stood, and Overview is well again.",
    ),
    Step(
        title="A transaction of others",
        text=f"Press {_button(Fault.ABANDONED_PRODUCER)} below. Page Readers shows which group waits behind it, on which "
        "partitions. Only its owner knows whether it may be aborted, so the dialog has you type its id.",
    ),
    Step(
        title="What was it?",
        text="Page History lists what was aborted, why, and whether data was lost. A click on a transaction opens its own "
        "page. The other faults below heal by themselves: watch Overview while they do.",
    ),
)
"""In the order of the tour."""
