"""Branches in databases: how what a server lists joins with what was told, what its end means, and the verdicts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indoubt.collector.config import databases
from indoubt.collector.facts.branch_view import unproven_branches
from indoubt.collector.facts.eviction import trim
from indoubt.collector.facts.transaction_join import find, views
from indoubt.collector.history.store import Store
from indoubt.collector.observe.databases import ends_known, is_new
from indoubt.collector.records.branches import BranchDetail, DatabaseSnapshot, with_listed
from indoubt.collector.records.observations import (
    BranchListed,
    BranchProof,
    Observation,
    Observed,
    OperatorOrder,
    Position,
)
from indoubt.collector.verdicts import branch_evidence
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits
from indoubt.collector.verdicts.verdict_rules import judge
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.decisions import BatchAttempt, Ruling, Settled
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Certainty, Verdict
from indoubt.resource_managers.database.session import BranchLocks, HeldLock, WaitingSession
from tests.unit.collector.observations import (
    CHECKPOINT_ID,
    PREFIX,
    T0,
    branch_gone,
    branch_listed,
    case,
    database_handle,
    decided,
    folded,
    only_view,
    outcome,
    pipeline,
    run_started,
    transaction_event,
)

RUN = run_started(0)
MINE = database_handle()
POSTGRES = database_handle("postgres", nonce="00000001")
FOREIGN = replace(MINE, transaction="'bank','7',1")
TOLD = transaction_event(EventType.TRANSACTION_PREPARED, 500, MINE, handle=MINE.to_json())
COMMIT = decided(1, MINE)
COMMITTED, TOMBSTONE = BranchProof.COMMITTED, BranchProof.TOMBSTONE
NO_MARKER, NOT_READ = BranchProof.NO_MARKER, BranchProof.NOT_READ
ABORTED_HERE = OperatorOrder(key=f"mysql:{FOREIGN.transaction}@mysql", action="abort", who="anna", at_ms=T0, audit=1)


FAILED_BEFORE = replace(ABORTED_HERE, at_ms=T0 - 60_000)


def gone(proof: BranchProof | None) -> Observation:
    return branch_gone(FOREIGN if proof is None else MINE, proof)


S, V = TransactionState, Verdict
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


@pytest.mark.parametrize(
    ("observed", "first_seen"),
    [
        ([branch_listed(MINE, at=1), branch_listed(MINE, at=5)], 1),
        # Hidden for a moment, as servers do while a branch changes hands.
        ([branch_listed(MINE, at=1), branch_gone(MINE, NO_MARKER, at=2), branch_listed(MINE, at=3)], 1),
        # A foreign name may be used again: that is another branch.
        ([branch_listed(FOREIGN, at=1), branch_gone(FOREIGN, None, at=2), branch_listed(FOREIGN, at=3)], 3),
        (
            [
                branch_listed(FOREIGN, at=1, prepared_ms=T0),
                branch_gone(FOREIGN, None, at=2),
                branch_listed(FOREIGN, at=3, prepared_ms=T0),
            ],
            1,
        ),
    ],
)
def test_a_branchs_age_counts_from_when_it_was_first_seen(observed: list[Observation], first_seen: int) -> None:
    branch = only_view(RUN, *observed).branch
    assert branch is not None
    assert branch.first_seen_ms == T0 + first_seen


def test_a_foreign_name_that_is_used_again_has_another_revision() -> None:
    first = [branch_listed(FOREIGN, at=1)]
    again = [*first, branch_gone(FOREIGN, None, at=2), branch_listed(FOREIGN, at=3)]
    assert only_view(*first).revision != only_view(*again).revision
    hidden = [RUN, branch_listed(MINE, at=1), branch_gone(MINE, NO_MARKER, at=2), branch_listed(MINE, at=3)]
    assert only_view(RUN, branch_listed(MINE, at=1)).revision == only_view(*hidden).revision


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
        before, after = first.find(key), second.find(key)
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


@pytest.mark.parametrize(
    ("told", "polled", "state"),
    [
        (transaction_event(EventType.TRANSACTION_ABORTED, 900, MINE), 2_000, S.PREPARED),
        (transaction_event(EventType.TRANSACTION_ABORTED, 900, MINE), 5_000, S.PREPARED),
        (transaction_event(EventType.TRANSACTION_COMMITTED, 900, MINE), 5_000, S.PREPARED),
        (outcome(2, MINE, Settled.COMMITTED, at=900), 2_000, S.COMMITTED),
        (outcome(2, MINE, Settled.COMMITTED, at=900), 5_000, S.PREPARED),
    ],
)
def test_a_branch_listed_long_after_its_reported_end_has_not_ended(
    told: Observation, polled: int, state: TransactionState
) -> None:
    found = folded(RUN, branch_listed(MINE), TOLD, told)
    found.database_snapshots["mysql"] = DatabaseSnapshot(at_ms=T0 + polled)
    (view,) = views(found, settled=False)
    assert view.state is state


OURS, FOREIGN_ID = MINE.transaction, FOREIGN.transaction


@pytest.mark.parametrize(
    ("missing", "before", "proofs", "are_read", "ends", "waits_for"),
    [
        # The first look that misses a branch proves nothing, a marker does.
        ([OURS, FOREIGN_ID], [], {}, True, {}, {OURS, FOREIGN_ID}),
        ([OURS], [], {OURS: COMMITTED}, True, {OURS: COMMITTED}, set()),
        ([OURS, FOREIGN_ID], [OURS, FOREIGN_ID], {}, True, {OURS: NO_MARKER, FOREIGN_ID: None}, set()),
        ([OURS], [OURS], {}, False, {OURS: NOT_READ}, set()),
        ([OURS], [OURS], {OURS: TOMBSTONE}, True, {OURS: TOMBSTONE}, set()),
        # Never seen in the list, and its marker is there.
        ([], [], {OURS: COMMITTED}, True, {OURS: COMMITTED}, set()),
        # Listed again meanwhile.
        ([], [OURS], {}, True, {}, set()),
    ],
)
def test_when_a_branch_counts_as_gone(
    missing: list[str],
    before: list[str],
    proofs: dict[str, BranchProof],
    are_read: bool,
    ends: dict[str, BranchProof | None],
    waits_for: set[str],
) -> None:
    assert ends_known(missing, set(before), proofs, are_read=are_read) == (ends, waits_for)


@pytest.mark.parametrize("proof", [*BranchProof, None])
def test_every_end_is_reported(proof: BranchProof | None) -> None:
    branch = only_view(branch_listed(MINE), branch_gone(MINE, proof)).branch
    assert branch is not None
    told = branch_evidence.ended(branch)
    assert told.at_ms == T0 + 3_000
    assert told.fact


def test_markers_are_asked_of_those_whose_end_only_events_tell() -> None:
    done, claimed = database_handle(slot=1), transaction_event(EventType.TRANSACTION_COMMITTED, 900, MINE)
    state = folded(RUN, decided(1, MINE, done, POSTGRES), outcome(2, done, Settled.COMMITTED), claimed)
    assert unproven_branches(state, "mysql") == [MINE.transaction]
    assert unproven_branches(state, "postgres") == [POSTGRES.transaction]
    # Of a batch before the last decided one nobody asks: it was finished.
    later = replace(MINE, transaction=f"{PREFIX}:42:0:0:0a1b2c3d")
    state = folded(RUN, COMMIT, decided(2, later, batch=42))
    assert unproven_branches(state, "mysql") == [later.transaction]
    state = folded(RUN, COMMIT, branch_gone(MINE, COMMITTED))
    assert unproven_branches(state, "mysql") == []


def test_what_is_listed_is_never_trimmed() -> None:
    old = [replace(MINE, transaction=f"{PREFIX}:{batch}:0:0:0a1b2c3d") for batch in range(20)]
    seen: list[Observation] = [branch_listed(one, at=n) for n, one in enumerate(old)]
    ends = [branch_gone(one, COMMITTED, at=100 + n) for n, one in enumerate(old[:15])]
    state = folded(RUN, *seen, *ends)
    state.ended.kept = 5
    trim(state)
    assert list(state.branches) == [one.key for one in old[10:]]


def properties(directory: Path, name: str, **kinds: str) -> Path:
    file = directory / name
    lines = [
        f"{kind}.{part}"
        for kind, host in kinds.items()
        for part in (f"host={host}", "user=u", "database=d", "password=secret-word")
    ]
    file.write_text("\n".join(lines))
    return file


def test_databases_are_called_by_kind_or_by_name_and_kind(tmp_path: Path) -> None:
    one = properties(tmp_path, "one", mysql="a", postgres="a")
    two = properties(tmp_path, "two", mysql="b")
    found = databases.read_databases([str(one), f"shop={two}"], {"INDOUBT_MYSQL_PASSWORD": "other-word"})
    assert [(instance, c.host, c.password) for instance, c in found.items()] == [
        ("mysql", "a", "other-word"),
        ("postgres", "a", "secret-word"),
        ("shop-mysql", "b", "other-word"),
    ]
    assert "-word" not in repr(found)
    assert databases.listing_instances(found) == {"mysql", "postgres", "shop-mysql"}


def test_of_two_databases_on_one_mysql_server_one_lists(tmp_path: Path) -> None:
    one, two = properties(tmp_path, "one", mysql="a"), properties(tmp_path, "two", mysql="a")
    two.write_text(two.read_text().replace("database=d", "database=e"))
    found = databases.read_databases([f"x={one}", f"y={two}"], {})
    assert databases.listing_instances(found) == {"x-mysql"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["{a}", "{b}"], "there is a database 'mysql' already; write NAME=FILE"),
        (["{a}", "x={a}"], "mysql at a:3306, database d is 'mysql' already"),
        (["{a}.not"], "cannot be read"),
    ],
)
def test_a_wrong_database_is_named(given: list[str], says: str, tmp_path: Path) -> None:
    files = {"a": properties(tmp_path, "a", mysql="a"), "b": properties(tmp_path, "b", mysql="b")}
    with pytest.raises(SettingsError, match=re.escape(says)):
        databases.read_databases([text.format(**files) for text in given], {})


ONE, PROMOTED, ANOTHER = "system 7, timeline 1", "system 7, timeline 2", "system 8, timeline 1"


@pytest.mark.parametrize(
    ("gone", "by", "certainty"),
    [
        (None, ONE, Certainty.CERTAIN),
        (None, PROMOTED, Certainty.LIKELY),
        (None, "", Certainty.LIKELY),
        (NO_MARKER, ONE, Certainty.CERTAIN),
        (NO_MARKER, PROMOTED, Certainty.LIKELY),
        # A marker came with the rows, whichever server has it.
        (COMMITTED, ANOTHER, Certainty.CERTAIN),
        (TOMBSTONE, PROMOTED, Certainty.CERTAIN),
    ],
)
def test_an_end_is_certain_where_the_server_that_listed_it_tells(
    gone: BranchProof | None, by: str, certainty: Certainty
) -> None:
    of = FOREIGN if gone is None else MINE
    judgement = judge(case(only_view(RUN, branch_listed(of, server=ONE), branch_gone(of, gone, server=by)), 9_000))
    assert (judgement.verdict, judgement.certainty) == (V.SETTLED, certainty)


@pytest.mark.parametrize(
    ("snapshot", "says"),
    [
        (DatabaseSnapshot(at_ms=T0, server=ONE), ""),
        (DatabaseSnapshot(at_ms=T0, server=PROMOTED), ""),
        (DatabaseSnapshot(at_ms=T0, server=ANOTHER), f"another server answers now ({ANOTHER}; it was {ONE})"),
        (DatabaseSnapshot(at_ms=None, error="a standby answers"), "does not answer: a standby answers"),
    ],
)
def test_what_is_not_asked_of_its_server_is_not_certain(snapshot: DatabaseSnapshot, says: str) -> None:
    state = folded(RUN, COMMIT, branch_listed(MINE, server=ONE))
    state.database_snapshots["mysql"] = snapshot
    (view,) = views(state, settled=False)
    judgement = judge(case(view, 9_000))
    assert (judgement.verdict, judgement.certainty) == (
        V.COMMIT_IT,
        Certainty.LIKELY if says else Certainty.CERTAIN,
    )
    assert says in view.not_asked
    assert bool(says) is any(view.not_asked == fact.fact for fact in judgement.evidence)


@pytest.mark.parametrize(
    ("known", "prepared_ms", "server", "expected"),
    [
        (None, T0, ONE, True),
        (branch_listed(FOREIGN, server=ONE, prepared_ms=T0), T0, ONE, False),
        (branch_listed(FOREIGN, server=ONE, prepared_ms=T0), T0 + 1, ONE, True),
        (branch_listed(FOREIGN, server=ONE, prepared_ms=T0), T0, PROMOTED, True),
        (branch_listed(FOREIGN, server=ONE, prepared_ms=T0), T0, "", False),
        (branch_listed(FOREIGN, prepared_ms=T0), T0, ONE, True),
    ],
)
def test_a_listed_branch_is_noted_again_when_another_server_lists_it(
    known: BranchListed | None, prepared_ms: int, server: str, expected: bool
) -> None:
    facts = with_listed(None, known) if known is not None else None
    assert is_new(facts, prepared_ms, server) is expected
