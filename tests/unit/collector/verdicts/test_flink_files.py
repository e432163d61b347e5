"""Files of Flink's FileSink, hidden since checkpoint 3, where they differ from branches of its JDBC sinks; and their ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.formats.flink_records import FlinkCommittables, FlinkKind, FlinkStatus, ListedFile
from indoubt.collector.records.formats.pending_files import PendingFile, UnnamedFile
from indoubt.collector.records.observations import BranchGone, BranchListed, BranchProof, Observation
from indoubt.collector.verdicts import flink_commits, verdict_rules
from indoubt.collector.verdicts.data_loss import LossVerdict
from indoubt.collector.verdicts.flink_cases import flink_case
from indoubt.collector.verdicts.flink_evidence import listed_as
from indoubt.collector.verdicts.flink_unnamed_files import unnamed_by
from indoubt.lifecycle.resource_manager_kinds import FILE_SINK
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Assumption, Certainty, Verdict
from tests.unit.collector.flink_observations import checkpoint
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0, case, folded, only_view
from tests.unit.collector.verdicts import flink_given
from tests.unit.collector.verdicts.case_tables import NO_VERDICT, table, told
from tests.unit.collector.verdicts.flink_given import (
    ABORT,
    AWAY,
    COMMIT,
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
    completed,
    heir,
    itself,
    judged,
)
from tests.unit.collector.verdicts.loss_observations import LOST, UNKNOWN, check, folded_with_lists
from tests.unit.collector.verdicts.loss_observations import judged as losses

TARGET, INSTANCE = "/orders/part-1-2", "eu-files"
FILE = PendingFile(
    target=TARGET, size=9, temporary="/orders/.part-1-2.inprogress.1", checkpoint_id=3, sink="orders_files"
)
HIDDEN = BranchListed(instance=INSTANCE, resource_manager=FILE_SINK.name, transaction=TARGET, at_ms=T0 + 80_000)


def listing(number: int = 3, *files: PendingFile, written: int = WRITTEN, job: str = JOB) -> FlinkCommittables:
    of = {"committables": frozenset(ListedFile(file.target) for file in files), "prefixes": frozenset(), "files": files}
    return flink_given.listing(number, written=written, job=job, **of)


LISTS, LISTED_IN_5 = listing(3, FILE), listing(5, FILE, written=50_100)
"""It is told of at 80 s: long after it was listed."""
CASES = [
    # name; what is known of jobs, checkpoints and lists; the rule, and what it says
    ("completed, its job is over", [FAILED, COMPLETED_3, LISTS], 23, COMMIT),
    ("completed, whether its job runs is not known", [RUNS, COMPLETED_3, LISTS, AWAY], 23, LIKELY_COMMIT),
    ("completed, its job runs: it commits it", [RUNS, COMPLETED_3, LISTS], 23, GOES_ON),
    ("its checkpoint is not over", [RUNS, NOT_OVER_3, LISTS], 24, GOES_ON),
    ("its checkpoint failed", [FAILED, FAILED_3, LISTS], 34, DOUBT),
    ("its end was not seen", [LISTS, AWAY], 25, LIKELY_COMMIT),
    ("restored from it, and over again", [FAILED, FROM_3, LISTS], 23, LIKELY_COMMIT),
    ("set back to before it", [FAILED, FROM_2, LISTS], 22, LIKELY_ABORT),
    ("set back itself", [itself(2), COMPLETED_3, LISTS], 22, ABORT),
    ("a job of that name from nothing", [FAILED, COMPLETED_3, STARTED_ANEW, LISTS], 21, DOUBT),
    ("its list is gone", [FAILED, COMPLETED_3, replace(LISTS, is_gone=True)], 36, DOUBT),
    ("no list names it", [FAILED, COMPLETED_3, listing(3)], 0, NO_VERDICT),
    ("a copy's list names it too", [FAILED, COMPLETED_3, LISTS, listing(3, FILE, job=OTHER, written=60_000)], 23, COMMIT),
    # The list says which checkpoint holds it first, whichever was read.
    ("listed by 5, restored from 2", [FAILED, FROM_2, LISTED_IN_5], 22, LIKELY_ABORT),
    ("listed by 5, restored from 3", [FAILED, FROM_3, LISTED_IN_5], 21, DOUBT),
]  # fmt: skip


def hidden(*given: Any) -> TransactionView:
    return only_view(HIDDEN, *given)


@table("given, rule, then", CASES)
def test_a_file(given: list[Any], rule: int, then: str) -> None:
    found = judged([hidden(), *given])
    assert told(found) == (rule, then)
    if found is not None:
        assert "lists exactly this file" in found.evidence[0].fact
    if found is not None and found.may_commit:
        assert any("Flink finds the file visible and goes on" in each.fact for each in found.rests_on)


def test_its_row_names_job_and_sink_and_the_store_that_holds_it() -> None:
    state = folded_with_lists([HIDDEN, FAILED, COMPLETED_3, LISTS])
    (view,) = (each for each in views(state) if each.resource_manager == FILE_SINK.name)
    assert (view.key, listed_as(view)) == (f"file_sink:{TARGET}@{INSTANCE}", ListedFile(TARGET))
    assert (view.application.name, view.application.instance) == ("eu/orders", "orders_files")
    assert (view.flink_checkpoint, view.state) == (3, TransactionState.PREPARED)
    judgement = verdict_rules.judge(case(view, 90_000))
    assert judgement.evidence[-1].source == "the store of eu-files"
    assert "written whole, and not visible" in judgement.evidence[-1].fact


def views(state: Any) -> list[TransactionView]:
    from indoubt.collector.facts import transaction_join

    return list(transaction_join.views(state, settled=True))


def test_one_that_no_list_names_goes_by_its_directory() -> None:
    assert hidden().application.name == "FileSink /orders"


def gone(proof: BranchProof) -> Observation:
    return BranchGone(
        instance=INSTANCE, resource_manager=FILE_SINK.name, transaction=TARGET, at_ms=T0 + 85_000, proof=proof
    )


@pytest.mark.parametrize(
    ("proof", "state", "says", "certainty"),
    [
        (BranchProof.COMMITTED, TransactionState.COMMITTED, "it is visible under its name", Certainty.CERTAIN),
        (BranchProof.MISSING, TransactionState.ABORTED, "neither the file nor what would become it", Certainty.LIKELY),
    ],
)
def test_how_it_ended(proof: BranchProof, state: TransactionState, says: str, certainty: Certainty) -> None:
    view = hidden(gone(proof))
    found = verdict_rules.judge(case(view, 90_000))
    assert (view.state, found.verdict, found.rule, found.certainty) == (state, Verdict.SETTLED, 1, certainty)
    assert any(says in each.fact for each in found.evidence)
    assert (Assumption.NOT_TAKEN_AWAY in found.assumes) is (proof is BranchProof.MISSING)
    assert (found.may_commit, found.may_abort) == (False, False)


def test_one_that_is_missing_may_be_seen_visible_later() -> None:
    assert hidden(gone(BranchProof.MISSING), gone(BranchProof.COMMITTED)).state is TransactionState.COMMITTED
    assert hidden(gone(BranchProof.COMMITTED), gone(BranchProof.MISSING)).state is TransactionState.COMMITTED


LOSSES = [
    ("its checkpoint completed", [FAILED, checkpoint(3), LISTS], LOST, Certainty.LIKELY, "lists it, and counts"),
    ("set back itself", [itself(2), checkpoint(3), LISTS], LossVerdict.HARMLESS, Certainty.LIKELY, "set back to checkpoint 2"),
    ("its end was not seen", [FAILED, checkpoint(3, FlinkStatus.IN_PROGRESS), LISTS], UNKNOWN, Certainty.GUESS, ""),
    ("another checkpoint", [FAILED, completed(4), listing(4, written=40_100)], UNKNOWN, Certainty.GUESS, "lists it"),
]  # fmt: skip


@table("seen, verdict, certainty, says", LOSSES)
def test_whether_a_missing_one_was_lost(seen: list[Any], verdict: LossVerdict, certainty: Certainty, says: str) -> None:
    (loss,) = losses(folded_with_lists([HIDDEN, gone(BranchProof.MISSING), *seen])).values()
    check(loss, verdict, certainty, says)


OPENED = 22_000
LEFT = UnnamedFile(
    file=PendingFile(target=TARGET, size=None, temporary=FILE.temporary), directory="/orders", opened_ms=T0 + OPENED
)


def writes(number: int, *files: PendingFile, job: str = JOB, **fields: Any) -> FlinkCommittables:
    """Return the list of a checkpoint that was triggered ``number`` * 10 s after T0 of a job that writes to the directory."""
    made = listing(number, *files, written=10_000 * number + 500, job=job)
    return replace(made, buckets=frozenset({"/orders"}), **fields)


GOES_ON_WITH_IT = writes(2, in_progress=frozenset({FILE.temporary}))
COMPLETED_6, OTHERS_6 = completed(6), replace(checkpoint(6), job=OTHER, path=flink_given.chk(6, OTHER))
ANEW, AGAIN = heir(0, path=""), heir(3)
UNNAMED = [
    # name; what is known of jobs, checkpoints and lists; whether it is left over
    ("begun 30 s before it", [RUNS, COMPLETED_6, writes(6)], True),
    # Whether another one goes on in its place, and has it open, is not known yet.
    ("its job is over", [FAILED, COMPLETED_6, writes(6)], False),
    ("another goes on in its place", [FAILED, COMPLETED_6, writes(6), AGAIN, OTHERS_6, writes(6, job=OTHER)], True),
    ("it named it", [FAILED, GOES_ON_WITH_IT, AGAIN, OTHERS_6, writes(6, job=OTHER)], False),
    ("begun less before it", [RUNS, completed(5), writes(5)], False),
    ("begun exactly 30 s before it", [RUNS, replace(COMPLETED_6, triggered_ms=T0 + 52_000), writes(6)], False),
    ("its last one tells", [RUNS, completed(5), writes(5), COMPLETED_6, writes(6)], True),
    ("a savepoint tells nothing", [RUNS, completed(6, kind=FlinkKind.SAVEPOINT), writes(6)], False),
    ("each job's tells", [RUNS, completed(5), writes(5), ANEW, OTHERS_6, writes(6, job=OTHER)], False),
    ("it makes it visible", [RUNS, COMPLETED_6, writes(6, replace(FILE, target="/orders/other"))], False),
    ("it goes on with it", [RUNS, COMPLETED_6, writes(6, in_progress=frozenset({FILE.temporary}))], False),
    ("an older one on disk names it", [RUNS, COMPLETED_6, writes(6), GOES_ON_WITH_IT], False),
    ("the older one is gone", [RUNS, COMPLETED_6, writes(6), replace(GOES_ON_WITH_IT, is_gone=True)], True),
    ("it was not read whole", [RUNS, COMPLETED_6, writes(6, error="one state")], False),
    ("what it goes on with is not understood", [RUNS, COMPLETED_6, writes(6, in_progress=None)], False),
    ("it is not completed", [RUNS, checkpoint(6, FlinkStatus.IN_PROGRESS), writes(6)], False),
    ("it writes elsewhere", [RUNS, COMPLETED_6, replace(writes(6), buckets=frozenset({"/others"}))], False),
    ("one never seen took none since", [AGAIN, OTHERS_6, writes(6, job=OTHER), writes(5)], True),
    ("one never seen took one at its start", [heir(3, at=60_500), OTHERS_6, writes(6, job=OTHER), writes(6)], True),
    ("one never seen took one since", [AGAIN, OTHERS_6, writes(6, job=OTHER), writes(5), writes(6)], False),
    (
        "one never seen took none since the younger began",
        [RUNS, COMPLETED_6, writes(6), ANEW, OTHERS_6, writes(6, job=OTHER), writes(5, job=THIRD)],
        True,
    ),
    ("only one never seen", [writes(5)], False),
    ("another job writes there, too", [RUNS, COMPLETED_6, writes(6), writes(6, job=OTHER)], False),
    ("and its last one would name it", [RUNS, COMPLETED_6, writes(6), ANEW, OTHERS_6, writes(6, job=OTHER)], True),
]  # fmt: skip


@table("given, is_left", UNNAMED)
def test_a_file_that_no_checkpoint_names(given: list[Any], is_left: bool) -> None:
    state = flink_given.flink_state(given)
    state.unnamed_files |= {"us": {}, CLUSTER: {TARGET: LEFT}}
    found = flink_case(state, hidden(), commit_overdue_ms=2_000, now_ms=T0 + 90_000)
    judgement = flink_commits.judge(found) if found is not None else None
    assert (judgement is not None) is is_left
    if judgement is not None:
        assert told(judgement) == (38, LIKELY_ABORT)
        assert Assumption.NO_OTHER_NAMES_IT in judgement.assumes


def test_an_upload_that_a_checkpoint_names_is_not_left_over() -> None:
    upload = PendingFile(target=TARGET, size=None, upload="1")
    for names, is_left in ([upload], False), ([replace(upload, upload="2")], True):
        state = flink_given.flink_state([RUNS, COMPLETED_6, writes(6, *names)])
        state.unnamed_files[CLUSTER] = {TARGET: replace(LEFT, file=upload)}
        assert (unnamed_by(state, TARGET) is not None) is is_left


def test_one_that_its_job_made_visible_is_no_loss() -> None:
    assert folded(HIDDEN, gone(BranchProof.COMMITTED)).branches[f"file_sink:{TARGET}@{INSTANCE}"].proof is not None
