"""Commits of Flink to Paimon tables, missing since checkpoint 3, where they differ from those to Iceberg tables; and their ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.formats.flink_records import FlinkCommittables, ListedFile
from indoubt.collector.records.formats.pending_files import FileSeen, PaimonCommit, PendingFile, Standing
from indoubt.collector.records.observations import BranchGone, BranchListed, BranchProof
from indoubt.collector.verdicts import flink_commits, verdict_rules
from indoubt.collector.verdicts.flink_cases import flink_case
from indoubt.lifecycle.resource_manager_kinds import PAIMON
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Judgement, Verdict
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

ADDED = PaimonCommit(user="u", identifier=3, first_file="bucket-0/data-1.parquet", messages=2, files=2, rows=60)
TARGET, INSTANCE = ADDED.target, "eu-files"
PENDING = PendingFile(target=TARGET, size=None, paimon=ADDED, checkpoint_id=3, sink="orders")
MISSING = BranchListed(instance=INSTANCE, resource_manager=PAIMON.name, transaction=TARGET, at_ms=T0 + 80_000)
LEFT_OUT = FileSeen(standing=Standing.HIDDEN, why="snapshot 7 bears number 9")
NO_ORDER = "unknown, guess: no offer"
LISTS = flink_given.listing(
    3, written=WRITTEN, committables=frozenset({ListedFile(TARGET)}), prefixes=frozenset(), files=(PENDING,)
)
CASES = [
    # name; what is known of jobs, checkpoints and lists; why its sink leaves it out; the rule, and what it says
    ("completed, its job is over", [FAILED, COMPLETED_3], None, 23, COMMIT),
    ("completed, whether its job runs is not known", [RUNS, COMPLETED_3, AWAY], None, 23, LIKELY_COMMIT),
    ("completed, its job runs: it commits it", [RUNS, COMPLETED_3], None, 23, GOES_ON),
    ("restored from it, and over again", [FAILED, FROM_3], None, 23, LIKELY_COMMIT),
    ("set back to before it", [FAILED, FROM_2], None, 22, LIKELY_ABORT),
    ("listed, the end of its checkpoint was not seen", [FAILED], None, 25, LIKELY_COMMIT),
    ("left out, its job is over", [FAILED, COMPLETED_3], LEFT_OUT, 39, NO_ORDER),
    ("left out once its job is restored: it runs, and adds it", [RUNS, COMPLETED_3], LEFT_OUT, 23, GOES_ON),
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
    facts = [each.fact for each in found.rests_on]
    assert "lists exactly this commit" in facts[0]
    if found.may_commit:
        assert any("no order adds its files: restart the job from chk-3 or from a later one" in each for each in facts)
        assert not any("commit it only" in each for each in facts)
    if then == GOES_ON:
        assert any(each.endswith("it adds its files itself") for each in facts)
    if rule == 39:
        assert LEFT_OUT.why in facts
        assert any("Roll the table back to the snapshot of an earlier checkpoint" in each for each in facts)


def judged(given: list[Any], seen: FileSeen | None) -> Judgement:
    state = flink_given.flink_state(given)
    if seen is not None:
        state.files_seen[CLUSTER] = {TARGET: seen}
    found = flink_case(state, view(), commit_overdue_ms=2_000, now_ms=T0 + 90_000)
    assert found is not None
    judgement = flink_commits.judge(found)
    assert judgement is not None
    return judgement


def test_no_order_is_offered_whatever_the_rule() -> None:
    state = flink_given.flink_state([FAILED, LISTS])
    flink = flink_case(state, view(), commit_overdue_ms=2_000, now_ms=T0 + 90_000)
    found = verdict_rules.judge(replace(case(view(), 90_000), flink=flink))
    assert (found.verdict, found.rule) == (Verdict.COMMIT_IT, 25)
    assert (found.may_commit, found.may_abort, found.commit_confirmation) == (False, False, "")
    assert "no snapshot of the table adds them" in found.rests_on[-1].fact


def test_one_that_no_list_names_goes_by_its_user() -> None:
    assert view().application.name == "paimon:u"


@pytest.mark.parametrize(
    ("proof", "state", "says"),
    [
        (BranchProof.COMMITTED, TransactionState.COMMITTED, "a snapshot of the table adds it"),
        (BranchProof.MISSING, TransactionState.ABORTED, "and its data files are gone"),
    ],
)
def test_how_it_ended(proof: BranchProof, state: TransactionState, says: str) -> None:
    ended = BranchGone(
        instance=INSTANCE, resource_manager=PAIMON.name, transaction=TARGET, at_ms=T0 + 85_000, proof=proof
    )
    found = view(ended)
    judgement = verdict_rules.judge(case(found, 90_000))
    assert (found.state, judgement.verdict, judgement.rule) == (state, Verdict.SETTLED, 1)
    assert any(says in each.fact for each in judgement.evidence)
