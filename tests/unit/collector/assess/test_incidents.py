"""Incidents: one for each application from its first sign to its end, its steps, and whether it needs a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.assess.attention.listing import parts
from indoubt.collector.assess.findings import application_group, application_of, topic_group
from indoubt.collector.assess.incident_steps import OWNER_KNOWS, Ending
from indoubt.collector.assess.incidents import NOTHING_LOST, OVER_SHOWN_MS, RESUMES_MS, incidents
from indoubt.collector.assess.rules import RULES
from indoubt.collector.assess.situation import RunUnderWay
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.verdicts.driver_state import DriverCondition, DriverState
from indoubt.lifecycle.rows.attention import Remedy
from indoubt.lifecycle.rows.incidents import Incident, IncidentState, Step, StepState
from indoubt.lifecycle.rows.pipelines import RestartUnderWay
from indoubt.lifecycle.rows.row_json import read_row, row_to_json
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Verdict
from tests.unit.collector.assess.situations import (
    alert,
    decided_and_open,
    driver,
    foreign,
    lost,
    observer,
    one,
    situation,
)
from tests.unit.collector.observations import PREFIX, T0, TIMEOUT_MS, broker_record, run_started

ALIVE, FROZEN = driver(DriverCondition.ALIVE), driver(DriverCondition.FROZEN)
COMMITS = driver(DriverCondition.ALIVE, since=9_000)
LATE = replace(ALIVE, is_late=True, allowed_ms=30_000)
ACT, WAIT, OVER = IncidentState.ACT, IncidentState.WAIT, IncidentState.OVER
TO_DO, UNDER_WAY, DONE = StepState.TO_DO, StepState.UNDER_WAY, StepState.DONE
COMMIT_IT = one(5_000, decided_and_open())
LOST = one(61_000, lost())
FOREIGN = one(40_000, foreign())
APPLICATION = f"application {PREFIX}"


def restarting(since: int, *, run: int | None = 7, usually_ms: int | None = 10_000, who: str = "") -> DriverState:
    return replace(ALIVE, restart=RestartUnderWay(since_ms=T0 + since, run=run, usually_ms=usually_ms, who=who))


def at(
    now: int, *transactions: Any, before: Sequence[Incident] = (), ended: Ending | None = None, **changes: Any
) -> tuple[Incident, ...]:
    """Return the incidents of a situation; ``ended``: how whatever stands no more has ended."""
    fields = {"endings": lambda key: ended, **changes} if ended is not None else changes
    seen = situation(now, *transactions, **fields)
    return incidents(seen, parts(seen), before)


def only(found: Sequence[Incident]) -> Incident:
    (incident,) = found
    return incident


def steps(incident: Incident) -> list[tuple[str, StepState]]:
    return [(step.what, step.state) for step in incident.steps]


def step(incident: Incident, number: int) -> Step:
    return incident.steps[number]


COMMITTED_BY_ANNA = Ending(state=TransactionState.COMMITTED, who="anna")


def test_a_frozen_driver_with_a_decided_batch_is_one_incident_with_its_steps_in_order() -> None:
    incident = only(at(40_000, COMMIT_IT, drivers=[FROZEN]))
    assert (incident.key, incident.application, incident.state) == (APPLICATION, PREFIX, ACT)
    assert steps(incident) == [("Commit batch 41", TO_DO), ("Restart the driver", TO_DO)]
    assert [(one.remedy, one.target) for one in incident.steps] == [
        (Remedy.COMMIT, COMMIT_IT.view.key),
        (Remedy.RESTART, f"pipeline:{PREFIX}"),
    ]
    assert incident.deadline_ms == T0 + TIMEOUT_MS
    assert "decided to commit batch 41" in incident.headline
    assert "has given no sign" in incident.headline
    assert incident.severity == "critical"


def test_after_the_commit_it_lasts_while_the_driver_is_silent() -> None:
    before = at(8_000, COMMIT_IT, drivers=[LATE])
    assert steps(only(before)) == [("Commit batch 41", TO_DO), ("Restart the driver", TO_DO)]
    incident = only(at(13_000, before=before, drivers=[LATE], ended=COMMITTED_BY_ANNA))
    assert (incident.state, incident.parts, incident.deadline_ms) == (WAIT, (), None)
    assert steps(incident) == [("Committed batch 41", DONE), ("Restart the driver", TO_DO)]
    assert (step(incident, 0).note, step(incident, 0).since_ms) == ("by anna", T0 + 13_000)
    assert step(incident, 1).note == "silent for 10 s; after 30 s it counts as frozen"
    assert incident.headline == f"Nothing is in doubt any more, but {PREFIX} has given no sign for 10 s."


def test_who_ordered_a_commit_is_said_also_where_that_is_known_a_moment_later() -> None:
    unknown = Ending(state=TransactionState.COMMITTED, who="")
    before = at(8_000, COMMIT_IT, drivers=[LATE])
    seen = at(9_000, before=before, drivers=[LATE], ended=unknown)
    assert (step(only(seen), 0).note, step(only(seen), 0).who) == ("", "")
    known = at(18_999, before=seen, drivers=[LATE], ended=COMMITTED_BY_ANNA)
    assert (step(only(known), 0).note, step(only(known), 0).since_ms) == ("by anna", T0 + 9_000)
    too_late = at(19_000, before=seen, drivers=[LATE], ended=COMMITTED_BY_ANNA)
    assert step(only(too_late), 0).note == ""


def test_who_ended_the_last_of_it_is_said_also_after_its_end() -> None:
    before = at(40_000, FOREIGN)
    over = at(50_000, before=before, ended=Ending(state=TransactionState.ABORTED, who=""))
    assert (only(over).state, step(only(over), 0).who) == (OVER, "")
    by_anna = Ending(state=TransactionState.ABORTED, who="anna")
    told = only(at(51_000, before=over, ended=by_anna))
    assert (told.state, told.over_at_ms, step(told, 0).note) == (OVER, T0 + 50_000, "by anna")
    assert step(only(at(60_000, before=over, ended=by_anna)), 0).who == "", "it is asked for a moment only"


def test_it_is_over_once_the_driver_commits_again_and_says_who_did_what() -> None:
    before = at(8_000, COMMIT_IT, drivers=[LATE])
    before = at(13_000, before=before, drivers=[LATE], ended=COMMITTED_BY_ANNA)
    before = at(20_000, before=before, drivers=[restarting(15_000, who="bob")], ended=COMMITTED_BY_ANNA)
    running = step(only(before), 1)
    assert (running.state, running.note, running.who) == (UNDER_WAY, "run 7 is starting", "bob")
    assert (running.since_ms, running.usually_ms) == (T0 + 15_000, 10_000)
    incident = only(at(27_000, before=before, drivers=[driver(DriverCondition.ALIVE, since=27_000)]))
    assert (incident.state, incident.over_at_ms, incident.outcome) == (OVER, T0 + 27_000, NOTHING_LOST)
    assert [(one.what, one.note, one.since_ms) for one in incident.steps] == [
        ("Committed batch 41", "by anna", T0 + 13_000),
        ("Restarted the driver", "by bob", T0 + 27_000),
    ]
    assert read_row(Incident, row_to_json(incident)) == incident


@pytest.mark.parametrize(("sign_ms", "state"), [(11_499, WAIT), (11_500, OVER)])
def test_after_an_order_only_a_later_sign_of_the_driver_tells_that_it_goes_on(
    sign_ms: int, state: IncidentState
) -> None:
    """A driver that has just stopped is not late yet: its silence is no sign of life."""
    before = at(8_000, COMMIT_IT, drivers=[driver(DriverCondition.ALIVE, since=1_000)])
    heard = driver(DriverCondition.ALIVE, since=sign_ms)
    incident = only(at(13_000, before=before, drivers=[heard], ended=COMMITTED_BY_ANNA))
    assert incident.state is state
    if state is WAIT:
        assert steps(incident) == [("Committed batch 41", DONE), ("Restart the driver", TO_DO)]
        assert step(incident, 1).note == "silent for 1 s"


def test_what_is_over_is_shown_for_a_while_and_then_no_more() -> None:
    before = at(8_000, COMMIT_IT, drivers=[ALIVE])
    over = at(9_000, before=before, drivers=[COMMITS], ended=COMMITTED_BY_ANNA)
    assert only(over).state is OVER
    assert at(9_000 + OVER_SHOWN_MS - 1, before=over, drivers=[COMMITS]) == over
    assert at(9_000 + OVER_SHOWN_MS, before=over, drivers=[COMMITS]) == ()


@pytest.mark.parametrize(("after_ms", "resumes"), [(RESUMES_MS - 1, True), (RESUMES_MS, False)])
def test_what_comes_back_at_once_is_the_same_incident(after_ms: int, *, resumes: bool) -> None:
    before = at(8_000, COMMIT_IT, drivers=[ALIVE])
    over = at(9_000, before=before, drivers=[COMMITS], ended=COMMITTED_BY_ANNA)
    again = only(at(9_000 + after_ms, drivers=[FROZEN], before=over))
    assert (DONE in [one.state for one in again.steps]) is resumes


def test_a_new_run_that_has_no_batch_yet_is_no_end_that_flaps() -> None:
    before = at(20_000, COMMIT_IT, drivers=[restarting(15_000)])
    idle = at(21_000, before=before, drivers=[driver(DriverCondition.ALIVE, since=21_000)], ended=COMMITTED_BY_ANNA)
    assert only(idle).state is OVER
    again = only(at(23_000, before=idle, drivers=[restarting(15_000)]))
    assert (again.state, again.over_at_ms) == (WAIT, None)
    assert steps(again) == [("Committed batch 41", DONE), ("Restart the driver", UNDER_WAY)]


def test_a_restart_that_ends_before_the_deadline_needs_nobody() -> None:
    quick = only(at(10_000, COMMIT_IT, drivers=[restarting(9_000)]))
    assert (quick.state, steps(quick)) == (WAIT, [("Commit batch 41", TO_DO), ("Restart the driver", UNDER_WAY)])
    assert "there is nothing to do" in quick.consequence
    for slow in (restarting(9_000, usually_ms=26_000), restarting(9_000, usually_ms=None)):
        assert only(at(10_000, COMMIT_IT, drivers=[slow])).state is ACT


def test_a_lost_batch_is_written_again_by_the_restart_that_one_press_orders() -> None:
    before = at(61_000, LOST, drivers=[FROZEN])
    assert steps(only(before)) == [("Restart the driver", TO_DO), ("Batch 41 is written again", TO_DO)]
    assert only(before).verdict is Verdict.LOST, (
        "what became of the rows is said first, although the driver stopped before"
    )
    going = at(64_000, LOST, before=before, drivers=[restarting(62_000, who="anna")])
    assert [one.state for one in only(going).steps] == [UNDER_WAY, UNDER_WAY]
    assert only(going).state is WAIT
    over = only(at(80_000, before=going, drivers=[ALIVE], ended=Ending(state=TransactionState.LOST, who="")))
    assert (over.outcome, [one.what for one in over.steps]) == (
        NOTHING_LOST,
        ["Batch 41 was lost, then written again", "Restarted the driver"],
    )


def test_a_commit_that_came_too_late_is_no_step_that_was_done() -> None:
    before = at(40_000, COMMIT_IT, drivers=[FROZEN])
    incident = only(at(61_000, LOST, before=before, drivers=[FROZEN]))
    assert steps(incident) == [("Restart the driver", TO_DO), ("Batch 41 is written again", TO_DO)]


def test_an_order_that_is_carried_out_says_how_far_it_is() -> None:
    run = RunUnderWay(keys=frozenset([COMMIT_IT.view.key]), who="anna", done=1, transactions=2, begun_ms=T0 + 5_500)
    first = step(only(at(6_000, COMMIT_IT, drivers=[ALIVE], runs=[run])), 0)
    assert (first.state, first.note, first.who, first.since_ms) == (
        UNDER_WAY,
        "1 of 2 done",
        "anna",
        T0 + 5_500,
    )
    done = replace(run, done=2)
    assert step(only(at(6_000, COMMIT_IT, drivers=[ALIVE], runs=[done])), 0).state is TO_DO


@pytest.mark.parametrize(
    ("ended", "what", "outcome"),
    [
        (Ending(state=TransactionState.COMMITTED, who=""), "Committed 1 transaction", NOTHING_LOST),
        (Ending(state=TransactionState.ABORTED, who="anna"), "Aborted 1 transaction", OWNER_KNOWS),
        (Ending(state=None, who=""), "1 transaction ended", "How it ended was not seen."),
    ],
)
def test_what_the_end_of_a_foreign_transaction_lost_only_its_owner_knows(
    ended: Ending, what: str, outcome: str
) -> None:
    before = at(40_000, FOREIGN)
    assert (only(before).state, only(before).verdict, only(before).steps) == (ACT, Verdict.FOREIGN, ())
    over = only(at(50_000, before=before, ended=ended))
    assert ([one.what for one in over.steps], over.outcome) == ([what], outcome)
    assert step(over, 0).note == ("by anna" if ended.who else "")


def test_an_alert_without_a_part_is_an_incident_with_what_follows_and_its_deadline() -> None:
    young = one(5_000, foreign())
    firing = [alert("A1", young.view.key, "warning", pipeline="billing"), alert("A8", "billing", pipeline="billing")]
    incident = only(at(5_000, young, alerts=firing))
    assert (incident.state, incident.severity, incident.application) == (ACT, "critical", "billing")
    assert incident.headline == f"A1 of {young.view.key} (and 1 more)."
    assert incident.alerts == tuple(one.key for one in firing)
    assert incident.deadline_ms == T0 + TIMEOUT_MS
    assert at(6_000, young, before=[incident]) == (), "nothing was done that could be said of it"


def test_the_alerts_of_an_application_stand_in_its_incident_and_make_it_critical() -> None:
    near = alert("A1", FOREIGN.view.key, "critical", pipeline=FOREIGN.view.pipeline)
    incident = only(at(40_000, FOREIGN, alerts=[near]))
    assert (incident.severity, incident.alerts) == ("critical", (near.key,))
    assert only(at(40_000, FOREIGN)).severity == "warning"


def test_an_alert_that_a_restart_ends_offers_it() -> None:
    stuck = replace(alert("A6", PREFIX, pipeline=PREFIX), remedy="restart")
    assert steps(only(at(40_000, drivers=[ALIVE], alerts=[stuck]))) == [("Restart the driver", TO_DO)]
    going = only(at(40_000, drivers=[restarting(39_000)], alerts=[stuck]))
    assert (going.state, steps(going)) == (WAIT, [("Restart the driver", UNDER_WAY)])


def test_several_applications_are_several_incidents_those_that_need_a_person_first() -> None:
    found = at(40_000, FOREIGN, drivers=[restarting(39_000), ALIVE], observers=[observer("decision log", "down")])
    assert [(one.key, one.state) for one in found] == [
        ("application billing", ACT),
        ("what the collector reads", ACT),
    ], "a restart alone is no incident"
    both = at(10_000, COMMIT_IT, drivers=[restarting(9_000)], observers=[observer("decision log", "down")])
    assert [one.state for one in both] == [ACT, WAIT], "although the second one has a deadline"


def test_a_pipeline_that_was_stopped_on_request_is_not_waited_for() -> None:
    before = at(8_000, COMMIT_IT, drivers=[LATE])
    stopped = driver(DriverCondition.STOPPED)
    over = only(at(20_000, before=before, drivers=[stopped], ended=COMMITTED_BY_ANNA))
    assert (over.state, [one.what for one in over.steps]) == (OVER, ["Committed batch 41"])


def test_an_incident_lasts_as_long_as_its_oldest_part_and_is_due_by_its_first_deadline() -> None:
    young = one(40_000, foreign())
    first, second = alert("A1", young.view.key, pipeline="billing", since=7_000), alert("A2", "k", pipeline="billing")
    later = replace(second, since_ms=T0 + 9_000)
    found = only(at(40_000, young, alerts=[first, later]))
    assert found.since_ms == T0, "the transaction was opened before its alerts fired"
    alone = only(at(10_000, one(10_000, foreign()), alerts=[first, later]))
    assert (alone.since_ms, alone.deadline_ms) == (T0 + 7_000, T0 + TIMEOUT_MS), "the other one has no deadline"
    before = at(10_000, one(10_000, foreign()), alerts=[first, later])
    again = only(at(12_000, one(12_000, foreign()), before=before, alerts=[later]))
    assert again.since_ms == T0 + 7_000, "what is over was its beginning"


def test_the_first_of_several_deadlines_counts_and_the_others_are_said() -> None:
    early = COMMIT_IT
    later = broker_record(BrokerStatus.ONGOING, 3_000, transaction=f"{PREFIX}-1-1", producer_id=9, start=3_000)
    open_ = one(5_000, [run_started(0), later])
    undecided = replace(open_, judgement=replace(open_.judgement, verdict=Verdict.UNKNOWN))
    assert undecided.view.deadline_ms == T0 + 3_000 + TIMEOUT_MS
    found = only(at(5_000, early, undecided, drivers=[FROZEN]))
    assert found.deadline_ms == T0 + TIMEOUT_MS
    assert [part.verdict for part in found.parts] == [Verdict.COMMIT_IT, Verdict.UNKNOWN, None]
    assert found.headline.endswith(" And 1 more thing of it.")
    assert "has given no sign" in found.headline
    alone = only(at(5_000, early, drivers=[FROZEN]))
    assert "more thing" not in alone.headline
    two = only(at(5_000, early, undecided, drivers=[ALIVE]))
    assert two.headline.endswith(" And 1 more thing of it."), "without a driver's part it is no other"


@pytest.mark.parametrize(("usually_ms", "state"), [(25_499, WAIT), (25_500, ACT)])
def test_a_restart_is_waited_for_where_twice_its_usual_length_is_left(usually_ms: int, state: IncidentState) -> None:
    """It began 9 s after the transaction, which has 60 s."""
    found = only(at(10_000, COMMIT_IT, drivers=[restarting(9_000, usually_ms=usually_ms)]))
    assert (found.state, found.deadline_ms) == (state, T0 + TIMEOUT_MS)
    assert ("there is nothing to do" in found.consequence) is (state is WAIT)


def test_an_alert_says_what_follows_unless_a_restart_ends_it() -> None:
    stuck = replace(alert("A6", PREFIX, pipeline=PREFIX), remedy="restart")
    first = only(at(40_000, drivers=[ALIVE], alerts=[stuck]))
    assert (first.headline, first.consequence) == (f"A6 of {PREFIX}.", RULES["A6"].consequence)
    going = only(at(40_000, drivers=[restarting(39_000)], alerts=[stuck]))
    assert "there is nothing to do" in going.consequence


def test_a_restart_after_which_nothing_stands_says_that_it_goes_on() -> None:
    before = at(8_000, COMMIT_IT, drivers=[LATE])
    going = only(at(13_000, before=before, drivers=[restarting(12_000)], ended=COMMITTED_BY_ANNA))
    assert (going.state, going.headline) == (WAIT, f"{PREFIX} restarts.")


def test_what_is_over_keeps_nothing_that_stood_and_stands_behind_what_lasts_the_newest_first() -> None:
    near = alert("A1", COMMIT_IT.view.key, pipeline=PREFIX)
    before = at(40_000, COMMIT_IT, FOREIGN, drivers=[ALIVE], alerts=[near])
    heard = driver(DriverCondition.ALIVE, since=41_000)
    first = at(41_000, FOREIGN, before=before, drivers=[heard], ended=COMMITTED_BY_ANNA)
    assert [(one.application, one.state) for one in first] == [("billing", ACT), (PREFIX, OVER)]
    over = first[1]
    assert (over.parts, over.alerts, over.deadline_ms, over.consequence) == ((), (), None, "")
    second = at(42_000, before=first, drivers=[heard], ended=COMMITTED_BY_ANNA)
    assert [(one.application, one.over_at_ms) for one in second] == [
        ("billing", T0 + 42_000),
        (PREFIX, T0 + 41_000),
    ]


@pytest.mark.parametrize(("sign_ms", "state"), [(10_499, WAIT), (10_500, OVER)])
def test_a_driver_is_not_back_before_the_newest_of_its_orders(sign_ms: int, state: IncidentState) -> None:
    before = only(at(9_000, before=at(8_000, COMMIT_IT, drivers=[LATE]), drivers=[LATE], ended=COMMITTED_BY_ANNA))
    first = step(before, 0)
    several = replace(before, steps=(first, replace(first, part="another", since_ms=T0 + 12_000)))
    heard = driver(DriverCondition.ALIVE, since=sign_ms)
    assert only(at(20_000, before=[several], drivers=[heard], ended=COMMITTED_BY_ANNA)).state is state


def test_the_silence_of_a_driver_alone_lets_an_incident_last() -> None:
    replayed = at(61_000, LOST, drivers=[ALIVE])
    assert only(at(62_000, before=replayed, drivers=[LATE])).state is WAIT


def test_what_one_of_several_may_have_lost_is_the_outcome() -> None:
    other = one(40_000, [broker_record(BrokerStatus.ONGOING, 0, transaction="billing-2", producer_id=8)])
    safe = replace(other, judgement=replace(other.judgement, verdict=Verdict.ABORT_IT, may_abort=True))
    before = only(at(40_000, FOREIGN))
    (part,) = only(at(40_000, safe)).parts
    several = replace(before, parts=(part, *before.parts))
    over = only(at(50_000, before=[several], ended=Ending(state=TransactionState.ABORTED, who="anna")))
    assert ([one.lost for one in over.steps], over.outcome) == (["", OWNER_KNOWS], OWNER_KNOWS)


def test_how_long_an_end_is_shown_and_resumed() -> None:
    assert (OVER_SHOWN_MS, RESUMES_MS) == (10 * 60_000, 10_000)


def test_only_an_incident_of_an_application_names_one() -> None:
    groups = (application_group("orders"), topic_group("orders"))
    assert [application_of(group) for group in groups] == ["orders", ""]
