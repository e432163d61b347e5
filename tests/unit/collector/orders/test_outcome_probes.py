"""How the follow-up reads the end of a transaction from what was observed; a broker is asked in the integration tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.acting import Actors, KafkaActor
from collector.current_state import CurrentState
from collector.observations import Observation, Observed, Position
from collector.ordering.looks import TransactionLooks
from collector.ordering.order_history import Intent
from collector.ordering.plan import Act, Reach, target_of
from collector.orders import Action, StepOutcome
from collector.store import Store
from collector.transaction_state_records import BrokerStatus
from collector.verdicts import Limits
from lifecycle.events import EventType
from resource_managers.decision_log import DecisionLog
from resource_managers.kafka import KafkaResourceManager
from resource_managers.kafka_connection import KafkaConnection
from tests.unit.collector_observations import (
    PREFIX,
    about,
    broker_record,
    decided,
    handle,
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


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "history.duckdb")
    yield made
    made.close()


def end(store: Store, kind: str, *seen: Observation) -> StepOutcome:
    """Return what a read-only collector, which asks nobody, makes of what it saw."""
    current = CurrentState(store, settled_kept=100, checkpoints_kept=100, limits=Limits())
    for number, observation in enumerate(seen):
        position = Position(source="test", partition=0, offset=number)
        current.observe([Observed(position=position, observation=observation, raw="{}")])
    actors = Actors({"kafka": KafkaActor(KafkaResourceManager(NOBODY))})
    reach = Reach(current=current, actors=actors, log=DecisionLog(NOBODY), limit_s=0.1)
    act = Act(key=KEY, will="", target=target_of(kind, handle(), PREFIX, about()))
    intent = Intent(
        intent=1,
        at_ms=0,
        who="anna",
        action=Action.COMMIT,
        reason="because",
        evidence=(),
        acts=(act,),
        idempotency_key="",
        digest="",
    )
    outcome, _ = TransactionLooks(reach, read_only=True).by_kind()[kind](act, intent)
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
    ],
)
def test_only_what_the_coordinator_or_the_decision_log_shows_is_an_end(
    store: Store, kind: str, seen: tuple[Observation, ...], outcome: StepOutcome
) -> None:
    assert end(store, kind, *seen) is outcome
