"""The dialogs of orders for one batch or one pipeline: settle it; restart it, start it, stop it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorError
from indoubt.app.client.collector_rows import Orderable
from indoubt.app.components.markup import Html, el
from indoubt.app.components.object_names import key_text
from indoubt.app.components.time_text import ago, duration
from indoubt.app.dialogs.order_dialog import AskedOrder, OrderDialog
from indoubt.app.dialogs.order_text import refusal_text, rows_that
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.batches import BatchRow
from indoubt.lifecycle.rows.orders import OrderResult
from indoubt.lifecycle.rows.pipelines import PipelineRow

COMMIT = "commit"
_DONE = {Action.RESTART: "restarted", Action.START: "started", Action.STOP: "stopped"}
One = TypeVar("One", bound=Orderable)


class TargetDialog(OrderDialog[One]):
    """An order for a single target, as it was shown."""

    @abstractmethod
    def done(self, action: Action, target: One) -> str:
        """Return the target's state after the order."""

    def ordered(self, target: One) -> Sequence[Orderable]:
        """Return the target."""
        return [target]

    def checked(self, asked: AskedOrder[One], result: OrderResult) -> Html:
        """Return a list of what would be sent."""
        steps = [el("li", key_text(step.key), f": {step.description}") for step in result.steps]
        said = f"Dry run: nothing was sent. Audit {result.audit}. The order would do this:"
        return el("div", el("p", said), el("ul", *steps), class_="order")

    def ended(self, asked: AskedOrder[One], result: OrderResult) -> Html:
        """Return ``✔ restarted in 9.1 s · audit 512`` with each step's answer, or that the answer is missing."""
        done = self.done(asked.action, asked.target)
        of_several = len(result.steps) > 1
        answers = [
            el("li", of_several and [key_text(step.key), ": "], ": ".join(filter(None, (step.outcome, step.detail))))
            for step in result.steps
        ]
        if result.outcome == "accepted":
            head, tone = f"✔ {done} in {duration(result.took_ms)}", "good"
        elif result.outcome == "pending":
            head, tone = "△ sent, no answer yet: the collector keeps asking, and Audit will show the result", "urgent"
        else:
            head, tone = f"✖ not {done}", "urgent"
        return el("div", el("p", el("b", head), f" · audit {result.audit}", class_=f"result {tone}", role="status"),
                  el("ul", *answers), class_="order")  # fmt: skip

    def refused(self, asked: AskedOrder[One], refusal: CollectorError) -> Html:
        """Return why nothing was done, or that it is not known."""
        heading = "The result is unknown." if asked.has_no_answer else "Nothing was done."
        said = refusal_text(refusal, {f"batch {asked.target.key}": self.name(asked.target)})
        return el("p", el("b", "✖ ", heading), " ", said, class_="warn", role="alert")


class BatchDialog(TargetDialog[BatchRow]):
    """The order that settles a whole batch: it commits a decided batch and aborts an undecided one."""

    key = "batch-order"

    def name(self, target: BatchRow) -> str:
        """Return ``batch 12 of ip-count``."""
        return f"batch {target.batch} of {target.pipeline}"

    def done(self, action: Action, target: BatchRow) -> str:
        """Return the batch's state after the order."""
        return "all transactions committed" if target.settle == COMMIT else "all transactions aborted"

    def question(self, asked: AskedOrder[BatchRow]) -> Html:
        """Return what will happen, and how the batch stands."""
        return el("div", el("h3", "What will happen"), el("p", what_becomes_of_batch(asked.target)),
                  el("h3", "Current state"), el("p", asked.target.explanation), class_="order")  # fmt: skip


class PipelineDialog(TargetDialog[PipelineRow]):
    """The orders about a pipeline."""

    key = "pipeline-order"

    def name(self, target: PipelineRow) -> str:
        """Return its prefix."""
        return target.pipeline

    def done(self, action: Action, target: PipelineRow) -> str:
        """Return the pipeline's state after the order."""
        return _DONE[action]

    def confirmation_text(self, action: Action, target: PipelineRow) -> str:
        """Return its prefix before a stop: only the operator can start it again."""
        return target.pipeline if action is Action.STOP else ""

    def warning(self, action: Action) -> str:
        """Return the words before the prefix."""
        return "To stop it"

    def question(self, asked: AskedOrder[PipelineRow]) -> Html:
        """Return what will happen, and how the pipeline stands."""
        pipeline = asked.target
        return el("div", el("h3", "What will happen"), el("p", what_becomes_of_run(asked.action, pipeline)),
                  el("p", f"It was {pipeline.state} when you opened this dialog. Last heartbeat: ",
                     ago(pipeline.last_seen_at_ms, live.zone()),
                     f", {pipeline.last_heartbeat or 'none'}."), class_="order")  # fmt: skip


def what_becomes_of_batch(batch: BatchRow) -> str:
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


def what_becomes_of_run(action: Action, pipeline: PipelineRow) -> str:
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


BATCH, PIPELINE = BatchDialog(), PipelineDialog()
