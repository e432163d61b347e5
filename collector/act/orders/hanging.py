"""End of hanging transactions: a marker on the partition, or the ordinary abort where a coordinator has it open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from indoubt.collector.act.orders.abort import plan_abort
from indoubt.collector.act.orders.audit import Intent
from indoubt.collector.act.orders.outcome_probes import LANDED_WITHIN_MS
from indoubt.collector.act.orders.outcome_resolver import Probe
from indoubt.collector.act.orders.plan import ActionResult, OrderContext, Plan, PlannedAction, joined
from indoubt.collector.records.orders import Order, StepOutcome
from indoubt.collector.verdicts.hanging_transactions import Remedy, Suspect, key_of, partition_name
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.verdicts.partition_state import PartitionFindings
from indoubt.collector.views.coordinators import Coordinators
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import OrderRefused, ResourceManagerError
from indoubt.lifecycle.orders import HANGING_KEY, Action
from indoubt.resource_managers.kafka.answers import AnswerKind, MarkerNotWritten
from indoubt.resource_managers.kafka.partitions import KafkaPartitions, Layout, OpenProducer
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager

MARKER = "marker"
DRY_RUN = "still open at the partition's leader, and nothing that its coordinator would end"


class HangingOrders:
    """What orders about ``hanging:`` keys see and do. ``findings`` returns what the partitions' observer saw last."""

    def __init__(
        self,
        findings: Callable[[], PartitionFindings],
        current: CurrentState,
        broker: KafkaResourceManager,
        partitions: KafkaPartitions,
    ) -> None:
        self._findings, self._current = findings, current
        self._broker, self._partitions = broker, partitions
        self._coordinators = Coordinators(partitions, current)

    @staticmethod
    def takes(order: Order) -> bool:
        """Say whether an order is about hanging transactions."""
        return any(key.startswith(HANGING_KEY) for key in order.keys)

    def by_kind(self) -> dict[str, Probe]:
        """Return how the end of a marker is looked up later."""
        return {MARKER: self._probe}

    def seen(self, order: Order) -> list[Suspect]:
        """Return the hanging transactions of an order. Raises OrderRefused when the operator saw something else."""
        found: list[Suspect] = []
        for key in order.keys:
            if not key.startswith(HANGING_KEY):
                raise OrderRefused("an order is about transactions or about hanging ones, not both")
            suspect = self._findings().hanging_of(key)
            if suspect is None:
                raise OrderRefused(f"{key} is not known as hanging (any more): look again")
            if order.revision_of(key) != suspect.revision:
                facts = "; ".join(evidence.fact for evidence in suspect.judgement.evidence)
                raise OrderRefused(f"{key} changed since it was looked at: {facts}; look again")
            found.append(suspect)
        return found

    def plan(self, context: OrderContext, found: Sequence[Suspect], order: Order, who: str) -> Plan:
        """Return the plan that ends these, each read again.

        Raises OrderRefused when one may not be aborted or is not what was seen, ResourceManagerError.
        """
        confirm = None if order.dry_run else order.confirm
        for suspect in found:
            _require_allowed(suspect, order.action, confirm)
        now = self._read_again(found)
        known = [suspect for suspect in now if suspect.doubt.remedy is Remedy.ORDINARY]
        unknown = [suspect for suspect in now if suspect.doubt.remedy is not Remedy.ORDINARY]
        plans = [self._plan_ordinary(context, suspect, who, confirm) for suspect in known]
        plans += [self._plan_markers(unknown)] if unknown else []
        return joined(plans, [suspect.key for suspect in found])

    def _read_again(self, found: Sequence[Suspect]) -> list[Suspect]:
        """Look as the observer did: the leader, the coordinators, the leader. Raises OrderRefused where that differs."""
        wanted = [suspect.producer for suspect in found]
        layout = self._partitions.layout()
        before = self._open(wanted, layout)
        doubts = self._coordinators.doubts(wanted, layout)
        now = self._open(wanted, layout)
        anew: list[Suspect] = []
        for suspect in found:
            if suspect.key not in before.keys() & now.keys():
                raise OrderRefused(f"{suspect.key} is not open on its partition any more: look again")
            if suspect.key not in doubts:
                raise OrderRefused(f"the coordinator of {suspect.key} does not answer: nothing is done without it")
            doubted = doubts[suspect.key]
            if doubted is None:
                raise OrderRefused(f"the coordinator of {suspect.key} has it open and will end it: look again")
            fresh = replace(suspect, producer=now[suspect.key], doubt=doubted)
            if fresh.revision != suspect.revision:
                raise OrderRefused(f"{suspect.key} changed: {doubted.evidence.fact}; look again")
            anew.append(fresh)
        return anew

    def _open(self, wanted: Sequence[OpenProducer], layout: Layout) -> dict[str, OpenProducer]:
        """Return by key what is open on these producers' partitions. Raises ResourceManagerError."""
        partitions = {producer.partition for producer in wanted}
        answers = self._partitions.open_producers(partitions, layout)
        for partition, error in answers.failed.items():
            raise ResourceManagerError(f"the leader of {partition_name(partition)} does not answer: {error}")
        return {key_of(producer): producer for producers in answers.found.values() for producer in producers}

    def _plan_ordinary(self, context: OrderContext, suspect: Suspect, who: str, confirm: str | None) -> Plan:
        judged = self._judged(suspect)
        if judged is None:
            raise OrderRefused(
                f"{suspect.key} is open at its coordinator as {suspect.doubt.transaction}, and that is not known here yet"
            )
        plan = plan_abort(context, [judged], who, confirm)
        return replace(plan, actions=tuple(replace(planned, key=suspect.key) for planned in plan.actions))

    def _judged(self, suspect: Suspect) -> Judged | None:
        for transaction in self._current.transactions.open_at_coordinators():
            identity = transaction.identity
            if (identity.transaction, identity.producer_id) == (
                suspect.doubt.transaction,
                suspect.producer.producer_id,
            ):
                return self._current.transactions.find(transaction.key)
        return None

    def _plan_markers(self, found: Sequence[Suspect]) -> Plan:
        actions = tuple(
            PlannedAction(
                key=suspect.key,
                description=_will(suspect),
                target={"kind": MARKER, "producer": suspect.producer.to_json()},
                checked=DRY_RUN,
            )
            for suspect in found
        )

        def execute() -> list[ActionResult]:
            return [self._write_marker(suspect) for suspect in found]

        return Plan(actions=actions, execute=execute)

    def _write_marker(self, suspect: Suspect) -> ActionResult:
        producer, doubt = suspect.producer, suspect.doubt
        problem, is_refused = "the marker was written", False
        try:
            self._broker.end_on_partition(
                producer.partition,
                (producer.producer_id, producer.producer_epoch),
                producer.coordinator_epoch,
                commit=doubt.may_commit,
            )
        except MarkerNotWritten as error:
            problem, is_refused = str(error), error.answer.kind is not AnswerKind.NO_ANSWER
        except ResourceManagerError as error:
            problem = str(error)
        try:
            still_open = key_of(producer) in self._open([producer], self._partitions.layout())
        except ResourceManagerError as error:
            return StepOutcome.UNKNOWN, f"{problem}; {error}"
        if not still_open:
            return (StepOutcome.COMMITTED if doubt.may_commit else StepOutcome.ABORTED), ""
        return StepOutcome.REFUSED if is_refused else StepOutcome.UNKNOWN, f"{problem}; it is still open"

    def _probe(self, planned: PlannedAction, intent: Intent) -> ActionResult:
        """Look whether a marker that had no answer has arrived; it is not written again: too much may have changed."""
        producer = OpenProducer.from_json(planned.target["producer"])
        if key_of(producer) not in self._open([producer], self._partitions.layout()):
            ended = StepOutcome.COMMITTED if intent.action is Action.COMMIT else StepOutcome.ABORTED
            return ended, "seen ended on its partition"
        if intent.age_ms > LANDED_WITHIN_MS:
            return StepOutcome.REFUSED, "the marker never reached the partition, so nothing was done: order again"
        return StepOutcome.UNKNOWN, "still open on its partition"


def confirmation_text_of_suspects(found: Sequence[Suspect]) -> str:
    """Return what an abort of these takes as ``confirm``, empty where it loses nothing or they take different ones."""
    texts = {suspect.confirmation for suspect in found} - {""}
    return texts.pop() if len(texts) == 1 else ""


def _require_allowed(suspect: Suspect, action: Action, confirm: str | None) -> None:
    if action is Action.COMMIT:
        if not suspect.doubt.may_commit:
            raise OrderRefused(f"{suspect.key} can only be aborted: {suspect.doubt.evidence.fact}")
        return
    if suspect.doubt.may_commit:
        raise OrderRefused(f"{suspect.key} can only be committed: {suspect.doubt.evidence.fact}")
    if not suspect.doubt.may_abort:
        raise OrderRefused(f"{suspect.key} may not be aborted now: {suspect.doubt.evidence.fact}")
    wanted = suspect.confirmation
    if confirm is not None and wanted and confirm != wanted:
        raise OrderRefused(f"aborting {suspect.key} may lose data: repeat {wanted!r} in 'confirm', one at a time")


def _will(suspect: Suspect) -> str:
    producer, doubt = suspect.producer, suspect.doubt
    return (
        f"{'a commit' if doubt.may_commit else 'an abort'} marker on {partition_name(producer.partition)} for producer "
        f"{producer.producer_id}, epoch {producer.producer_epoch}, coordinator epoch {max(0, producer.coordinator_epoch)}"
    )
