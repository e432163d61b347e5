"""Branches of Flink's JDBC sinks in databases: rules 21 to 27 by cases, where they differ from transactions in Kafka."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from collector.records.flink_facts import FlinkState
from collector.records.formats.flink_records import FlinkCommittables, FlinkKind, FlinkStatus
from collector.records.xids import as_listed, owner_of
from collector.state.transaction_view import TransactionView
from collector.verdicts import flink_commits, verdict_rules
from collector.verdicts.flink_cases import flink_case
from collector.verdicts.flink_commits import listed_as
from lifecycle.verdicts import Assumption, Verdict
from resource_managers.mysql.xa_xid import XaXid
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0, branch_listed, case, database_handle, only_view

JOB, OTHER_JOB = "a" * 32, "b" * 32
PREPARED, WRITTEN = 30_050, 30_100
"""Checkpoint 3 is triggered 30 s after T0 and completed a second later (flink_observations)."""
FUNCTION = XaXid(format_id=201, gtrid=bytes.fromhex(JOB) + bytes(4) + b"\3" + bytes(7), bqual=b"rand")
SINK = XaXid(format_id=202, gtrid=bytes.fromhex(JOB) + bytes(18), bqual=b"\0\0\0\1" + bytes(7) + b"\2\0")
NARAYANA = XaXid(format_id=131077, gtrid=b"bank", bqual=b"7")
BANK = XaXid(format_id=1, gtrid=b"bank", bqual=b"7")


def branch(xid: XaXid, prepared: int, *, is_postgres: bool = True) -> TransactionView:
    """Return the view of a prepared branch; in MySQL ``prepared`` is when it was first seen."""
    if not is_postgres:
        return only_view(branch_listed(replace(database_handle("mysql"), transaction=str(xid)), at=prepared))
    gid = "_".join([str(xid.format_id), base64.b64encode(xid.gtrid).decode(), base64.b64encode(xid.bqual).decode()])
    of = replace(database_handle("postgres"), transaction=gid)
    return only_view(branch_listed(of, at=prepared + 500, prepared_ms=T0 + prepared))


def listing(number: int = 3, *xids: XaXid, written: int = WRITTEN, job: str = JOB, **fields: Any) -> FlinkCommittables:
    return FlinkCommittables(
        cluster=CLUSTER,
        job=job,
        number=number,
        path=f"file:///checkpoints/{job}/chk-{number}",
        kind=FlinkKind.CHECKPOINT,
        written_ms=T0 + written,
        read_ms=T0 + written,
        committables=frozenset(as_listed(xid) for xid in xids),
        **fields,
    )


RUNS, FAILED_JOB = job(), job(state="FAILED")
LISTS, LISTS_NONE = listing(3, FUNCTION), listing(2, written=20_100)
DAMAGED_3 = replace(LISTS_NONE, number=3, written_ms=T0 + WRITTEN, error="one state")
RESTARTED_FROM_2 = job(restored=2, restored_at=60_000)
RESTARTED_FROM_3 = job(restored=3, restored_at=60_000, restored_path=f"file:///c/{JOB}/chk-3")
FAILED_AGAIN_FROM_2 = job(state="FAILED", restored=2, restored_at=60_000)


def other_job(number: int) -> Any:
    return job(
        OTHER_JOB,
        restored=number,
        restored_at=60_000,
        restored_path=f"file:///c/{JOB}/chk-{number}",
        started_ms=T0 + 59_000,
    )


STARTED_ANEW = job(OTHER_JOB, started_ms=T0 + 59_000)
COMMIT, ABORT, GOES_ON, DOUBT = Verdict.COMMIT_IT, Verdict.ABORT_IT, Verdict.IN_PROGRESS, Verdict.UNKNOWN
CASES: list[tuple[str, list[Any], bool, Verdict | None, int, str]] = [
    # name, what was seen of Flink, whether REST answers now, verdict, rule, what must be typed
    ("completed, job gone", [FAILED_JOB, checkpoint(3), LISTS], True, COMMIT, 23, ""),
    ("completed, whether its job runs is not known", [RUNS, checkpoint(3), LISTS], False, COMMIT, 23, "chk-3"),
    ("completed, job alive: it commits it", [RUNS, checkpoint(3), LISTS], True, GOES_ON, 23, ""),
    ("its checkpoint is not over", [RUNS, checkpoint(3, FlinkStatus.IN_PROGRESS), LISTS], True, GOES_ON, 24, ""),
    ("its end was not seen", [LISTS], False, COMMIT, 25, "chk-3"),
    ("restored from it, and over again", [FAILED_JOB, other_job(3), LISTS], True, COMMIT, 23, "chk-3"),
    ("restored from it, REST never told of it", [other_job(3), LISTS], True, COMMIT, 23, "chk-3"),
    ("restored from it by another, REST away", [RUNS, other_job(3), LISTS], False, COMMIT, 23, "chk-3"),
    ("restarted from it, REST away", [RESTARTED_FROM_3, LISTS], False, COMMIT, 23, "chk-3"),
    ("set back to before it", [FAILED_JOB, other_job(2), LISTS], True, ABORT, 22, ""),
    ("a job of that name from nowhere", [FAILED_JOB, checkpoint(3), STARTED_ANEW, LISTS], True, DOUBT, 21, ""),
    ("restarted from one that does not list it", [RESTARTED_FROM_2, LISTS_NONE], True, ABORT, 26, ""),
    ("over, another goes on from one that does not list it", [FAILED_JOB, other_job(2), LISTS_NONE], True, ABORT, 26, ""),
    ("alive, another goes on from its checkpoint", [RUNS, other_job(2), LISTS_NONE], True, GOES_ON, 27, ""),
    ("that checkpoint was not read whole", [FAILED_JOB, other_job(2), replace(LISTS_NONE, error="one state")], True, None, 0, ""),
    ("that checkpoint was not read", [FAILED_JOB, other_job(2)], True, None, 0, ""),
    ("its job runs", [RUNS, LISTS_NONE], True, GOES_ON, 27, ""),
    ("its job does not answer", [RUNS, LISTS_NONE], False, None, 0, ""),
    ("another xid is listed", [FAILED_JOB, checkpoint(3), listing(3, SINK)], True, None, 0, ""),
    ("its job is not known", [listing(3, SINK)], True, None, 0, ""),
    ("completed, its list is not read", [FAILED_JOB, checkpoint(3)], True, DOUBT, 31, ""),
    ("completed, its list is damaged", [FAILED_JOB, checkpoint(3), DAMAGED_3], True, DOUBT, 31, ""),
    ("a savepoint was completed", [FAILED_JOB, checkpoint(3, kind=FlinkKind.SAVEPOINT)], True, None, 0, ""),
    ("it failed", [FAILED_JOB, checkpoint(3, FlinkStatus.FAILED)], True, None, 0, ""),
    ("completed before, the next not", [FAILED_JOB, checkpoint(4, FlinkStatus.IN_PROGRESS), checkpoint(3)], True, DOUBT, 31, ""),
    ("triggered later", [FAILED_JOB, checkpoint(4)], True, None, 0, ""),
]  # fmt: skip


def flink_state(seen: list[Any], polled: bool) -> FlinkState:
    state = FlinkState(answered={CLUSTER})
    for observation in seen:
        if isinstance(observation, FlinkCommittables):
            state.see_committables(observation)
        elif hasattr(observation, "triggered_ms"):
            state.see_checkpoint(observation)
        else:
            state.see_job(observation)
    if polled:
        state.polled_ms[CLUSTER] = T0
    return state


def judged(seen: list[Any], view: TransactionView, *, polled: bool = False, at: int = 90_000) -> Any:
    found = flink_case(flink_state(seen, polled), view, commit_overdue_ms=2_000, now_ms=T0 + at)
    return flink_commits.judge(found) if found is not None else None


@pytest.mark.parametrize("is_postgres", [True, False], ids=["postgres", "mysql"])
@pytest.mark.parametrize(
    ("seen", "polled", "verdict", "rule", "typed"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_case(seen: list[Any], polled: bool, verdict: Verdict | None, rule: int, typed: str, is_postgres: bool) -> None:
    found = judged(seen, branch(FUNCTION, PREPARED, is_postgres=is_postgres), polled=polled)
    if verdict is None:
        assert found is None
        return
    if verdict is COMMIT and not is_postgres:
        typed = "chk-3"
        assert Assumption.JOB_GOES_ON_FROM_IT in found.assumes
        assert "XAER_OUTSIDE" in found.rests_on[-1].fact, (
            "MariaDB, which lists as MySQL does, refuses Flink's own commit"
        )
    assert (found.verdict, found.rule, found.commit_confirmation) == (verdict, rule, typed)
    assert found.may_commit is (verdict is COMMIT)
    assert found.may_abort is (verdict in (ABORT, DOUBT) or bool(typed))
    if seen[-1] is LISTS:
        assert "exactly this xid" in found.evidence[0].fact


AWAY = 60_000
"""When the first poll of REST failed."""


@pytest.mark.parametrize("is_postgres", [True, False], ids=["postgres", "mysql"])
@pytest.mark.parametrize(
    ("seen", "at", "verdict", "rule"),
    [
        ([RUNS, checkpoint(3), LISTS], AWAY, GOES_ON, 23),
        ([RUNS, checkpoint(3), LISTS], AWAY + 29_999, GOES_ON, 23),
        ([RUNS, checkpoint(3), LISTS], AWAY + 30_000, COMMIT, 23),
        ([FAILED_JOB, checkpoint(3), LISTS], AWAY, COMMIT, 23),
        ([RUNS, checkpoint(3, FlinkStatus.IN_PROGRESS), LISTS], AWAY + 29_999, GOES_ON, 24),
        ([RUNS, checkpoint(3, FlinkStatus.IN_PROGRESS), LISTS], AWAY + 30_000, COMMIT, 25),
        ([RUNS, LISTS_NONE], AWAY + 29_999, GOES_ON, 27),
        ([RUNS, LISTS_NONE], AWAY + 30_000, None, 0),
        ([RUNS, checkpoint(3)], AWAY + 29_999, GOES_ON, 27),
        ([RUNS, checkpoint(3)], AWAY + 30_000, DOUBT, 31),
        ([LISTS], AWAY, COMMIT, 25),
    ],
)
def test_a_job_may_run_until_rest_is_away_for_long(
    seen: list[Any], at: int, verdict: Verdict | None, rule: int, is_postgres: bool
) -> None:
    state = flink_state(seen, polled=True)
    state.see_polled(CLUSTER, T0 + AWAY, answered=False)
    state.see_polled(CLUSTER, T0 + AWAY + 10_000, answered=False)
    case = flink_case(
        state,
        branch(FUNCTION, PREPARED, is_postgres=is_postgres),
        commit_overdue_ms=2_000,
        driver_silent_ms=30_000,
        now_ms=T0 + at,
    )
    assert case is not None
    found = flink_commits.judge(case)
    if verdict is None:
        assert found is None
        return
    assert found is not None
    assert (found.verdict, found.rule, found.may_commit) == (verdict, rule, verdict is COMMIT)
    assert case.is_gone is (FAILED_JOB in seen), "a standing order commits no branch of a job that may run"
    if verdict is GOES_ON:
        assert any("it did when REST answered last" in each.fact for each in found.evidence)
    elif FAILED_JOB not in seen or not is_postgres:
        assert found.commit_confirmation or verdict is DOUBT, "never without a person"


@pytest.mark.parametrize(("number", "rule"), [(2, 22), (3, 21)])
def test_a_branch_that_the_restored_checkpoint_may_hold_too_is_not_set_back(number: int, rule: int) -> None:
    lists = listing(5, FUNCTION, written=50_100)
    assert judged([FAILED_JOB, other_job(number), lists], branch(FUNCTION, PREPARED)).rule == rule
    # The number in an xid of JdbcSink says nothing.
    sink = listing(5, SINK, written=50_100)
    assert judged([FAILED_JOB, other_job(1), sink], branch(SINK, PREPARED)).rule == 21


@pytest.mark.parametrize(("triggered", "rule"), [(PREPARED - 1_000, 21), (PREPARED - 1_001, 22)])
def test_when_a_branch_was_prepared_says_which_checkpoint_cannot_hold_it(triggered: int, rule: int) -> None:
    """A later checkpoint lists it; the job was restored from checkpoint 3, whose list was not read."""
    taken = checkpoint(3, FlinkStatus.IN_PROGRESS, triggered_ms=T0 + triggered)
    seen = [FAILED_JOB, taken, other_job(3), listing(5, FUNCTION, written=50_100)]
    assert judged(seen, branch(FUNCTION, PREPARED)).rule == rule
    assert judged(seen, branch(FUNCTION, PREPARED, is_postgres=False)).rule == 21, "MySQL keeps no time"


def test_a_commit_at_a_job_that_may_run_says_so() -> None:
    found = judged([RUNS, checkpoint(3), LISTS], branch(FUNCTION, PREPARED))
    assert "whether eu/orders still runs is not known, REST does not answer" in found.evidence[2].fact
    again = judged([FAILED_JOB, checkpoint(3), LISTS], branch(FUNCTION, PREPARED))
    assert "still runs" not in " ".join(each.fact for each in again.evidence)


def test_a_random_branch_part_is_never_made_twice_so_that_the_time_of_a_look_does_not_matter() -> None:
    """MySQL keeps no time: a collector that starts late sees a branch first long after it was listed."""
    seen = [FAILED_JOB, checkpoint(3), LISTS]
    assert judged(seen, branch(FUNCTION, 80_000, is_postgres=False)).verdict is COMMIT
    assert judged(seen, branch(FUNCTION, 80_000)) is None, "PostgreSQL says that it was prepared later"


@pytest.mark.parametrize("is_postgres", [True, False], ids=["postgres", "mysql"])
def test_an_xid_that_may_be_made_again_must_be_as_old_as_the_checkpoint(is_postgres: bool) -> None:
    seen = [FAILED_JOB, checkpoint(3), listing(3, SINK)]
    assert judged(seen, branch(SINK, PREPARED, is_postgres=is_postgres)).verdict is COMMIT
    assert judged(seen, branch(SINK, 80_000, is_postgres=is_postgres)) is None


def test_what_was_prepared_after_the_restore_is_not_left_over() -> None:
    found = judged([RESTARTED_FROM_2, LISTS_NONE], branch(FUNCTION, 70_000), polled=True)
    assert (found.verdict, found.rule) == (GOES_ON, 27)
    again = judged([FAILED_AGAIN_FROM_2, LISTS_NONE], branch(FUNCTION, 70_000), polled=True)
    assert again is None, "what it is restored from next is not known yet"


def test_an_unread_list_is_named_and_an_abort_warns() -> None:
    found = judged([FAILED_JOB, checkpoint(2), checkpoint(3, path="/c/chk-3")], branch(FUNCTION, PREPARED), polled=True)
    facts = [each.fact for each in found.evidence]
    assert facts[0] == "REST reported checkpoint 3 of eu/orders as completed"
    assert facts[1] == "its list /c/chk-3/_metadata cannot be read: it was not found there"
    assert (found.may_commit, found.may_abort, found.loses_data) == (False, True, True)
    young = judged([FAILED_JOB, checkpoint(3)], branch(FUNCTION, PREPARED), at=32_000)
    assert (young.verdict, young.rule) == (GOES_ON, 31)


def test_what_was_prepared_behind_the_last_checkpoint_is_in_none() -> None:
    assert judged([FAILED_JOB, checkpoint(3)], branch(FUNCTION, 32_001)) is None
    # MySQL keeps no time: it is first seen some time after.
    assert judged([FAILED_JOB, checkpoint(3)], branch(FUNCTION, 32_001, is_postgres=False)).rule == 31


@pytest.mark.parametrize("is_postgres", [True, False], ids=["postgres", "mysql"])
def test_what_jdbc_sink_prepares_no_checkpoint_holds(is_postgres: bool) -> None:
    assert judged([FAILED_JOB, checkpoint(3)], branch(SINK, PREPARED, is_postgres=is_postgres)) is None


@pytest.mark.parametrize(("prepared", "is_listed"), [(WRITTEN + 1_000, True), (WRITTEN + 1_001, False)])
def test_a_branch_that_was_prepared_after_the_list_was_written_is_another(prepared: int, is_listed: bool) -> None:
    found = judged([FAILED_JOB, checkpoint(3), LISTS], branch(FUNCTION, prepared))
    assert (found is not None and found.verdict is COMMIT) is is_listed


def test_the_job_that_listed_a_branch_first_owns_it() -> None:
    state = flink_state([LISTS, listing(4, FUNCTION, job=OTHER_JOB, written=50_000)], False)
    found = flink_case(state, branch(FUNCTION, PREPARED), commit_overdue_ms=1_234, now_ms=T0 + 90_000)
    assert found is not None
    assert ([each.job for each in found.listings], found.commit_overdue_ms) == ([JOB], 1_234)


def test_its_own_restore_tells_and_another_job_s_is_a_rival() -> None:
    again = job("c" * 32, restored=1, restored_at=80_000, restored_path=f"file:///c/{JOB}/chk-1")
    for seen in ([FAILED_AGAIN_FROM_2, again], [FAILED_AGAIN_FROM_2]):
        state = flink_state([*seen, LISTS_NONE], True)
        found = flink_case(state, branch(FUNCTION, PREPARED), commit_overdue_ms=2_000, now_ms=T0 + 90_000)
        assert found is not None
        assert found.last_restore is not None
        assert (found.last_restore.number, bool(found.restored_by)) == (2, False), "its own"
        assert [each.facts.job.job for each in found.rivals] == ["c" * 32 for each in seen if each is again]


def test_a_job_that_went_on_from_another_ones_checkpoint_was_restored_too() -> None:
    taken_by = f"file:///c/{OTHER_JOB}/chk-2"
    state = flink_state([job(state="FAILED", restored=2, restored_at=60_000, restored_path=taken_by)], True)
    found = flink_case(state, branch(FUNCTION, PREPARED), commit_overdue_ms=2_000, now_ms=T0 + 90_000)
    assert found is not None
    assert found.last_restore is not None
    assert (found.last_restore.number, found.last_restore.of_job) == (2, OTHER_JOB)


@pytest.mark.parametrize("transaction", ["no xid", "9_!_!"])
def test_a_branch_whose_name_is_no_xid_is_none_of_flinks(transaction: str) -> None:
    view = only_view(branch_listed(replace(database_handle("postgres"), transaction=transaction), prepared_ms=T0))
    assert judged([FAILED_JOB, checkpoint(3), LISTS], view) is None
    assert listed_as(view) is None


def test_a_branch_of_unknown_age_is_not_judged() -> None:
    view = branch(FUNCTION, PREPARED)
    assert view.branch is not None
    ageless = replace(view, branch=replace(view.branch, first_seen_ms=None, prepared_ms=None))
    assert judged([FAILED_JOB, checkpoint(3), LISTS], ageless) is None


def test_branches_of_others_are_none_of_flinks() -> None:
    seen = [FAILED_JOB, checkpoint(3), listing(3, BANK)]
    assert judged(seen, branch(BANK, PREPARED)) is None
    assert judged(seen, branch(BANK, PREPARED, is_postgres=False)) is None
    assert owner_of("mysql", str(NARAYANA)) is not None
    assert judged([FAILED_JOB, checkpoint(3), listing(3, NARAYANA)], branch(NARAYANA, PREPARED)) is None


@pytest.mark.parametrize("is_postgres", [True, False], ids=["postgres", "mysql"])
def test_the_verdict_takes_the_place_of_foreign_while_the_database_lists_it(is_postgres: bool) -> None:
    state = flink_state([FAILED_JOB, checkpoint(3), listing(3, SINK)], polled=False)
    view = branch(SINK, PREPARED, is_postgres=is_postgres)
    assert listed_as(view) == as_listed(SINK)
    found = flink_case(state, view, commit_overdue_ms=2_000, now_ms=T0 + 90_000)
    judgement = verdict_rules.judge(replace(case(view, 90_000), flink=found))
    assert (judgement.rule, judgement.may_commit, judgement.may_abort) == (23, True, not is_postgres)
    without = verdict_rules.judge(case(view, 90_000))
    assert without.verdict is Verdict.FOREIGN
    assert any(f"Flink's JDBC sink (job {JOB}, subtask 0, number 2)" in each.fact for each in without.evidence)


def test_a_listed_branch_asks_for_no_list_of_a_later_checkpoint() -> None:
    later = checkpoint(4, triggered_ms=T0 + PREPARED, ended_ms=T0 + PREPARED + 1_000)
    seen = [FAILED_JOB, checkpoint(3), later]
    view = branch(FUNCTION, PREPARED, is_postgres=False)
    for lists, is_unread in (([], True), ([LISTS], False)):
        state = flink_state([*seen, *lists], polled=False)
        case = flink_case(state, view, commit_overdue_ms=2_000, now_ms=T0 + 90_000)
        assert case is not None
        assert (case.unread is not None) is is_unread
