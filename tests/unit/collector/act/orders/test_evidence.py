"""What an order looks at again before it acts: that it is open as it was seen, by what epoch, and what is said where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.act.orders.evidence import evidence_of, open_now, refusal, results_of
from indoubt.collector.act.orders.participants import KafkaParticipant, Participants
from indoubt.collector.act.orders.plan import OrderContext
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.orders import StepOutcome
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.verdicts.verdict_rules import judge
from indoubt.lifecycle.errors import OrderRefused
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from indoubt.resource_managers.protocol import OpenTransactionView
from tests.unit.collector.act.orders.test_outcome_probes import NOBODY
from tests.unit.collector.observations import broker_record, case, only_view

VIEW = only_view(broker_record(BrokerStatus.ONGOING, 0, transaction="flink-orders-3"))
SEEN = Judged(view=VIEW, judgement=judge(case(VIEW, 600)), pipeline=None)
OPEN = OpenTransactionView(
    resource_manager="kafka", transaction=VIEW.transaction, producer_epoch=VIEW.producer_epoch, state="Ongoing"
)


class Answering(KafkaParticipant):
    """A coordinator's answers as they are given here."""

    def __init__(self, *answers: OpenTransactionView | None) -> None:
        super().__init__(KafkaResourceManager(NOBODY))
        self.answers = list(answers)

    def find_open(self, seen: Sequence[TransactionView]) -> list[OpenTransactionView | None]:
        return self.answers


def over(*answers: OpenTransactionView | None) -> OrderContext:
    nothing: Any = None
    return OrderContext(
        current=nothing, participants=Participants({"kafka": Answering(*answers)}), log=nothing, limit_s=1.0
    )


def test_what_is_open_as_it_was_seen_is_returned_in_order() -> None:
    other = replace(OPEN, producer_epoch=9)
    assert open_now(over(OPEN, other), [SEEN, SEEN]) == [OPEN, other]
    assert open_now(over(OPEN), [SEEN], epoch_counts=True) == [OPEN]


@pytest.mark.parametrize(
    ("answer", "epoch_counts"), [(None, False), (None, True), (replace(OPEN, producer_epoch=9), True)]
)
def test_one_that_is_not_open_as_it_was_seen_is_refused(answer: OpenTransactionView | None, epoch_counts: bool) -> None:
    with pytest.raises(OrderRefused, match=f"transaction {VIEW.key} is not open any more as it was seen"):
        open_now(over(OPEN, answer), [SEEN, SEEN], epoch_counts=epoch_counts)


def test_an_error_leaves_the_end_unknown() -> None:
    ends = results_of(["", "no broker answered"], StepOutcome.ABORTED)
    assert ends == [(StepOutcome.ABORTED, ""), (StepOutcome.UNKNOWN, "no broker answered")]


def test_a_refusal_says_the_verdict_and_what_it_rests_on() -> None:
    said = str(refusal(SEEN, "committed"))
    assert said.startswith(f"transaction {VIEW.key} may not be committed: foreign (not one of your pipelines")


def test_the_audit_keeps_what_was_judged() -> None:
    kept = evidence_of("key", "open", SEEN.judgement, "revision")
    facts = [each["fact"] for each in kept.pop("evidence")]
    assert kept == {"key": "key", "state": "open", "verdict": "foreign", "rule": 7, "revision": "revision"}
    assert facts == [each.fact for each in SEEN.judgement.evidence]
