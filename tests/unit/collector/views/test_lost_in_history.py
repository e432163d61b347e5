"""A lost transaction comes back from history after a restart, however much ended after it; a replayed one does not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from indoubt.collector.history.store import Store
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchProof, DecisionSeen, Observation, Observed, Position
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.collector.views import replay
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.replay import lost_in_history
from indoubt.lifecycle import decisions
from indoubt.lifecycle.decisions import Ruling
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.verdicts import Verdict
from tests.unit.collector.observations import (
    branch_gone,
    branch_listed,
    broker_record,
    database_handle,
    decided,
    handle,
    run_started,
)

LATER = 600_000
AGAIN = handle("ip-count-0-1", epoch=6)
BRANCH = database_handle()


def ended(of: Handle, end: BrokerStatus, at: int, start: int = 0) -> list[Observation]:
    id_, producer_id, epoch = of.transaction, of.producer_id or 0, of.producer_epoch or 0
    return [
        broker_record(
            BrokerStatus.ONGOING, at - 10, transaction=id_, producer_id=producer_id, epoch=epoch, start=start
        ),
        broker_record(end, at, transaction=id_, producer_id=producer_id, epoch=epoch + 1, start=start, version=2),
    ]


ABORTED = [run_started(), *ended(handle(), BrokerStatus.COMPLETE_ABORT, 60_010)]
LOST = [*ABORTED, decided(1, handle())]
OTHERS = [
    seen
    for n in range(40)
    for seen in ended(
        handle("other-0-0", epoch=n, producer_id=9), BrokerStatus.COMPLETE_COMMIT, LATER + n, LATER + n - 20
    )
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.duckdb"


def kept(path: Path, seen: Sequence[Observation]) -> None:
    store, offsets = Store(path), itertools.count()
    CurrentState(store, settled_kept=5, checkpoints_kept=5).observe([of(one, offsets) for one in seen])
    store.close()


def of(seen: Observation, offsets: Iterator[int]) -> Observed:
    if isinstance(seen, DecisionSeen):
        position = Position(source="decisions", partition=0, offset=seen.offset)
        return Observed(position=position, observation=seen, raw=decisions.encode(seen.record))
    return Observed(position=Position(source="test", partition=0, offset=next(offsets)), observation=seen)


def lost_after_restart(path: Path) -> list[str]:
    store = Store(path)
    try:
        current = CurrentState(store, settled_kept=5, checkpoints_kept=5)
        current.load()
        current.see_decision_log(DecisionLogStatus.READABLE)
        return [
            judged.view.transaction
            for judged in current.transactions.judged()
            if judged.judgement.verdict is Verdict.LOST
        ]
    finally:
        store.close()


def test_a_lost_transaction_comes_back_after_a_restart(path: Path) -> None:
    kept(path, [*LOST, *OTHERS])
    assert lost_after_restart(path) == ["ip-count-0-1"]


def test_it_comes_back_though_its_decision_is_not_among_the_newest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "DECISIONS_LOADED", 1)
    monkeypatch.setattr(replay, "DECISIONS_OF_EACH", 1)
    elsewhere = [decided(n, ruling=Ruling.ABORT, batch=n) for n in range(50, 60)]
    kept(path, [*LOST, *elsewhere, *OTHERS])
    assert lost_after_restart(path) == ["ip-count-0-1"]


def test_memory_that_is_full_while_history_is_loaded_keeps_it(path: Path) -> None:
    # They are folded before the decision that makes it lost, and are more than memory keeps.
    many = [decided(n, handle(f"ip-count-{n}-0", slot=n), ruling=Ruling.ABORT, batch=n) for n in range(1, 41)]
    kept(path, [*ABORTED, *many, decided(41, handle()), *OTHERS])
    assert lost_after_restart(path) == ["ip-count-0-1"]


def test_one_whose_batch_was_replayed_does_not(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "DECISIONS_LOADED", 1)
    monkeypatch.setattr(replay, "DECISIONS_OF_EACH", 1)
    later = [
        decided(2, handle("ip-count-0-0"), batch=42),
        *(decided(n, ruling=Ruling.ABORT, batch=n) for n in range(50, 60)),
    ]
    kept(path, [*LOST, *later, *OTHERS])
    assert lost_after_restart(path) == []


@pytest.mark.parametrize(
    ("end", "expected"),
    [(BrokerStatus.COMPLETE_COMMIT, []), (BrokerStatus.COMPLETE_ABORT, ["ip-count-0-1", "ip-count-0-1"])],
)
def test_a_second_attempt_replays_it_once_it_is_committed(path: Path, end: BrokerStatus, expected: list[str]) -> None:
    second = [run_started(2, at=61_000, run="run-2"), *ended(AGAIN, end, 70_000, 65_000), decided(3, AGAIN, attempt=2)]
    kept(path, [*LOST, *second, *OTHERS])
    assert lost_after_restart(path) == expected


def test_a_branch_with_a_tombstone_comes_back(path: Path) -> None:
    gone = [database_handle(nonce=f"{n:08x}") for n in range(20)]
    others: list[Observation] = [branch_listed(one, at=LATER + n) for n, one in enumerate(gone)]
    others += [branch_gone(one, BranchProof.COMMITTED, at=LATER + 100 + n) for n, one in enumerate(gone)]
    lost = [run_started(), decided(1, BRANCH), branch_listed(BRANCH), branch_gone(BRANCH, BranchProof.TOMBSTONE)]
    kept(path, [*lost, *others])
    assert lost_after_restart(path) == [BRANCH.transaction]


def test_what_was_aborted_without_a_decision_or_by_others_is_not_looked_for(path: Path) -> None:
    foreign = ended(handle("writer-0-1", producer_id=3), BrokerStatus.COMPLETE_ABORT, 60_010)
    kept(path, [*ABORTED, *foreign, decided(1, handle(), ruling=Ruling.ABORT), *OTHERS])
    store = Store(path)
    try:
        assert lost_in_history(store).identities == ()
    finally:
        store.close()
    assert lost_after_restart(path) == []
