"""When a lost transaction's batch was completed again: by its checkpoint directory, or by what was decided and committed since."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.facts.replayed_batches import replayed_ms
from indoubt.collector.facts.transaction_join import views
from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchProof, Observation
from indoubt.lifecycle.decisions import Settled
from tests.unit.collector.observations import (
    PREFIX,
    T0,
    branch_gone,
    branch_listed,
    broker_record,
    database_handle,
    decided,
    folded,
    handle,
    outcome,
    run_started,
)

MINE = handle()
ENDED = 1_100
LOST = [
    run_started(0),
    broker_record(BrokerStatus.ONGOING, 0),
    decided(1, MINE),
    broker_record(BrokerStatus.PREPARE_ABORT, ENDED),
    broker_record(BrokerStatus.COMPLETE_ABORT, ENDED + 1),
]
AGAIN = handle(epoch=6)
BRANCH = database_handle(nonce="00000001")
REPLAY = [run_started(2, at=2_000, run="run-2"), decided(3, AGAIN, BRANCH, at=3_000, attempt=2)]


def committed(of_epoch: int = 6, status: BrokerStatus = BrokerStatus.COMPLETE_COMMIT) -> list[Observation]:
    return [
        broker_record(BrokerStatus.ONGOING, 2_500, epoch=of_epoch, start=2_500),
        broker_record(status, 3_100, epoch=of_epoch, start=2_500),
    ]


KAFKA_DONE = committed()
BRANCH_DONE = [branch_listed(BRANCH), branch_gone(BRANCH, BranchProof.COMMITTED)]


def found(*since: Observation, before: list[Observation] = LOST, **checkpoint: Any) -> int | None:
    """Return ms after T0 at which the lost one's batch was completed again, or None."""
    state = folded(*before, *since)
    if checkpoint:
        state.checkpoints[PREFIX, 41] = CheckpointFacts(pipeline=PREFIX, number=41, **checkpoint)
    (lost,) = (
        view for view in views(state, settled=True) if view.transaction == "ip-count-0-1" and view.producer_epoch == 4
    )
    at_ms = replayed_ms(state, lost)
    return None if at_ms is None else at_ms - T0


@pytest.mark.parametrize(
    ("since", "at"),
    [
        ([], None),
        ([*REPLAY], None),
        ([*REPLAY, *KAFKA_DONE], None),
        ([*REPLAY, *BRANCH_DONE], None),
        ([*REPLAY, *KAFKA_DONE, *BRANCH_DONE], 3_000),
        ([*REPLAY, *KAFKA_DONE, outcome(4, BRANCH, Settled.COMMITTED)], 3_000),
        ([*REPLAY, *KAFKA_DONE, outcome(4, BRANCH, Settled.LOST)], None),
        ([*REPLAY, *KAFKA_DONE, branch_listed(BRANCH), branch_gone(BRANCH, BranchProof.NO_MARKER)], None),
        ([*REPLAY, *committed(status=BrokerStatus.COMPLETE_ABORT), *BRANCH_DONE], None),
        ([*REPLAY, *committed(status=BrokerStatus.PREPARE_COMMIT), *BRANCH_DONE], 3_000),
        ([*REPLAY, outcome(4, AGAIN, Settled.COMMITTED), *BRANCH_DONE], 3_000),
        ([decided(2, handle("ip-count-0-0", epoch=7), at=4_000, batch=42)], 4_000),
        ([decided(2, handle("ip-count-0-0", epoch=7), at=4_000, batch=40)], None),
    ],
    ids=[
        "nothing since", "decided again, not committed", "one half committed", "the other half committed",
        "decided again and committed", "an outcome says so", "an outcome says that it is lost", "no marker proves it",
        "rolled back", "committing", "outcome of Kafka's half", "a later batch was decided", "an earlier batch was decided",
    ],
)  # fmt: skip
def test_a_lost_batch_is_completed_once_it_or_a_later_one_is(since: list[Observation], at: int | None) -> None:
    assert found(*since) == at


@pytest.mark.parametrize(
    ("checkpoint", "at"),
    [
        ({"proven_ms": T0 + ENDED}, None),
        ({"proven_ms": T0 + ENDED + 1}, ENDED + 1),
        ({"completed_ms": T0 + 9_000}, None),
    ],
    ids=["completed before it ended", "completed after it ended", "an event claims it"],
)
def test_a_checkpoint_directory_proves_that_the_batch_was_completed(checkpoint: dict[str, int], at: int | None) -> None:
    assert found(**checkpoint) == at
    assert found(decided(2, handle("ip-count-0-0", epoch=7), at=4_000, batch=42), **checkpoint) == (at or 4_000)


@pytest.mark.parametrize(
    ("of_batch", "attempt", "at"),
    [(40, 0, 3_000), (41, 0, 3_000), (41, 2, None), (41, 5, None), (42, 0, None), (42, 5, None), (40, 5, 3_000)],
)
def test_only_a_later_batch_or_attempt_completes_a_branch(of_batch: int, attempt: int, at: int | None) -> None:
    """Of a branch its name tells the batch, whatever was decided: 41 was, in its attempt 2, and all of it is committed."""
    lost = replace(BRANCH, transaction=f"{PREFIX}:{of_batch}:{attempt}:1:0a0a0a0a")
    runs = [run_started(0), run_started(2), decided(3, AGAIN, BRANCH, at=3_000, attempt=2), run_started(5)]
    state = folded(*runs, *KAFKA_DONE, *BRANCH_DONE, branch_listed(lost), branch_gone(lost, BranchProof.NO_MARKER))
    (view,) = (view for view in views(state, settled=True) if view.transaction == lost.transaction)
    assert view.proven_batch_attempt is not None
    at_ms = replayed_ms(state, view)
    assert (None if at_ms is None else at_ms - T0) == at


def test_nothing_is_replayed_before_anything_was_decided() -> None:
    state = folded(run_started(0), branch_listed(BRANCH), branch_gone(BRANCH, BranchProof.NO_MARKER))
    (view,) = views(state, settled=True)
    assert view.ended_ms is not None
    assert replayed_ms(state, view) is None


def test_what_was_committed_was_not_replayed() -> None:
    done = [broker_record(status, ENDED) for status in (BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)]
    assert found(before=[*LOST[:3], *done]) is None


def test_what_has_not_ended_or_is_of_no_known_batch_was_not_replayed() -> None:
    later = decided(2, handle("ip-count-0-0", epoch=7), at=4_000, batch=42)
    assert found(later, before=LOST[:3]) is None
    assert found(later, before=[LOST[0], LOST[1], *LOST[3:]]) is None
    assert found(before=LOST, proven_ms=None, rows=1) is None


def test_a_take_over_decides_no_batch_of_another_checkpoint() -> None:
    elsewhere = decided(2, handle("ip-count-0-0", epoch=7), at=4_000, batch=42)
    moved = replace(elsewhere.record, batch_attempt=replace(elsewhere.record.batch_attempt, checkpoint_id="other"))  # type: ignore[type-var, union-attr]
    assert found(replace(elsewhere, record=moved)) is None
