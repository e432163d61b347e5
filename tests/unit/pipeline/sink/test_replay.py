"""What a replayed batch writes: multisets of fingerprints, numbered cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import DecisionRecord, Settled
from indoubt.lifecycle.errors import NotDeterministic
from indoubt.lifecycle.identity import Handle
from indoubt.pipeline.sink.replay import BranchPlan, ReplayPlan, plan_replay
from tests.unit.lifecycle.decision_records import decision, run
from tests.unit.lifecycle.test_identity import HANDLE


def handle(slot: int, fingerprint: str, epoch: int = 0, held_by: str = "kafka") -> Handle:
    kafka = held_by == "kafka"
    return replace(
        HANDLE,
        resource_manager=held_by,
        transaction=f"p-{slot}-0" if kafka else f"p:7:{epoch}:{slot}:00000000",
        producer_id=100 + slot if kafka else None,
        producer_epoch=epoch if kafka else None,
        fingerprint=fingerprint,
        slot=slot,
    )


def ledger_of(*attempts: tuple[Handle, ...], batch: int = 7) -> DecisionLedger:
    records: list[DecisionRecord] = []
    for handles in attempts:
        records += [run("l"), decision(len(records), batch=batch, checkpoint_id="l", handles=handles)]
    ledger = DecisionLedger()
    assert all(ledger.apply(offset, record) for offset, record in enumerate(records))
    return ledger


def kafka_plan(
    committed: tuple[str, ...], missing: tuple[str, ...], batch: int = 1, attempts: tuple[int, ...] = (0,)
) -> ReplayPlan:
    return ReplayPlan(
        batch=batch, attempts=attempts, branches={"kafka": BranchPlan(committed=committed, missing=missing)}
    )


def test_nothing_decided_needs_no_plan():
    assert plan_replay(DecisionLedger(), "p", "l", {}) is None


def test_missing_are_the_lost_handles_of_the_last_counting_decision():
    first = (handle(0, "a"), handle(1, "b"))
    second = (handle(1, "b", epoch=5),)
    known = {first[0].key: Settled.COMMITTED, first[1].key: Settled.LOST, second[0].key: Settled.COMMITTED}
    plan = plan_replay(ledger_of(first, second), "p", "l", known)
    assert plan == kafka_plan(("a", "b"), (), batch=7, attempts=(0, 2))


def test_a_handle_lost_twice_is_still_missing_once():
    first, second = (handle(0, "a"), handle(1, "b")), (handle(1, "b", epoch=5),)
    known = {first[0].key: Settled.COMMITTED, first[1].key: Settled.LOST, second[0].key: Settled.LOST}
    plan = plan_replay(ledger_of(first, second), "p", "l", known)
    assert plan == kafka_plan(("a",), ("b",), batch=7, attempts=(0, 2))


CASES = [
    # committed, missing, fingerprint of the slot -> what it does
    (("a",), ("b",), "b", True),
    (("a",), ("b",), "a", False),
    (("a",), ("a",), "a", True),  # missing wins over a committed slot with the same rows
]


@pytest.mark.parametrize(("committed", "missing", "now", "expected"), CASES)
def test_a_slot_does_what_its_fingerprint_says(committed, missing, now, expected):
    assert kafka_plan(committed, missing).is_missing("kafka", now) is expected


def test_rows_that_the_batch_never_held_fail_and_say_so():
    with pytest.raises(NotDeterministic, match="not deterministic"):
        kafka_plan(("a",), ("b",)).is_missing("kafka", "c")


def test_the_driver_lists_the_missing_handles_and_returns_the_surplus():
    plan = kafka_plan(("a", "c"), ("a",))
    chosen, surplus = plan.choose([handle(0, "a"), handle(1, "a")], slots=["a", "c", "a"])
    assert [h.slot for h in chosen] == [0]
    assert [h.slot for h in surplus] == [1]


def test_too_few_prepared_fails():
    with pytest.raises(NotDeterministic):
        kafka_plan(("a",), ("b",)).choose([], slots=["a", "b"])


def test_other_rows_as_a_whole_fail_even_when_each_slot_looked_known():
    with pytest.raises(NotDeterministic):
        kafka_plan(("a", "b"), ()).choose([], slots=["a", "a"])


def test_what_kafka_lost_is_not_missing_in_the_database_that_committed_it():
    first = (handle(0, "a"), handle(1, "b"), handle(0, "a", held_by="mysql"), handle(1, "b", held_by="mysql"))
    known = {h.key: Settled.COMMITTED for h in first} | {first[1].key: Settled.LOST}
    plan = plan_replay(ledger_of(first), "p", "l", known)
    assert plan is not None
    assert plan.incomplete == ("kafka",)
    assert plan.skipped("b") == ("mysql",)
    assert plan.skipped("a") == ("kafka", "mysql")


def test_after_a_replay_in_one_resource_manager_the_batch_is_whole_in_both():
    first = (handle(0, "a"), handle(0, "a", held_by="mysql"))
    second = (handle(0, "a", epoch=5),)
    known = {first[0].key: Settled.LOST, first[1].key: Settled.COMMITTED, second[0].key: Settled.COMMITTED}
    plan = plan_replay(ledger_of(first, second), "p", "l", known)
    assert plan is not None
    assert plan.incomplete == ()
    assert plan.skipped("a") == ("kafka", "mysql")


def test_each_resource_manager_gets_its_own_missing_rows():
    branches = {
        "kafka": BranchPlan(committed=("a",), missing=("b", "b")),
        "mysql": BranchPlan(committed=("b", "b"), missing=("a",)),
    }
    plan = ReplayPlan(batch=1, attempts=(0,), branches=branches)
    prepared = [handle(0, "b"), handle(1, "b"), handle(2, "a", held_by="mysql"), handle(0, "b", held_by="mysql")]
    chosen, surplus = plan.choose(prepared, slots=["b", "b", "a"])
    assert chosen == prepared[:3]
    assert surplus == prepared[3:]
    with pytest.raises(NotDeterministic, match=r"no task prepared the missing rows 1 x a \(mysql\)"):
        plan.choose(prepared[:2], slots=["b", "b", "a"])


def test_plan_travels_as_text():
    branches = {
        "kafka": BranchPlan(committed=("a",), missing=("b", "b")),
        "mysql": BranchPlan(committed=(), missing=()),
    }
    plan = ReplayPlan(batch=1, attempts=(0,), branches=branches)
    assert ReplayPlan.from_json(plan.to_json()) == plan
    assert ReplayPlan.from_json("") is None
