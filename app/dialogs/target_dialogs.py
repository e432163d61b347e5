"""The dialogs of orders for one batch or one pipeline: settle it; restart it, start it, stop it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from indoubt.app import live
from indoubt.app.client.collector_errors import CollectorError
from indoubt.app.client.order_client import Orderable
from indoubt.app.components.markup import Html, el
from indoubt.app.components.object_names import key_text
from indoubt.app.components.time_text import ago, duration
from indoubt.app.dialogs.asked_order import AskedOrder
from indoubt.app.dialogs.order_dialog import OrderDialog
from indoubt.app.dialogs.order_text import question, refusal_text, rows_that
from indoubt.app.dialogs.overtaken import order_since, order_under_way, said
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

    def overtaken(self, asked: AskedOrder[BatchRow]) -> AskedOrder[BatchRow]:
        """Return the order with who was faster, or how the batch stands now."""
        batch = asked.target
        keys = [batch.key, *(transaction.key for transaction in batch.transactions)]
        if going := order_under_way(keys):
            return replace(asked, overtaken=going)
        attempts = live.collector().batches(pipeline=batch.pipeline, batch=batch.batch)
        now = next((row for row in attempts if row.key == batch.key), None)
        if now is not None and now.revision == batch.revision:
            return asked
        stands = f" {now.explanation}" if now is not None else " The collector does not keep it any more."
        changed = said(el("b", "It has changed since you opened this."), stands)
        return replace(asked, overtaken=order_since(keys, asked.shown_at_ms) or changed)

    def question(self, asked: AskedOrder[BatchRow]) -> Html:
        """Return what happens, how the batch stands, and folded what is sent."""
        batch = asked.target
        return question(
            what_becomes_of_batch(batch),
            batch.deadline_ms,
            el("p", batch.explanation),
            how=[el("p", how_settled(batch))],
        )


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

    def is_destructive(self, asked: AskedOrder[PipelineRow]) -> bool:
        """Say whether it is a stop: nothing starts the pipeline again by itself."""
        return asked.action is Action.STOP

    def warning(self, action: Action) -> str:
        """Return the words before the prefix."""
        return "To stop it"

    def overtaken(self, asked: AskedOrder[PipelineRow]) -> AskedOrder[PipelineRow]:
        """Return the order with who was faster, or that another run has started."""
        keys = [asked.target.key]
        faster = order_under_way(keys) or order_since(keys, asked.shown_at_ms)
        now = next((row for row in live.collector().pipelines() if row.key == asked.target.key), None)
        if faster is None and now is not None and now.revision != asked.target.revision:
            faster = said(el("b", f"Run {now.attempt} has started, by no order from here."))
        return replace(asked, overtaken=faster)

    def question(self, asked: AskedOrder[PipelineRow]) -> Html:
        """Return what happens, how the pipeline stands, and folded who does it."""
        pipeline = asked.target
        stands = el(
            "p",
            f"It was {pipeline.state} when you opened this. Its last sign of life: ",
            ago(pipeline.last_seen_at_ms),
            f", {pipeline.last_heartbeat or 'none'}.",
            asked.action is not Action.STOP and _takes(pipeline),
        )
        how = [el("p", how_run_ends(asked.action, pipeline))]
        return question(WHAT_BECOMES_OF_RUN[asked.action], None, stands, how=how)


def what_becomes_of_batch(batch: BatchRow) -> str:
    """Return what the order does to the batch's rows."""
    if batch.settle == COMMIT:
        return f"{rows_that(batch.rows, 'becomes visible', 'become visible')} everywhere."
    them = "it" if batch.rows == 1 else "them"
    return f"{rows_that(batch.rows, 'is thrown away', 'are thrown away')}, and the pipeline's next run writes {them} again."


def how_settled(batch: BatchRow) -> str:
    """Return what the order does to the batch's open transactions."""
    where = " and ".join(
        f"{counted(side.open, 'transaction')} in {side.resource_manager}" for side in batch.sides if side.open
    )
    if batch.settle == COMMIT:
        return f"Its commit is decided. Its open transactions are committed: {where}."
    return (
        "An abort decision is written to the decision log first. If a commit decision is already there, nothing else happens. "
        f"Otherwise its open transactions are aborted: {where}."
    )


WHAT_BECOMES_OF_RUN = {
    Action.RESTART: "The driver is stopped (killed if it does not answer, up to 60 s) and started again. Decided batches are "
    "committed, the rest is written again.",
    Action.START: "The pipeline is started. Decided batches are committed, the rest is written again.",
    Action.STOP: "The driver and its supervisor are stopped: only you can start this pipeline again. Decided transactions that are "
    "not committed stay in doubt until you commit them here, or start it again.",
}
"""In plain words, by the order."""


def how_run_ends(action: Action, pipeline: PipelineRow) -> str:
    """Return who ends this run and starts the next one."""
    if action is Action.START:
        return (
            "The collector runs the command that it was given for this pipeline; a dry run shows it. The next run first settles "
            f"what run {pipeline.attempt} left."
        )
    ends = f"An order for run {pipeline.attempt} is written to the topic of orders. The pipeline's supervisor ends the driver"
    if action is Action.RESTART:
        return f"{ends} and starts the next run, which first settles this one's batches."
    return f"{ends}, then itself. The pipeline is started again from its checkpoint directory."


def _takes(pipeline: PipelineRow) -> str:
    """Return how long its restarts take; nothing where that cannot be asked."""
    try:
        timeouts = live.collector().timeouts()
    except CollectorError:
        return ""
    return "".join(f" A restart takes {row.recovery}." for row in timeouts if row.pipeline == pipeline.pipeline)


BATCH, PIPELINE = BatchDialog(), PipelineDialog()
