"""Commits of Flink to Iceberg tables, missing since checkpoint 3, where they differ from files of its FileSink; and their ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.formats.flink_records import FlinkCommittables, ListedFile
from indoubt.collector.records.formats.pending_files import (
    FileSeen,
    IcebergCommit,
    IcebergManifest,
    PendingFile,
    Standing,
)
from indoubt.collector.records.observations import BranchGone, BranchListed, BranchProof
from indoubt.collector.verdicts import flink_commits, verdict_rules
from indoubt.collector.verdicts.flink_cases import flink_case
from indoubt.lifecycle.resource_manager_kinds import ICEBERG
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Certainty, Judgement, Verdict
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
    RUNS,
    WRITTEN,
    itself,
)

MANIFEST = IcebergManifest(path="/lake/db/orders/metadata/m.avro", size=7, spec=0, files=1, rows=9, holds_deletes=False)
ADDED = IcebergCommit(job="a" * 32, operator="c" * 32, checkpoint_id=3, manifests=(MANIFEST,))
TARGET, INSTANCE = ADDED.target, "eu-files"
PENDING = PendingFile(target=TARGET, size=None, commit=ADDED, checkpoint_id=3, sink="orders_iceberg")
MISSING = BranchListed(instance=INSTANCE, resource_manager=ICEBERG.name, transaction=TARGET, at_ms=T0 + 80_000)
LEFT_OUT = FileSeen(standing=Standing.HIDDEN, why="snapshot 7 names checkpoint 9 of the same job and sink")
NO_ORDER = "unknown, guess: no offer"


def listing(number: int = 3, *files: PendingFile) -> FlinkCommittables:
    of = {"committables": frozenset(ListedFile(file.target) for file in files), "prefixes": frozenset(), "files": files}
    return flink_given.listing(number, written=WRITTEN, **of)


LISTS = listing(3, PENDING)
CASES = [
    # name; what is known of jobs, checkpoints and lists; why its sink leaves it out; the rule, and what it says
    ("completed, its job is over", [FAILED, COMPLETED_3], None, 23, COMMIT),
    ("completed, whether its job runs is not known", [RUNS, COMPLETED_3, AWAY], None, 23, LIKELY_COMMIT),
    ("completed, its job runs: it commits it", [RUNS, COMPLETED_3], None, 23, GOES_ON),
    ("restored from it, and over again", [FAILED, FROM_3], None, 23, LIKELY_COMMIT),
    ("set back to before it", [FAILED, FROM_2], None, 22, LIKELY_ABORT),
    ("listed, the end of its checkpoint was not seen", [FAILED], None, 25, LIKELY_COMMIT),
    ("left out, its job is over", [FAILED, COMPLETED_3], LEFT_OUT, 39, NO_ORDER),
    ("left out, its job runs", [RUNS, COMPLETED_3], LEFT_OUT, 39, NO_ORDER),
    ("left out and set back: written again", [itself(2), COMPLETED_3], LEFT_OUT, 22, "abort it, certain: abort"),
    ("its list is gone", [FAILED, COMPLETED_3, replace(LISTS, is_gone=True)], None, 36, DOUBT),
]  # fmt: skip


def view(*given: Any) -> TransactionView:
    return only_view(MISSING, *given)


@table("given, seen, rule, then", CASES)
def test_a_commit(given: list[Any], seen: FileSeen | None, rule: int, then: str) -> None:
    lists = [] if any(isinstance(each, FlinkCommittables) for each in given) else [LISTS]
    found = judged([*given, *lists], seen)
    assert told(found) == (rule, then)
    assert "lists exactly this commit" in found.evidence[0].fact
    if found.may_commit:
        assert any("Flink finds the snapshot of that name and adds nothing" in each.fact for each in found.rests_on)
    if then == GOES_ON:
        assert any("it adds its files itself, perhaps a second time" in each.fact for each in found.rests_on)
    if rule == 39:
        assert LEFT_OUT.why in [each.fact for each in found.rests_on]
        assert "its manifest names them" in found.rests_on[-1].fact
    if rule == 25:
        assert any("commit it only if the job is then restored from chk-3" in each.fact for each in found.rests_on)
    if then == LIKELY_COMMIT and AWAY in given:
        assert any("commit it only if the job is gone" in each.fact for each in found.rests_on)


def judged(given: list[Any], seen: FileSeen | None) -> Judgement:
    state = flink_given.flink_state(given)
    if seen is not None:
        state.files_seen[CLUSTER] = {TARGET: seen}
    found = flink_case(state, view(), commit_overdue_ms=2_000, now_ms=T0 + 90_000)
    assert found is not None
    judgement = flink_commits.judge(found)
    assert judgement is not None
    return judgement


def test_no_abort_is_offered_because_a_restored_job_would_miss_its_files() -> None:
    found = verdict_rules.judge(case(view(), 90_000))
    assert (found.may_commit, found.may_abort) == (False, False)
    assert "no snapshot of the table adds them" in found.evidence[-1].fact


def test_one_that_no_list_names_goes_by_its_table() -> None:
    assert view().application.name == "iceberg:/lake/db/orders"


@pytest.mark.parametrize(
    ("proof", "state", "says", "certainty"),
    [
        (BranchProof.COMMITTED, TransactionState.COMMITTED, "a snapshot of the table adds it", Certainty.CERTAIN),
        (BranchProof.MISSING, TransactionState.ABORTED, "no snapshot of the table adds it", Certainty.LIKELY),
    ],
)
def test_how_it_ended(proof: BranchProof, state: TransactionState, says: str, certainty: Certainty) -> None:
    ended = BranchGone(
        instance=INSTANCE, resource_manager=ICEBERG.name, transaction=TARGET, at_ms=T0 + 85_000, proof=proof
    )
    found = view(ended)
    judgement = verdict_rules.judge(case(found, 90_000))
    assert (found.state, judgement.verdict, judgement.rule) == (state, Verdict.SETTLED, 1)
    assert judgement.certainty is certainty
    assert any(says in each.fact for each in judgement.evidence)
