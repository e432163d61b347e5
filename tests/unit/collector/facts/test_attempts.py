"""Which attempt at which batch a transaction belongs to, as the decision log tells it."""

from __future__ import annotations

import pytest

from indoubt.collector.facts import attempts
from indoubt.collector.records.observations import DecisionSeen
from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import BatchAttempt, RunStarted
from indoubt.lifecycle.identity import TransactionalId
from tests.unit.collector.observations import (
    CHECKPOINT_ID,
    PREFIX,
    T0,
    batch_attempt,
    decided,
    folded,
    handle,
    run_started,
)


def ledger(*seen: DecisionSeen) -> DecisionLedger:
    return folded(*seen).ledger


def run_of(offset: int, prefix: str = PREFIX, checkpoint_id: str = CHECKPOINT_ID) -> DecisionSeen:
    return DecisionSeen(
        offset=offset, record=RunStarted(prefix=prefix, checkpoint_id=checkpoint_id, run=f"run-{offset}", at_ms=T0)
    )


def pooled(parity: int, prefix: str = PREFIX) -> TransactionalId:
    return TransactionalId(prefix=prefix, slot=0, parity=parity)


def branch(batch: int = 41, attempt: int = 0) -> BranchId:
    found = BranchId.parse(f"{PREFIX}:{batch}:{attempt}:0:0a1b2c3d")
    assert found is not None
    return found


def test_a_branchs_name_and_its_run_tell_its_batch() -> None:
    seen = ledger(run_started(0), run_of(7, checkpoint_id="another"))
    assert attempts.of_branch(seen, branch(41, 0)) == batch_attempt(41, 0)
    assert attempts.of_branch(seen, branch(3, 7)) == BatchAttempt(checkpoint_id="another", batch=3, attempt=7)
    assert attempts.of_branch(seen, branch(41, 5)) is None, "no run of that offset"


@pytest.mark.parametrize(
    ("id_", "claimed", "fits"),
    [
        (pooled(1), batch_attempt(41, 0), True),
        (pooled(0), batch_attempt(42, 0), True),
        (pooled(0), batch_attempt(41, 0), False),
        (pooled(1), batch_attempt(42, 0), False),
        (pooled(1), batch_attempt(41, 5), False),
        (pooled(1, "another"), batch_attempt(41, 0), False),
        (pooled(1), BatchAttempt(checkpoint_id="another", batch=41, attempt=0), False),
        # A branch has no parity.
        (branch(), batch_attempt(41, 0), True),
        (branch(), batch_attempt(42, 0), True),
        (branch(), batch_attempt(41, 5), False),
    ],
)
def test_which_batch_a_transaction_can_be_of(
    id_: TransactionalId | BranchId, claimed: BatchAttempt, fits: bool
) -> None:
    assert attempts.fits(ledger(run_started(0)), id_, claimed) is fits


@pytest.mark.parametrize(
    ("runs", "newest"),
    [
        ([], None),
        ([run_of(0)], 0),
        ([run_of(0), run_of(3)], 3),
        # Another prefix goes on from the same checkpoint directory.
        ([run_of(0), run_of(3, "another")], 3),
        ([run_of(0, "another"), run_of(3)], 3),
        ([run_of(0), run_of(3, "another", "its own")], 0),
        ([run_of(3, "another")], None),
    ],
)
def test_the_run_that_voids_what_earlier_ones_decide(runs: list[DecisionSeen], newest: int | None) -> None:
    found = attempts.newest_run(ledger(*runs), PREFIX)
    assert (None if found is None else found[0]) == newest


@pytest.mark.parametrize(
    ("seen", "parity", "expected"),
    [
        ([], 0, None),
        ([run_of(0, "another")], 0, None),
        ([run_of(5)], 0, batch_attempt(0, 5)),
        # Nothing was decided yet: the first batch is of even parity.
        ([run_of(5)], 1, None),
        ([run_of(0), decided(1, handle(), batch=0)], 0, batch_attempt(0, 0)),
        ([run_of(0), decided(1, handle(), batch=0)], 1, batch_attempt(1, 0)),
        ([run_of(0), decided(1, handle(), batch=41)], 1, batch_attempt(41, 0)),
        ([run_of(0), decided(1, handle(), batch=41)], 0, batch_attempt(42, 0)),
        ([run_of(0), decided(1, handle(), batch=41), run_of(9)], 0, batch_attempt(42, 9)),
    ],
)
def test_the_newest_run_tries_the_last_decided_batch_again_or_the_next(
    seen: list[DecisionSeen], parity: int, expected: BatchAttempt | None
) -> None:
    assert attempts.of_run(ledger(*seen), pooled(parity)) == expected
