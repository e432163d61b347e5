"""Commits of Flink to tables, missing since checkpoint 3, where they differ from files of its FileSink; and their ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.formats.flink_records import FlinkCommittables, ListedFile
from indoubt.collector.records.formats.pending_files import (
    FileSeen,
    IcebergCommit,
    IcebergManifest,
    PaimonCommit,
    PendingFile,
    Standing,
)
from indoubt.collector.records.observations import BranchGone, BranchListed, BranchProof
from indoubt.collector.verdicts import flink_commits, verdict_rules
from indoubt.collector.verdicts.flink_cases import flink_case
from indoubt.collector.verdicts.flink_known import FlinkCase
from indoubt.lifecycle.resource_manager_kinds import ICEBERG, PAIMON
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Assumption, Certainty, Verdict
from tests.unit.collector.flink_observations import job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0, case, only_view
from tests.unit.collector.verdicts import flink_given
from tests.unit.collector.verdicts.case_tables import table, told
from tests.unit.collector.verdicts.flink_given import (
    AWAY,
    COMMIT,
    COMPLETED_3,
    DOUBT,
    FAILED,
    FROM_2,
    FROM_3,
    GOES_ON,
    LIKELY_ABORT,
    LIKELY_COMMIT,
    OTHER,
    RUNS,
    WRITTEN,
    itself,
)

INSTANCE, NO_ORDER = "eu-files", "unknown, guess: no offer"


@dataclass(frozen=True, kw_only=True)
class Of:
    """A commit to a table of one kind; ``left_out``: why its sink leaves it out for ever; ``says``: by what is said of it."""

    pending: PendingFile
    left_out: str
    application: str
    says: dict[str, str]

    @property
    def lists(self) -> FlinkCommittables:
        of = {"committables": frozenset({ListedFile(self.pending.target)}), "prefixes": frozenset()}
        return flink_given.listing(3, written=WRITTEN, files=(self.pending,), **of)

    def view(self, *given: Any) -> TransactionView:
        manager, target = self.pending.resource_manager, self.pending.target
        return only_view(
            BranchListed(instance=INSTANCE, resource_manager=manager, transaction=target, at_ms=T0 + 80_000), *given
        )

    def case(self, given: list[Any], *, left_out: bool = False) -> FlinkCase:
        is_listed = any(isinstance(each, FlinkCommittables) for each in given)
        state = flink_given.flink_state(given if is_listed else [*given, self.lists])
        if left_out:
            seen = FileSeen(standing=Standing.HIDDEN, why=self.left_out)
            state.files_seen[CLUSTER] = {self.pending.target: seen}
        found = flink_case(state, self.view(), commit_overdue_ms=2_000, now_ms=T0 + 90_000)
        assert found is not None
        return found


MANIFEST = IcebergManifest(path="/lake/db/orders/metadata/m.avro", size=7, spec=0, files=1, rows=9, holds_deletes=False)
TO_ICEBERG = IcebergCommit(job="a" * 32, operator="c" * 32, checkpoint_id=3, manifests=(MANIFEST,))
TO_PAIMON = PaimonCommit(user="u", identifier=3, first_file="bucket-0/data-1.parquet", messages=2, files=2, rows=60)
OF_ICEBERG = Of(
    pending=PendingFile(target=TO_ICEBERG.target, size=None, commit=TO_ICEBERG, checkpoint_id=3, sink="orders_iceberg"),
    left_out="snapshot 7 names checkpoint 9 of the same job and sink",
    application="iceberg:/lake/db/orders",
    says={
        "commit": "Flink finds the snapshot of that name and adds nothing",
        "by job": "it adds its files itself, perhaps a second time",
        "left out": "its manifest names them",
        "25": "commit it only if the job is then restored from chk-3",
        "away": "commit it only if the job is gone",
        "gone": "no snapshot of the table adds it, and its manifests are gone",
    },
)
OF_PAIMON = Of(
    pending=PendingFile(target=TO_PAIMON.target, size=None, commit=TO_PAIMON, checkpoint_id=3, sink="orders"),
    left_out="snapshot 7 bears number 9",
    application="paimon:u",
    says={
        "commit": "no order adds its files: restart the job from chk-3 or from a later one",
        "by job": "it adds its files itself",
        "left out": "Roll the table back to the snapshot of an earlier checkpoint",
        "25": "the end of chk-3 was not seen",
        "away": "restart it only if the job is gone",
        "gone": "and its data files are gone",
    },
)
KINDS = pytest.mark.parametrize("of", [OF_ICEBERG, OF_PAIMON], ids=[ICEBERG.name, PAIMON.name])
CASES = [
    # name; what is known of jobs, checkpoints and lists; whether its sink leaves it out; the rule, and what it says
    ("completed, its job is over", [FAILED, COMPLETED_3], False, 23, COMMIT),
    ("completed, whether its job runs is not known", [RUNS, COMPLETED_3, AWAY], False, 23, LIKELY_COMMIT),
    ("completed, its job runs: it commits it", [RUNS, COMPLETED_3], False, 23, GOES_ON),
    ("restored from it, and over again", [FAILED, FROM_3], False, 23, LIKELY_COMMIT),
    ("set back to before it", [FAILED, FROM_2], False, 22, LIKELY_ABORT),
    ("listed, the end of its checkpoint was not seen", [FAILED], False, 25, LIKELY_COMMIT),
    ("left out, its job is over", [FAILED, COMPLETED_3], True, 39, NO_ORDER),
    ("left out and set back: written again", [itself(2), COMPLETED_3], True, 22, "abort it, certain: abort"),
]  # fmt: skip


@KINDS
@table("given, left_out, rule, then", CASES)
def test_a_commit(of: Of, given: list[Any], left_out: bool, rule: int, then: str) -> None:
    found = flink_commits.judge(of.case(given, left_out=left_out))
    assert found is not None
    assert told(found) == (rule, then)
    facts = [each.fact for each in found.rests_on]
    assert "lists exactly this commit" in facts[0]
    said = {"commit": found.may_commit, "by job": then == GOES_ON, "25": rule == 25, "left out": rule == 39}
    for what in (what for what, holds in {**said, "away": found.may_commit and AWAY in given}.items() if holds):
        assert any(of.says[what] in fact for fact in facts), what
    if found.may_commit and of is OF_PAIMON:
        assert not any("commit it only" in fact for fact in facts)
    if rule == 39:
        assert of.left_out in facts
        assert found.loses_data


@KINDS
def test_what_another_job_may_do_is_assumed_beside_the_end_of_its_own(of: Of) -> None:
    beside = job(OTHER, started_ms=T0 + 1_000)
    found = flink_commits.judge(of.case([RUNS, COMPLETED_3, AWAY, beside]))
    assert found is not None
    assert set(found.assumes) == {Assumption.NO_OTHER_GOES_ON, Assumption.JOB_IS_GONE}


@pytest.mark.parametrize(("of", "rule", "then"), [(OF_ICEBERG, 39, NO_ORDER), (OF_PAIMON, 23, GOES_ON)])
def test_a_job_that_runs_adds_to_paimon_what_it_leaves_out_once_it_is_restored(of: Of, rule: int, then: str) -> None:
    assert told(flink_commits.judge(of.case([RUNS, COMPLETED_3], left_out=True))) == (rule, then)


@KINDS
def test_its_list_is_gone(of: Of) -> None:
    gone = replace(of.lists, is_gone=True)
    assert told(flink_commits.judge(of.case([FAILED, COMPLETED_3, gone]))) == (36, DOUBT)


@KINDS
def test_no_abort_is_offered_because_a_restored_job_would_miss_its_files(of: Of) -> None:
    found = verdict_rules.judge(case(of.view(), 90_000))
    assert (found.may_commit, found.may_abort) == (False, False)
    assert "no snapshot of the table adds them" in found.evidence[-1].fact


def test_no_order_to_paimon_is_offered_whatever_the_rule() -> None:
    found = verdict_rules.judge(replace(case(OF_PAIMON.view(), 90_000), flink=OF_PAIMON.case([FAILED])))
    assert (found.verdict, found.rule) == (Verdict.COMMIT_IT, 25)
    assert (found.may_commit, found.may_abort, found.commit_confirmation) == (False, False, "")
    assert "no snapshot of the table adds them" in found.rests_on[-1].fact


@KINDS
def test_one_that_no_list_names_goes_by_its_table_or_its_user(of: Of) -> None:
    assert of.view().application.name == of.application


@KINDS
@pytest.mark.parametrize(
    ("proof", "state", "certainty"),
    [
        (BranchProof.COMMITTED, TransactionState.COMMITTED, Certainty.CERTAIN),
        (BranchProof.MISSING, TransactionState.ABORTED, Certainty.LIKELY),
    ],
)
def test_how_it_ended(of: Of, proof: BranchProof, state: TransactionState, certainty: Certainty) -> None:
    manager, target = of.pending.resource_manager, of.pending.target
    ended = BranchGone(instance=INSTANCE, resource_manager=manager, transaction=target, at_ms=T0 + 85_000, proof=proof)
    found = of.view(ended)
    judgement = verdict_rules.judge(case(found, 90_000))
    assert (found.state, judgement.verdict, judgement.rule) == (state, Verdict.SETTLED, 1)
    assert judgement.certainty is certainty
    says = "a snapshot of the table adds it" if proof is BranchProof.COMMITTED else of.says["gone"]
    assert any(says in each.fact for each in judgement.evidence)
