"""The order over a whole batch: all of a decided one is committed, all of an undecided one is aborted."""

from __future__ import annotations

from app.batch_rows import Batch
from app.collector_rows import Action
from app.markup import Html, el
from app.one_order_dialog import OneOrderDialog, Words
from app.time_text import amount, counted

COMMIT = "commit"


def button(batch: Batch) -> None:
    """Write the order, where there is one; pressed, it opens the dialog on the batch as shown here."""
    if batch.settle:
        DIALOG.button(Action.SETTLE, batch, is_first=batch.settle == COMMIT)


def show_if_asked() -> None:
    """Show the dialog while an order is being given. Called once per run of the page, outside every fragment."""
    DIALOG.show_if_asked()


def what_will_happen(batch: Batch) -> str:
    """Return what the order does to the parts of the batch that have not ended, and to its rows."""
    where = " and ".join(
        f"{counted(side.open, 'transaction')} in {side.resource_manager}" for side in batch.sides if side.open
    )
    held = f"{amount(batch.rows)} rows" if batch.rows is not None else "Its rows (how many is not known)"
    if batch.settle == COMMIT:
        return f"Decided: what is open of it is committed, {where}. {held} are then visible everywhere."
    return (
        f"An abort decision is written to the decision log first; if a commit decision is there before it, nothing happens. Then "
        f"what is open of it is aborted, {where}. {held} are given up; the pipeline's next run replays them."
    )


def _question(_: Action, batch: Batch) -> Html:
    return el("div", el("h4", "What will happen"), el("p", what_will_happen(batch)),
              el("h4", "How it stands"), el("p", batch.explanation), class_="order")  # fmt: skip


DIALOG: OneOrderDialog[Batch] = OneOrderDialog(
    "batch-order",
    Words(
        name=lambda one: f"batch {one.batch} of {one.pipeline}",
        what_will_happen=_question,
        done=lambda _, one: "all of it committed" if one.settle == COMMIT else "all of it aborted",
    ),
)
