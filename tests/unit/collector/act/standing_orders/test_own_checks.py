"""What a standing order checks for itself last, and why it then does not act: each check with what its owner answers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import pytest

from indoubt.collector.act.standing_orders.own_checks import OwnChecks, Owners
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import Observation
from indoubt.collector.records.orders import Order
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import ResourceManagerError
from indoubt.lifecycle.orders import Action
from indoubt.resource_managers.kafka.answers import NO_LEADER
from indoubt.resource_managers.kafka.group_members import GroupMembers, HeldOffsets
from indoubt.resource_managers.kafka.partitions import Answers
from indoubt.resource_managers.protocol import OpenTransactionView
from tests.unit.collector.observations import T0, broker_record, decided, handle, observe, run_started

OURS: tuple[Observation, ...] = (run_started(0), broker_record(BrokerStatus.ONGOING, 0), decided(1, handle()))
NOW = OpenTransactionView(
    resource_manager="kafka",
    transaction="ip-count-0-1",
    producer_id=0,
    producer_epoch=4,
    state="Ongoing",
    started_at_ms=T0,
    timeout_ms=60_000,
    partitions=(("sink", 0),),
)


@dataclass
class Answering:
    """Gives the answers that owners gave; a real broker and Flink's REST API are asked in the integration tests."""

    described: list[OpenTransactionView] = field(default_factory=lambda: [NOW])
    group: GroupMembers | None = None
    stopped: bool = False
    clock: str = ""
    error: str = ""

    def describe(self, ids: Collection[str]) -> list[OpenTransactionView]:
        if self.error:
            raise ResourceManagerError(self.error)
        return self.described

    def members(self, groups: Collection[str], at_ms: int) -> Answers[str, GroupMembers]:
        if self.group is None:
            return Answers(found={}, failed=dict.fromkeys(groups, NO_LEADER))
        return Answers(found={self.group.group: replace(self.group, at_ms=at_ms)}, failed={})


def why_not(current: CurrentState, answers: Answering, *seen: Observation, act: Action = Action.COMMIT) -> str:
    current.see_decision_log(DecisionLogStatus.READABLE)
    observe(current, *seen)
    (judged,) = current.transactions.judged(settled=True)
    owners = Owners(broker=answers, members=answers.members, flink=dict)  # type: ignore[arg-type]
    checks = OwnChecks(current, owners, is_stopped=lambda: answers.stopped, clock_doubt=lambda: answers.clock)
    key = judged.view.key
    return checks.why_not(
        Order(action=act, keys=(key,), seen={key: judged.view.revision}, reason="", dry_run=False, confirm="")
    )


def test_what_is_decided_and_as_it_was_judged_may_be_committed(current: CurrentState) -> None:
    assert why_not(current, Answering(), *OURS) == ""


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        (Answering(described=[]), "its coordinator: it does not describe ip-count-0-1"),
        (Answering(error="no answer"), "its coordinator: it could not be asked: no answer"),
        (
            Answering(described=[replace(NOW, producer_epoch=5)]),
            "its coordinator: ip-count-0-1 has producer 0, epoch 5 now",
        ),
        (
            Answering(described=[replace(NOW, state="PrepareAbort")]),
            "its coordinator: ip-count-0-1 is PrepareAbort, begun at another time or ended",
        ),
        (
            Answering(described=[replace(NOW, started_at_ms=T0 + 1)]),
            "its coordinator: ip-count-0-1 is Ongoing, begun at another time or ended",
        ),
        (
            Answering(described=[replace(NOW, partitions=(("sink", 0), ("sink", 1)))]),
            "its coordinator: ip-count-0-1 holds other partitions than it was judged by (sink-1): its owner may live",
        ),
        (Answering(clock="orders' broker is 2 min ahead"), "the clocks: orders' broker is 2 min ahead"),
        (Answering(stopped=True), "the switch: all standing orders are stopped"),
    ],
)
def test_each_check_that_fails_says_why(current: CurrentState, answers: Answering, why: str) -> None:
    assert why_not(current, answers, *OURS) == why


def test_a_verdict_that_is_another_by_now_holds_it_back(current: CurrentState) -> None:
    assert why_not(current, Answering(), *OURS[:2]).startswith("its verdict: it is ")


def group(*client_ids: str, state: str = "Stable", at: int = 0) -> GroupMembers:
    return GroupMembers(group="shop", state=state, client_ids=frozenset(client_ids), at_ms=T0 + at)


OFFSETS = "__consumer_offsets-3"
HOLDS = broker_record(BrokerStatus.ONGOING, 0, transaction="shop-svc", partitions=(OFFSETS, "sink-0"))
HOLDS_NOW = replace(NOW, transaction="shop-svc", partitions=(("__consumer_offsets", 3), ("sink", 0)))


def held(*groups: GroupMembers) -> HeldOffsets:
    at_ms = T0 + 60_000
    return HeldOffsets(
        producers=frozenset({(0, 4)}), groups=groups, written=frozenset(), since_ms=T0 + 1_000, at_ms=at_ms
    )


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (group(state="Empty"), ""),
        (group("its owner"), "its consumer group: it holds the offsets of consumer group shop: its owner may be in it"),
        (None, "its consumer group: group shop does not say who is in it: "),
    ],
    ids=["its owner has left it", "somebody is in it by now", "it does not answer"],
)
def test_an_abort_asks_the_group_whose_offsets_are_held(
    current: CurrentState, answer: GroupMembers | None, why: str
) -> None:
    current.see_groups({}, {OFFSETS: held(group(state="Empty", at=60_000))})
    found = why_not(current, Answering(described=[HOLDS_NOW], group=answer), HOLDS, act=Action.ABORT)
    assert found.startswith(why) if why else found == "", found


def test_an_abort_whose_owner_cannot_be_asked_is_held_back(current: CurrentState) -> None:
    found = why_not(current, Answering(described=[HOLDS_NOW]), HOLDS, act=Action.ABORT)
    assert found == "its consumer group: nothing tells whose offsets shop-svc holds: its owner cannot be asked"
