"""What the rules about Flink's jobs consult of a transaction, its job and later restores: at the edge of every time. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.collector.facts.flink_sinks import Sink, SubtaskIds
from indoubt.collector.records.facts import BrokerIdentity, BrokerTransaction
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import FlinkJobFacts, Restore
from indoubt.collector.records.formats.flink_records import (
    Committable,
    FlinkCheckpoint,
    FlinkCommittables,
    FlinkKind,
    FlinkStatus,
)
from indoubt.collector.verdicts.flink_checkpoints import Evidence, Fate, by_job, evidence, job_case
from tests.unit.collector.flink_observations import checkpoint, job

JOB, OTHER = "a" * 32, "b" * 32
START, END, LATE = 100_000, 140_000, 200_000
RUNS, FAILED = FlinkStatus.IN_PROGRESS, FlinkStatus.FAILED


def seen(number: int, triggered_ms: int, ended_ms: int | None = None, status: FlinkStatus = FAILED) -> FlinkCheckpoint:
    return checkpoint(number, status, triggered_ms=triggered_ms, ended_ms=ended_ms)


def facts(*checkpoints: FlinkCheckpoint, restores: tuple[Restore, ...] = (), state: str = "CANCELED") -> FlinkJobFacts:
    told = job(JOB, state, started_ms=1, ended_ms=10**9 if state != "RUNNING" else None)
    return FlinkJobFacts(job=told, checkpoints={one.number: one for one in checkpoints}, restores=restores)


def back(number: int, at_ms: int, of_job: str = "") -> Restore:
    return Restore(at_ms=at_ms, number=number, of_job=of_job)


@pytest.mark.parametrize(
    ("number", "told", "is_held"),
    [
        # In its name: it may have been triggered before the transaction began, and ended after.
        (3, seen(3, START - 500, START), True),
        (3, seen(3, START - 500, START - 1), False),
        (3, seen(3, START - 500, None), True),
        (3, seen(4, START - 500, START + 500), False),
        (3, seen(2, START + 1, START + 2), False),
        # A later one, or any with pooled ids: it began after the transaction.
        (3, seen(4, START, START + 1), True),
        (3, seen(4, START - 1, START + 1), False),
        (None, seen(1, START, START + 1), True),
        (None, seen(0, START, START + 1), True),
        (None, seen(1, START - 1, START + 1), False),
    ],
)
def test_a_checkpoint_holds_what_it_names_or_what_began_before_it(
    number: int | None, told: FlinkCheckpoint, is_held: bool
) -> None:
    assert job_case(START, number, facts(told), {}).held == ((told.number,) if is_held else ())


@pytest.mark.parametrize(("triggered_ms", "is_held"), [(LATE - 1, True), (LATE, False)])
def test_what_was_triggered_after_its_jobs_restore_does_not_hold_it(triggered_ms: int, is_held: bool) -> None:
    """The first restore counts: work was set back there."""
    restores = (back(2, START), back(2, START - 9), back(2, LATE), back(2, LATE + 50))
    case = job_case(START, 3, facts(seen(4, triggered_ms, LATE + 90), restores=restores), {})
    assert (case.held, case.restored) == ((4,) if is_held else (), back(2, LATE))


@pytest.mark.parametrize(
    ("number", "proven", "own", "unseen"),
    [
        (3, back(4, START + 1), None, (4,)),
        (3, back(3, START + 1), None, (3,)),
        (3, back(4, START), None, ()),
        (3, back(2, START + 1), None, ()),
        (3, back(5, START + 1), None, ()),
        (None, back(4, START + 1), None, ()),
        (3, back(4, START + 1), back(4, LATE), (4,)),
        (3, back(4, START + 1), back(6, LATE), ()),
    ],
)
def test_one_not_seen_is_proven_by_a_restore_since(
    number: int | None, proven: Restore, own: Restore | None, unseen: tuple[int, ...]
) -> None:
    known = facts(seen(5, 1, 2), restores=(own,) if own is not None else ())
    assert job_case(START, number, known, {proven.number: proven}).unseen == unseen


def test_without_a_restore_of_its_own_the_newest_checkpoint_restored_from_counts() -> None:
    proven = {4: back(4, LATE), 2: back(2, LATE + 9)}
    assert job_case(START, 3, facts(), proven).restored == back(4, LATE)
    own = back(1, LATE + 5)
    assert job_case(START, 3, facts(restores=(own,)), proven).restored == own
    assert job_case(START, 3, facts(), {4: back(4, START)}).restored is None
    assert job_case(START, 3, facts(), {4: back(4, START + 1)}).restored is not None


@pytest.mark.parametrize(("at_ms", "counts"), [(START, False), (START + 1, True)])
def test_the_last_restore_counts_where_it_is_later(at_ms: int, counts: bool) -> None:
    newest = back(2, at_ms)
    case = job_case(START, 3, facts(), {}, newest=newest)
    assert (case.newest, case.set_back) == ((newest, newest) if counts else (None, None))


@pytest.mark.parametrize(("number", "is_back"), [(2, True), (3, False), (4, False)])
def test_a_restore_from_the_checkpoint_in_its_name_is_none_to_before_it(number: int, is_back: bool) -> None:
    assert (job_case(START, 3, facts(), {}, newest=back(number, LATE)).set_back is not None) is is_back


@pytest.mark.parametrize(
    ("told", "is_back"),
    [
        (seen(9, START - 9, START - 1), True),
        (seen(9, START - 9, START), False),
        (seen(9, START - 1, None), True),
        (seen(9, START, None), False),
        (seen(8, START - 9, START - 1), False),
    ],
)
def test_of_pooled_ids_a_checkpoint_is_before_what_began_after_its_end(told: FlinkCheckpoint, is_back: bool) -> None:
    assert (job_case(START, None, facts(told), {}, newest=back(9, LATE)).set_back is not None) is is_back


def answer(number: int | None, known: FlinkJobFacts, *proven: Restore, newest: Restore | None = None) -> Evidence:
    case = job_case(START, number, known, {one.number: one for one in proven}, newest=newest)
    return by_job(case)


def test_rule_1_names_the_first_that_completed_and_when_it_was_restored_from() -> None:
    both = facts(seen(5, LATE, LATE + 1, FlinkStatus.COMPLETED), seen(4, START + 7, START + 9, FlinkStatus.COMPLETED))
    found = answer(3, both)
    assert (found.rule, found.checkpoint, found.restored_ms, found.held_ms) == (1, 4, 0, START + 7)
    found = answer(3, both, newest=back(5, LATE + 8))
    assert (found.rule, found.restored_ms, found.held_ms) == (1, LATE + 8, START + 7)
    unseen = answer(3, facts(), back(4, LATE), newest=back(4, LATE))
    assert (unseen.rule, unseen.checkpoint) == (1, 4), "a restore proves it"
    assert (unseen.restored_ms, unseen.held_ms) == (LATE, LATE)
    assert "a job was restored from it at" in unseen.why


def test_rule_1_says_how_the_end_is_known() -> None:
    assert "was completed at 1970-01-01" in answer(3, facts(seen(3, START, START + 1, FlinkStatus.COMPLETED))).why
    running = facts(seen(3, START, None, RUNS))
    assert "a job was restored from it" in answer(3, running, back(3, LATE)).why
    ended = facts(seen(3, START, START + 1, FAILED))
    assert "a job was restored from it" in answer(3, ended, back(3, LATE)).why
    odd = facts(seen(3, START, None, FlinkStatus.COMPLETED))
    assert "a job was restored from it" in answer(3, odd, back(3, LATE)).why


def test_rule_1_does_not_answer_after_a_restore_from_before_it() -> None:
    done = facts(seen(3, START, START + 1, FlinkStatus.COMPLETED))
    found = answer(3, done, newest=back(2, LATE))
    assert (found.rule, found.fate, found.checkpoint, found.restored_ms) == (2, Fate.REPLAYED, 3, LATE)


def test_rule_2_names_the_first_checkpoint_that_holds_it() -> None:
    known = facts(seen(5, START + 5, START + 6), seen(4, START + 3, START + 4), restores=(back(2, LATE),))
    found = answer(3, known)
    assert (found.rule, found.checkpoint, found.restored_ms) == (2, 4, LATE)
    assert answer(3, known, newest=back(1, LATE + 9)).restored_ms == LATE + 9, "the last one that set it back"
    assert answer(3, known, newest=back(7, LATE + 9)).restored_ms == LATE, "or the first of its own"


def test_rules_3_and_6_name_the_first_checkpoint() -> None:
    running = facts(seen(5, START + 5, None, RUNS), seen(4, START + 3, None, RUNS), state="RUNNING")
    assert (answer(3, running).rule, answer(3, running).checkpoint) == (3, 4)
    failed = facts(seen(5, START + 5, START + 6), seen(4, START + 3, START + 4))
    assert (answer(3, failed).rule, answer(3, failed).checkpoint) == (6, 4)


def test_rule_4_is_about_pooled_ids_and_a_restore_alone() -> None:
    assert answer(None, facts(), back(9, LATE)).rule == 4
    assert answer(None, facts()).rule == 5
    assert answer(3, facts(), back(9, START)).rule == 5
    assert answer(3, facts(seen(3, START, START + 1)), back(3, START)).rule == 1, "restored from before it began"
    assert answer(3, facts(seen(4, START, START + 1), restores=(back(3, LATE),))).rule != 4


def transaction(id_: str = "sink-0-3", ended_ms: int | None = END, start_ms: int = START) -> BrokerTransaction:
    return BrokerTransaction(BrokerIdentity(id_, 3, start_ms), complete_abort_ms=ended_ms, ongoing_epoch=4)


def sink(is_pooled: bool | None = False, takes: tuple[int, ...] = (), **taken_ms: int) -> Sink:
    """Return a sink; ``takes``: of its id 3; ``taken_ms``: ``n4`` is when its id 4 was taken last."""
    ids = SubtaskIds(takes={3: list(takes)}, taken_ms={int(name[1:]): at_ms for name, at_ms in taken_ms.items()})
    return Sink(prefix="sink", subtasks={0: ids}, is_pooled=is_pooled)


NO_FLINK = FlinkState()


@pytest.mark.parametrize(
    ("of_sink", "fate", "number"),
    [
        (sink(n4=END + 1), Fate.COMPLETED, 3),
        (sink(n4=END), Fate.UNSEEN, None),
        (sink(n3=END + 1), Fate.UNSEEN, None),
        (sink(n2=END + 1), Fate.UNSEEN, None),
        (sink(takes=(END + 1,), n4=END + 1), Fate.REPLAYED, None),
        (sink(True, takes=(END + 1,), n4=END + 1), Fate.UNSEEN, None),
        (Sink(prefix="sink", is_pooled=False), Fate.UNSEEN, None),
    ],
)
def test_the_ids_of_its_subtask_tell_where_no_job_is_known(of_sink: Sink, fate: Fate, number: int | None) -> None:
    found = evidence(transaction(), of_sink, NO_FLINK)
    assert (found.fate, found.checkpoint, found.sure) == (fate, number, False)
    assert (found.rule, found.restored_ms, found.held_ms) == (0, 0, 0)


def test_without_a_restore_and_an_order_every_later_take_counts() -> None:
    early = transaction(start_ms=-2_000, ended_ms=0)
    assert evidence(early, sink(takes=(1,)), NO_FLINK).fate is Fate.REPLAYED
    assert evidence(early, sink(takes=(1,)), flink(DONE, listed=3)).fate is Fate.REPLAYED


def test_ids_tell_nothing_of_what_is_open_or_has_no_such_id() -> None:
    taken = sink(takes=(END + 1,), n4=END + 1)
    assert evidence(transaction(ended_ms=None), taken, NO_FLINK).fate is Fate.UNSEEN
    odd = evidence(transaction("writer"), taken, NO_FLINK)
    assert (odd.fate, "not of the form" in odd.why) == (Fate.UNSEEN, True)


def test_a_take_by_an_order_tells_nothing() -> None:
    taken = sink(takes=(END + 50,), n4=END + 99)
    assert evidence(transaction(), taken, NO_FLINK, taken_ms=END + 49).fate is Fate.REPLAYED
    assert evidence(transaction(), taken, NO_FLINK, taken_ms=END + 50).fate is Fate.COMPLETED


def flink(*jobs: FlinkJobFacts, listed: int | None = None, named: str = "") -> FlinkState:
    """Return these jobs; ``listed``: the checkpoint of the first on disk that lists the transaction; ``named``: its prefix."""
    state = FlinkState(jobs={known.job.job: known for known in jobs}, answered={"eu"})
    if listed is not None:
        state.see_committables(
            FlinkCommittables(
                cluster="eu", job=JOB, number=listed, path=f"/c/chk-{listed}", kind=FlinkKind.CHECKPOINT,
                written_ms=START + 10, read_ms=START + 20, committables=frozenset({Committable("sink-0-3", 3, 4)}),
                prefixes=frozenset({"sink"}),
            )
        )  # fmt: skip
    if named:
        state.see_committables(
            FlinkCommittables(
                cluster="eu", job=JOB, number=2, path="/c/chk-2", kind=FlinkKind.CHECKPOINT, written_ms=START - 10,
                read_ms=START, prefixes=frozenset({named}),
            )
        )  # fmt: skip
    return state


def later(*restores: Restore, started_ms: int = LATE - 1_000, id_: str = OTHER) -> FlinkJobFacts:
    return FlinkJobFacts(job=job(id_, started_ms=started_ms), restores=restores)


DONE = facts(seen(3, START, START + 12, FlinkStatus.COMPLETED))
UNDONE = facts(seen(3, START, START + 12))


def told(
    of_sink: Sink, *jobs: FlinkJobFacts, listed: int | None = None, taken_ms: int = 0, named: str = ""
) -> tuple[Fate, bool, int | None]:
    found = evidence(transaction(), of_sink, flink(*jobs, listed=listed, named=named), taken_ms=taken_ms)
    return found.fate, found.sure, found.checkpoint


def test_without_a_list_nothing_is_sure_and_ids_speak_where_the_job_does_not() -> None:
    committing = replace(sink(), commits=[(START, START + 13, 3)])
    for of_sink in (sink(), committing, sink(n4=END + 1)):
        for named in ("", "sink"):
            assert told(of_sink, DONE, named=named) == (Fate.COMPLETED, False, 3)
    assert told(sink(n4=END + 1), DONE, named="else") == (Fate.COMPLETED, False, 3), (
        "the ids alone: it is not that job's"
    )
    assert told(sink(takes=(END + 1,)), UNDONE) == (Fate.REPLAYED, False, None), "the ids alone"
    assert told(sink(n4=END + 1), UNDONE) == (Fate.COMPLETED, False, 3)
    assert told(sink(), UNDONE) == (Fate.NOT_COMPLETED, False, 3)
    restored = later(back(2, LATE, JOB))
    assert told(sink(n4=END + 1), DONE, restored) == (Fate.REPLAYED, False, 3), "the job's own word"
    assert told(sink(takes=(LATE + 1,)), DONE, restored, named="sink") == (Fate.REPLAYED, False, 3)
    assert told(sink(), UNDONE, later(back(9, LATE, JOB)), named="sink") == (Fate.COMPLETED, False, 9)


WHOLE_9 = FlinkCommittables(
    cluster="eu", job=JOB, number=9, path="/c/chk-9", kind=FlinkKind.CHECKPOINT, written_ms=LATE - 500, read_ms=LATE,
    prefixes=frozenset({"sink"}),
)  # fmt: skip
RAN_9 = facts(seen(3, START, START + 12), seen(9, LATE - 900, None, RUNS))


@pytest.mark.parametrize(
    ("known", "listing", "epoch", "fate", "number"),
    [
        (UNDONE, None, 4, Fate.COMPLETED, 9),
        (UNDONE, replace(WHOLE_9, error="cut short"), 4, Fate.COMPLETED, 9),
        # It was read whole, and does not list the transaction: a job that was restored from it says nothing.
        (UNDONE, WHOLE_9, 4, Fate.NOT_COMPLETED, 3),
        (UNDONE, replace(WHOLE_9, number=8), 4, Fate.COMPLETED, 9),
        # Whether it lists one whose epoch is not known, it does not tell.
        (UNDONE, WHOLE_9, None, Fate.COMPLETED, 9),
        # One that REST told of began after the transaction did: another one before it may have committed it.
        (RAN_9, WHOLE_9, 4, Fate.COMPLETED, 9),
        (RAN_9, None, 4, Fate.COMPLETED, 9),
    ],
)
def test_a_restore_proves_no_checkpoint_whose_list_leaves_it_out(
    known: FlinkJobFacts, listing: FlinkCommittables | None, epoch: int | None, fate: Fate, number: int
) -> None:
    state = flink(known, later(back(9, LATE, JOB)), named="sink")
    if listing is not None:
        state.see_committables(listing)
    found = evidence(replace(transaction(), ongoing_epoch=epoch), sink(), state)
    assert (found.fate, found.checkpoint) == (fate, number)


def test_what_is_known_to_count_is_not_still_awaited() -> None:
    done, runs = seen(3, START, START + 1, FlinkStatus.COMPLETED), seen(5, START + 5, None, RUNS)
    assert job_case(START, 3, facts(done), {}).running is None
    assert job_case(START, 3, facts(done, runs), {}).running == 5
    assert job_case(START, 3, facts(replace(done, kind=FlinkKind.SYNC_SAVEPOINT), runs), {}).running == 3


def test_the_last_restore_of_all_counts() -> None:
    committing = replace(sink(), commits=[(START, START + 13, 3)])
    first, last = later(back(2, LATE, JOB)), later(back(3, LATE + 9, JOB), started_ms=LATE + 8, id_="c" * 32)
    assert told(committing, DONE, first, last)[0] is Fate.COMPLETED
    assert told(committing, DONE, last, first)[0] is Fate.COMPLETED


def test_few_commits_tell_only_where_both_readings_of_the_number_agree() -> None:
    unknown = Sink(prefix="sink")
    assert told(unknown, DONE) == (Fate.COMPLETED, False, 3)
    by_number = facts(seen(3, START - 500, START + 12, FlinkStatus.COMPLETED))
    found = evidence(transaction(), unknown, flink(by_number))
    assert (found.fate, "too few commits were seen to tell" in found.why) == (Fate.UNSEEN, True)
    before = facts(seen(3, START, START + 12, FlinkStatus.COMPLETED), seen(2, START - 50, START - 20))
    assert told(unknown, before, later(back(2, LATE, JOB)))[0] is Fate.REPLAYED, "both readings: set back"


def test_few_commits_and_a_take_since_leave_it_likely() -> None:
    unknown = replace(sink(None, takes=(LATE,)))
    assert told(unknown, listed=3) == (Fate.UNSEEN, False, None), "nothing says that the list counts"
    assert told(sink(None), DONE, listed=3) == (Fate.COMPLETED, True, 3)
    assert told(unknown, DONE, listed=3) == (Fate.COMPLETED, False, 3)
    assert told(sink(True, takes=(LATE,)), DONE, listed=3) == (Fate.COMPLETED, True, 3)
    # Without a list the checkpoint holds what its id had when it was triggered: what was taken before that is no part of it.
    late = facts(seen(3, END + 10_000, END + 10_012, FlinkStatus.COMPLETED))
    committing = replace(sink(None, takes=(END + 5_000,)), commits=[(START, END + 10_013, 3)])
    assert told(committing, late, later(back(3, LATE, JOB))) == (Fate.COMPLETED, False, 3)
    restored = later(back(3, LATE + 9, JOB))
    assert told(unknown, DONE, restored, listed=3) == (Fate.COMPLETED, False, 3), "taken before it was restored from it"
    assert told(sink(None, takes=(LATE + 10,)), DONE, restored, listed=3) == (Fate.COMPLETED, False, 3)


def test_a_take_since_has_a_completed_one_written_again() -> None:
    assert told(sink(takes=(LATE,)), DONE, listed=3) == (Fate.REPLAYED, False, 3)
    assert told(sink(takes=(LATE,)), DONE, listed=3, taken_ms=LATE) == (Fate.COMPLETED, True, 3)
    found = evidence(transaction(), sink(takes=(LATE,)), flink(DONE))
    assert (found.fate, found.rule) == (Fate.REPLAYED, 0)
    assert "taken again" in found.why
    restored = later(back(3, LATE + 9, JOB))
    assert told(sink(takes=(LATE,)), DONE, restored, listed=3) == (Fate.COMPLETED, False, 3)
    # Without a list the checkpoint holds what its id had when it was triggered, not what it had before.
    assert told(sink(takes=(LATE,)), DONE, restored) == (Fate.COMPLETED, False, 3)


@pytest.mark.parametrize(
    ("restores", "expected"),
    [
        ((back(2, LATE, JOB),), (Fate.REPLAYED, False, 3)),
        ((back(3, LATE, JOB),), (Fate.COMPLETED, False, 3)),
        # Its own checkpoint 9, which was not seen: whether that is of this line of work the list does not tell, but the job does.
        ((back(2, LATE, JOB), back(9, LATE + 5, JOB)), (Fate.COMPLETED, False, 9)),
    ],
)
def test_a_list_tells_by_the_last_restore(
    restores: tuple[Restore, ...], expected: tuple[Fate, bool, int | None]
) -> None:
    assert told(sink(), UNDONE, later(*restores), listed=3) == expected


def test_a_list_that_is_not_known_to_count_leaves_it_to_the_job() -> None:
    assert told(sink(), UNDONE, listed=3) == (Fate.NOT_COMPLETED, False, 3)
    stranger = later(started_ms=LATE + 5_000)
    assert told(sink(), DONE, stranger, listed=3) == (Fate.COMPLETED, False, 3)
