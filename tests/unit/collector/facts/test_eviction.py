"""How far back memory is whole, once the oldest has left it."""

from __future__ import annotations

from indoubt.collector.facts.eviction import trim
from indoubt.collector.facts.fold import apply
from indoubt.collector.facts.state import State
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchProof, Observation
from tests.unit.collector.observations import T0, branch_gone, branch_listed, broker_record, database_handle


def committed(number: int) -> list[Observation]:
    named = {"transaction": f"billing-{number}", "producer_id": number, "start": number * 10}
    statuses = (BrokerStatus.ONGOING, BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
    return [broker_record(status, number * 10 + late, **named) for late, status in enumerate(statuses)]  # type: ignore[arg-type]


def trimmed(*observations: Observation) -> State:
    state = State(settled_kept=2)
    for observation in observations:
        apply(state, observation)
    trim(state)
    return state


def test_memory_is_whole_while_nothing_has_left_it() -> None:
    assert trimmed(*committed(1), *committed(2)).ended.evicted_until_ms == 0


def test_it_is_whole_from_the_end_of_the_newest_that_left() -> None:
    seen = [one for number in range(1, 7) for one in committed(number)]
    state = trimmed(*seen)
    assert {identity.transaction for identity in state.broker} == {"billing-5", "billing-6"}
    assert state.ended.evicted_until_ms == T0 + 41
    for observation in committed(3):
        apply(state, observation)
    trim(state)
    assert state.ended.evicted_until_ms == T0 + 41, "one that came late does not move it back"


def test_it_has_all_that_began_after_the_newest_that_left() -> None:
    seen = [one for number in range(1, 7) for one in committed(number)]
    assert trimmed(*committed(1)).ended.dropped_until_ms == 0
    assert trimmed(*seen).ended.dropped_until_ms == T0 + 40


def test_branches_that_left_count_too() -> None:
    branches = [database_handle(nonce=f"{number:08x}") for number in range(5)]
    seen: list[Observation] = []
    for number, branch in enumerate(branches):
        seen += [branch_listed(branch, at=10), branch_gone(branch, BranchProof.COMMITTED, at=1_000 + number)]
    assert trimmed(*seen).ended.evicted_until_ms == T0 + 1_002
