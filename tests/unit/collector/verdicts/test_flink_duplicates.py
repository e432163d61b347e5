"""Committed transactions of a Flink job that was set back to before them: their rows are in Kafka twice."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from indoubt.collector.assess.findings import Severity
from indoubt.collector.history.store import Store
from indoubt.collector.records.formats.flink_records import Committable, FlinkCommittables, FlinkKind
from indoubt.collector.records.observations import Observation
from indoubt.collector.verdicts.data_loss import Loss
from indoubt.lifecycle.verdicts import Certainty
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.observations import T0, folded
from tests.unit.collector.verdicts.case_tables import table
from tests.unit.collector.verdicts.loss_observations import (
    CERTAIN,
    COMMITS,
    LIKELY,
    NOT_LOST,
    OVER,
    TWICE,
    check,
    folded_with_lists,
    judged,
    restored,
    transaction,
)
from tests.unit.collector.verdicts.watched_losses import Watched

TAKEN = [checkpoint(0), checkpoint(1), checkpoint(2), checkpoint(3)]
THIS = transaction(3, 21_500, 31_100, committed=True)
ITS_LIST = FlinkCommittables(
    cluster="eu", job="a" * 32, number=3, path=f"/c/{'a' * 32}/chk-3", kind=FlinkKind.CHECKPOINT, written_ms=T0 + 30_500,
    read_ms=T0 + 30_600, committables=frozenset({Committable("sink-0-3", 3, 4)}),
)  # fmt: skip


def loss_of(number: int, *observed: Observation) -> Loss:
    """Return what became of the committed transaction with this number."""
    return next(
        loss for (id_, _), loss in judged(folded(*COMMITS, *THIS, *observed)).items() if id_ == f"sink-0-{number}"
    )


@pytest.mark.parametrize(("restore", "twice"), [(1, {2, 3}), (2, {3}), (3, set())])
def test_what_was_committed_behind_the_restored_checkpoint_is_written_twice(restore: int, twice: set[int]) -> None:
    found = {number: loss_of(number, OVER, *TAKEN, restored(restore, 90_000)) for number in range(4)}
    assert {number for number, loss in found.items() if loss.verdict is TWICE} == twice
    for number in twice:
        check(found[number], TWICE, LIKELY, f"was restored from checkpoint {restore} at")
        check(found[number], TWICE, LIKELY, f"before checkpoint {number} that holds it: its rows are written again")
        assert found[number].checkpoint == number


NOT_SET_BACK = [
    ("never restored", [job(), *TAKEN]),
    ("restored before it was committed", [job(restored=2, restored_at=25_000), *TAKEN]),
    (
        "the only later one commits nothing",
        [OVER, *TAKEN[:3], checkpoint(3, kind=FlinkKind.SAVEPOINT), restored(2, 90_000)],
    ),
]


@table("observed", NOT_SET_BACK)
def test_without_a_restore_from_before_it_nothing_is_claimed(observed: list[Observation]) -> None:
    check(loss_of(3, *observed), NOT_LOST, CERTAIN, "")


def test_a_sink_whose_numbers_are_not_understood_proves_nothing() -> None:
    """After few commits the number may be a checkpoint's or a place in a pool."""
    state = folded(*THIS, OVER, *TAKEN, restored(2, 90_000))
    assert {loss.verdict for loss in judged(state).values()} == {NOT_LOST}


SET_BACKS = [
    ("by another job", [OVER, restored(2, 90_000)], LIKELY),
    ("by itself", [job(restored=2, restored_at=90_000)], CERTAIN),
]


@table("set_back, certainty", SET_BACKS)
def test_a_list_on_disk_and_its_own_restore_make_it_certain(set_back: list[Observation], certainty: Certainty) -> None:
    (loss,) = judged(folded_with_lists([*THIS, *TAKEN, *set_back, ITS_LIST])).values()
    check(loss, TWICE, certainty, "before checkpoint 3 that lists it")
    assert loss.checkpoint == 3


def test_pooled_ids_are_likely_twice_by_their_times() -> None:
    commits = [record for at in (50, 10_050, 20_050) for record in transaction(0, at, at + 1_000, committed=True)]
    late = transaction(0, 21_500, 31_100, committed=True)
    found = judged(folded(*commits, *late, OVER, *TAKEN, restored(2, 90_000)))
    twice = {opened - T0: loss.certainty for (_, opened), loss in found.items() if loss.verdict is TWICE and opened}
    assert twice == {21_500: LIKELY}


def test_a_duplicate_is_listed_and_alerts_for_an_hour_after_the_restore(tmp_path: Path) -> None:
    hours = 5 * 3_600_000
    with closing(Store(tmp_path / "history.duckdb")) as store:
        watched = Watched(store)
        watched.see(*COMMITS, *THIS, OVER, *TAKEN, restored(2, hours))
        (listed,) = watched.losses()
        assert (listed.view.transaction, listed.verdict) == ("sink-0-3", TWICE)
        (alert,) = watched.findings(hours + 60_000)
        assert (alert.rule, alert.severity) == ("A12", Severity.WARNING)
        assert "writes the records of transaction sink-0-3 a second time (likely)" in alert.summary
        watched.clock_s = 10.0
        assert watched.recent.at(T0 + 2 * hours) == ()
