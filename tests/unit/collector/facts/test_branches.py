"""Branches in databases: how what a server lists joins with what was told, and the verdicts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indoubt.collector.facts.transaction_join import find, views
from indoubt.collector.history.store import Store
from indoubt.collector.records.branches import BranchDetail, DatabaseSnapshot
from indoubt.collector.records.observations import BranchProof, Observation, Observed, OperatorOrder, Position
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits
from indoubt.collector.verdicts.verdict_rules import judge
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.decisions import BatchAttempt, Ruling
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Verdict
from indoubt.resource_managers.database.session import BranchLocks, HeldLock, WaitingSession
from tests.unit.collector.facts.branch_observations import (
    COMMIT,
    COMMITTED,
    FOREIGN,
    MINE,
    NO_MARKER,
    NOT_READ,
    POSTGRES,
    RUN,
    TOLD,
    TOMBSTONE,
    S,
    V,
)
from tests.unit.collector.observations import (
    CHECKPOINT_ID,
    PREFIX,
    T0,
    branch_gone,
    branch_listed,
    case,
    decided,
    folded,
    only_view,
    pipeline,
)

ABORTED_HERE = OperatorOrder(key=f"mysql:{FOREIGN.transaction}@mysql", action="abort", who="anna", at_ms=T0, audit=1)


FAILED_BEFORE = replace(ABORTED_HERE, at_ms=T0 - 60_000)


def gone(proof: BranchProof | None) -> Observation:
    return branch_gone(FOREIGN if proof is None else MINE, proof)


NEWER = {"pipeline": pipeline(latest_run_offset=7, latest_run_ms=T0 + 600)}
UNREADABLE = {"log_status": DecisionLogStatus.UNREADABLE}
NOTHING, MAY_COMMIT, MAY_ABORT = (False, False), (True, False), (False, True)
CASES: list[tuple[str, list[Observation], dict[str, Any], S, V, int, tuple[bool, bool]]] = [
    ("ours, told, its driver alive", [RUN, TOLD, branch_listed(MINE)], {}, S.PREPARED, V.IN_PROGRESS, 15, NOTHING),
    ("ours, known by its name alone", [RUN, branch_listed(MINE)], {}, S.PREPARED, V.IN_PROGRESS, 15, NOTHING),
    ("ours, a newer run", [RUN, branch_listed(MINE)], NEWER, S.PREPARED, V.ABORT_IT, 12, MAY_ABORT),
    ("ours, decided and overdue", [RUN, COMMIT, branch_listed(MINE)], {}, S.DECIDED, V.COMMIT_IT, 8, MAY_COMMIT),
    (
        "ours, abort decided",
        [RUN, decided(1, MINE, ruling=Ruling.ABORT), branch_listed(MINE)],
        {},
        S.PREPARED,
        V.ABORT_IT,
        11,
        MAY_ABORT,
    ),
    ("gone, its marker is there", [RUN, COMMIT, gone(COMMITTED)], {}, S.COMMITTED, V.SETTLED, 1, NOTHING),
    ("gone, decided, a tombstone", [RUN, COMMIT, gone(TOMBSTONE)], {}, S.LOST, V.LOST, 3, NOTHING),
    (
        "gone, decided, no marker",
        [RUN, COMMIT, branch_listed(MINE), gone(NO_MARKER)],
        {},
        S.DECIDED,
        V.UNKNOWN,
        10,
        NOTHING,
    ),
    ("decided, never listed", [RUN, COMMIT], {}, S.DECIDED, V.UNKNOWN, 10, NOTHING),
    ("gone, undecided, no marker", [RUN, branch_listed(MINE), gone(NO_MARKER)], {}, S.ABORTED, V.SETTLED, 1, NOTHING),
    ("gone, undecided, a tombstone", [RUN, branch_listed(MINE), gone(TOMBSTONE)], {}, S.ABORTED, V.SETTLED, 1, NOTHING),
    (
        "gone, undecided, not read",
        [RUN, branch_listed(MINE), gone(NOT_READ)],
        NEWER,
        S.PREPARED,
        V.ABORT_IT,
        12,
        NOTHING,
    ),
    ("no marker, then one", [RUN, COMMIT, gone(NO_MARKER), gone(COMMITTED)], {}, S.COMMITTED, V.SETTLED, 1, NOTHING),
    ("a marker, then not read", [RUN, COMMIT, gone(COMMITTED), gone(NOT_READ)], {}, S.COMMITTED, V.SETTLED, 1, NOTHING),
    (
        "gone, then listed again",
        [RUN, COMMIT, gone(NO_MARKER), branch_listed(MINE)],
        {},
        S.DECIDED,
        V.COMMIT_IT,
        8,
        MAY_COMMIT,
    ),
    ("foreign", [branch_listed(FOREIGN)], {}, S.PREPARED, V.FOREIGN, 7, MAY_ABORT),
    ("foreign, the log unreadable", [branch_listed(FOREIGN)], UNREADABLE, S.PREPARED, V.FOREIGN, 7, MAY_ABORT),
    ("named like ours, of no run", [branch_listed(MINE)], {}, S.PREPARED, V.FOREIGN, 7, MAY_ABORT),
    ("named like ours, the log unreadable", [branch_listed(MINE)], UNREADABLE, S.PREPARED, V.UNKNOWN, 5, NOTHING),
    ("foreign, gone", [branch_listed(FOREIGN), gone(None)], {}, S.PREPARED, V.SETTLED, 1, NOTHING),
    (
        "foreign, gone long after an order",
        [branch_listed(FOREIGN), FAILED_BEFORE, gone(None)],
        {},
        S.PREPARED,
        V.SETTLED,
        1,
        NOTHING,
    ),
    (
        "foreign, aborted by order",
        [branch_listed(FOREIGN), ABORTED_HERE, gone(None)],
        {},
        S.ABORTED,
        V.SETTLED,
        1,
        NOTHING,
    ),
]


@pytest.mark.parametrize(
    ("observed", "more", "state", "verdict", "rule", "offered"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_state_and_verdict_of_a_branch(
    observed: list[Observation],
    more: dict[str, Any],
    state: TransactionState,
    verdict: Verdict,
    rule: int,
    offered: tuple[bool, bool],
) -> None:
    view = only_view(*observed)
    judgement = judge(case(view, 9_000, **more))
    assert (view.state, judgement.verdict, judgement.rule) == (state, verdict, rule)
    assert (judgement.may_commit, judgement.may_abort) == offered
    assert judgement.evidence
    assert view.resource_manager == "mysql"


def test_a_branch_joins_with_what_was_reported_under_the_handles_key() -> None:
    state = folded(RUN, branch_listed(MINE, at=700), TOLD, COMMIT)
    (view,) = views(state, settled=True)
    assert view == find(state, MINE.key)
    assert (view.key, view.handle, view.managed, view.pipeline, view.slot) == (MINE.key, MINE, True, PREFIX, 0)
    assert view.opened_ms == MINE.opened_at_ms
    assert view.deadline_ms is None


def test_an_unreported_branch_has_its_batch_from_its_name() -> None:
    (view,) = views(folded(RUN, branch_listed(MINE, at=700)), settled=False)
    assert (view.batch_attempt, view.slot, view.opened_ms) == (
        BatchAttempt(checkpoint_id=CHECKPOINT_ID, batch=41, attempt=0),
        0,
        T0 + 700,
    )


def test_foreign_branches_of_one_name_on_two_servers_are_two() -> None:
    state = folded(branch_listed(FOREIGN, instance="a-mysql"), branch_listed(FOREIGN, instance="b-mysql"))
    keys = {view.key for view in views(state, settled=False)}
    assert keys == {f"mysql:{FOREIGN.transaction}@a-mysql", f"mysql:{FOREIGN.transaction}@b-mysql"}
    for key in keys:
        found = find(state, key)
        assert found is not None
        assert found.key == key


def test_history_keeps_when_a_branch_was_first_seen_and_its_end(tmp_path: Path) -> None:
    limits = Limits()
    gone_too = replace(MINE, transaction=f"{PREFIX}:40:0:0:0a1b2c3d")
    seen = [
        branch_listed(MINE, at=1),
        branch_listed(
            FOREIGN,
            at=2,
            instance="shop-mysql",
            owner="bank",
            database="shop",
            prepared_ms=T0,
            server="server_uuid 3e11",
        ),
        branch_listed(gone_too, at=3),
        branch_gone(gone_too, COMMITTED, at=4),
        branch_listed(MINE, at=9),
    ]
    store = Store(tmp_path / "history.duckdb")
    first = CurrentState(store, settled_kept=10, checkpoints_kept=10, limits=limits)
    first.observe(
        [
            Observed(position=Position(source=f"database {one.instance}", partition=0, offset=number), observation=one)
            for number, one in enumerate(seen)
        ]
    )
    store.close()
    again = Store(tmp_path / "history.duckdb")
    second = CurrentState(again, settled_kept=10, checkpoints_kept=10, limits=limits)
    second.load()
    for key in (MINE.key, gone_too.key, f"mysql:{FOREIGN.transaction}@shop-mysql"):
        before, after = first.transactions.find(key), second.transactions.find(key)
        assert before is not None
        assert after is not None
        assert after.view == before.view
    assert again.next_offsets("database mysql") == {0: 5}
    assert second.counts() == (5, 0)
    again.close()


def test_evidence_says_who_waits_what_is_locked_and_what_vacuum_keeps() -> None:
    locks = BranchLocks(
        held=tuple(HeldLock(relation=f"t{n}", mode="RowExclusiveLock") for n in range(5)),
        waiting=(
            WaitingSession(process=7, user="app", application="shop", relation="", mode="ShareLock", since_ms=T0),
            WaitingSession(
                process=8, user="app", application="", relation="t1", mode="AccessExclusiveLock", since_ms=None
            ),
        ),
    )
    state = folded(branch_listed(POSTGRES, owner="flink", prepared_ms=T0))
    state.database_snapshots["postgres"] = DatabaseSnapshot(
        at_ms=T0 + 5, details={POSTGRES.key: BranchDetail(transaction_age=1_234, locks=locks)}
    )
    (view,) = views(state, settled=False)
    facts = [one.fact for one in judge(case(view, 9_000)).evidence]
    assert "prepared by flink" in facts
    assert "2 sessions wait behind it: process 7 (app, shop) for a row, process 8 (app) for t1" in facts
    assert any(
        fact.startswith("it holds locks on t0 (RowExclusiveLock), t1") and fact.endswith("and 2 more") for fact in facts
    )
    assert "vacuum keeps everything since its start, 1,234 transactions ago" in facts
