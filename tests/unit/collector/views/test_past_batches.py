"""A batch that has left memory is shown as it was while memory had it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from indoubt.collector.history.store import Store
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchProof, Observed
from indoubt.collector.serve.api import listings
from indoubt.collector.serve.api.listings import ListQuery
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.past_batches import MOST_KEPT, Attempts
from indoubt.lifecycle.decisions import Ruling, Settled
from indoubt.lifecycle.rows.batches import BatchRow
from tests.unit.collector.observations import (
    branch_gone,
    branch_listed,
    broker_record,
    database_handle,
    decided,
    handle,
    outcome,
    run_started,
)
from tests.unit.collector.serve.api.served_api import decision_seen, observed

PIPELINE, BATCHES = "ip-count", 40
ROLLED_BACK, LOST, TWO_SIDES = 3, 5, 7


def story() -> list[Observed]:
    """Return batches of two slots; one was rolled back, one lost and replayed by a second attempt, one has a branch besides."""
    numbers, offsets, found = count(), count(1), [decision_seen(run_started(0))]

    def batch(number: int, at: int, *, attempt: int = 0, ruling: Ruling = Ruling.COMMIT, is_lost: bool = False) -> None:
        handles = [handle(f"{PIPELINE}-{slot}-{number % 2}", at // 1_000, slot, slot) for slot in range(2)]
        branch = database_handle(nonce=f"{number:08x}")
        listed = [*handles, branch] if number == TWO_SIDES else handles
        if number == TWO_SIDES:
            seen = [branch_listed(branch, at=at), branch_gone(branch, BranchProof.COMMITTED, at=at + 600)]
            found.extend(observed(next(numbers), one) for one in seen)
        decision = decided(next(offsets), *listed, at=at + 300, ruling=ruling, batch=number, attempt=attempt)
        found.append(decision_seen(decision))
        is_undone = is_lost or ruling is Ruling.ABORT
        ends = (
            (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)
            if is_undone
            else (BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
        )
        for of in handles:
            for status, late in ((BrokerStatus.ONGOING, 0), (ends[0], 400), (ends[1], 410)):
                record = broker_record(
                    status, at + late, transaction=of.transaction, producer_id=of.producer_id or 0,
                    epoch=of.producer_epoch or 0, start=at,
                )  # fmt: skip
                found.append(observed(next(numbers), record))
        if not is_undone:
            for of in listed:
                found.append(decision_seen(outcome(next(offsets), of, Settled.COMMITTED, at=at + 500)))

    for number in range(BATCHES):
        at = 10_000 * number + 1_000
        batch(number, at, ruling=Ruling.ABORT if number == ROLLED_BACK else Ruling.COMMIT, is_lost=number == LOST)
        if number == LOST:
            batch(number, at + 3_000, attempt=1)
    return found


def attempts(directory: Path, kept: int, number: int, query: ListQuery) -> tuple[list[BatchRow], int]:
    """Return the rows of a batch, and how many of its transactions memory has."""
    directory.mkdir()
    with closing(Store(directory / "history.duckdb")) as store:
        current = CurrentState(store, settled_kept=kept, checkpoints_kept=100)
        current.see_decision_log(DecisionLogStatus.READABLE)
        current.observe(story())
        store.flushed()
        rows = listings.batches(current, Attempts(current, store), query, number, None).rows
        in_memory = sum(1 for _ in current.transactions.judged_of_batches(lambda attempt: attempt.batch == number))
        return [replace(row, revision="") for row in rows], in_memory


@pytest.mark.parametrize(("number", "has_left"), [(0, 2), (1, 2), (LOST, 4), (TWO_SIDES, 2)])
def test_an_old_batch_is_shown_as_memory_had_it(tmp_path: Path, number: int, has_left: int) -> None:
    query = ListQuery(pipeline=PIPELINE, limit=500)
    expected, all_of_it = attempts(tmp_path / "much", 10_000, number, query)
    found, in_memory = attempts(tmp_path / "little", 4, number, query)
    # Its branch stays longer than what its coordinator has of the same batch.
    assert all_of_it - in_memory == has_left
    assert found == expected
    assert len(found) == (2 if number == LOST else 1)


def test_filters_hold_for_old_batches(tmp_path: Path) -> None:
    query = ListQuery(pipeline=PIPELINE, verdict="lost, then written again", limit=500)
    [row], _ = attempts(tmp_path / "lost", 4, LOST, query)
    assert (row.attempt, row.verdict) == (0, "lost, then written again")
    assert attempts(tmp_path / "other", 4, 0, query) == ([], 0)
    assert attempts(tmp_path / "another", 4, 0, replace(query, pipeline="billing", verdict=None)) == ([], 0)
    assert attempts(tmp_path / "never", 4, 10 * BATCHES, replace(query, verdict=None)) == ([], 0)


def test_history_is_asked_once_about_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Store(tmp_path / "history.duckdb")) as store:
        current = CurrentState(store, settled_kept=4, checkpoints_kept=100)
        current.observe(story())
        known = Attempts(current, store)
        [first] = known.at(PIPELINE, 0)
        for number in range(1_000, 1_000 + MOST_KEPT - 1):
            assert known.at(PIPELINE, number) == []
        with monkeypatch.context() as without:
            without.delattr(Store, "rows")
            assert known.at(PIPELINE, 0) == [first]
        known.at(PIPELINE, 2_000)
        with monkeypatch.context() as without:
            without.delattr(Store, "rows")
            with pytest.raises(AttributeError):
                known.at(PIPELINE, 1_000)
