"""How the follow-up reads the end of a transaction from what was observed; a broker is asked in the integration tests."""

from __future__ import annotations

import pytest

from indoubt.collector.act.orders.audit import Intent
from indoubt.collector.act.orders.flink_commit import KIND
from indoubt.collector.act.orders.outcome_probes import OutcomeProbes
from indoubt.collector.act.orders.participants import KafkaParticipant, Participants
from indoubt.collector.act.orders.plan import OrderContext, PlannedAction, target_of
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import Observation
from indoubt.collector.records.orders import StepOutcome
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.orders import Action
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.unit.collector.observations import (
    PREFIX,
    batch_attempt,
    broker_record,
    decided,
    handle,
    observe,
    run_started,
    transaction_event,
)

NOBODY = KafkaConnection("127.0.0.1:1")
KEY = handle().key
OURS = (
    run_started(0),
    transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=handle().to_json()),
    broker_record(BrokerStatus.ONGOING, 0),
)
DECIDED = (*OURS, decided(1, handle()))
COMMITTED = (
    broker_record(BrokerStatus.PREPARE_COMMIT, 900, epoch=5, version=2),
    broker_record(BrokerStatus.COMPLETE_COMMIT, 901, epoch=5, version=2),
)
ABORTED = (
    broker_record(BrokerStatus.PREPARE_ABORT, 900, epoch=5, version=2),
    broker_record(BrokerStatus.COMPLETE_ABORT, 901, epoch=5, version=2),
)
TOLD = (transaction_event(EventType.TRANSACTION_COMMITTED, 950),)


def end(current: CurrentState, kind: str, *seen: Observation) -> StepOutcome:
    """Return what a read-only collector, which asks nobody, makes of what it saw."""
    observe(current, *seen)
    participants = Participants({"kafka": KafkaParticipant(KafkaResourceManager(NOBODY))})
    context = OrderContext(current=current, participants=participants, log=DecisionLog(NOBODY), limit_s=0.1)
    planned = PlannedAction(key=KEY, description="", target=target_of(kind, handle(), PREFIX, batch_attempt()))
    intent = Intent(
        intent=1,
        at_ms=0,
        who="anna",
        action=Action.COMMIT,
        reason="because",
        evidence=(),
        actions=(planned,),
        idempotency_key="",
        digest="",
    )
    outcome, _ = OutcomeProbes(context, read_only=True).by_kind()[kind](planned, intent)
    return outcome


@pytest.mark.parametrize(
    ("kind", "seen", "outcome"),
    [
        ("commit", (*DECIDED, *COMMITTED), StepOutcome.COMMITTED),
        ("commit", (*DECIDED, *ABORTED), StepOutcome.LOST),
        ("commit", DECIDED, StepOutcome.UNKNOWN),
        ("commit", (*DECIDED, *COMMITTED[:1]), StepOutcome.UNKNOWN),
        ("commit", (), StepOutcome.UNKNOWN),
        # Events are told, never obeyed: what the driver says it did is no proof.
        ("commit", (*DECIDED[:2], DECIDED[3], *TOLD), StepOutcome.UNKNOWN),
        ("abort", (*OURS, *ABORTED), StepOutcome.ABORTED),
        ("abort", (*OURS, *COMMITTED), StepOutcome.ALREADY_COMMITTED),
        ("fence", (*OURS[2:], *ABORTED), StepOutcome.ABORTED),
        ("fence", (*OURS[2:], *COMMITTED), StepOutcome.ALREADY_COMMITTED),
        ("fence", OURS[2:], StepOutcome.UNKNOWN),
        ("fence", (), StepOutcome.UNKNOWN),
        (KIND, (*OURS[2:], *COMMITTED), StepOutcome.ALREADY_COMMITTED),
        (KIND, (*OURS[2:], *ABORTED), StepOutcome.LOST),
        (KIND, OURS[2:], StepOutcome.UNKNOWN),
    ],
)
def test_only_what_the_coordinator_or_the_decision_log_shows_is_an_end(
    current: CurrentState, kind: str, seen: tuple[Observation, ...], outcome: StepOutcome
) -> None:
    assert end(current, kind, *seen) is outcome
