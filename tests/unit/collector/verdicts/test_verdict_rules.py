"""Every rule of the verdicts: when it answers, what it offers, and what it must never offer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collector.records.facts import PipelineFacts
from collector.records.formats.transaction_state import BrokerStatus
from collector.records.observations import Observation
from collector.state.transaction_join import find, views
from collector.verdicts.verdict_case import DecisionLogStatus, PipelineHistory
from collector.verdicts.verdict_rules import judge, rule_12_newer_run, rule_13_driver_silent
from lifecycle.decisions import Ruling, Settled
from lifecycle.events import EventType
from lifecycle.states import TransactionState
from lifecycle.verdicts import Assumption, Certainty, Judgement, Verdict
from tests.unit.collector.observations import (
    PREFIX,
    T0,
    batch_attempt,
    branch_gone,
    branch_listed,
    broker_record,
    case,
    database_handle,
    decided,
    folded,
    handle,
    only_view,
    outcome,
    pipeline,
    run_started,
    transaction_event,
)

ONGOING = broker_record(BrokerStatus.ONGOING, 0)
COMMITTED = broker_record(BrokerStatus.COMPLETE_COMMIT, 1500, epoch=5, version=2)
PREPARING_COMMIT = broker_record(BrokerStatus.PREPARE_COMMIT, 1500, epoch=5, version=2)
PREPARING_ABORT = broker_record(BrokerStatus.PREPARE_ABORT, 1500, epoch=5, version=2)
ABORTED = broker_record(BrokerStatus.COMPLETE_ABORT, 1500, epoch=5, version=2)
OVERTAKING = broker_record(BrokerStatus.ONGOING, 9_000, start=9_000, epoch=6)
PREPARED = transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=handle().to_json())
RUN = run_started(0)
COMMIT = decided(1, handle())
ABORT = decided(1, handle(), ruling=Ruling.ABORT)
COMMIT_OF_OLD_RUN = [run_started(0), run_started(1, at=800, run="run-2"), decided(2, handle())]
FOREIGN = broker_record(BrokerStatus.ONGOING, 0, transaction="flink-orders-3")
FOREIGN_COMMITTED = broker_record(BrokerStatus.COMPLETE_COMMIT, 9, transaction="flink-orders-3")
NEXT_RUN = run_started(2, at=1500, run="run-2")
LATER_DECIDED = {"later_batch_decided": True}
LOOKS_LIKE_OURS = broker_record(BrokerStatus.ONGOING, 0, transaction="unknown-0-1")
UNREADABLE = {"log_status": DecisionLogStatus.UNREADABLE, "log_error": "no broker answered"}
STOPPED = {"pipeline": pipeline(facts=PipelineFacts(pipeline=PREFIX, stopped_ms=T0 + 950, last_seen_ms=T0 + 950))}
RESTARTING = {"pipeline": pipeline(facts=PipelineFacts(pipeline=PREFIX, restarting_ms=T0 + 950, last_seen_ms=T0 + 950))}
TOMORROW = {"pipeline": pipeline(facts=PipelineFacts(pipeline=PREFIX, last_seen_ms=T0 + 86_400_000))}
HEARD = {"pipeline": pipeline(heard_ms=T0 + 20_000, facts=PipelineFacts(pipeline=PREFIX, last_seen_ms=T0 - 600_000))}
UNHEARD = {"pipeline": pipeline(heard_ms=None)}
ALIVE = {"pipeline": pipeline(heard_ms=T0 + 39_000)}
SLOW = {"pipeline": pipeline(interval_ms=20_000)}
SLOW_BATCH = {"pipeline": pipeline(checkpoint_p99_ms=20_000)}
NEWER = {"pipeline": pipeline(latest_run_offset=1, latest_run_ms=T0 + 800)}
AHEAD = {"pipeline": pipeline(latest_run_offset=1, latest_run_ms=T0 + 5)}
BEFORE = {"pipeline": pipeline(latest_run_offset=1, latest_run_ms=T0 - 5)}
OF_RUN_1 = transaction_event(EventType.TRANSACTION_OPENED, 1, attempt=1)
NO_RUN = {"pipeline": pipeline(latest_run_offset=None, latest_run_ms=None)}
NO_TIME = {"pipeline": pipeline(latest_run_offset=1, latest_run_ms=None)}
SAME_TIME = {"pipeline": pipeline(latest_run_offset=1, latest_run_ms=T0)}
NO_PIPELINE = {"pipeline": None}
TO_COME = {"pipeline": pipeline(latest_run_offset=1, latest_run_ms=T0 + 901)}
REPLAYED = {"replayed_ms": T0 + 8000}
TOLD_LOST = transaction_event(EventType.TRANSACTION_LOST, 600, reason="so it is said")

CASES: list[tuple[str, list[Observation], int, dict[str, Any], Verdict, int]] = [
    # name, what was observed, ms after opening, what else, verdict, rule
    ("committed", [RUN, ONGOING, PREPARED, COMMIT, COMMITTED], 2000, {}, Verdict.SETTLED, 1),
    ("committed, decision log unreadable", [RUN, ONGOING, COMMITTED], 2000, UNREADABLE, Verdict.SETTLED, 1),
    ("aborted and never decided", [RUN, ONGOING, PREPARED, ABORTED], 2000, {}, Verdict.SETTLED, 1),
    ("aborted as decided", [RUN, ONGOING, PREPARED, ABORT, ABORTED], 2000, {}, Verdict.SETTLED, 1),
    ("aborted, its commit decision void", [*COMMIT_OF_OLD_RUN, ONGOING, ABORTED], 2000, {}, Verdict.SETTLED, 1),
    ("foreign and committed", [FOREIGN, FOREIGN_COMMITTED], 10, {}, Verdict.SETTLED, 1),
    ("only an outcome is known", [RUN, COMMIT, outcome(2, handle(), Settled.COMMITTED)], 9000, {}, Verdict.SETTLED, 1),
    ("lost and replayed since", [RUN, ONGOING, COMMIT, ABORTED], 9000, {"replayed_ms": T0 + 8000}, Verdict.SETTLED, 2),
    ("its batch was replayed, and it is open", [RUN, ONGOING], 9000, REPLAYED, Verdict.IN_PROGRESS, 15),
    ("lost", [RUN, ONGOING, COMMIT, ABORTED], 2000, {}, Verdict.LOST, 3),
    ("lost, the abort still being written", [RUN, ONGOING, COMMIT, PREPARING_ABORT], 2000, {}, Verdict.LOST, 3),
    ("lost as recovery found", [RUN, COMMIT, outcome(2, handle(), Settled.LOST)], 9000, {}, Verdict.LOST, 3),
    ("an event claims it, a moment ago", [RUN, PREPARED], 900, {}, Verdict.IN_PROGRESS, 4),
    ("an event claims it", [RUN, PREPARED], 40_000, {}, Verdict.SETTLED, 4),
    ("an event claimed it 30 s ago", [RUN, PREPARED], 30_500, {}, Verdict.IN_PROGRESS, 4),
    ("an event claimed it more than 30 s ago", [RUN, PREPARED], 30_501, {}, Verdict.SETTLED, 4),
    ("an event claims that it was lost", [RUN, PREPARED, TOLD_LOST], 99_000, {}, Verdict.SETTLED, 4),
    ("an event claims it, decision log unreadable", [RUN, PREPARED], 40_000, UNREADABLE, Verdict.SETTLED, 4),
    ("ours, decision log unreadable", [RUN, ONGOING, PREPARED], 600, UNREADABLE, Verdict.UNKNOWN, 5),
    ("decided, decision log unreadable since", [RUN, ONGOING, COMMIT], 9000, UNREADABLE, Verdict.UNKNOWN, 5),
    ("may be ours, decision log unreadable", [LOOKS_LIKE_OURS], 600, UNREADABLE, Verdict.UNKNOWN, 5),
    ("never ours, decision log unreadable", [FOREIGN], 600, UNREADABLE, Verdict.FOREIGN, 7),
    ("being committed", [RUN, ONGOING, COMMIT, PREPARING_COMMIT], 9000, {}, Verdict.IN_PROGRESS, 6),
    ("being aborted", [RUN, ONGOING, PREPARING_ABORT], 2000, {}, Verdict.IN_PROGRESS, 6),
    ("foreign", [FOREIGN], 600, {}, Verdict.FOREIGN, 7),
    ("shape of our ids, but no run of the prefix", [RUN, LOOKS_LIKE_OURS], 600, {}, Verdict.FOREIGN, 7),
    ("no decision log at all", [LOOKS_LIKE_OURS], 600, {"log_status": DecisionLogStatus.ABSENT}, Verdict.FOREIGN, 7),
    ("decided 2 s ago and open", [RUN, ONGOING, PREPARED, COMMIT], 3000, {}, Verdict.COMMIT_IT, 8),
    ("decided, its prepared event lost", [RUN, ONGOING, COMMIT], 3000, {}, Verdict.COMMIT_IT, 8),
    ("decided, its driver gone", [RUN, ONGOING, COMMIT], 40_000, STOPPED, Verdict.COMMIT_IT, 8),
    ("decided, a newer run started since", [RUN, ONGOING, COMMIT, NEXT_RUN], 4000, NEWER, Verdict.COMMIT_IT, 8),
    ("decided, nothing known of its pipeline", [RUN, ONGOING, COMMIT], 3000, NO_PIPELINE, Verdict.COMMIT_IT, 8),
    ("decided just now", [RUN, ONGOING, PREPARED, COMMIT], 2999, {}, Verdict.IN_PROGRESS, 9),
    ("decided just now, never seen at the broker", [RUN, COMMIT], 2999, {}, Verdict.IN_PROGRESS, 9),
    ("decided, never seen at the broker, later batch decided", [RUN, COMMIT], 9000, LATER_DECIDED, Verdict.SETTLED, 10),
    ("decided, never seen at the broker", [RUN, COMMIT], 9000, {}, Verdict.UNKNOWN, 10),
    ("decided 2 s ago, never seen at the broker", [RUN, COMMIT], 3000, {}, Verdict.UNKNOWN, 10),
    ("abort decided, still open", [RUN, ONGOING, PREPARED, ABORT], 3000, {}, Verdict.ABORT_IT, 11),
    ("abort decided just now", [RUN, ONGOING, PREPARED, ABORT], 2999, {}, Verdict.IN_PROGRESS, 15),
    ("abort decided, no run known", [RUN, ONGOING, PREPARED, ABORT], 2999, NO_RUN, Verdict.IN_PROGRESS, 15),
    ("newer run, its attempt claimed", [RUN, ONGOING, PREPARED], 900, NEWER, Verdict.ABORT_IT, 12),
    ("newer run, attempt not known", [RUN, ONGOING], 900, NEWER, Verdict.ABORT_IT, 12),
    ("newer run, when is not known", [RUN, ONGOING], 900, NO_TIME, Verdict.IN_PROGRESS, 15),
    ("newer run of a time to come", [RUN, ONGOING], 900, TO_COME, Verdict.IN_PROGRESS, 15),
    ("newer run of this very time", [RUN, ONGOING], 901, TO_COME, Verdict.ABORT_IT, 12),
    ("newer run of the same millisecond", [RUN, ONGOING], 900, SAME_TIME, Verdict.IN_PROGRESS, 15),
    ("newer run by a clock that is ahead", [RUN, run_started(1, at=5), ONGOING, OF_RUN_1], 900, AHEAD, Verdict.IN_PROGRESS, 15),
    ("an event claims an older run's", [RUN, run_started(1, at=-5), ONGOING, PREPARED], 900, BEFORE, Verdict.IN_PROGRESS, 15),
    ("newer run voided its commit", [*COMMIT_OF_OLD_RUN, ONGOING], 3000, NEWER, Verdict.ABORT_IT, 12),
    ("an event claims that it stopped", [RUN, ONGOING, PREPARED], 1000, STOPPED, Verdict.IN_PROGRESS, 15),
    ("an event claims that it restarts", [RUN, ONGOING, PREPARED], 1000, RESTARTING, Verdict.IN_PROGRESS, 15),
    ("driver silent for more than 30 s", [RUN, ONGOING, PREPARED], 31_000, {}, Verdict.ABORT_IT, 13),
    ("driver silent for 30 s", [RUN, ONGOING, PREPARED], 30_900, {}, Verdict.IN_PROGRESS, 15),
    ("driver silent for 30.001 s", [RUN, ONGOING, PREPARED], 30_901, {}, Verdict.ABORT_IT, 13),
    ("its driver's clock is 10 min behind", [RUN, ONGOING, PREPARED], 31_000, HEARD, Verdict.IN_PROGRESS, 15),
    ("driver silent, its clock a day ahead", [RUN, ONGOING, PREPARED], 31_000, TOMORROW, Verdict.ABORT_IT, 13),
    ("nobody listens for its driver", [RUN, ONGOING, PREPARED], 31_000, UNHEARD, Verdict.IN_PROGRESS, 15),
    ("driver silent for less", [RUN, ONGOING, PREPARED], 30_800, {}, Verdict.IN_PROGRESS, 15),
    ("silent, but its interval is 20 s", [RUN, ONGOING, PREPARED], 26_000, SLOW, Verdict.IN_PROGRESS, 15),
    ("silent, but its batches take 20 s", [RUN, ONGOING, PREPARED], 22_000, SLOW_BATCH, Verdict.IN_PROGRESS, 15),
    ("less time left than recovery needs", [RUN, ONGOING, PREPARED], 45_000, ALIVE, Verdict.AT_RISK, 14),
    ("as much time left as recovery needs", [RUN, ONGOING, PREPARED], 44_000, ALIVE, Verdict.IN_PROGRESS, 15),
    ("1 ms less left than recovery needs", [RUN, ONGOING, PREPARED], 44_001, ALIVE, Verdict.AT_RISK, 14),
    ("in progress", [RUN, ONGOING, PREPARED], 700, {}, Verdict.IN_PROGRESS, 15),
    ("open, nothing told of it yet", [RUN, ONGOING], 100, {}, Verdict.IN_PROGRESS, 15),
]  # fmt: skip


@pytest.mark.parametrize(
    ("observed", "at", "more", "verdict", "rule"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_case(observed: list[Observation], at: int, more: dict[str, Any], verdict: Verdict, rule: int) -> None:
    judgement = judge(case(only_view(*observed), at, **more))
    assert (judgement.verdict, judgement.rule) == (verdict, rule)
    assert judgement.evidence, "a verdict shows what it rests on"


OFFERS: dict[tuple[Verdict, int], set[str]] = {
    (Verdict.FOREIGN, 7): {"abort", "loses data"},
    (Verdict.COMMIT_IT, 8): {"commit", "loses data"},
    (Verdict.IN_PROGRESS, 9): {"loses data"},
    (Verdict.UNKNOWN, 10): {"commit", "loses data"},
    (Verdict.ABORT_IT, 11): {"abort"},
    (Verdict.ABORT_IT, 12): {"abort"},
    (Verdict.ABORT_IT, 13): {"abort"},
}
"""What each rule offers, and whether an abort of it loses data; the others offer nothing."""


def offered(judgement: Judgement) -> set[str]:
    offers = {"commit": judgement.may_commit, "abort": judgement.may_abort, "loses data": judgement.loses_data}
    return {name for name, offer in offers.items() if offer}


@pytest.mark.parametrize(("observed", "at", "more"), [c[1:4] for c in CASES], ids=[c[0] for c in CASES])
def test_a_rule_offers_what_is_safe_and_nothing_else(
    observed: list[Observation], at: int, more: dict[str, Any]
) -> None:
    judgement = judge(case(only_view(*observed), at, **more))
    assert offered(judgement) == OFFERS.get((judgement.verdict, judgement.rule), set())


def test_every_rule_has_a_case() -> None:
    assert {rule for *_, rule in CASES} == set(range(1, 16))


@pytest.mark.parametrize(("observed", "at", "more"), [c[1:4] for c in CASES], ids=[c[0] for c in CASES])
def test_what_a_counting_decision_lists_is_committed_and_never_aborted(
    observed: list[Observation], at: int, more: dict[str, Any]
) -> None:
    view = only_view(*observed)
    judgement = judge(case(view, at, **more))
    assert not (judgement.may_commit and view.listing is None)
    assert not (judgement.may_abort and view.listing is not None)
    assert not (judgement.may_commit and judgement.may_abort)


@pytest.mark.parametrize(("observed", "at", "more"), [c[1:4] for c in CASES if c[3] == UNREADABLE and c[5] == 5])
def test_nothing_is_offered_while_the_decision_log_cannot_be_read(
    observed: list[Observation], at: int, more: dict[str, Any]
) -> None:
    judgement = judge(case(only_view(*observed), at, **more))
    assert not judgement.may_commit
    assert not judgement.may_abort


def test_a_foreign_abort_takes_a_typed_confirmation() -> None:
    judgement = judge(case(only_view(FOREIGN), 600))
    assert judgement.may_abort
    assert judgement.loses_data


def test_no_abort_is_offered_of_an_unknown_batch_without_a_newer_run() -> None:
    # Without the batch no abort decision can name it: the driver could still decide to commit it.
    judgement = judge(case(only_view(RUN, ONGOING), 31_000, rulable=None))
    assert (judgement.verdict, judgement.rule) == (Verdict.ABORT_IT, 13)
    assert not judgement.may_abort


def test_a_transaction_overtaken_by_a_later_one_of_its_id_is_settled() -> None:
    state = folded(RUN, ONGOING, OVERTAKING)
    first = next(v for v in views(state, settled=True) if v.opened_ms == T0)
    assert find(state, first.key) == first
    judgement = judge(case(first, 10_000))
    assert (judgement.verdict, judgement.rule, judgement.certainty) == (Verdict.SETTLED, 37, Certainty.LIKELY)


def test_one_that_was_decided_and_overtaken_is_never_called_open() -> None:
    # Its id went on to a later transaction: this one ended, and only its marker tells how.
    state = folded(RUN, ONGOING, COMMIT, OVERTAKING)
    first = next(v for v in views(state, settled=True) if v.opened_ms == T0)
    judgement = judge(case(first, 10_000))
    assert (judgement.verdict, judgement.rule) == (Verdict.UNKNOWN, 10)
    assert offered(judgement) == {"commit", "loses data"}


def test_no_abort_is_offered_of_a_foreign_one_that_was_overtaken_or_is_nowhere() -> None:
    state = folded(FOREIGN, replace(OVERTAKING, transaction=FOREIGN.transaction))
    first = next(v for v in views(state, settled=True) if v.opened_ms == T0)
    assert offered(judge(case(first, 10_000))) == set()
    still = replace(first, broker=None, superseded=False, state=TransactionState.OPEN)
    nowhere = replace(still, outcome=outcome(2, handle(), Settled.COMMITTED).record)
    assert nowhere.is_running
    judgement = judge(case(nowhere, 10_000))
    assert (judgement.verdict, offered(judgement)) == (Verdict.FOREIGN, {"loses data"})


def test_ours_of_an_odd_name_is_unknown_while_the_log_cannot_be_read() -> None:
    view = replace(only_view(RUN, ONGOING), transaction="odd")
    assert view.named_prefix is None
    judgement = judge(case(view, 600, **UNREADABLE))
    assert (judgement.verdict, judgement.rule) == (Verdict.UNKNOWN, 5)


def test_nothing_is_offered_of_one_whose_pipeline_is_not_known() -> None:
    judgement = judge(case(only_view(RUN, ONGOING), 45_000, **NO_PIPELINE))
    assert (judgement.verdict, judgement.rule, offered(judgement)) == (Verdict.IN_PROGRESS, 15, set())


LATER_BY_CLOCKS = pipeline(latest_run_offset=7, latest_run_ms=T0 - 120_000)


@pytest.mark.parametrize(
    ("log_end", "history", "rule", "certainty"),
    [
        (7, LATER_BY_CLOCKS, 12, Certainty.CERTAIN),
        (8, LATER_BY_CLOCKS, 15, Certainty.LIKELY),
        (None, LATER_BY_CLOCKS, 15, Certainty.LIKELY),
        (7, replace(LATER_BY_CLOCKS, latest_run_ms=T0 + 120_000), 12, Certainty.CERTAIN),
        (8, replace(LATER_BY_CLOCKS, latest_run_ms=T0 + 800), 12, Certainty.LIKELY),
        (None, replace(LATER_BY_CLOCKS, latest_run_ms=T0 + 800), 12, Certainty.LIKELY),
        (0, replace(LATER_BY_CLOCKS, latest_run_offset=0), 12, Certainty.CERTAIN),
        (0, replace(LATER_BY_CLOCKS, latest_run_offset=None), 15, Certainty.LIKELY),
    ],
)
def test_a_newer_run_is_certain_by_the_order_of_the_log_alone(
    log_end: int | None, history: PipelineHistory, rule: int, certainty: Certainty
) -> None:
    judgement = judge(case(replace(only_view(RUN, ONGOING), log_end=log_end), 1_000, pipeline=history))
    assert (judgement.rule, judgement.certainty) == (rule, certainty)
    if rule == 12:
        assert judgement.may_abort
        assert (Assumption.CLOCKS_AGREE in judgement.assumes) is (certainty is Certainty.LIKELY)


def test_the_order_of_the_log_outweighs_what_an_event_claims() -> None:
    claims = replace(only_view(RUN, ONGOING, OF_RUN_1), log_end=1, reported_batch_attempt=batch_attempt(attempt=1))
    assert judge(case(claims, 900, **NEWER)).rule == 12


def test_no_abort_is_offered_where_no_decision_can_name_the_batch() -> None:
    view = replace(only_view(RUN, ONGOING), log_end=1)
    judgement = judge(case(view, 900, **NEWER, rulable=None))
    assert (judgement.rule, offered(judgement)) == (12, set())


def test_no_time_at_all_is_no_silence_and_no_newer_run() -> None:
    timeless = replace(only_view(RUN, ONGOING), broker=None)
    nothing = case(timeless, 99_000, pipeline=pipeline(heard_ms=None))
    assert timeless.opened_ms is None
    assert rule_13_driver_silent(nothing) is None
    assert rule_12_newer_run(replace(nothing, **NEWER)) is None


BRANCH = database_handle()
BRANCH_PREPARED = transaction_event(EventType.TRANSACTION_PREPARED, 500, BRANCH, handle=BRANCH.to_json())
LISTED = branch_listed(BRANCH)
THEIR_BRANCH = replace(BRANCH, transaction="their-branch")
BRANCH_CASES = [
    ("an event claims it", [RUN, BRANCH_PREPARED], 900, ALIVE, Verdict.IN_PROGRESS, 4),
    ("an event claims it, a newer run", [RUN, BRANCH_PREPARED], 40_000, NEWER, Verdict.SETTLED, 4),
    ("prepared", [RUN, LISTED], 45_000, ALIVE, Verdict.IN_PROGRESS, 15),
    ("decided", [RUN, BRANCH_PREPARED, decided(1, BRANCH)], 9_000, {}, Verdict.UNKNOWN, 10),
    ("decided, a later batch too", [RUN, decided(1, BRANCH)], 9_000, LATER_DECIDED, Verdict.SETTLED, 10),
    ("abort decided", [RUN, BRANCH_PREPARED, decided(1, BRANCH, ruling=Ruling.ABORT)], 9_000, {}, Verdict.ABORT_IT, 11),
    ("newer run", [RUN, LISTED, branch_gone(BRANCH, None)], 5_000, NEWER, Verdict.ABORT_IT, 12),
    ("lost", [RUN, decided(1, BRANCH), outcome(2, BRANCH, Settled.LOST)], 9_000, {}, Verdict.LOST, 3),
]


@pytest.mark.parametrize(
    ("observed", "at", "more", "verdict", "rule"), [c[1:] for c in BRANCH_CASES], ids=[c[0] for c in BRANCH_CASES]
)
def test_a_branch_in_a_database_never_times_out_and_takes_no_order(
    observed: list[Observation], at: int, more: dict[str, Any], verdict: Verdict, rule: int
) -> None:
    judgement = judge(case(only_view(*observed), at, **more))
    assert (judgement.verdict, judgement.rule) == (verdict, rule)
    assert judgement.evidence
    assert not judgement.may_commit
    assert not judgement.may_abort
    assert judgement.loses_data == ((verdict, rule) == (Verdict.UNKNOWN, 10))


@pytest.mark.parametrize(
    ("observed", "more", "verdict", "offers"),
    [
        ([RUN, LISTED, decided(1, BRANCH)], {}, Verdict.COMMIT_IT, {"commit", "loses data"}),
        ([RUN, LISTED, decided(1, BRANCH, ruling=Ruling.ABORT)], {}, Verdict.ABORT_IT, {"abort"}),
        ([RUN, LISTED], NEWER, Verdict.ABORT_IT, {"abort"}),
        ([branch_listed(THEIR_BRANCH)], {}, Verdict.FOREIGN, {"abort", "loses data"}),
        ([branch_listed(THEIR_BRANCH), branch_gone(THEIR_BRANCH, None)], {}, Verdict.SETTLED, set()),
    ],
    ids=["decided", "abort decided", "newer run", "foreign", "foreign and gone"],
)
def test_an_order_about_a_branch_is_offered_while_its_database_lists_it(
    observed: list[Observation], more: dict[str, Any], verdict: Verdict, offers: set[str]
) -> None:
    judgement = judge(case(only_view(*observed), 9_000, **more))
    assert (judgement.verdict, offered(judgement)) == (verdict, offers)
    assert verdict is not Verdict.SETTLED or judgement.rule == 1


def test_of_a_decided_branch_its_database_is_asked_and_no_coordinator() -> None:
    judgement = judge(case(only_view(RUN, BRANCH_PREPARED, decided(1, BRANCH)), 9_000))
    assert "no mysql that is watched here lists it" in judgement.evidence[-1].fact
