"""Every rule of the verdicts: when it answers, what it offers, and what it must never offer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from indoubt.collector.facts.transaction_join import find, views
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.facts import PipelineFacts
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchProof, Observation
from indoubt.collector.verdicts.verdict_case import BROKER, DecisionLogStatus
from indoubt.collector.verdicts.verdict_rules import judge, rule_12_newer_run, rule_13_driver_silent
from indoubt.lifecycle.decisions import Ruling, Settled
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Assumption, Certainty, Evidence, Verdict
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
from tests.unit.collector.verdicts.case_tables import table, told

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
# A restart takes as long as the whole timeout; batches take 8 s, or more than half of the timeout.
LONG_RESTART = {"pipeline": pipeline(heard_ms=T0 + 39_000, interval_ms=7_000, restart_delay_ms=60_000)}
LONG_BATCHES = {"pipeline": pipeline(heard_ms=T0 + 39_000, interval_ms=40_000, restart_delay_ms=60_000)}
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

BRANCH = database_handle()
BRANCH_PREPARED = transaction_event(EventType.TRANSACTION_PREPARED, 500, BRANCH, handle=BRANCH.to_json())
LISTED, ABORT_OF_BRANCH = branch_listed(BRANCH), decided(1, BRANCH, ruling=Ruling.ABORT)
THEIR_BRANCH = replace(BRANCH, transaction="their-branch")


def first_of(*observed: Observation) -> TransactionView:
    """Return the view of the transaction that began at T0."""
    state = folded(*observed)
    first = next(view for view in views(state, settled=True) if view.opened_ms == T0)
    assert find(state, first.key) == first
    return first


def by_log(offset: int | None, at: int) -> dict[str, Any]:
    """Return that the newest run stands there in the log, and began then by its driver's clock."""
    return {"pipeline": pipeline(latest_run_offset=offset, latest_run_ms=T0 + at)}


OPEN = only_view(RUN, ONGOING)
CLAIMS = replace(only_view(RUN, ONGOING, OF_RUN_1), log_end=1, reported_batch_attempt=batch_attempt(attempt=1))
FIRST_FOREIGN = first_of(FOREIGN, replace(OVERTAKING, transaction=FOREIGN.transaction))
NOWHERE = replace(
    FIRST_FOREIGN, broker=None, superseded=False, state=TransactionState.OPEN,
    outcome=outcome(2, handle(), Settled.COMMITTED).record,
)  # fmt: skip
SETTLED, LIKELY_SETTLED = "settled, certain: no offer", "settled, likely: no offer"
GOES_ON, AT_RISK, FOREIGN_ABORT = (
    "in progress, likely: no offer",
    "at risk, likely: no offer",
    "foreign, guess: typed abort",
)
COMMIT_IT, LOST, UNKNOWN = "commit it, certain: commit", "lost, certain: no offer", "unknown, guess: no offer"
ABORT_IT, LIKELY_ABORT, UNKNOWN_COMMIT = "abort it, certain: abort", "abort it, likely: abort", "unknown, guess: commit"
ENDS, NO_ABORT, NO_LIKELY_ABORT = (
    "in progress, certain: no offer",
    "abort it, certain: no offer",
    "abort it, likely: no offer",
)
NOT_OFFERED = "foreign, guess: no offer"

CASES = [
    # name; what was observed; ms after opening; what else is known of its pipeline and of the log; the rule, and what it says
    ("committed", [RUN, ONGOING, PREPARED, COMMIT, COMMITTED], 2000, {}, 1, SETTLED),
    ("committed, decision log unreadable", [RUN, ONGOING, COMMITTED], 2000, UNREADABLE, 1, SETTLED),
    ("aborted and never decided", [RUN, ONGOING, PREPARED, ABORTED], 2000, {}, 1, SETTLED),
    ("aborted as decided", [RUN, ONGOING, PREPARED, ABORT, ABORTED], 2000, {}, 1, SETTLED),
    ("aborted, its commit decision void", [*COMMIT_OF_OLD_RUN, ONGOING, ABORTED], 2000, {}, 1, SETTLED),
    ("foreign and committed", [FOREIGN, FOREIGN_COMMITTED], 10, {}, 1, SETTLED),
    ("only an outcome is known", [RUN, COMMIT, outcome(2, handle(), Settled.COMMITTED)], 9000, {}, 1, SETTLED),
    ("lost and replayed since", [RUN, ONGOING, COMMIT, ABORTED], 9000, {"replayed_ms": T0 + 8000}, 2, SETTLED),
    ("its batch was replayed, and it is open", [RUN, ONGOING], 9000, REPLAYED, 15, GOES_ON),
    ("lost", [RUN, ONGOING, COMMIT, ABORTED], 2000, {}, 3, LOST),
    ("lost, the abort still being written", [RUN, ONGOING, COMMIT, PREPARING_ABORT], 2000, {}, 3, LOST),
    ("lost as recovery found", [RUN, COMMIT, outcome(2, handle(), Settled.LOST)], 9000, {}, 3, LOST),
    ("an event claims it, a moment ago", [RUN, PREPARED], 900, {}, 4, GOES_ON),
    ("an event claims it", [RUN, PREPARED], 40_000, {}, 4, LIKELY_SETTLED),
    ("an event claimed it 30 s ago", [RUN, PREPARED], 30_500, {}, 4, GOES_ON),
    ("an event claimed it more than 30 s ago", [RUN, PREPARED], 30_501, {}, 4, LIKELY_SETTLED),
    ("an event claims that it was lost", [RUN, PREPARED, TOLD_LOST], 99_000, {}, 4, LIKELY_SETTLED),
    ("an event claims it, decision log unreadable", [RUN, PREPARED], 40_000, UNREADABLE, 4, LIKELY_SETTLED),
    ("ours, decision log unreadable", [RUN, ONGOING, PREPARED], 600, UNREADABLE, 5, UNKNOWN),
    ("decided, decision log unreadable since", [RUN, ONGOING, COMMIT], 9000, UNREADABLE, 5, UNKNOWN),
    ("may be ours, decision log unreadable", [LOOKS_LIKE_OURS], 600, UNREADABLE, 5, UNKNOWN),
    ("never ours, decision log unreadable", [FOREIGN], 600, UNREADABLE, 7, FOREIGN_ABORT),
    ("being committed", [RUN, ONGOING, COMMIT, PREPARING_COMMIT], 9000, {}, 6, ENDS),
    ("being aborted", [RUN, ONGOING, PREPARING_ABORT], 2000, {}, 6, ENDS),
    ("foreign", [FOREIGN], 600, {}, 7, FOREIGN_ABORT),
    ("shape of our ids, but no run of the prefix", [RUN, LOOKS_LIKE_OURS], 600, {}, 7, FOREIGN_ABORT),
    ("no decision log at all", [LOOKS_LIKE_OURS], 600, {"log_status": DecisionLogStatus.ABSENT}, 7, FOREIGN_ABORT),
    ("decided 2 s ago and open", [RUN, ONGOING, PREPARED, COMMIT], 3000, {}, 8, COMMIT_IT),
    ("decided, its prepared event lost", [RUN, ONGOING, COMMIT], 3000, {}, 8, COMMIT_IT),
    ("decided, its driver gone", [RUN, ONGOING, COMMIT], 40_000, STOPPED, 8, COMMIT_IT),
    ("decided, a newer run started since", [RUN, ONGOING, COMMIT, NEXT_RUN], 4000, NEWER, 8, COMMIT_IT),
    ("decided, nothing known of its pipeline", [RUN, ONGOING, COMMIT], 3000, NO_PIPELINE, 8, COMMIT_IT),
    ("decided just now", [RUN, ONGOING, PREPARED, COMMIT], 2999, {}, 9, GOES_ON),
    ("decided just now, never seen at the broker", [RUN, COMMIT], 2999, {}, 9, GOES_ON),
    ("decided, never seen at the broker, later batch decided", [RUN, COMMIT], 9000, LATER_DECIDED, 10, SETTLED),
    ("decided, never seen at the broker", [RUN, COMMIT], 9000, {}, 10, UNKNOWN_COMMIT),
    ("decided 2 s ago, never seen at the broker", [RUN, COMMIT], 3000, {}, 10, UNKNOWN_COMMIT),
    ("abort decided, still open", [RUN, ONGOING, PREPARED, ABORT], 3000, {}, 11, ABORT_IT),
    ("abort decided just now", [RUN, ONGOING, PREPARED, ABORT], 2999, {}, 15, GOES_ON),
    ("abort decided, no run known", [RUN, ONGOING, PREPARED, ABORT], 2999, NO_RUN, 15, GOES_ON),
    ("newer run, its attempt claimed", [RUN, ONGOING, PREPARED], 900, NEWER, 12, LIKELY_ABORT),
    ("newer run, attempt not known", [RUN, ONGOING], 900, NEWER, 12, LIKELY_ABORT),
    ("newer run, when is not known", [RUN, ONGOING], 900, NO_TIME, 15, GOES_ON),
    ("newer run of a time to come", [RUN, ONGOING], 900, TO_COME, 15, GOES_ON),
    ("newer run of this very time", [RUN, ONGOING], 901, TO_COME, 12, LIKELY_ABORT),
    ("newer run of the same millisecond", [RUN, ONGOING], 900, SAME_TIME, 15, GOES_ON),
    ("newer run by a clock that is ahead", [RUN, run_started(1, at=5), ONGOING, OF_RUN_1], 900, AHEAD, 15, GOES_ON),
    ("an event claims an older run's", [RUN, run_started(1, at=-5), ONGOING, PREPARED], 900, BEFORE, 15, GOES_ON),
    ("newer run voided its commit", [*COMMIT_OF_OLD_RUN, ONGOING], 3000, NEWER, 12, ABORT_IT),
    ("an event claims that it stopped", [RUN, ONGOING, PREPARED], 1000, STOPPED, 15, GOES_ON),
    ("an event claims that it restarts", [RUN, ONGOING, PREPARED], 1000, RESTARTING, 15, GOES_ON),
    ("driver silent for more than 30 s", [RUN, ONGOING, PREPARED], 31_000, {}, 13, LIKELY_ABORT),
    ("driver silent for 30 s", [RUN, ONGOING, PREPARED], 30_900, {}, 15, GOES_ON),
    ("driver silent for 30.001 s", [RUN, ONGOING, PREPARED], 30_901, {}, 13, LIKELY_ABORT),
    ("its driver's clock is 10 min behind", [RUN, ONGOING, PREPARED], 31_000, HEARD, 15, GOES_ON),
    ("driver silent, its clock a day ahead", [RUN, ONGOING, PREPARED], 31_000, TOMORROW, 13, LIKELY_ABORT),
    ("nobody listens for its driver", [RUN, ONGOING, PREPARED], 31_000, UNHEARD, 15, GOES_ON),
    ("driver silent for less", [RUN, ONGOING, PREPARED], 30_800, {}, 15, GOES_ON),
    ("silent, but its interval is 20 s", [RUN, ONGOING, PREPARED], 26_000, SLOW, 15, GOES_ON),
    ("silent, but its batches take 20 s", [RUN, ONGOING, PREPARED], 22_000, SLOW_BATCH, 15, GOES_ON),
    ("less time left than recovery needs", [RUN, ONGOING, PREPARED], 45_000, ALIVE, 14, AT_RISK),
    ("as much time left as recovery needs", [RUN, ONGOING, PREPARED], 44_000, ALIVE, 15, GOES_ON),
    ("1 ms less left than recovery needs", [RUN, ONGOING, PREPARED], 44_001, ALIVE, 14, AT_RISK),
    ("as young as its pipeline's usually get", [RUN, ONGOING, PREPARED], 7_999, LONG_RESTART, 15, GOES_ON),
    ("older than its pipeline's usually get", [RUN, ONGOING, PREPARED], 8_000, LONG_RESTART, 14, AT_RISK),
    ("younger than half of its timeout", [RUN, ONGOING, PREPARED], 29_999, LONG_BATCHES, 15, GOES_ON),
    ("older than half of its timeout", [RUN, ONGOING, PREPARED], 30_000, LONG_BATCHES, 14, AT_RISK),
    ("in progress", [RUN, ONGOING, PREPARED], 700, {}, 15, GOES_ON),
    ("open, nothing told of it yet", [RUN, ONGOING], 100, {}, 15, GOES_ON),
    # What no record shows by itself.
    ("its batch is not known, its driver is silent", [RUN, ONGOING], 31_000, {"rulable": None}, 13, NO_LIKELY_ABORT),
    ("its batch is not known, a newer run", replace(OPEN, log_end=1), 900, {**NEWER, "rulable": None}, 12, NO_ABORT),
    ("the log's order outweighs what an event claims", CLAIMS, 900, NEWER, 12, ABORT_IT),
    ("overtaken by a later one of its id", first_of(RUN, ONGOING, OVERTAKING), 10_000, {}, 37, LIKELY_SETTLED),
    ("decided and overtaken", first_of(RUN, ONGOING, COMMIT, OVERTAKING), 10_000, {}, 10, UNKNOWN_COMMIT),
    ("foreign and overtaken", FIRST_FOREIGN, 10_000, {}, 37, LIKELY_SETTLED),
    ("foreign and nowhere", NOWHERE, 10_000, {}, 7, NOT_OFFERED),
    ("ours of an odd name, decision log unreadable", replace(OPEN, transaction="odd"), 600, UNREADABLE, 5, UNKNOWN),
    ("its rows were written again, and it is open", replace(OPEN, written_again_ms=T0 + 500), 700, {}, 15, GOES_ON),
    ("its pipeline is not known", [RUN, ONGOING], 45_000, NO_PIPELINE, 15, GOES_ON),
    # A newer run is certain by the order of the log alone: it is the record 7, at 2 min before by its driver's clock.
    ("a newer run behind all that it wrote", replace(OPEN, log_end=7), 1_000, by_log(7, -120_000), 12, ABORT_IT),
    ("so it is, by a clock that is ahead", replace(OPEN, log_end=7), 1_000, by_log(7, 120_000), 12, ABORT_IT),
    ("the run that it wrote behind", replace(OPEN, log_end=8), 1_000, by_log(7, -120_000), 15, GOES_ON),
    ("a newer run by its clock", replace(OPEN, log_end=8), 1_000, by_log(7, 800), 12, LIKELY_ABORT),
    ("where it stands in the log is not known", OPEN, 1_000, by_log(7, -120_000), 15, GOES_ON),
    ("so it is, a newer run by its clock", OPEN, 1_000, by_log(7, 800), 12, LIKELY_ABORT),
    ("a newer run at the log's begin", replace(OPEN, log_end=0), 1_000, by_log(0, -120_000), 12, ABORT_IT),
    ("no run in the log", replace(OPEN, log_end=0), 1_000, by_log(None, -120_000), 15, GOES_ON),
    # A branch in a database never times out, and takes an order only while its database lists it.
    ("a branch: an event claims it", [RUN, BRANCH_PREPARED], 900, ALIVE, 4, GOES_ON),
    ("a branch: an event claims it, a newer run", [RUN, BRANCH_PREPARED], 40_000, NEWER, 4, LIKELY_SETTLED),
    ("a branch: prepared", [RUN, LISTED], 45_000, ALIVE, 15, GOES_ON),
    ("a branch: decided", [RUN, BRANCH_PREPARED, decided(1, BRANCH)], 9_000, {}, 10, UNKNOWN),
    ("a branch: decided, a later batch too", [RUN, decided(1, BRANCH)], 9_000, LATER_DECIDED, 10, SETTLED),
    ("a branch: abort decided", [RUN, BRANCH_PREPARED, ABORT_OF_BRANCH], 9_000, {}, 11, NO_ABORT),
    ("a branch: newer run, and it is gone", [RUN, LISTED, branch_gone(BRANCH, None)], 5_000, NEWER, 12, NO_ABORT),
    ("a branch: lost", [RUN, decided(1, BRANCH), outcome(2, BRANCH, Settled.LOST)], 9_000, {}, 3, LOST),
    ("a branch: decided and listed", [RUN, LISTED, decided(1, BRANCH)], 9_000, {}, 8, COMMIT_IT),
    ("a branch: abort decided and listed", [RUN, LISTED, ABORT_OF_BRANCH], 9_000, {}, 11, ABORT_IT),
    ("a branch: newer run, and listed", [RUN, LISTED], 9_000, NEWER, 12, ABORT_IT),
    ("a branch: foreign", [branch_listed(THEIR_BRANCH)], 9_000, {}, 7, FOREIGN_ABORT),
    ("a branch: foreign and gone", [branch_listed(THEIR_BRANCH), branch_gone(THEIR_BRANCH, None)], 9_000, {}, 1, LIKELY_SETTLED),
]  # fmt: skip


ASSUMED = {
    1: Assumption.SAME_DATABASE,
    4: Assumption.EVENTS_ARE_TRUE,
    9: Assumption.OWNER_ENDS_IT,
    12: Assumption.CLOCKS_AGREE,
    13: Assumption.SILENT_IS_GONE,
    14: Assumption.RECOVERY_AS_BEFORE,
    15: Assumption.OWNER_ENDS_IT,
    37: Assumption.OWNER_KNOWS_ITS_END,
}
"""What each rule assumes where it is not certain."""


@table("observed, at, more, rule, then", CASES)
def test_case(
    observed: list[Observation] | TransactionView, at: int, more: dict[str, Any], rule: int, then: str
) -> None:
    view = only_view(*observed) if isinstance(observed, list) else observed
    judgement = judge(case(view, at, **more))
    assert told(judgement) == (rule, then)
    assert judgement.evidence, "a verdict shows what it rests on"
    assert judgement.loses_data is (rule in (7, 8, 9) or (rule == 10 and judgement.verdict is Verdict.UNKNOWN))
    # What a counting decision lists is committed and never aborted.
    assert not (judgement.may_commit and view.listing is None)
    assert not (judgement.may_abort and view.listing is not None)
    assert judgement.assumes == ((ASSUMED[rule],) if judgement.certainty is Certainty.LIKELY else ())


def test_nothing_is_offered_while_the_decision_log_cannot_be_read() -> None:
    unread = [(then, more) for _, _, _, more, rule, then in CASES if rule == 5]
    assert unread == [(UNKNOWN, UNREADABLE)] * 4


def test_every_rule_has_a_case() -> None:
    assert {rule for *_, rule, _ in CASES} == {*range(1, 16), 37}


def test_the_views_are_what_they_are_called() -> None:
    assert NOWHERE.is_running
    assert replace(OPEN, transaction="odd").named_prefix is None


def test_no_time_at_all_is_no_silence_and_no_newer_run() -> None:
    timeless = replace(OPEN, broker=None)
    nothing = case(timeless, 99_000, pipeline=pipeline(heard_ms=None))
    assert timeless.opened_ms is None
    assert rule_13_driver_silent(nothing) is None
    assert rule_12_newer_run(replace(nothing, **NEWER)) is None


def test_of_a_decided_branch_its_database_is_asked_and_no_coordinator() -> None:
    judgement = judge(case(only_view(RUN, BRANCH_PREPARED, decided(1, BRANCH)), 9_000))
    assert "no mysql that is watched here lists it" in judgement.evidence[-1].fact


def test_a_branch_that_its_database_was_not_asked_about_may_be_listed_no_more() -> None:
    view = replace(only_view(RUN, LISTED, decided(1, BRANCH)), not_asked="it does not answer")
    assert told(judge(case(view, 9_000))) == (8, "commit it, likely: commit")
    assert judge(case(view, 9_000)).assumes == (Assumption.STILL_LISTED,)
    assert judge(case(replace(view, not_asked=""), 9_000)).assumes == ()
    settled = replace(view, state=TransactionState.COMMITTED)
    assert (judge(case(settled, 9_000)).verdict, judge(case(settled, 9_000)).assumes) == (Verdict.SETTLED, ())


def test_a_branch_of_no_marker_may_have_been_taken_away() -> None:
    listed, gone = branch_listed(THEIR_BRANCH), branch_gone(THEIR_BRANCH, BranchProof.MISSING)
    view = only_view(listed, gone)
    assert judge(case(view, 9_000)).assumes == (Assumption.NOT_TAKEN_AWAY,)
    told_its_end = replace(view, outcome=outcome(2, THEIR_BRANCH, Settled.COMMITTED).record)
    assert judge(case(told_its_end, 9_000)).assumes == ()


def test_a_branch_that_left_its_list_after_an_order_may_have_been_listed_by_another_server() -> None:
    gone = only_view(branch_listed(THEIR_BRANCH), branch_gone(THEIR_BRANCH, None))
    judgement = judge(case(replace(gone, state=TransactionState.COMMITTED), 9_000))
    assert (told(judgement), judgement.assumes) == ((1, LIKELY_SETTLED), (Assumption.SAME_DATABASE,))


def test_it_is_said_by_what_an_id_was_seen_to_go_on() -> None:
    overtaken = first_of(RUN, ONGOING, OVERTAKING)
    assert overtaken.broker is not None
    gone = replace(overtaken, broker=replace(overtaken.broker, gone_ms=T0 + 5_000))
    for view, said in (
        (overtaken, "a later transaction of the same id"),
        (gone, "its coordinator shows its id as empty"),
    ):
        assert judge(case(view, 9_000)).evidence[0].fact.startswith(said)


def test_a_young_one_is_ended_by_its_owner() -> None:
    young = case(only_view(FOREIGN), 600, young=Evidence("its application commits others", BROKER))
    assert told(judge(young)) == (35, GOES_ON)
    assert judge(young).assumes == (Assumption.OWNER_ENDS_IT,)
