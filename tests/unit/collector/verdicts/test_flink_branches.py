"""Branches of Flink's JDBC sinks in databases, prepared for checkpoint 3, where they differ from transactions in Kafka."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.formats.flink_records import FlinkCommittables, FlinkKind, FlinkStatus
from indoubt.collector.records.xids import as_listed, owner_of
from indoubt.collector.verdicts import verdict_rules
from indoubt.collector.verdicts.flink_evidence import listed_as
from indoubt.lifecycle.verdicts import Assumption, Judgement, Verdict
from indoubt.resource_managers.mysql.xa_xid import XaXid
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.observations import T0, branch_listed, case, database_handle, only_view
from tests.unit.collector.verdicts import flink_given
from tests.unit.collector.verdicts.case_tables import NO_VERDICT, table, told
from tests.unit.collector.verdicts.flink_given import (
    ABORT,
    AWAY,
    COMMIT,
    COMPLETED_2,
    COMPLETED_3,
    DOUBT,
    FAILED,
    FAILED_3,
    FROM_2,
    FROM_3,
    GOES_ON,
    JOB,
    LIKELY_ABORT,
    LIKELY_COMMIT,
    NOT_OVER_3,
    OTHER,
    RUNS,
    STARTED_ANEW,
    THIRD,
    WRITTEN,
    At,
    InStore,
    RestAway,
    case_of,
    chk,
    completed,
    flink_state,
    heir,
    itself,
    judged,
    sure_case,
)

PREPARED = 30_050
FUNCTION = XaXid(format_id=201, gtrid=bytes.fromhex(JOB) + bytes(4) + b"\3" + bytes(7), bqual=b"rand")
SINK = XaXid(format_id=202, gtrid=bytes.fromhex(JOB) + bytes(18), bqual=b"\0\0\0\1" + bytes(7) + b"\2\0")
NARAYANA = XaXid(format_id=131077, gtrid=b"bank", bqual=b"7")
BANK = XaXid(format_id=1, gtrid=b"bank", bqual=b"7")


def branch(xid: XaXid = FUNCTION, prepared: int = PREPARED, *, is_postgres: bool = True) -> TransactionView:
    """Return the view of a prepared branch; in MySQL ``prepared`` is when it was first seen."""
    if not is_postgres:
        return only_view(branch_listed(replace(database_handle("mysql"), transaction=str(xid)), at=prepared))
    gid = "_".join([str(xid.format_id), base64.b64encode(xid.gtrid).decode(), base64.b64encode(xid.bqual).decode()])
    of = replace(database_handle("postgres"), transaction=gid)
    return only_view(branch_listed(of, at=prepared + 500, prepared_ms=T0 + prepared))


def in_mysql(xid: XaXid = FUNCTION, prepared: int = PREPARED) -> TransactionView:
    return branch(xid, prepared, is_postgres=False)


def listing(number: int = 3, *xids: XaXid, written: int = WRITTEN, job: str = JOB, **fields: Any) -> FlinkCommittables:
    of = {"committables": frozenset(as_listed(xid) for xid in xids), "prefixes": frozenset(), **fields}
    return flink_given.listing(number, written=written, job=job, **of)


LISTS, LISTS_NONE = listing(3, FUNCTION), listing(2, written=20_100)
DAMAGED_3, DAMAGED_2 = listing(3, error="one state"), replace(LISTS_NONE, error="one state")
AGAIN_FROM_2, AGAIN_FROM_3 = itself(2, state="RUNNING"), itself(3, state="RUNNING")


def away(at: int) -> list[Any]:
    """Return that REST is away since 60 s, and the branch is judged then."""
    return [RestAway(since=60_000), At(at)]


CASES = [
    # name; what is known of jobs, checkpoints and lists; the rule, and what it says of a branch in PostgreSQL
    ("completed, its job is over", [FAILED, COMPLETED_3, LISTS], 23, COMMIT),
    ("completed, whether its job runs is not known", [RUNS, COMPLETED_3, LISTS, AWAY], 23, LIKELY_COMMIT),
    ("completed, its job runs: it commits it", [RUNS, COMPLETED_3, LISTS], 23, GOES_ON),
    ("its checkpoint is not over", [RUNS, NOT_OVER_3, LISTS], 24, GOES_ON),
    ("its end was not seen", [LISTS, AWAY], 25, LIKELY_COMMIT),
    ("restored from it, and over again", [FAILED, FROM_3, LISTS], 23, LIKELY_COMMIT),
    ("restored from it, REST never told of its job", [FROM_3, LISTS], 23, LIKELY_COMMIT),
    ("restored from it by another, REST away", [RUNS, FROM_3, LISTS, AWAY], 23, LIKELY_COMMIT),
    ("restarted from it, REST away", [AGAIN_FROM_3, LISTS, AWAY], 23, LIKELY_COMMIT),
    ("set back to before it", [FAILED, FROM_2, LISTS], 22, LIKELY_ABORT),
    ("a job of that name from nothing", [FAILED, COMPLETED_3, STARTED_ANEW, LISTS], 21, DOUBT),
    ("restarted from one that does not list it", [AGAIN_FROM_2, LISTS_NONE], 26, ABORT),
    ("over, another goes on from one that does not list it", [FAILED, FROM_2, LISTS_NONE], 26, LIKELY_ABORT),
    ("it runs, another goes on from its checkpoint", [RUNS, FROM_2, LISTS_NONE], 27, GOES_ON),
    ("that checkpoint was not read whole", [FAILED, FROM_2, DAMAGED_2], 0, NO_VERDICT),
    ("that checkpoint was not read", [FAILED, FROM_2], 0, NO_VERDICT),
    ("its job runs", [RUNS, LISTS_NONE], 27, GOES_ON),
    ("its job does not answer", [RUNS, LISTS_NONE, AWAY], 0, NO_VERDICT),
    ("another xid is listed", [FAILED, COMPLETED_3, listing(3, SINK)], 0, NO_VERDICT),
    ("its job is not known", [listing(3, SINK)], 0, NO_VERDICT),
    ("completed, its list is not read", [FAILED, COMPLETED_3], 31, DOUBT),
    ("completed just now, its list is not read", [FAILED, COMPLETED_3, At(32_000)], 31, GOES_ON),
    ("completed, its list is damaged", [FAILED, COMPLETED_3, DAMAGED_3], 31, DOUBT),
    ("a savepoint was completed", [FAILED, checkpoint(3, kind=FlinkKind.SAVEPOINT)], 0, NO_VERDICT),
    ("it failed", [FAILED, FAILED_3], 0, NO_VERDICT),
    ("completed before, the next not", [FAILED, checkpoint(4, FlinkStatus.IN_PROGRESS), COMPLETED_3], 31, DOUBT),
    ("triggered later", [FAILED, checkpoint(4)], 0, NO_VERDICT),
    # A job may run until REST is away for long.
    ("completed, REST is away", [RUNS, COMPLETED_3, LISTS, *away(60_000)], 23, GOES_ON),
    ("completed, REST is away for less than 30 s", [RUNS, COMPLETED_3, LISTS, *away(89_999)], 23, GOES_ON),
    ("completed, REST is away for 30 s", [RUNS, COMPLETED_3, LISTS, *away(90_000)], 23, LIKELY_COMMIT),
    ("completed, its job is over, REST is away", [FAILED, COMPLETED_3, LISTS, *away(60_000)], 23, COMMIT),
    ("not over, REST is away for less than 30 s", [RUNS, NOT_OVER_3, LISTS, *away(89_999)], 24, GOES_ON),
    ("not over, REST is away for 30 s", [RUNS, NOT_OVER_3, LISTS, *away(90_000)], 25, LIKELY_COMMIT),
    ("not listed, REST is away for less than 30 s", [RUNS, LISTS_NONE, *away(89_999)], 27, GOES_ON),
    ("not listed, REST is away for 30 s", [RUNS, LISTS_NONE, *away(90_000)], 0, NO_VERDICT),
    ("its list is not read, REST is away for less than 30 s", [RUNS, COMPLETED_3, *away(89_999)], 27, GOES_ON),
    ("its list is not read, REST is away for 30 s", [RUNS, COMPLETED_3, *away(90_000)], 31, DOUBT),
    ("listed, no job is known, REST is away", [LISTS, *away(60_000)], 25, LIKELY_COMMIT),
    # The high-availability store tells that no JobManager has the job.
    ("its end was not seen, it is in the store", [RUNS, LISTS, *away(90_000), InStore()], 23, COMMIT),
    ("so it is, REST is away for less than 30 s", [RUNS, LISTS, *away(89_999), InStore()], 23, GOES_ON),
    ("completed, nobody has its job", [RUNS, COMPLETED_3, LISTS, *away(90_000), InStore()], 23, COMMIT),
    ("completed, a JobManager has it", [RUNS, COMPLETED_3, LISTS, *away(90_000), InStore(held=True)], 23, LIKELY_COMMIT),
]  # fmt: skip


@pytest.mark.parametrize("is_postgres", [True, False], ids=["postgres", "mysql"])
@table("given, rule, then", CASES)
def test_a_branch(given: list[Any], rule: int, then: str, is_postgres: bool) -> None:
    found = judged([branch(is_postgres=is_postgres), *given])
    # MariaDB, which lists as MySQL does, refuses Flink's own commit.
    assert told(found) == (rule, then if is_postgres or then != COMMIT else LIKELY_COMMIT)
    if found is not None and found.may_commit and not is_postgres:
        assert Assumption.JOB_GOES_ON_FROM_IT in found.assumes
        assert "XAER_OUTSIDE" in found.rests_on[-1].fact
    if found is not None and LISTS in given:
        assert "exactly this xid" in found.evidence[0].fact


def test_what_another_job_may_do_is_assumed_beside_mariadb_s_refusal() -> None:
    found = judged([in_mysql(), FAILED, COMPLETED_3, LISTS, job(OTHER, started_ms=T0 + 1_000)])
    assert found is not None
    assert set(found.assumes) == {Assumption.NO_OTHER_GOES_ON, Assumption.JOB_GOES_ON_FROM_IT}


@pytest.mark.parametrize("is_postgres", [True, False], ids=["postgres", "mysql"])
@table("given", [(name, given) for name, given, *_ in CASES if "REST is away" in name])
def test_a_standing_order_commits_no_branch_of_a_job_that_may_run(given: list[Any], is_postgres: bool) -> None:
    case = sure_case([branch(is_postgres=is_postgres), *given])
    assert case.is_gone is (FAILED in given)
    found = judged([branch(is_postgres=is_postgres), *given])
    if found is not None and found.verdict is Verdict.IN_PROGRESS:
        assert any("it did when REST answered last" in each.fact for each in found.evidence)


LISTED_IN_5 = listing(5, FUNCTION, written=50_100)


def triggered(at: int) -> list[Any]:
    """Return that checkpoint 5 lists it, and that the job was restored from checkpoint 3, whose list was not read."""
    return [FAILED, checkpoint(3, FlinkStatus.IN_PROGRESS, triggered_ms=T0 + at), FROM_3, LISTED_IN_5]


OTHERS = [
    # name, the branch, what is known, the rule, and what it says
    # Its number, or when it was prepared, says which checkpoint cannot hold it; MySQL keeps no time.
    ("listed by 5, restored from before its number", branch(), [FAILED, FROM_2, LISTED_IN_5], 22, LIKELY_ABORT),
    ("listed by 5, restored from its number", branch(), [FAILED, FROM_3, LISTED_IN_5], 21, DOUBT),
    ("JdbcSink's: its number says nothing", branch(SINK), [FAILED, heir(1), listing(5, SINK, written=50_100)], 21, DOUBT),
    ("prepared perhaps before 3 was triggered", branch(), triggered(PREPARED - 1_000), 21, DOUBT),
    ("prepared after 3 was triggered", branch(), triggered(PREPARED - 1_001), 22, LIKELY_ABORT),
    ("so it was, in MySQL", in_mysql(), triggered(PREPARED - 1_001), 21, DOUBT),
    # A random branch part is never made twice: when MySQL's was seen first does not matter.
    ("seen long after it was listed", in_mysql(prepared=80_000), [FAILED, COMPLETED_3, LISTS], 23, LIKELY_COMMIT),
    ("prepared long after it was listed", branch(prepared=80_000), [FAILED, COMPLETED_3, LISTS], 0, NO_VERDICT),
    ("prepared as its list was written", branch(prepared=WRITTEN + 1_000), [FAILED, COMPLETED_3, LISTS], 23, COMMIT),
    ("prepared after its list was written", branch(prepared=WRITTEN + 1_001), [FAILED, COMPLETED_3, LISTS], 0, NO_VERDICT),
    # An xid of JdbcSink may be made again.
    ("JdbcSink's", branch(SINK), [FAILED, COMPLETED_3, listing(3, SINK)], 23, COMMIT),
    ("JdbcSink's, in MySQL", in_mysql(SINK), [FAILED, COMPLETED_3, listing(3, SINK)], 23, LIKELY_COMMIT),
    ("JdbcSink's, prepared later", branch(SINK, 80_000), [FAILED, COMPLETED_3, listing(3, SINK)], 0, NO_VERDICT),
    ("JdbcSink's, seen later in MySQL", in_mysql(SINK, 80_000), [FAILED, COMPLETED_3, listing(3, SINK)], 0, NO_VERDICT),
    ("JdbcSink's: no checkpoint holds it", branch(SINK), [FAILED, COMPLETED_3], 0, NO_VERDICT),
    ("so it is, in MySQL", in_mysql(SINK), [FAILED, COMPLETED_3], 0, NO_VERDICT),
    # What was prepared after a restore, or behind the last checkpoint.
    ("prepared after the restore", branch(prepared=70_000), [AGAIN_FROM_2, LISTS_NONE], 27, GOES_ON),
    ("so it was, and its job is over", branch(prepared=70_000), [itself(2), LISTS_NONE], 0, NO_VERDICT),
    ("prepared behind the last checkpoint", branch(prepared=32_001), [FAILED, COMPLETED_3], 0, NO_VERDICT),
    ("seen behind the last checkpoint", in_mysql(prepared=32_001), [FAILED, COMPLETED_3], 31, DOUBT),
    # Others' branches.
    ("a bank's", branch(BANK), [FAILED, COMPLETED_3, listing(3, BANK)], 0, NO_VERDICT),
    ("a bank's in MySQL", in_mysql(BANK), [FAILED, COMPLETED_3, listing(3, BANK)], 0, NO_VERDICT),
    ("Narayana's", branch(NARAYANA), [FAILED, COMPLETED_3, listing(3, NARAYANA)], 0, NO_VERDICT),
]  # fmt: skip


@table("view, given, rule, then", OTHERS)
def test_which_checkpoint_holds_a_branch(view: TransactionView, given: list[Any], rule: int, then: str) -> None:
    assert told(judged([view, *given])) == (rule, then)


def facts_of(given: list[Any]) -> list[str]:
    found: Judgement | None = judged([branch(), *given])
    assert found is not None
    return [each.fact for each in found.evidence]


def test_a_commit_at_a_job_that_may_run_says_so() -> None:
    assert (
        "REST does not answer, so whether eu/orders still runs is not known"
        in facts_of([RUNS, COMPLETED_3, LISTS, AWAY])[2]
    )
    assert "still runs" not in " ".join(facts_of([FAILED, COMPLETED_3, LISTS]))


def test_an_unread_list_is_named() -> None:
    facts = facts_of([FAILED, COMPLETED_2, COMPLETED_3])
    assert facts[0] == "REST reported checkpoint 3 of eu/orders as completed"
    assert facts[1] == f"its list {chk(3)}/_metadata cannot be read: it was not found there"


def test_the_job_that_listed_a_branch_first_owns_it() -> None:
    state = flink_state([LISTS, listing(4, FUNCTION, job=OTHER, written=50_000)])
    found = case_of(state, [branch()], overdue_ms=1_234)
    assert found is not None
    assert ([each.job for each in found.listings], found.commit_overdue_ms) == ([JOB], 1_234)


def test_its_own_restore_tells_and_another_job_s_is_a_rival() -> None:
    again = heir(1, 80_000, id_=THIRD)
    for others in ([again], []):
        found = sure_case([branch(), itself(2), *others, LISTS_NONE])
        assert found.last_restore is not None
        assert (found.last_restore.number, bool(found.restored_by)) == (2, False), "its own"
        assert [each.facts.job.job for each in found.rivals] == [THIRD for _ in others]


def test_a_job_that_went_on_from_another_ones_checkpoint_was_restored_too() -> None:
    found = sure_case([branch(), itself(2, path=chk(2, OTHER))])
    assert found.last_restore is not None
    assert (found.last_restore.number, found.last_restore.of_job) == (2, OTHER)


@pytest.mark.parametrize("transaction", ["no xid", "9_!_!"])
def test_a_branch_whose_name_is_no_xid_is_none_of_flinks(transaction: str) -> None:
    view = only_view(branch_listed(replace(database_handle("postgres"), transaction=transaction), prepared_ms=T0))
    assert judged([view, FAILED, COMPLETED_3, LISTS]) is None
    assert listed_as(view) is None


def test_a_branch_of_another_transaction_manager_is_known_as_such() -> None:
    assert owner_of("mysql", str(NARAYANA)) is not None


def test_a_branch_of_unknown_age_is_not_judged() -> None:
    view = branch()
    assert view.branch is not None
    ageless = replace(view, branch=replace(view.branch, first_seen_ms=None, prepared_ms=None))
    assert judged([ageless, FAILED, COMPLETED_3, LISTS]) is None


@pytest.mark.parametrize("is_postgres", [True, False], ids=["postgres", "mysql"])
def test_the_verdict_takes_the_place_of_foreign_while_the_database_lists_it(is_postgres: bool) -> None:
    view = branch(SINK, is_postgres=is_postgres)
    assert listed_as(view) == as_listed(SINK)
    found = sure_case([view, FAILED, COMPLETED_3, listing(3, SINK)])
    assert verdict_rules.judge(case(view, 90_000, flink=found)).rule == 23
    without = verdict_rules.judge(case(view, 90_000))
    assert without.verdict is Verdict.FOREIGN
    assert any(f"Flink's JDBC sink (job {JOB}, subtask 0, number 2)" in each.fact for each in without.evidence)


def test_a_listed_branch_asks_for_no_list_of_a_later_checkpoint() -> None:
    later = completed(4, triggered_ms=T0 + PREPARED, ended_ms=T0 + PREPARED + 1_000)
    for lists in ([], [LISTS]):
        found = sure_case([in_mysql(), FAILED, COMPLETED_3, later, *lists])
        assert (found.unread is None) is bool(lists)
