"""What a snapshot keeps of the decision log, what is read of it and what it drops: each as a plain case.

test_decision_snapshot.py says that nothing is missing, whatever the log was.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import DecisionRecord, Kept, Ruling, Settled, Snapshot
from indoubt.lifecycle.identity import Handle
from tests.unit.lifecycle.decision_records import decision, outcome, run, taken_over
from tests.unit.lifecycle.ledgers import fold
from tests.unit.lifecycle.test_identity import HANDLE

ABORT = Ruling.ABORT


def of_epoch(epoch: int) -> Handle:
    """Return a handle that no other epoch's is."""
    return replace(HANDLE, producer_epoch=epoch)


TWO = (of_epoch(1), of_epoch(2))
OLD, LAST = decision(0, batch=3, handles=TWO), decision(0, batch=4, handles=(of_epoch(3),))


@pytest.mark.parametrize(
    ("log", "kept"),
    [
        pytest.param([run()], {0: True}, id="a run"),
        pytest.param([run(), run()], {1: True}, id="the newest run of a checkpoint id"),
        pytest.param([run(), run("M"), run()], {1: True, 2: True}, id="that of each checkpoint id of a prefix"),
        pytest.param([run(), run(prefix="q")], {0: True, 1: True}, id="and that of each prefix"),
        pytest.param([run(), LAST, run()], {0: True, 1: True, 2: True}, id="the older run whose commit counts"),
        pytest.param(
            [run(), OLD, outcome(OLD, Settled.COMMITTED, *TWO), LAST],
            {0: True, 3: True},
            id="no older batch whose handles all have an outcome",
        ),
        pytest.param(
            [run(), OLD, outcome(OLD, Settled.COMMITTED, TWO[0]), LAST],
            {0: True, 1: True, 2: True, 3: True},
            id="an older batch of which one handle has none, with the outcome",
        ),
        pytest.param([run(), LAST, OLD], {0: True, 1: True}, id="no void commit below the last batch"),
        pytest.param([run(), LAST, replace(OLD, ruling=ABORT)], {0: True, 1: True}, id="no abort below the last batch"),
        pytest.param([run(), run(), LAST], {1: True, 2: False}, id="a void commit, not its run"),
        pytest.param([run(), run(), replace(LAST, ruling=ABORT)], {1: True, 2: True}, id="an abort, not its run"),
        pytest.param([run(), taken_over(0)], {0: True, 1: True}, id="which checkpoint id was taken over"),
    ],
)
def test_a_snapshot_keeps(log: list[DecisionRecord], kept: dict[int, bool]) -> None:
    assert fold(enumerate(log)).kept() == tuple(
        Kept(offset=offset, counts=counts, record=log[offset]) for offset, counts in kept.items()
    )


def snapshot(covers: int, *kept: tuple[int, bool, DecisionRecord]) -> Snapshot:
    repeated = tuple(Kept(offset=offset, counts=counts, record=record) for offset, counts, record in kept)
    return Snapshot(prefix="p", begin=covers, covers=covers, kept=repeated, who="w", at_ms=9)


def test_who_starts_at_a_snapshot_knows_what_it_keeps() -> None:
    void = decision(0, batch=5, handles=(of_epoch(4),))
    also_of_another = outcome(OLD, Settled.LOST, TWO[0], of_epoch(9))
    ledger = DecisionLedger.of_snapshot(
        snapshot(
            20, (1, True, run()), (3, True, OLD), (5, True, also_of_another), (7, False, void), (8, True, taken_over(1))
        )
    )
    assert ledger.next_offset == 20
    assert ledger.latest_run("p") == (1, run())
    assert ledger.first(OLD.batch_attempt) == (3, OLD, True)
    assert ledger.first(void.batch_attempt) == (7, void, False)
    assert ledger.outcome(TWO[0].key) == also_of_another
    assert ledger.outcome(TWO[1].key) is ledger.outcome(of_epoch(9).key) is None
    assert ledger.taken_over("L") == (8, taken_over(1))


def test_who_reads_past_a_snapshot_drops_what_it_leaves_out() -> None:
    settled, of_no_decision = outcome(OLD, Settled.COMMITTED, *TWO), outcome(OLD, Settled.LOST, of_epoch(9))
    of_the_last = outcome(LAST, Settled.LOST, *LAST.handles)
    newest = run(name="newest")
    ledger = fold(enumerate([run(), run(), newest]))
    for offset, record, counts in [(3, OLD, True), (4, LAST, True)]:
        ledger.repeat(Kept(offset=offset, counts=counts, record=record))
    for offset, result in enumerate([settled, of_no_decision, of_the_last], 5):
        assert ledger.apply(offset, result)
    ledger.forget_before(snapshot(8, (0, True, run()), (2, True, newest), (4, True, LAST)))
    assert ledger.first(OLD.batch_attempt) is ledger.listing(TWO[0].key) is ledger.outcome(TWO[0].key) is None
    assert ledger.outcome(of_epoch(9).key) is None
    assert ledger.first(LAST.batch_attempt) == (4, LAST, True)
    assert ledger.outcome(of_epoch(3).key) == of_the_last
    assert [ledger.checkpoint_id_of("p", offset) for offset in range(3)] == ["L", None, "L"]
    assert ledger.latest_run("p") == (2, newest)


def test_what_stands_behind_a_snapshot_is_not_dropped() -> None:
    last_covered, at_its_end = decision(0, batch=5, handles=()), decision(0, batch=6, handles=())
    ledger = fold(enumerate([run(), last_covered, at_its_end]))
    ledger.forget_before(snapshot(2, (0, True, run())))
    assert ledger.first(last_covered.batch_attempt) is None
    assert ledger.first(at_its_end.batch_attempt) == (2, at_its_end, True)
    ledger = fold(enumerate([run(name=name) for name in ("first", "last covered", "at its end")]))
    ledger.forget_before(snapshot(2))
    assert ledger.checkpoint_ids("p") == ("L",)
    assert ledger.latest_run("p") == (2, run(name="at its end"))
