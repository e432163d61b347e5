"""Open transactions of Flink's Kafka sink: what jobs, checkpoints and lists tell, and what is then said and offered.

Conditions at their limits: test_flink_commit_limits.py; other jobs: test_flink_lines_of_work.py; branches in databases:
test_flink_branches.py; random histories: test_flink_histories.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from indoubt.collector.records.formats.flink_records import (
    Committable,
    FlinkKind,
    FlinkStatus,
)
from indoubt.collector.verdicts import flink_commits, verdict_rules
from indoubt.lifecycle.verdicts import Assumption, Verdict
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.observations import T0, case
from tests.unit.collector.verdicts.case_tables import NO_VERDICT, table
from tests.unit.collector.verdicts.flink_given import (
    ABORT,
    AWAY,
    BEGUN,
    COMMIT,
    COMMIT_OF_4,
    COMMIT_OF_SAVEPOINT,
    COMPLETED_2,
    COMPLETED_3,
    COMPLETED_4,
    DAMAGED_3,
    DOUBT,
    EPOCH,
    FAILED,
    FAILED_3,
    FINISHED,
    FROM_2,
    FROM_3,
    GOES_ON,
    GONE_3,
    HELD,
    ITSELF,
    JOB,
    LIKELY_ABORT,
    LIKELY_COMMIT,
    LISTED_3,
    LISTED_4,
    NONE_IN_2,
    NOT_LISTED,
    NOT_OVER_3,
    NUMBERED,
    OTHER,
    OTHERS_2,
    OUT_OF_REACH,
    PRODUCER,
    RUNS,
    SOLE,
    STARTED_ANEW,
    STRANGER_ID,
    THIRD,
    At,
    begun,
    check,
    chk,
    completed,
    heir,
    itself,
    judged,
    listing,
    sure_case,
)  # fmt: skip

LATER_FROM_3, LATER_FROM_4 = heir(3, 80_000, id_=THIRD), heir(4, 80_000, id_=THIRD)
LATER_ANEW, GOES_ON_FROM_5 = heir(0, 80_000, "", id_=THIRD), heir(5, 80_000, chk(5, OTHER), id_=THIRD)
FROM_SAVEPOINT = heir(4, 80_000, "file:///c/savepoint-aaaaaa-0123", id_=THIRD)
SAVEPOINT, STOPS_WITH = checkpoint(3, kind=FlinkKind.SAVEPOINT), checkpoint(3, kind=FlinkKind.SYNC_SAVEPOINT)
LATER_STOP = replace(STOPS_WITH, number=4, triggered_ms=T0 + 40_000, ended_ms=T0 + 41_000)
IN_SAVEPOINT = replace(LISTED_3, path="file:///c/savepoint-aaaaaa-0123", kind=None)
FAILED_4 = checkpoint(4, FlinkStatus.FAILED, reason="Could not finalize")
EARLIER_3 = checkpoint(3, triggered_ms=T0, ended_ms=T0 + 500)
EARLIER_FAILED = replace(EARLIER_3, status=FlinkStatus.FAILED)
TAKEN_AGAIN_3 = checkpoint(3, triggered_ms=T0 + 500_000, ended_ms=T0 + 501_000)
OTHER_EPOCH = listing(3, Committable(ITSELF.transaction, PRODUCER, EPOCH + 1))
STRANGER, STRANGERS_LIST = job(STRANGER_ID, name="refunds"), listing(9, NOT_LISTED, job=STRANGER_ID, written=29_000)
STRANGERS_9 = checkpoint(9, job=STRANGER_ID, job_name="refunds", triggered_ms=T0 + 28_000, ended_ms=T0 + 29_000)

ODD = Committable("odd", 0, 4)
LATE_JOB = job(state="FAILED", started_ms=T0 + 21_001)
LISTED = [
    # name; what is known of jobs, checkpoints and lists; the rule, and its verdict, certainty and offers
    ("completed, its job is over", SOLE, 23, COMMIT),
    ("completed, its job runs and is late", [RUNS, COMPLETED_3, LISTED_3], 23, COMMIT),
    ("completed a moment ago", [RUNS, COMPLETED_3, LISTED_3, At(32_000)], 23, GOES_ON),
    ("a later one that lists it completed", [FAILED, COMPLETED_4, LISTED_3, LISTED_4], 23, COMMIT),
    ("a later one that does not list it completed", [FAILED, COMPLETED_4, LISTED_3], 25, LIKELY_COMMIT),
    ("set back, then restored from a later one", [FAILED, FROM_2, LATER_FROM_4, LISTED_3], 21, DOUBT),
    ("set back, then restored from it", [FAILED, FROM_2, LATER_FROM_3, LISTED_3], 21, DOUBT),
    ("restored from it", [FAILED, FROM_3, LISTED_3], 23, LIKELY_COMMIT),
    ("set back to before it", [FAILED, COMPLETED_3, FROM_2, LISTED_3], 22, LIKELY_ABORT),
    ("its job was set back itself", [itself(2), COMPLETED_3, LISTED_3], 22, ABORT),
    ("so it was, and it runs", [itself(2, state="RUNNING"), COMPLETED_3, LISTED_3], 22, ABORT),
    ("a job of that name from nothing", [FAILED, COMPLETED_3, STARTED_ANEW, LISTED_3], 21, DOUBT),
    ("restored from it, REST never told of its job", [FROM_3, LISTED_3], 23, LIKELY_COMMIT),
    ("so it was, then one from nothing", [FROM_3, LATER_ANEW, LISTED_3], 21, DOUBT),
    ("restored from it, and on from there", [FAILED, FROM_3, GOES_ON_FROM_5, LISTED_3], 23, LIKELY_COMMIT),
    ("its job runs, its checkpoint is not over", [RUNS, NOT_OVER_3, LISTED_3], 24, GOES_ON),
    ("its checkpoint failed", [RUNS, FAILED_3, LISTED_3], 24, GOES_ON),
    ("its checkpoint failed, its job is over", [FAILED, FAILED_3, LISTED_3], 34, DOUBT),
    ("its checkpoint failed, REST is away", [RUNS, FAILED_3, LISTED_3, AWAY], 34, DOUBT),
    ("it failed, the next one completed", [FAILED, FAILED_3, COMPLETED_4, LISTED_3, LISTED_4], 23, COMMIT),
    ("it failed, the next one's end not seen", [FAILED, FAILED_3, LISTED_3, LISTED_4], 25, COMMIT_OF_4),
    ("its end not seen, the next one failed", [FAILED, FAILED_4, LISTED_3, LISTED_4], 25, LIKELY_COMMIT),
    ("both failed", [FAILED, FAILED_3, FAILED_4, LISTED_3, LISTED_4], 34, DOUBT),
    ("an earlier chk-3 failed", [FAILED, EARLIER_FAILED, LISTED_3], 25, LIKELY_COMMIT),
    ("it failed, and a job was restored from it", [FAILED, FAILED_3, FROM_3, LISTED_3], 23, LIKELY_COMMIT),
    ("it failed, and the work was set back", [FAILED, FAILED_3, FROM_2, LISTED_3], 22, LIKELY_ABORT),
    ("completed, before Flink 1.15", [FAILED, COMPLETED_3, replace(LISTED_3, kind=None)], 23, LIKELY_COMMIT),
    ("a savepoint commits nothing", [RUNS, SAVEPOINT, LISTED_3], 24, GOES_ON),
    ("a savepoint, its job is over", [FAILED, SAVEPOINT, IN_SAVEPOINT], 25, COMMIT_OF_SAVEPOINT),
    ("it stops with a savepoint", [RUNS, STOPS_WITH, IN_SAVEPOINT], 24, GOES_ON),
    ("it failed as it stopped", [FAILED, STOPS_WITH, IN_SAVEPOINT], 25, COMMIT_OF_SAVEPOINT),
    ("it was stopped with a savepoint", [FINISHED, STOPS_WITH, IN_SAVEPOINT], 23, COMMIT),
    ("so it was, with a later one", [FINISHED, STOPS_WITH, LATER_STOP, IN_SAVEPOINT], 25, COMMIT_OF_SAVEPOINT),
    ("restored from it, then from a later one", [FROM_3, LATER_FROM_4, LISTED_3], 21, DOUBT),
    ("so it was, and it was completed", [FAILED, COMPLETED_3, FROM_3, LATER_FROM_4, LISTED_3], 23, LIKELY_COMMIT),
    ("REST is away, its end not seen", [RUNS, NOT_OVER_3, LISTED_3, AWAY], 25, LIKELY_COMMIT),
    ("REST was never there", [LISTED_3, AWAY], 25, LIKELY_COMMIT),
    ("so it was, and its list was just written", [LISTED_3, AWAY, At(31_000)], 25, GOES_ON),
    ("REST knows an earlier chk-3 alone", [FAILED, EARLIER_3, LISTED_3], 25, LIKELY_COMMIT),
    ("its number was taken before, and completed now", [FAILED, EARLIER_3, checkpoint(3), LISTED_3], 23, COMMIT),
    ("its number was taken again, and completed", [FAILED, FAILED_3, TAKEN_AGAIN_3, LISTED_3], 34, DOUBT),
    ("the store's clock is ahead", [FAILED, COMPLETED_3, listing(written=51_000)], 23, COMMIT),
    ("so it is, and the work was set back", [FAILED, COMPLETED_3, heir(2, 40_000), listing(written=51_000)], 22, LIKELY_ABORT),
    ("the store's clock is behind, a restore before", [itself(2, 28_000), COMPLETED_3, listing(written=27_000)], 23, COMMIT),
    ("its list is deleted", [FAILED, COMPLETED_3, GONE_3], 36, DOUBT),
    ("its list is deleted, its end not seen", [FAILED, GONE_3], 36, DOUBT),
    ("its list is deleted, and a job was restored from it", [FAILED, FROM_3, GONE_3], 36, DOUBT),
    ("its list is deleted, and the work was set back", [FAILED, FROM_2, GONE_3], 22, LIKELY_ABORT),
    ("its list is deleted, its job runs", [RUNS, COMPLETED_3, GONE_3], 24, GOES_ON),
    ("of two lists one is deleted", [FAILED, COMPLETED_4, GONE_3, LISTED_4], 23, COMMIT),
    ("another epoch is listed", [FAILED, COMPLETED_3, OTHER_EPOCH], 0, NO_VERDICT),
    ("one that began later at the same epoch", [begun(35_000), FAILED, COMPLETED_3, LISTED_3], 0, NO_VERDICT),
    ("its list was written again without it", [*SOLE, listing(3, NOT_LISTED)], 0, NO_VERDICT),
    ("an id of another form is listed", [begun(0, of=ODD), FAILED, listing(3, ODD)], 25, LIKELY_COMMIT),
    ("an id of another form", [begun(0, of=ODD)], 0, NO_VERDICT),
]  # fmt: skip

UNLISTED = [
    ("its job runs", [RUNS, NONE_IN_2], 27, GOES_ON),
    ("its job does not answer", [RUNS, NONE_IN_2, AWAY], 0, NO_VERDICT),
    ("nothing of its prefix is known", [RUNS, COMPLETED_3], 0, NO_VERDICT),
    ("it lingers after its own restore", [itself(2), NONE_IN_2], 26, ABORT),
    ("so it does, and the restore's path is not told", [itself(2, path=""), NONE_IN_2], 26, ABORT),
    ("it lingers after a restore", [FAILED, NONE_IN_2, FROM_2, OTHERS_2], 26, LIKELY_ABORT),
    ("so it does, REST never told of its job", [NONE_IN_2, FROM_2, OTHERS_2], 26, LIKELY_ABORT),
    ("so it does, and one from a savepoint since", [FAILED, NONE_IN_2, FROM_2, FROM_SAVEPOINT, OTHERS_2], 0, NO_VERDICT),
    ("it lingers, another job uses its prefix", [FAILED, NONE_IN_2, STRANGER, STRANGERS_LIST, FROM_2, OTHERS_2], 0, NO_VERDICT),
    ("so it does, and REST never told of it", [FAILED, NONE_IN_2, STRANGERS_LIST, FROM_2, OTHERS_2], 0, NO_VERDICT),
    ("so it does, and its list is not read", [FAILED, NONE_IN_2, STRANGER, STRANGERS_9, FROM_2, OTHERS_2], 0, NO_VERDICT),
    ("restored from one of several lists", [*(listing(n, NOT_LISTED, written=n * 10_000) for n in (1, 2, 4)), itself(2)],
        26, ABORT),
    # Rules 30 and 31: a completed checkpoint must hold it, and its list is not read.
    ("its list is out of reach", [*HELD, OUT_OF_REACH], 30, LIKELY_COMMIT),
    ("its list is out of reach, just completed", [*HELD, OUT_OF_REACH, At(32_999)], 31, GOES_ON),
    ("its list is out of reach, overdue", [*HELD, OUT_OF_REACH, At(33_000)], 30, LIKELY_COMMIT),
    ("its list is damaged", [*HELD, DAMAGED_3], 31, DOUBT),
    ("its list is damaged, then out of reach", [*HELD, OUT_OF_REACH, DAMAGED_3], 31, DOUBT),
    ("its list is gone", HELD, 31, DOUBT),
    ("its list is not read yet", [*HELD, At(32_000)], 31, GOES_ON),
    ("all lists of its job are out of reach", [*HELD, {(JOB, None): "no route to host"}], 30, LIKELY_COMMIT),
    ("all lists are out of reach", [*HELD, {("", None): "no route to host"}], 30, LIKELY_COMMIT),
    ("lists of others are out of reach", [*HELD, {(OTHER, None): "no route to host", (JOB, 2): "denied"}], 31, DOUBT),
    ("another job uses its prefix", [*HELD, OUT_OF_REACH, STRANGER, replace(STRANGERS_LIST, written_ms=T0 + 15_000)], 31, DOUBT),
    ("its ids are pooled", [*NUMBERED, replace(NONE_IN_2, pooled=frozenset({"orders"})), OUT_OF_REACH], 31, DOUBT),
    ("no checkpoint before it", [FAILED, COMPLETED_3, NONE_IN_2, OUT_OF_REACH], 31, DOUBT),
    ("a savepoint before it", [FAILED, checkpoint(2, kind=FlinkKind.SAVEPOINT), COMPLETED_3, NONE_IN_2, OUT_OF_REACH], 31, DOUBT),
    ("its job may have started after it", [LATE_JOB, COMPLETED_2, COMPLETED_3, NONE_IN_2, OUT_OF_REACH], 31, DOUBT),
    ("its job may have been restored after it", [*HELD, OUT_OF_REACH, itself(2, 21_001)], 31, DOUBT),
    ("a job was restored from it", [*HELD, OUT_OF_REACH, FROM_3], 31, DOUBT),
    ("the work was set back", [*HELD, OUT_OF_REACH, FROM_2], 31, DOUBT),
    ("so it was, and what was restored was read", [*HELD, OUT_OF_REACH, FROM_2, listing(2, NOT_LISTED, job=OTHER)], 31, DOUBT),
    ("its job was set back itself", [*HELD, OUT_OF_REACH, itself(2)], 26, ABORT),
    ("a job of that name from nothing", [*HELD, OUT_OF_REACH, STARTED_ANEW], 31, DOUBT),
    ("a later list does not name it", [*HELD, OUT_OF_REACH, listing(4, NOT_LISTED, written=40_000)], 31, DOUBT),
    ("begun before it was triggered", [begun(29_000), *HELD, OUT_OF_REACH], 30, LIKELY_COMMIT),
    ("begun perhaps after it was triggered", [begun(29_001), *HELD, OUT_OF_REACH], 31, DOUBT),
    ("begun as it ended", [begun(31_000), *HELD, OUT_OF_REACH], 31, DOUBT),
    ("begun after it ended", [begun(31_001), *HELD, OUT_OF_REACH], 0, NO_VERDICT),
    ("it failed", [FAILED, COMPLETED_2, completed(3, status=FlinkStatus.FAILED), NONE_IN_2, OUT_OF_REACH], 0, NO_VERDICT),
    ("it is not over", [FAILED, COMPLETED_2, NOT_OVER_3, NONE_IN_2, OUT_OF_REACH], 0, NO_VERDICT),
    ("it is a savepoint", [FAILED, COMPLETED_2, completed(3, kind=FlinkKind.SAVEPOINT), NONE_IN_2, OUT_OF_REACH], 0, NO_VERDICT),
    ("its list is read and does not name it", [*HELD, OUT_OF_REACH, listing(3, NOT_LISTED)], 0, NO_VERDICT),
    ("an older list of its number is read", [*HELD, OUT_OF_REACH, listing(3, NOT_LISTED, written=28_999)], 31, DOUBT),
    ("it failed, a later one holds it", [FAILED, COMPLETED_2, FAILED_3, COMPLETED_4, NONE_IN_2, {(JOB, None): "denied"}],
        30, COMMIT_OF_4),
    ("and its job runs", [RUNS, COMPLETED_2, COMPLETED_3, NONE_IN_2, OUT_OF_REACH], 27, GOES_ON),
    # No list names its prefix: its number and its time may tie it to one job.
    ("number and time fit", NUMBERED, 31, DOUBT),
    ("it began before the checkpoint before", [begun(18_999), *NUMBERED], 0, NO_VERDICT),
    ("it began after the checkpoint", [begun(31_001), *NUMBERED], 0, NO_VERDICT),
    ("the checkpoint before is not known", [FAILED, COMPLETED_3], 0, NO_VERDICT),
    ("two jobs fit", [*NUMBERED, *(replace(each, job=OTHER) for each in NUMBERED)], 0, NO_VERDICT),
    ("a list names another prefix", [*NUMBERED, listing(2, Committable("others-0-2", 1, 1), written=20_000)], 31, DOUBT),
    ("number and time fit, its job runs", [RUNS, COMPLETED_2, COMPLETED_3], 0, NO_VERDICT),
]  # fmt: skip


@table("given, rule, then", [*LISTED, *UNLISTED])
def test_an_open_transaction(given: list[Any], rule: int, then: str) -> None:
    check(judged(given), rule, then)


@table("given", [(name, given) for name, given, _, then in (*LISTED, *UNLISTED) if then == GOES_ON])
def test_what_is_left_alone_assumes_that_its_job_ends_it(given: list[Any]) -> None:
    found = judged(given)
    assert found is not None
    assert found.assumes == (Assumption.OWNER_ENDS_IT,)


BESIDE = job(OTHER, started_ms=T0 + 1_000)
WRITES, GOES_FROM, NO_OTHER = Assumption.WRITES_HERE, Assumption.JOB_GOES_ON_FROM_IT, Assumption.NO_OTHER_GOES_ON
NAMES, OWN, HEIR = Assumption.LIST_NAMES_IT, Assumption.ITS_OWN, Assumption.HEIR_GOES_ON
ASSUMES = [
    ("it counts, and another job may go on", [*SOLE, BESIDE], {WRITES, NO_OTHER}),
    ("its end not seen, and another job may go on", [FAILED, LISTED_3, BESIDE], {GOES_FROM, WRITES, NO_OTHER}),
    ("out of reach", [*HELD, OUT_OF_REACH], {NAMES, GOES_FROM}),
    ("out of reach, and another job may use its prefix", [*HELD, OUT_OF_REACH, STRANGER], {NAMES, GOES_FROM, WRITES, OWN}),
    ("after its own restore, and another job may go on", [itself(2), NONE_IN_2, BESIDE], {WRITES, OWN, NO_OTHER}),
    ("after another job's restore", [FAILED, NONE_IN_2, FROM_2, OTHERS_2], {WRITES, OWN, HEIR}),
]  # fmt: skip


@table("given, assumes", ASSUMES)
def test_what_is_likely_names_all_that_it_assumes(given: list[Any], assumes: set[Assumption]) -> None:
    found = judged(given)
    assert found is not None
    assert set(found.assumes) == assumes


def test_every_rule_has_a_case() -> None:
    rules = {int(each.__name__.split("_")[1]) for each in flink_commits.RULES}
    of_files = {38, 39}
    assert {rule for *_, rule, _ in (*LISTED, *UNLISTED)} == {0, *rules} - of_files


SAYS = [
    # name, what is known, the number of the evidence, what it says
    ("both failed", [FAILED, FAILED_3, FAILED_4, LISTED_3, LISTED_4], 1,
        "REST reported checkpoint 4 of eu/orders as failed (Could not finalize)"),
    ("so they did, until a restore", [FAILED, FAILED_3, FAILED_4, LISTED_3, LISTED_4], 2,
        "until a job is restored from chk-4"),
    ("it failed, the next one's end not seen", [FAILED, FAILED_3, LISTED_3, LISTED_4], 1, "the end of chk-4 was not seen"),
    ("so it did, what follows", [FAILED, FAILED_3, LISTED_3, LISTED_4], 2, "restored from checkpoint 4, Flink logs"),
    ("its list is deleted", [FAILED, COMPLETED_3, GONE_3], 1, f"{GONE_3.path} is not there any more"),
    ("so it is, and it counted", [FAILED, COMPLETED_3, GONE_3], 1, "counted (REST reported"),
    ("so it is, its end not seen", [FAILED, GONE_3], 1, "its end was not seen"),
    ("so it is, its job runs", [RUNS, COMPLETED_3, GONE_3], 1, "the checkpoints that listed it are deleted"),
    ("in a savepoint", [FAILED, STOPS_WITH, IN_SAVEPOINT], 1,
        "savepoint-aaaaaa-0123 is a savepoint, from which the job does not restart"),
    ("in a savepoint as its list alone says", [replace(LISTED_3, kind=FlinkKind.SAVEPOINT)], 1,
        "chk-3 is a savepoint, from which the job does not restart"),
    ("in a savepoint, its job runs", [RUNS, STOPS_WITH, IN_SAVEPOINT], 1,
        "it commits what savepoint 3 lists, or its next checkpoint lists it again"),
    ("stopped with a savepoint", [FINISHED, STOPS_WITH, IN_SAVEPOINT], 1,
        "the job was stopped with it, and is finished"),
    ("its job runs", [RUNS, LISTED_3], 1, "eu/orders runs, and Flink has not reported checkpoint 3 as completed"),
    ("set back and restored again", [itself(2), itself(4, 80_000), LISTED_3], 1,
        "was set back to before checkpoint 3 and restored again since"),
    ("restored from it, then from a later one", [itself(3), itself(4, 80_000), LISTED_3], 1,
        "restored from checkpoint 3, which lists it, and since then from a later one that does not"),
    ("two heirs", [FAILED, FROM_2, LATER_FROM_3, LISTED_3], 1, "was restored from checkpoint 3 at "),
    ("two heirs disagree", [FAILED, FROM_2, LATER_FROM_3, LISTED_3], 1, "another restore says otherwise"),
    ("one from nothing", [FAILED, COMPLETED_3, STARTED_ANEW, LISTED_3], 1, OTHER),
    ("out of reach, completed", [*HELD, OUT_OF_REACH], 0, "REST reported checkpoint 3 of eu/orders as completed"),
    ("out of reach, why", [*HELD, OUT_OF_REACH], 1, f"{LISTED_3.path}/_metadata cannot be read: permission denied"),
    ("out of reach, what follows", [*HELD, OUT_OF_REACH], 2, "loses its rows"),
    ("damaged", [*HELD, DAMAGED_3], 1, "cannot be read: byte 17: damaged"),
    ("damaged, then out of reach", [*HELD, OUT_OF_REACH, DAMAGED_3], 2, "whether a job can be restored from that checkpoint"),
    ("gone", HELD, 1, "it was not found there"),
    ("pooled", [*NUMBERED, replace(NONE_IN_2, pooled=frozenset({"orders"})), OUT_OF_REACH], 2, "reuses its ids"),
    ("no checkpoint before it", [FAILED, COMPLETED_3, NONE_IN_2, OUT_OF_REACH], 2, "was restarted before its first checkpoint"),
    ("its job may have started later", [LATE_JOB, COMPLETED_2, COMPLETED_3, NONE_IN_2, OUT_OF_REACH], 2, "left from before"),
    ("restored later", [*HELD, OUT_OF_REACH, itself(2, 21_001)], 2, "left from before"),
    ("restored from it", [*HELD, OUT_OF_REACH, FROM_3], 2, "a job was restored from checkpoint 3"),
    ("set back", [*HELD, OUT_OF_REACH, FROM_2], 2, "a job was restored from checkpoint 2"),
    ("the same name", [*HELD, OUT_OF_REACH, STARTED_ANEW], 2, "has the same name and started at"),
    ("a later list leaves it out", [*HELD, OUT_OF_REACH, listing(4, NOT_LISTED, written=40_000)], 2, "a list that would name it"),
]  # fmt: skip


@table("given, number, says", SAYS)
def test_the_evidence_says_it(given: list[Any], number: int, says: str) -> None:
    found = judged(given)
    assert found is not None
    assert says in found.rests_on[number].fact


def test_evidence_has_the_time_of_what_it_tells() -> None:
    failed = judged([FAILED, FAILED_3, FAILED_4, LISTED_3, LISTED_4])
    assert failed is not None
    assert failed.evidence[1].at_ms == FAILED_4.ended_ms


def test_a_verdict_of_flink_takes_the_place_of_foreign_and_of_nothing_else() -> None:
    with_flink = case(BEGUN, 40_000, flink=sure_case(SOLE))
    assert verdict_rules.judge(with_flink).rule == 23
    assert verdict_rules.judge(replace(with_flink, flink=None)).verdict is Verdict.FOREIGN
