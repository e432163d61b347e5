"""The order that settles a whole batch: it commits a decided batch and aborts an undecided one."""

from __future__ import annotations

from app.components.markup import Html, el
from app.dialogs.order_text import rows_that
from app.dialogs.target_order_dialog import TargetOrderDialog, Texts
from lifecycle.counted_nouns import counted
from lifecycle.orders import Action
from lifecycle.rows.batches import BatchRow

COMMIT = "commit"


def show_if_asked() -> None:
    """Show the dialog if it is open. Called once per run of the page, outside every fragment."""
    DIALOG.show_if_asked()


def what_will_happen(batch: BatchRow) -> str:
    """Return what the order does to the batch's open transactions and to its rows."""
    where = " and ".join(
        f"{counted(side.open, 'transaction')} in {side.resource_manager}" for side in batch.sides if side.open
    )
    if batch.settle == COMMIT:
        visible = rows_that(batch.rows, "becomes visible", "become visible")
        return f"Its commit is decided. Its open transactions are committed: {where}. {visible} everywhere."
    discarded = rows_that(batch.rows, "is discarded", "are discarded")
    return (
        "An abort decision is written to the decision log first. If a commit decision is already there, nothing else happens. "
        f"Otherwise its open transactions are aborted: {where}. {discarded}; the pipeline's next run replays the batch."
    )


def _question(_: Action, batch: BatchRow) -> Html:
    return el("div", el("h3", "What will happen"), el("p", what_will_happen(batch)),
              el("h3", "Current state"), el("p", batch.explanation), class_="order")  # fmt: skip


DIALOG: TargetOrderDialog[BatchRow] = TargetOrderDialog(
    "batch-order",
    Texts(
        name=lambda batch: f"batch {batch.batch} of {batch.pipeline}",
        what_will_happen=_question,
        done=lambda _, batch: "all transactions committed" if batch.settle == COMMIT else "all transactions aborted",
    ),
)
