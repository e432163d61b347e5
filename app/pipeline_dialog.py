"""The orders to a pipeline's supervisor: restart it, stop it."""

from __future__ import annotations

from app import live
from app.collector_rows import Action, Pipeline
from app.markup import Html, el
from app.one_order_dialog import OneOrderDialog, Words
from app.time_text import since

_DONE = {Action.RESTART: "restarted", Action.STOP: "stopped"}


def buttons(pipeline: Pipeline) -> None:
    """Write the two orders; pressed, each opens the dialog on the run as shown here."""
    for action in _DONE:
        DIALOG.button(action, pipeline)


def show_if_asked() -> None:
    """Show the dialog while an order is being given. Called once per run of the page, outside every fragment."""
    DIALOG.show_if_asked()


def what_will_happen(action: Action, pipeline: Pipeline) -> str:
    """Return what the order does to the run that is shown, and to what it has in doubt."""
    ends = (
        f"An order for run {pipeline.attempt} is written to the topic of orders. Its supervisor ends the driver, by force when "
        "it stands still, "
    )
    if action is Action.RESTART:
        return ends + (
            "and starts the next run. That one settles first what this one left: it commits what was decided, rolls the rest "
            "back, and replays it."
        )
    return ends + (
        "and then ends itself: nothing starts this pipeline again but you. What was decided and is not committed stays in doubt "
        "until it is committed here, or until the pipeline is started again from its checkpoint directory."
    )


def _question(action: Action, one: Pipeline) -> Html:
    return el("div", el("h4", "What will happen"), el("p", what_will_happen(action, one)),
              el("p", f"It was {one.state} when you looked, last sign of life ", since(one.sign_at_ms, live.zone()),
                 f" ago: {one.sign or 'none'}."), class_="order")  # fmt: skip


DIALOG: OneOrderDialog[Pipeline] = OneOrderDialog(
    "pipeline-order",
    Words(
        name=lambda one: one.pipeline,
        what_will_happen=_question,
        done=lambda action, _: _DONE[action],
        # Nothing would start it again.
        to_type=lambda action, one: one.pipeline if action is Action.STOP else "",
        warning="To stop it",
    ),
)
