"""What a replayed batch writes: multisets of fingerprints, numbered cases."""

from __future__ import annotations

import pytest

from lifecycle.decisions import BatchAttempt, Decision, DecisionLedger, Ruling, RunStarted, Settled
from lifecycle.errors import NotDeterministic
from lifecycle.identity import Handle
from pipeline.replay import ReplayPlan, SlotAction, plan_replay


def handle(slot: int, fingerprint: str, epoch: int = 0) -> Handle:
    return Handle(
        resource_manager="kafka",
        transaction=f"p-{slot}-0",
        producer_id=100 + slot,
        producer_epoch=epoch,
        slot=slot,
        rows=1,
        bytes=1,
        fingerprint=fingerprint,
        opened_at_ms=0,
        prepared_at_ms=0,
        timeout_ms=60_000,
    )


def ledger_of(*attempts: tuple[Handle, ...], batch: int = 7) -> DecisionLedger:
    ledger, offset = DecisionLedger(), 0
    for handles in attempts:
        ledger.apply(offset, RunStarted(prefix="p", life="l", run=str(offset), at_ms=0))
        about = BatchAttempt(life="l", batch=batch, attempt=offset)
        decision = Decision(prefix="p", about=about, ruling=Ruling.COMMIT, handles=handles, who="x", at_ms=0)
        assert ledger.apply(offset + 1, decision)
        offset += 2
    return ledger


def test_nothing_decided_needs_no_plan():
    assert plan_replay(DecisionLedger(), "l", {}) is None


def test_missing_are_the_lost_handles_of_the_last_counting_decision():
    first = (handle(0, "a"), handle(1, "b"))
    second = (handle(1, "b", epoch=5),)
    known = {first[0].key: Settled.COMMITTED, first[1].key: Settled.LOST, second[0].key: Settled.COMMITTED}
    plan = plan_replay(ledger_of(first, second), "l", known)
    assert plan == ReplayPlan(batch=7, committed=("a", "b"), missing=())


def test_a_handle_lost_twice_is_still_missing_once():
    first, second = (handle(0, "a"), handle(1, "b")), (handle(1, "b", epoch=5),)
    known = {first[0].key: Settled.COMMITTED, first[1].key: Settled.LOST, second[0].key: Settled.LOST}
    plan = plan_replay(ledger_of(first, second), "l", known)
    assert plan is not None
    assert (plan.committed, plan.missing) == (("a",), ("b",))


CASES = [
    # committed, missing, fingerprint of the slot -> what it does
    (("a",), ("b",), "b", SlotAction.PREPARE),
    (("a",), ("b",), "a", SlotAction.SKIP),
    (("a",), ("a",), "a", SlotAction.PREPARE),  # missing wins over a committed slot with the same rows
]


@pytest.mark.parametrize(("committed", "missing", "now", "expected"), CASES)
def test_a_slot_does_what_its_fingerprint_says(committed, missing, now, expected):
    assert ReplayPlan(batch=1, committed=committed, missing=missing).action(now) is expected


def test_rows_that_the_batch_never_held_fail_and_say_so():
    with pytest.raises(NotDeterministic, match="not deterministic"):
        ReplayPlan(batch=1, committed=("a",), missing=("b",)).action("c")


def test_driver_lists_as_many_handles_per_fingerprint_as_are_missing_and_returns_the_surplus():
    plan = ReplayPlan(batch=1, committed=("a", "c"), missing=("a",))
    chosen, surplus = plan.choose([handle(0, "a"), handle(1, "a")], skipped=["c"])
    assert [h.slot for h in chosen] == [0]
    assert [h.slot for h in surplus] == [1]


def test_too_few_prepared_fails():
    with pytest.raises(NotDeterministic):
        ReplayPlan(batch=1, committed=("a",), missing=("b",)).choose([], skipped=["a", "b"])


def test_other_rows_as_a_whole_fail_even_when_each_slot_looked_known():
    with pytest.raises(NotDeterministic):
        ReplayPlan(batch=1, committed=("a", "b"), missing=()).choose([], skipped=["a", "a"])


def test_plan_travels_as_text():
    plan = ReplayPlan(batch=1, committed=("a",), missing=("b", "b"))
    assert ReplayPlan.from_json(plan.to_json()) == plan
    assert ReplayPlan.from_json("") is None
