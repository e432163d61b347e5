"""Which job wrote under a prefix, which restore set it back, which take of an id says so: at the edge of every time. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.collector.facts.flink_sinks import Naming, Sink, SubtaskIds
from indoubt.collector.records.facts import BrokerIdentity, BrokerTransaction
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import FlinkJobFacts, Restore
from indoubt.collector.records.formats.flink_records import (
    Committable,
    FlinkCheckpoint,
    FlinkCommittables,
    FlinkJob,
    FlinkKind,
    FlinkStatus,
)
from indoubt.collector.verdicts.flink_prefixes import fits, job_of
from indoubt.collector.verdicts.flink_set_backs import set_back, sources, taken_again_ms
from tests.unit.collector.flink_observations import checkpoint, job

JOB, OTHER = "a" * 32, "b" * 32
START, END = 100_000, 140_000
RESTORED = 200_000


def transaction(id_: str = "sink-0-3", start_ms: int = START, ended_ms: int | None = END) -> BrokerTransaction:
    return BrokerTransaction(BrokerIdentity(id_, 3, start_ms), complete_abort_ms=ended_ms)


def sink(*takes: int, is_pooled: bool | None = False) -> Sink:
    """Return a sink whose id sink-0-3 was taken at these times (epoch ms)."""
    return Sink(prefix="sink", subtasks={0: SubtaskIds(takes={3: list(takes)})}, is_pooled=is_pooled)


def ran(
    *restores: Restore, id_: str = JOB, checkpoints: tuple[FlinkCheckpoint, ...] = (), **fields: object
) -> FlinkJobFacts:
    told: FlinkJob = replace(job(id_, started_ms=0, changed_ms=10**9), **fields)  # type: ignore[arg-type]
    return FlinkJobFacts(job=told, checkpoints={one.number: one for one in checkpoints}, restores=restores)


def flink(*jobs: FlinkJobFacts, prefix_of: str = JOB) -> FlinkState:
    """Return these jobs, one of which lists the prefix ``sink``."""
    state = FlinkState(jobs={facts.job.job: facts for facts in jobs})
    state.see_committables(
        FlinkCommittables(
            cluster="eu", job=prefix_of, number=4, path="/c/chk-4", kind=FlinkKind.CHECKPOINT, written_ms=1, read_ms=1,
            prefixes=frozenset({"sink"}),
        )
    )  # fmt: skip
    return state


@pytest.mark.parametrize(
    ("takes", "after_ms", "restored_ms", "held_ms", "again"),
    [
        ((), 0, 0, 0, None),
        ((END,), 0, 0, 0, None),
        ((END + 1,), 0, 0, 0, END + 1),
        ((150_000, 160_000, 155_000), 0, 0, 0, 160_000),
        ((150_000,), 150_000, 0, 0, None),
        ((150_001,), 150_000, 0, 0, 150_001),
        ((END,), 50_000, 0, 0, None),
        # Held by a checkpoint that was triggered at 150 s, restored from it at 160 s.
        ((149_999,), 0, 160_000, 150_000, 149_999),
        ((150_000,), 0, 160_000, 150_000, None),
        ((160_000,), 0, 160_000, 150_000, None),
        ((160_001,), 0, 160_000, 150_000, 160_001),
    ],
)
def test_a_take_counts_after_the_end_and_outside_what_a_checkpoint_holds(
    takes: tuple[int, ...], after_ms: int, restored_ms: int, held_ms: int, again: int | None
) -> None:
    found = taken_again_ms(
        transaction(), sink(*takes), after_ms=after_ms, restored_ms=restored_ms, held_ms=held_ms
    )  # fmt: skip
    assert found == again


def test_with_no_limits_every_later_take_counts() -> None:
    assert taken_again_ms(transaction(ended_ms=0), sink(1)) == 1
    assert set_back(transaction(ended_ms=0), sink(1), FlinkState()) is not None


@pytest.mark.parametrize("id_", ["sink", "sink-1-3", "sink-0-4"])
def test_a_take_of_another_id_tells_nothing(id_: str) -> None:
    assert taken_again_ms(transaction(id_), sink(150_000)) is None
    assert set_back(transaction(id_), sink(150_000), flink()) is None


def test_an_open_transaction_is_not_taken_again() -> None:
    assert taken_again_ms(transaction(ended_ms=None), sink(150_000)) is None


@pytest.mark.parametrize(
    ("is_pooled", "counts_takes", "says"), [(False, True, True), (False, False, False), (True, True, False)]
)
def test_a_take_says_so_of_ids_that_are_used_once_and_where_it_counts(
    is_pooled: bool, counts_takes: bool, says: bool
) -> None:
    found = set_back(transaction(), sink(150_000, is_pooled=is_pooled), flink(), counts_takes=counts_takes)
    assert (found is not None and "taken again" in found) is says


@pytest.mark.parametrize(
    ("at_ms", "restored_ms", "number", "says"),
    [
        (START + 1_000, 0, 2, False),
        (START + 1_001, 0, 2, True),
        (RESTORED, RESTORED, 2, False),
        (RESTORED + 1, RESTORED, 2, True),
        (RESTORED, 0, 3, False),
        (RESTORED, 0, 4, False),
    ],
)
def test_a_restore_counts_where_it_is_later_and_below(at_ms: int, restored_ms: int, number: int, says: bool) -> None:
    found = set_back(transaction(), sink(), flink(ran(Restore(at_ms=at_ms, number=number))), restored_ms=restored_ms)
    assert (found is not None) is says


def test_with_no_limit_every_later_restore_counts() -> None:
    early = transaction(start_ms=-1_000, ended_ms=-500)
    assert set_back(early, sink(), flink(ran(Restore(at_ms=1, number=2)))) is not None


def test_the_last_restore_is_named() -> None:
    jobs = (ran(Restore(at_ms=200_000, number=2), Restore(at_ms=300_000, number=1), Restore(at_ms=250_000, number=0)),)
    found = set_back(transaction(), sink(), flink(*jobs))
    assert found is not None
    assert "restored from checkpoint 1 at " in found
    first = ran(Restore(at_ms=200_000, number=2), checkpoints=(checkpoint(1, ended_ms=20_000),))
    twin = replace(first, job=replace(first.job, job=OTHER))
    committing = replace(sink(), commits=[(10_000, 20_100, 1)])
    assert set_back(transaction(), committing, flink(first, twin)) is not None, "two at the same time"


@pytest.mark.parametrize(
    ("jobs", "of_job", "expected"),
    [
        ((ran(), ran(id_=OTHER)), OTHER, [OTHER]),
        ((ran(),), OTHER, []),
        ((ran(), ran(id_=OTHER)), "", [JOB, OTHER]),
        ((ran(), ran(id_=OTHER, name="else")), "", [JOB]),
        ((ran(), ran(id_=OTHER, cluster="us")), "", [JOB]),
        ((ran(), ran(id_=OTHER, started_ms=RESTORED)), "", [JOB]),
        ((ran(), ran(id_=OTHER, started_ms=RESTORED - 1)), "", [JOB, OTHER]),
    ],
)
def test_a_restore_is_from_the_job_of_its_path_else_of_its_name(
    jobs: tuple[FlinkJobFacts, ...], of_job: str, expected: list[str]
) -> None:
    restore = Restore(at_ms=RESTORED, number=1, of_job=of_job)
    assert [facts.job.job for facts in sources(flink(*jobs), jobs[0], restore)] == expected


@pytest.mark.parametrize(
    ("ended_ms", "says"), [(START - 1_001, True), (START - 1_000, False), (START, False), (None, False)]
)
def test_of_pooled_ids_a_restore_is_before_what_began_after_its_checkpoint(ended_ms: int | None, says: bool) -> None:
    taken = checkpoint(9, ended_ms=ended_ms)
    facts = ran(Restore(at_ms=RESTORED, number=9), checkpoints=(taken,))
    assert (set_back(transaction(), sink(is_pooled=True), flink(facts)) is not None) is says


def test_of_pooled_ids_a_checkpoint_that_two_jobs_took_or_none_tells_nothing() -> None:
    taken, restore = checkpoint(9, ended_ms=START - 5_000), Restore(at_ms=RESTORED, number=9)
    facts, other = ran(restore, checkpoints=(taken,)), ran(id_=OTHER, checkpoints=(taken,))
    assert set_back(transaction(), sink(is_pooled=True), flink(facts)) is not None
    assert set_back(transaction(), sink(is_pooled=True), flink(facts, other)) is None
    assert set_back(transaction(), sink(is_pooled=True), flink(ran(restore))) is None


def test_a_job_uses_a_prefix_by_its_list_or_by_its_commits() -> None:
    facts = ran(Restore(at_ms=RESTORED, number=2), checkpoints=(checkpoint(1, ended_ms=20_000),))
    named, unnamed = flink(facts), flink(facts, prefix_of=OTHER)
    committing = replace(sink(), commits=[(10_000, 20_100, 1)])
    assert set_back(transaction(), sink(), named) is not None
    assert set_back(transaction(), sink(), unnamed) is None
    assert set_back(transaction(), committing, unnamed) is not None


COMMITTED_MS = 20_000


@pytest.mark.parametrize(
    ("ended_ms", "follows"),
    [
        (COMMITTED_MS + 1_001, False), (COMMITTED_MS + 1_000, True), (COMMITTED_MS - 10_000, True),
        (COMMITTED_MS - 10_001, False), (None, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_pooled", [False, True])
def test_a_commit_follows_the_end_of_a_checkpoint(ended_ms: int | None, follows: bool, is_pooled: bool) -> None:
    facts = ran(checkpoints=(checkpoint(3, ended_ms=ended_ms),))
    assert fits(replace(sink(is_pooled=is_pooled), commits=[(10_000, COMMITTED_MS, 3)]), facts) is follows


def test_a_commit_has_its_checkpoints_number_unless_ids_are_pooled() -> None:
    facts = ran(checkpoints=(checkpoint(4, ended_ms=COMMITTED_MS),))
    commits = [(10_000, COMMITTED_MS, 3)]
    assert not fits(replace(sink(), commits=commits), facts)
    assert fits(replace(sink(is_pooled=True), commits=commits), facts)
    unknown = Sink(prefix="sink", commits=commits)
    assert unknown.naming is Naming.UNKNOWN
    assert not fits(unknown, facts)


@pytest.mark.parametrize(
    "told",
    [
        checkpoint(3, FlinkStatus.FAILED, ended_ms=COMMITTED_MS),
        checkpoint(3, FlinkStatus.IN_PROGRESS, ended_ms=COMMITTED_MS),
        checkpoint(3, kind=FlinkKind.SAVEPOINT, ended_ms=COMMITTED_MS),
    ],
)
def test_only_a_completed_checkpoint_that_commits_is_followed(told: FlinkCheckpoint) -> None:
    assert not fits(replace(sink(), commits=[(10_000, COMMITTED_MS, 3)]), ran(checkpoints=(told,)))


def test_more_than_half_of_the_last_fifty_commits_must_follow() -> None:
    facts = ran(checkpoints=(checkpoint(3, ended_ms=COMMITTED_MS),))
    right = [(10_000 + n, COMMITTED_MS, 3) for n in range(50)]
    early, late = [(5_000 + n, 1, 3) for n in range(50)], [(15_000 + n, 1, 3) for n in range(50)]
    assert not fits(sink(), facts), "no commit was seen"
    assert fits(replace(sink(), commits=right[:2] + late[:1]), facts)
    assert not fits(replace(sink(), commits=right[:1] + late[:1]), facts), "half is not most"
    assert fits(replace(sink(), commits=right + early), facts), "only the last fifty are compared"
    assert not fits(replace(sink(), commits=right[:25] + late[:25]), facts)
    assert fits(replace(sink(), commits=right[:26] + late[:24]), facts)
    assert not fits(replace(sink(), commits=[(5_000, COMMITTED_MS, 3), *right[:25], *late[:25]]), facts)
    assert not fits(replace(sink(), commits=early[:1] + right[:25] + late[:24]), facts), "fifty are compared, 25 follow"


def test_only_commits_while_a_job_ran_are_compared() -> None:
    facts = ran(checkpoints=(checkpoint(3, ended_ms=COMMITTED_MS),), started_ms=10_000)
    before = [(8_000 + n, 15_000 + n, 4) for n in range(5)]
    assert fits(replace(sink(), commits=[*before, (10_000, COMMITTED_MS, 3)]), facts)


RUNNING, OVER = "RUNNING", "CANCELED"


@pytest.mark.parametrize(
    ("fields", "is_it"),
    [
        ({"started_ms": START + 1_000}, True),
        ({"started_ms": START + 1_001}, False),
        ({"state": OVER, "ended_ms": START - 1_000}, True),
        ({"state": OVER, "ended_ms": START - 1_001}, False),
        ({"state": OVER, "ended_ms": None, "changed_ms": START - 1_000}, True),
        ({"state": OVER, "ended_ms": None, "changed_ms": START - 1_001}, False),
        ({"state": OVER, "ended_ms": START + 9, "changed_ms": 1}, True),
        ({"state": RUNNING, "changed_ms": 1}, True),
        ({"state": RUNNING, "ended_ms": 1}, True),
    ],
)
def test_the_one_job_that_ran_when_it_began_wrote_it(fields: dict[str, object], is_it: bool) -> None:
    facts, gone = ran(**fields), ran(id_=OTHER, state=OVER, ended_ms=1)  # type: ignore[arg-type]
    found, why = job_of(transaction(), sink(), FlinkState(jobs={JOB: facts, OTHER: gone}))
    assert (found, "no Flink job that ran then is known" in why) == ((facts, False) if is_it else (None, True))


def test_without_a_job_only_its_owner_knows() -> None:
    assert job_of(transaction(), sink(), FlinkState())[0] is None
    assert "--flink" in job_of(transaction(), sink(), FlinkState())[1]


def test_of_two_jobs_that_ran_the_one_wrote_it_that_its_commits_follow() -> None:
    followed = ran(checkpoints=(checkpoint(3, ended_ms=COMMITTED_MS),))
    other, twin = ran(id_=OTHER, name="else"), replace(followed, job=replace(followed.job, job=OTHER, name="else"))
    committing = replace(sink(), commits=[(10_000, COMMITTED_MS, 3)])
    assert job_of(transaction(), committing, FlinkState(jobs={JOB: followed, OTHER: other})) == (followed, "")
    for jobs, of_sink in (((followed, twin), committing), ((followed, other), sink())):
        found, why = job_of(transaction(), of_sink, FlinkState(jobs={facts.job.job: facts for facts in jobs}))
        assert (found, "2 Flink jobs ran then (eu/else, eu/orders)" in why) == (None, True)


FOLLOWED = (checkpoint(3, ended_ms=COMMITTED_MS),)
COMMITTING = replace(sink(), commits=[(10_000, COMMITTED_MS, 3)])
ENDED = {"state": OVER, "ended_ms": START - 1_001}
THIRD = "c" * 32
ONE, TWIN = ran(checkpoints=FOLLOWED), ran(id_=OTHER, name="else", checkpoints=FOLLOWED)
UNFOLLOWED = ran(id_=OTHER, name="else")


def a_list(job_id: str, *prefixes: str, error: str = "", **listed: object) -> FlinkCommittables:
    """Return a checkpoint of a job on disk, with the prefixes that it names."""
    seen = FlinkCommittables(
        cluster="eu", job=job_id, number=4, path=f"/{job_id}/chk-4{error}", kind=FlinkKind.CHECKPOINT, written_ms=1,
        read_ms=1, prefixes=frozenset(prefixes), error=error,
    )  # fmt: skip
    return replace(seen, **listed)  # type: ignore[arg-type]


def from_chk(of_job: str) -> Restore:
    return Restore(at_ms=RESTORED, number=1, of_job=of_job)


NAMES, LEAVES_OUT, DAMAGED = (
    a_list(JOB, "sink"),
    a_list(JOB, "sink-0", "else"),
    a_list(JOB, error="a state was not read"),
)
LISTS = a_list(JOB, committables=frozenset({Committable("sink-0-3", 3, 4)}))
OTHER_NAMES = a_list(OTHER, "sink")
NOT_KNOWN, NOT_NAMED, NO_JOB = "do not say whose it is", "only its owner knows", "its prefix is that of eu/"


@pytest.mark.parametrize(
    ("jobs", "lists", "of_sink", "found", "says"),
    [
        # jobs, what their checkpoints list, what is known of the prefix, whose it is, why no job owns it
        ([ran()], [], sink(), JOB, ""),
        ([ran()], [DAMAGED], sink(), JOB, ""),
        ([ran()], [NAMES], sink(), JOB, ""),
        ([ran()], [DAMAGED, NAMES], sink(), JOB, ""),
        ([ran()], [LISTS], sink(), JOB, ""),
        ([ran(), UNFOLLOWED], [LISTS], sink(), JOB, ""),
        ([ran(), UNFOLLOWED], [replace(LISTS, job=THIRD)], sink(), None, NOT_KNOWN),
        ([ran()], [LEAVES_OUT], sink(), None, NOT_NAMED),
        ([ran()], [DAMAGED, LEAVES_OUT], sink(), None, NOT_NAMED),
        ([ONE], [LEAVES_OUT], COMMITTING, None, NOT_NAMED),
        ([ran(**ENDED)], [], sink(), None, NOT_NAMED),
        ([ran(**ENDED)], [LEAVES_OUT], sink(), None, NOT_NAMED),
        # What the other's list leaves out is not this one's for that alone.
        ([UNFOLLOWED, ran()], [LEAVES_OUT], sink(), None, NOT_KNOWN),
        ([TWIN, ran()], [LEAVES_OUT], COMMITTING, OTHER, ""),
        ([TWIN, ONE], [LEAVES_OUT], COMMITTING, OTHER, ""),
        # Another job has the prefix.
        ([ran()], [OTHER_NAMES], sink(), None, f"{NO_JOB}{OTHER}"),
        ([ONE], [OTHER_NAMES], COMMITTING, None, f"{NO_JOB}{OTHER}"),
        ([ran(), ran(id_=OTHER, name="else", started_ms=RESTORED)], [OTHER_NAMES], sink(), None, f"{NO_JOB}else"),
        ([ONE, ran(id_=OTHER, name="else", started_ms=RESTORED)], [OTHER_NAMES], COMMITTING, None, f"{NO_JOB}else"),
        ([ran(), UNFOLLOWED], [OTHER_NAMES], sink(), OTHER, ""),
        ([ONE, TWIN], [OTHER_NAMES], COMMITTING, OTHER, ""),
        ([ONE, UNFOLLOWED], [OTHER_NAMES], COMMITTING, None, NOT_KNOWN),
        ([ONE, UNFOLLOWED], [OTHER_NAMES, LEAVES_OUT], COMMITTING, OTHER, ""),
        ([ONE, UNFOLLOWED], [NAMES, OTHER_NAMES], COMMITTING, JOB, ""),
        ([ONE, TWIN], [NAMES, OTHER_NAMES], COMMITTING, None, NOT_KNOWN),
        # The job that has the prefix now goes on from the one that ran then.
        ([ran(), ran(id_=OTHER, started_ms=RESTORED)], [OTHER_NAMES], sink(), JOB, ""),
        ([ran(), ran(id_=OTHER, started_ms=RESTORED)], [OTHER_NAMES, LEAVES_OUT], sink(), None, f"{NO_JOB}orders"),
        ([ran(), ran(id_=OTHER, cluster="us", started_ms=RESTORED)], [replace(OTHER_NAMES, cluster="us")], sink(), None, "of us/"),
        ([ran(), ran(from_chk(JOB), id_=OTHER, name="else", started_ms=RESTORED)], [OTHER_NAMES], sink(), JOB, ""),
        ([ran(), ran(from_chk(THIRD), id_=OTHER, name="else", started_ms=RESTORED)], [OTHER_NAMES], sink(), None, NO_JOB),
        ([ran(from_chk(OTHER)), ran(id_=OTHER, name="else", **ENDED)], [OTHER_NAMES], sink(), JOB, ""),
        ([ran(from_chk(OTHER))], [OTHER_NAMES], sink(), JOB, ""),
        ([ran(from_chk(THIRD))], [OTHER_NAMES], sink(), None, NO_JOB),
        ([ran(), ran(id_=THIRD), ran(id_=OTHER, started_ms=RESTORED)], [OTHER_NAMES], sink(), None, NOT_KNOWN),
        ([ONE, ran(id_=THIRD), ran(id_=OTHER, started_ms=RESTORED)], [OTHER_NAMES], COMMITTING, JOB, ""),
    ],
)  # fmt: skip
def test_a_job_is_its_where_its_lists_name_it_and_no_other(
    jobs: list[FlinkJobFacts], lists: list[FlinkCommittables], of_sink: Sink, found: str | None, says: str
) -> None:
    state = FlinkState(jobs={facts.job.job: facts for facts in jobs})
    for seen in lists:
        state.see_committables(seen)
    known = replace(transaction(), ongoing_epoch=4)
    for looked_at in (state, state.copy()):
        job, why = job_of(known, of_sink, looked_at)
        assert (job.job.job if job is not None else None) == found, why
        assert says in why


def test_an_id_without_a_known_owner_is_told_of_no_flink_job() -> None:
    strange = transaction("ip-count-0-9")
    unknown = Sink(prefix="ip-count")
    for state in (flink(ran()), FlinkState(jobs={JOB: ran(**ENDED)})):
        _, why = job_of(strange, unknown, state)
        assert why.startswith("only its owner knows whether it writes these rows again")
        assert "whether its checkpoint was completed" not in why
