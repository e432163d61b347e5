"""What Flink lost: told by the real records of one that printed the same error for both, and by a table of cases."""

from __future__ import annotations

import pytest

from indoubt.collector.facts.flink_sinks import Naming, sinks
from indoubt.collector.records.application_ids import FlinkId
from indoubt.collector.records.formats.flink_records import FlinkKind
from indoubt.collector.records.observations import (
    Observation,
    OffsetsSeen,
)
from indoubt.collector.verdicts.data_loss import (
    Loss,
    LossVerdict,
)
from indoubt.lifecycle.verdicts import Certainty
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import FIRST_JOB, transaction_records
from tests.unit.collector.observations import (
    T0,
    folded,
)
from tests.unit.collector.verdicts.case_tables import table
from tests.unit.collector.verdicts.loss_observations import (
    BEFORE,
    CERTAIN,
    FAILED,
    GONE,
    GUESS,
    HARMLESS,
    LIKELY,
    LOST,
    NOT_LOST,
    OVER,
    PENDING,
    RESTORED,
    SINK,
    THIS,
    UNKNOWN,
    check,
    judged,
    restored,
    told_by_rest,
    transaction,
)


def flinks(*rest: Observation) -> dict[str, Loss]:
    """Return the verdict about the first transaction of each id of the real sink."""
    found = judged(folded(*transaction_records("orders-eu"), *rest))
    first: dict[str, Loss] = {}
    for (id_, _), loss in sorted(found.items(), key=lambda item: item[0][1] or 0):
        first.setdefault(id_, loss)
    return first


@pytest.mark.parametrize("rest", [[], told_by_rest("first"), [*GONE, *RESTORED]], ids=["no REST", "before", "after"])
def test_the_same_error_of_flink_is_not_mistaken(rest: list[Observation]) -> None:
    found = flinks(*rest)
    for subtask in (0, 1):
        assert found[f"orders-eu-{subtask}-4"].verdict is NOT_LOST
        assert "committed at 2026-11-21 16:58:48" in found[f"orders-eu-{subtask}-4"].why
        assert found[f"orders-eu-{subtask}-17"].verdict is LOST
        assert "timeout" in found[f"orders-eu-{subtask}-17"].why


@pytest.mark.parametrize(
    ("rest", "certainty", "says"),
    [
        ([], LIKELY, "never used this id again"),
        (told_by_rest("first"), LIKELY, "never used this id again"),
        ([*GONE, *RESTORED], LIKELY, "a job was restored from it at 2026-11-21 16:59:44.845 UTC"),
    ],
    ids=["no REST", "before", "after"],
)
def test_what_a_job_was_restored_from_tells(rest: list[Observation], certainty: Certainty, says: str) -> None:
    loss = flinks(*rest)["orders-eu-0-17"]
    assert (loss.certainty, loss.checkpoint) == (certainty, 17)
    assert says in loss.why


@pytest.mark.parametrize("rest", [[], [*GONE, *RESTORED]], ids=["no REST", "REST"])
def test_what_is_written_again_is_harmless(rest: list[Observation]) -> None:
    found = flinks(*rest)
    assert {found[f"orders-eu-{subtask}-{number}"].verdict for subtask in (0, 1) for number in (5, 18)} == {HARMLESS}


def test_before_the_job_is_restored_nothing_is_claimed() -> None:
    """What was known in the outage: the job is gone, its transactions timed out, nobody took an id since."""
    outage = 1795280370000
    records = [record for record in transaction_records("orders-eu") if record.update_ms < outage]
    loss = judged(folded(*records, *GONE))[("orders-eu-0-17", 1795280343647)]
    assert (loss.verdict, loss.certainty) == (UNKNOWN, GUESS)
    assert "the next restore will tell" in loss.why


def test_a_sink_is_known_by_what_became_of_its_ids() -> None:
    for prefix, naming in (("orders-eu", Naming.INCREMENTING), ("pooled", Naming.POOLING)):
        state = folded(*transaction_records(prefix))
        starts = {id_: newest.start_ms for id_, newest in state.latest_of_id.items()}
        assert sinks(starts, state.commits.of_id, state.inits, [prefix])[prefix].naming is naming


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("orders-eu-0-17", ("orders-eu", 0, 17)),
        ("a-10-0", ("a", 10, 0)),
        ("a-1-2-3", ("a-1", 2, 3)),
        ("orders-01-7", None),
        ("orders-0", None),
        ("-0-7", None),
        ("orders-0-7-", None),
        ("orders-0-٧", None),
    ],
)
def test_ids_of_flinks_form_are_parsed_whole(text: str, parsed: tuple[str, int, int] | None) -> None:
    found = FlinkId.parse(text)
    assert (found and (found.prefix, found.subtask, found.number)) == parsed


OTHER_JOB = [
    job("b" * 32),
    *(checkpoint(n, job="b" * 32, triggered_ms=T0 + 3_000 * n, ended_ms=T0 + 3_000 * n + 10) for n in range(30, 40)),
]

SET_BACK = job(restored=2, restored_at=35_000)
CASES = [
    # name; what was seen of jobs and checkpoints beside the aborted one; whether it was lost, how sure that is, what tells it
    ("its checkpoint completed", [*SINK, job(), checkpoint(3)], LOST, LIKELY, "checkpoint 3 of eu/orders holds it"),
    ("a later one completed, its own failed", [*SINK, job(), checkpoint(3, FAILED), checkpoint(4)],
        LOST, LIKELY, "checkpoint 4"),
    ("a savepoint alone commits nothing", [*SINK, job(), checkpoint(3, kind=FlinkKind.SAVEPOINT)],
        UNKNOWN, GUESS, "Flink has reported the end of no checkpoint"),
    ("it stops with a savepoint, and may yet fail", [*SINK, job(), checkpoint(3, kind=FlinkKind.SYNC_SAVEPOINT)],
        UNKNOWN, GUESS, "Flink has reported the end of no checkpoint"),
    ("it failed as it stopped with a savepoint", [*SINK, job(state="FAILED"), checkpoint(3, kind=FlinkKind.SYNC_SAVEPOINT)],
        UNKNOWN, GUESS, "it is held by a savepoint: the next restore will tell"),
    ("stopped with a savepoint", [*SINK, job(state="FINISHED"), checkpoint(3, kind=FlinkKind.SYNC_SAVEPOINT)],
        LOST, LIKELY, "checkpoint 3"),
    ("its checkpoint runs", [*SINK, job(), checkpoint(3, PENDING)],
        UNKNOWN, GUESS, "if one completes, this is lost"),
    ("it failed and the job was set back", [*SINK, SET_BACK, checkpoint(3, FAILED)],
        HARMLESS, LIKELY, "set back to checkpoint 2"),
    ("set back, and later ones completed", [*SINK, SET_BACK, checkpoint(3, FAILED), checkpoint(4), checkpoint(5)],
        HARMLESS, LIKELY, "set back to checkpoint 2"),
    ("restored from its own", [*SINK, job(restored=3, restored_at=35_000), checkpoint(3, PENDING)],
        LOST, LIKELY, "a job was restored from it"),
    ("its job is over", [*SINK, OVER, checkpoint(3, FAILED)],
        HARMLESS, LIKELY, "eu/orders is CANCELED"),
    ("its job went while it ran", [*SINK, job(state="GONE"), checkpoint(3, PENDING)],
        UNKNOWN, GUESS, "the end of its checkpoint was not seen"),
    ("its job went, it never was seen", [*SINK, job(state="GONE")], UNKNOWN, GUESS, "will tell"),
    ("another job was restored from it", [*SINK, job(state="GONE"), restored(3, 90_000)],
        LOST, LIKELY, "restored from it"),
    ("another job was restored from before it", [*SINK, job(state="GONE"), restored(2, 90_000)],
        HARMLESS, LIKELY, "set back to checkpoint 2"),
    ("two jobs, the commits tell which", [*SINK, *OTHER_JOB, job(), checkpoint(3)], LOST, LIKELY, "eu/orders"),
    ("two jobs, nothing tells which", [*OTHER_JOB, job(), checkpoint(3)], UNKNOWN, GUESS, "2 Flink jobs ran then"),
    ("no Flink is watched", [], UNKNOWN, GUESS, "--flink NAME=URL"),
    ("the job known ran later", [job(started_ms=T0 + 100_000)], UNKNOWN, GUESS, "no Flink job that ran then"),
]  # fmt: skip


@table("given, verdict, certainty, says", CASES)
def test_flinks_checkpoints_tell(
    given: list[Observation], verdict: LossVerdict, certainty: Certainty, says: str
) -> None:
    check(judged(folded(*THIS, *given))[("sink-0-3", T0 + 21_500)], verdict, certainty, says)


def pooled(opened: int, *rest: Observation) -> Loss:
    """Return the verdict about an aborted transaction of a pooling sink."""
    commits: list[Observation] = []
    for at in (100, 10_100, 20_100):
        commits += transaction(0, at - 50, at + 950, committed=True)
    return judged(folded(*commits, *transaction(1, opened, opened + 61_000, moved=1), *rest))[("sink-0-1", T0 + opened)]


POOLED = [
    ("completed", [job(), *BEFORE, checkpoint(3)], LOST),
    ("failed, the job goes on", [job(), *BEFORE, checkpoint(3, FAILED)], UNKNOWN),
    ("set back", [SET_BACK, *BEFORE, checkpoint(3, FAILED), checkpoint(4)], HARMLESS),
    ("set back to one that is not known", [job(restored=9, restored_at=35_000), *BEFORE], UNKNOWN),
    ("nothing known", [], UNKNOWN),
]


@table("rest, verdict", POOLED)
def test_pooled_ids_are_judged_by_time(rest: list[Observation], verdict: LossVerdict) -> None:
    loss = pooled(21_500, *rest)
    assert loss.verdict is verdict, loss.why
    assert loss.certainty is not CERTAIN


def test_few_commits_do_not_say_what_the_numbers_mean() -> None:
    """Number 0 may be free id 0 of a pool, or checkpoint 0: a job set back to checkpoint 1 writes it again in one case only."""
    records = transaction(0, 21_500, 82_500, moved=1)
    found = judged(folded(*records, job(restored=1, restored_at=35_000), *BEFORE, checkpoint(3, FAILED)))
    loss = found[("sink-0-0", T0 + 21_500)]
    assert loss.verdict is UNKNOWN, loss.why
    assert "too few commits were seen" in loss.why


def test_pooled_ids_do_not_tell_what_was_not_seen() -> None:
    other = restored(4, 90_000)
    unseen = pooled(21_500, job(state="GONE"), *BEFORE, other)
    assert unseen.verdict is UNKNOWN
    assert "a job was restored from checkpoint 4; when that was taken was not seen" in unseen.why
    seen = pooled(21_500, job(state="GONE"), *BEFORE, checkpoint(4, PENDING), other)
    assert (seen.verdict, seen.certainty) == (LOST, LIKELY)


def test_offsets_stand_beside_the_verdict() -> None:
    seen = OffsetsSeen(
        transaction="sink-0-3", producer_id=3, start_ms=T0 + 21_500, partition="sink-0", first=7, first_is_exact=True,
        next_offset=12, how="told by the leader", at_ms=T0,
    )  # fmt: skip
    loss = judged(folded(*THIS, seen))[("sink-0-3", T0 + 21_500)]
    assert loss.offsets == (seen,)


def test_both_jobs_of_the_recording_are_what_the_cases_say() -> None:
    state = folded(*GONE, *RESTORED)
    assert state.flink.restored_from(FIRST_JOB).keys() == {4, 17}
