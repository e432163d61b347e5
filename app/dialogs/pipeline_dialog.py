"""The orders about a pipeline: restart it, start it, stop it."""

from __future__ import annotations

from app import live
from app.components.markup import Html, el
from app.components.time_text import ago
from app.dialogs.target_order_dialog import TargetOrderDialog, Texts
from lifecycle.orders import Action
from lifecycle.rows.pipelines import PipelineRow

_DONE = {Action.RESTART: "restarted", Action.START: "started", Action.STOP: "stopped"}


def show_if_asked() -> None:
    """Show the dialog if it is open. Called once per run of the page, outside every fragment."""
    DIALOG.show_if_asked()


def what_will_happen(action: Action, pipeline: PipelineRow) -> str:
    """Return what the order does to this run and to its transactions in doubt."""
    if action is Action.START:
        return (
            "The collector runs the command that it was given for this pipeline; a dry run shows it. The next run first settles "
            f"what run {pipeline.attempt} left: it commits what was decided, rolls back the rest, and replays it."
        )
    ends = (
        f"An order for run {pipeline.attempt} is written to the topic of orders. The pipeline's supervisor ends the driver; if "
        "the driver does not react, it kills the driver. "
    )
    if action is Action.RESTART:
        return ends + (
            "Then it starts the next run. The next run first settles this one's batches: it commits what was decided, "
            "rolls back the rest, and replays it."
        )
    return ends + (
        "Then the supervisor ends itself: only you can start this pipeline again. Decided transactions that are not committed "
        "stay in doubt until you commit them here, or start the pipeline again from its checkpoint directory."
    )


def _question(action: Action, pipeline: PipelineRow) -> Html:
    return el("div", el("h3", "What will happen"), el("p", what_will_happen(action, pipeline)),
              el("p", f"It was {pipeline.state} when you opened this dialog. Last heartbeat: ",
                 ago(pipeline.last_seen_at_ms, live.zone()),
                 f", {pipeline.last_heartbeat or 'none'}."), class_="order")  # fmt: skip


DIALOG: TargetOrderDialog[PipelineRow] = TargetOrderDialog(
    "pipeline-order",
    Texts(
        name=lambda pipeline: pipeline.pipeline,
        what_will_happen=_question,
        done=lambda action, _: _DONE[action],
        # Only the operator can start it again.
        confirmation_text=lambda action, pipeline: pipeline.pipeline if action is Action.STOP else "",
        warning="To stop it",
    ),
)
