"""Committed transactions of a Flink job that was set back to before them: their rows are in Kafka twice."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from collector.assess import rules
from collector.assess.findings import Severity
from collector.assess.recent_losses import RecentLosses
from collector.config.alerts import AlertSettings
from collector.history.store import Store
from collector.records.formats.flink_records import Committable, FlinkCommittables, FlinkKind
from collector.records.observations import Observation, Observed, Position
from collector.verdicts.data_loss import Loss, LossVerdict
from collector.verdicts.verdict_case import DecisionLogStatus, Limits
from collector.views import aborts_and_losses
from collector.views.current_state import CurrentState
from lifecycle.verdicts import Certainty
from tests.unit.collector.assessments import snapshot_at
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.observations import T0, folded
from tests.unit.collector.verdicts.loss_observations import COMMITS, judged, transaction

LATER = "c" * 32
TAKEN = [checkpoint(0), checkpoint(1), checkpoint(2), checkpoint(3)]
COMMITTED = [*COMMITS, *transaction(3, 21_500, 31_100, committed=True)]


def restored(number: int, at: int = 90_000) -> Observation:
    """Return a later job that was restored from a checkpoint of the first."""
    path = f"s3://b/{'a' * 32}/chk-{number}"
    return job(LATER, restored=number, restored_at=at, started_ms=T0 + at - 1_000, restored_path=path)


def loss_of(number: int, *observed: Observation) -> Loss:
    """Return what became of the committed transaction with this number."""
    (loss,) = (loss for (id_, _), loss in judged(folded(*COMMITTED, *observed)).items() if id_ == f"sink-0-{number}")
    return loss


@pytest.mark.parametrize(
    ("restore", "twice"),
    [
        pytest.param(1, {2, 3}, id="two checkpoints back"),
        pytest.param(2, {3}, id="one checkpoint back"),
        pytest.param(3, set(), id="from the newest"),
    ],
)
def test_what_was_committed_behind_the_restored_checkpoint_is_written_twice(restore: int, twice: set[int]) -> None:
    gone = [job(state="CANCELED"), *TAKEN, restored(restore)]
    found = {number: loss_of(number, *gone) for number in range(4)}
    assert {number for number, loss in found.items() if loss.verdict is LossVerdict.DUPLICATED} == twice
    for number in twice:
        assert (found[number].certainty, found[number].checkpoint) == (Certainty.LIKELY, number)
        assert f"was restored from checkpoint {restore} at" in found[number].why
        assert f"before checkpoint {number} that holds it: its rows are written again" in found[number].why


@pytest.mark.parametrize(
    "observed",
    [
        pytest.param([job(), *TAKEN], id="never restored"),
        pytest.param([job(restored=2, restored_at=25_000), *TAKEN], id="restored before it was committed"),
        pytest.param(
            [job(state="CANCELED"), *TAKEN[:3], checkpoint(3, kind=FlinkKind.SAVEPOINT), restored(2)],
            id="the only later one commits nothing",
        ),
    ],
)
def test_without_a_restore_from_before_it_nothing_is_claimed(observed: list[Observation]) -> None:
    loss = loss_of(3, *observed)
    assert (loss.verdict, loss.certainty) == (LossVerdict.NOT_LOST, Certainty.CERTAIN), loss.why


def test_a_sink_whose_numbers_are_not_understood_proves_nothing() -> None:
    """After few commits the number may be a checkpoint's or a place in a pool."""
    only = transaction(3, 21_500, 31_100, committed=True)
    state = folded(*only, job(state="CANCELED"), *TAKEN, restored(2))
    assert {loss.verdict for loss in judged(state).values()} == {LossVerdict.NOT_LOST}


@pytest.mark.parametrize(
    ("set_back", "certainty"),
    [
        ([job(state="CANCELED"), restored(2)], Certainty.LIKELY),
        ([job(restored=2, restored_at=90_000)], Certainty.CERTAIN),
    ],
    ids=["by another job", "by itself"],
)
def test_a_list_on_disk_and_its_own_restore_make_it_certain(set_back: list[Observation], certainty: Certainty) -> None:
    only = transaction(3, 21_500, 31_100, committed=True)
    state = folded(*only, *TAKEN, *set_back)
    state.flink.see_polled("eu", 0, answered=True)
    state.flink.see_committables(
        FlinkCommittables(
            cluster="eu",
            job="a" * 32,
            number=3,
            path=f"/c/{'a' * 32}/chk-3",
            kind=FlinkKind.CHECKPOINT,
            written_ms=T0 + 30_500,
            read_ms=T0 + 30_600,
            committables=frozenset({Committable("sink-0-3", 3, 4)}),
        )
    )
    (loss,) = judged(state).values()
    assert (loss.verdict, loss.certainty, loss.checkpoint) == (LossVerdict.DUPLICATED, certainty, 3)
    assert "before checkpoint 3 that lists it" in loss.why


def test_pooled_ids_are_likely_twice_by_their_times() -> None:
    commits = [record for at in (50, 10_050, 20_050) for record in transaction(0, at, at + 1_000, committed=True)]
    late = transaction(0, 21_500, 31_100, committed=True)
    found = judged(folded(*commits, *late, job(state="CANCELED"), *TAKEN, restored(2)))
    twice = {
        opened - T0: loss.certainty
        for (_, opened), loss in found.items()
        if loss.verdict is LossVerdict.DUPLICATED and opened
    }
    assert twice == {21_500: Certainty.LIKELY}


def test_a_duplicate_is_listed_and_alerts_for_an_hour_after_the_restore(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "history.duckdb")) as store:
        current = CurrentState(store, settled_kept=1_000, checkpoints_kept=100, limits=Limits())
        current.see_decision_log(DecisionLogStatus.ABSENT)
        current.flink.see_polled("eu", 0, answered=True)
        hours = 5 * 3_600_000
        observed = [*COMMITTED, job(state="CANCELED"), *TAKEN, restored(2, hours)]
        current.observe(
            [
                Observed(position=Position(source="test", partition=0, offset=number), observation=each)
                for number, each in enumerate(observed)
            ]
        )
        (listed,) = aborts_and_losses.losses_in_memory(current)[0]
        assert (listed.view.transaction, listed.verdict) == ("sink-0-3", LossVerdict.DUPLICATED)
        clock_s = 0.0
        recent = RecentLosses(
            lambda since_ms: aborts_and_losses.losses_in_memory(current, since_ms=since_ms)[0],
            lambda since_ms: aborts_and_losses.duplicates(current, since_ms),
            lambda: clock_s,
        )
        found = recent.at(T0 + hours + 60_000)
        snapshot = snapshot_at(current, [], AlertSettings(), T0 + hours, losses=found)
        (alert,) = (each for each in rules.findings(snapshot, AlertSettings()) if each.rule in ("A7", "A12"))
        assert (alert.rule, alert.severity) == ("A12", Severity.WARNING)
        assert "writes the records of transaction sink-0-3 a second time (likely)" in alert.summary
        clock_s = 10.0
        assert recent.at(T0 + 2 * hours) == ()
