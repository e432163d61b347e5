"""Alert rules A1 and A2, each on the cases where it must and must not find something."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.assess.findings import MAX_FINDINGS, Severity
from indoubt.collector.assess.rules import transactions as transaction_rules
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchListed, Observation
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.verdicts.restarts import MeasuredRestarts
from indoubt.collector.verdicts.verdict_rules import judge
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.rows.attention import Remedy
from indoubt.lifecycle.verdicts import Evidence, Judgement, Verdict
from tests.unit.collector.assessments import changed, look
from tests.unit.collector.notify.rule_findings import (
    ABORTED,
    COMMITTED,
    DECIDED,
    FOREIGN,
    LIMITS,
    LOST,
    OURS,
    PREPARED,
    found,
    of_transaction,
)
from tests.unit.collector.observations import (
    PREFIX,
    T0,
    branch_listed,
    broker_record,
    case,
    database_handle,
    decided,
    only_view,
    pipeline,
    run_started,
    transaction_event,
)


@pytest.mark.parametrize(
    ("at", "observations", "history", "severity"),
    [
        # Timeout 60 s; recovery needs 5 s interval + 1 s checkpoint + 10 s restart delay, and a person half of the timeout.
        (29_000, PREPARED, {}, None),
        (30_000, PREPARED, {}, None),
        (30_001, PREPARED, {}, Severity.WARNING),
        (30_001, OURS, {}, Severity.WARNING),
        (30_001, DECIDED, {}, Severity.CRITICAL),
        # The longest restart that was measured, where a person is quicker.
        (20_000, PREPARED, {"restarts": MeasuredRestarts(count=2, longest_ms=40_000, median_ms=9_000)}, None),
        (
            20_001,
            PREPARED,
            {"restarts": MeasuredRestarts(count=2, longest_ms=40_000, median_ms=9_000)},
            Severity.WARNING,
        ),
        # The broker looks every 10 s only, so a transaction outlives its timeout.
        (65_000, PREPARED, {}, Severity.WARNING),
        # The need is this pipeline's own.
        (25_000, PREPARED, {"checkpoint_p99_ms": 20_000}, None),
        (25_001, PREPARED, {"checkpoint_p99_ms": 20_000}, Severity.WARNING),
        (30_000, PREPARED, {"restart_delay_ms": 1_000}, None),
        # A pipeline whose recovery never fits into its timeout is quiet while its transactions are no older than usual.
        (5_000, PREPARED, {"restart_delay_ms": 90_000}, None),
        (6_000, PREPARED, {"restart_delay_ms": 90_000}, Severity.WARNING),
        (29_000, PREPARED, {"restart_delay_ms": 90_000, "checkpoint_p99_ms": 50_000}, None),
        (30_000, PREPARED, {"restart_delay_ms": 90_000, "checkpoint_p99_ms": 50_000}, Severity.WARNING),
        # Of a foreign one no history is known: 20 s are assumed, and a person needs longer.
        (30_000, FOREIGN, {}, None),
        (30_001, FOREIGN, {}, Severity.WARNING),
        # What has ended, or is ending, does not time out.
        (59_000, COMMITTED, {}, None),
        (61_000, ABORTED, {}, None),
        (59_000, (*DECIDED, broker_record(BrokerStatus.PREPARE_COMMIT, 1500)), {}, None),
    ],
)
def test_a1_timeout_near(
    at: int, observations: tuple[Observation, ...], history: dict[str, Any], severity: Severity | None
) -> None:
    findings = found("A1", of_transaction(at, *observations, **history))
    assert [finding.severity for finding in findings] == ([severity] if severity else [])


def test_a1_is_quiet_about_databases_which_have_no_timeout() -> None:
    prepared = transaction_event(
        EventType.TRANSACTION_PREPARED, 500, database_handle(), handle=database_handle().to_json()
    )
    assert not found("A1", of_transaction(3_600_000, run_started(), prepared))


def test_a1_is_quiet_about_short_transactions_with_a_short_timeout() -> None:
    short = replace(broker_record(BrokerStatus.ONGOING, 0, transaction="streams-1"), timeout_ms=10_000)
    assert not found("A1", of_transaction(4_999, short)), "all of its checkpoint id has less than 20 s left"
    assert found("A1", of_transaction(5_000, short))


def test_a1_says_how_much_time_is_left_and_follows_the_clock() -> None:
    first = of_transaction(48_000, *DECIDED)
    (decided_since,) = found("A1", first)
    assert decided_since.severity is Severity.CRITICAL
    (later,) = found("A1", changed(first, now_ms=T0 + 49_000))
    assert "has 11 s left" in later.summary
    (over,) = found("A1", changed(first, now_ms=T0 + 61_000))
    assert "has no time left" in over.summary
    assert found("A1", changed(first, now_ms=T0 + 90_000)) == [over]
    assert found("A1", changed(first, now_ms=T0 + 30_000)) == []
    assert found("A1", changed(first, now_ms=T0 + 30_001)) != []
    (by_other_limits,) = found("A1", of_transaction(48_000, *FOREIGN), replace(LIMITS, foreign_recovery_ms=30_000))
    assert "a restart takes 30 s, as is assumed" in by_other_limits.summary


def test_a1_finds_no_more_than_are_shown_the_lowest_by_key() -> None:
    (judged,) = of_transaction(48_000, *FOREIGN).judged
    ids = [f"flink-orders-{number:05}" for number in range(MAX_FINDINGS + 5)]
    many = [replace(judged, view=replace(judged.view, transaction=id_)) for id_ in ids]
    snapshot = look(now_ms=T0 + 48_000, judged=tuple(reversed(many)))
    findings = list(transaction_rules.a1_timeout_near(snapshot))
    assert [finding.subject for finding in findings] == [each.view.key for each in many[:MAX_FINDINGS]]


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        (Verdict.COMMIT_IT, "commit it before the broker aborts it, which loses its rows"),
        (Verdict.ABORT_IT, "the broker will abort it, and nothing is lost"),
        (Verdict.FOREIGN, "the broker will abort it, and only its owner knows what that loses"),
    ],
)
def test_a1_says_of_a_foreign_one_what_its_verdict_knows_of_the_timeout(verdict: Verdict, says: str) -> None:
    snapshot = of_transaction(48_000, *FOREIGN)
    (judged,) = snapshot.judged
    judged = replace(judged, judgement=replace(judged.judgement, verdict=verdict))
    (finding,) = found("A1", changed(snapshot, judged=(judged,)))
    assert finding.summary.endswith(says)


def test_a1_says_what_time_is_left_and_what_recovery_needs() -> None:
    (finding,) = found("A1", of_transaction(48_000, *DECIDED))
    assert "has 12 s left and a person needs 30 s: it is decided" in finding.summary
    slow = {"restarts": MeasuredRestarts(count=2, longest_ms=31_000, median_ms=9_000)}
    (by_restart,) = found("A1", of_transaction(48_000, *DECIDED, **slow))
    assert "has 12 s left and a restart takes 31 s: it is decided" in by_restart.summary
    assert (finding.group, finding.labels["transaction"], finding.labels["batch"]) == (
        f"application {PREFIX}",
        "ip-count-0-1",
        "41",
    )
    (foreign,) = found("A1", of_transaction(48_000, *FOREIGN))
    assert "only its owner knows" in foreign.summary
    (undecided,) = found("A1", of_transaction(48_000, *PREPARED))
    assert "its batch must be replayed" in undecided.summary


@pytest.mark.parametrize(
    ("at", "observations", "is_found"),
    [
        (10_999, DECIDED, False),
        (11_000, DECIDED, True),
        (11_000, (*DECIDED, broker_record(BrokerStatus.PREPARE_COMMIT, 1500)), True),
        (60_000, PREPARED, False),
        (60_000, COMMITTED, False),
        (90_000, LOST, False),
        (60_000, FOREIGN, False),
        # It is being committed, and nobody decided it.
        (60_000, (*OURS, broker_record(BrokerStatus.PREPARE_COMMIT, 1500)), False),
        # A branch in a database that nobody here looks into.
        (11_000, (run_started(), decided(1, database_handle())), True),
    ],
)
def test_a2_commit_overdue(at: int, observations: tuple[Observation, ...], is_found: bool) -> None:
    findings = found("A2", of_transaction(at, *observations))
    assert [finding.severity for finding in findings] == ([Severity.CRITICAL] if is_found else [])


def test_a2_is_quiet_once_a_later_batch_was_decided() -> None:
    view = only_view(run_started(), decided(1, database_handle()))
    judgement = judge(case(view, 60_000, later_batch_decided=True))
    one = Judged(view=view, judgement=judgement, pipeline=pipeline())
    assert not found("A2", look(now_ms=T0 + 60_000, judged=(one,)))


def test_a2_tells_at_once_of_what_a_flink_checkpoint_lists() -> None:
    view = only_view(*FOREIGN)
    evidence = (Evidence(fact="chk-3/_metadata lists exactly this transactional id", source="_metadata", at_ms=T0),)
    judgement = Judgement(verdict=Verdict.COMMIT_IT, rule=25, rests_on=evidence, commit_confirmation="chk-3")
    snapshot = look(now_ms=T0 + 2_000, judged=(Judged(view=view, judgement=judgement, pipeline=None),))
    (finding,) = found("A2", snapshot)
    assert finding.severity is Severity.CRITICAL
    assert "loses its rows in 58 s" in finding.summary
    assert "belongs to Flink checkpoint chk-3 and is not committed" in finding.summary
    assert finding.summary.endswith("Commit it, if its job goes on from chk-3 or a later one")


def test_a2_asks_for_a_restart_where_no_order_commits() -> None:
    view = only_view(BranchListed(instance="i", resource_manager="paimon", transaction="paimon:u@3/d", at_ms=T0))
    evidence = (Evidence(fact="chk-3/_metadata lists exactly this commit", source="_metadata", at_ms=T0),)
    judgement = Judgement(verdict=Verdict.COMMIT_IT, rule=23, rests_on=evidence)
    snapshot = look(now_ms=T0 + 2_000, judged=(Judged(view=view, judgement=judgement, pipeline=None),))
    (finding,) = found("A2", snapshot)
    assert finding.summary.endswith("Restart its job from that or a later one, which commits it")
    assert finding.remedy is Remedy.OPEN


def test_a2_says_of_a_branch_of_flink_what_it_holds_because_no_timeout_ends_it() -> None:
    view = only_view(branch_listed(database_handle("postgres"), prepared_ms=T0))
    judgement = Judgement(
        verdict=Verdict.COMMIT_IT, rule=23, rests_on=(Evidence(fact="it counts", source="flink REST"),)
    )
    snapshot = look(now_ms=T0 + 2_000, judged=(Judged(view=view, judgement=judgement, pipeline=None),))
    (finding,) = found("A2", snapshot)
    assert finding.summary.endswith(
        "belongs to a Flink checkpoint that counts and is not committed: its rows are invisible, and it keeps its locks until it "
        "is ended. Commit it"
    )
