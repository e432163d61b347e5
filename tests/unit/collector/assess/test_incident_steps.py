"""The steps of an incident one by one: what asks for the driver's restart, how far an order is, and what became of a part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.assess.attention.listing import parts
from indoubt.collector.assess.incident_steps import OWNER_KNOWS, Ending, endings, steps_done, steps_now
from indoubt.collector.assess.incidents import incidents
from indoubt.collector.assess.situation import RunUnderWay
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import OperatorOrder
from indoubt.collector.verdicts.driver_state import DriverCondition, DriverState
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.rows.attention import Remedy
from indoubt.lifecycle.rows.incidents import Incident, Step, StepState
from indoubt.lifecycle.rows.pipelines import RestartUnderWay
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Verdict
from tests.unit.collector.assess.situations import alert, decided_and_open, driver, foreign, lost, one, situation
from tests.unit.collector.assessments import look
from tests.unit.collector.observations import PREFIX, T0, broker_record
from tests.unit.collector.serve.api.served_api import observed

ALIVE, FROZEN = driver(DriverCondition.ALIVE), driver(DriverCondition.FROZEN)
COMMIT_IT, FOREIGN = one(5_000, decided_and_open()), one(40_000, foreign())
ABORT_IT = one(40_000, foreign())
ABORT_IT = replace(ABORT_IT, judgement=replace(ABORT_IT.judgement, verdict=Verdict.ABORT_IT, may_abort=True))
TO_DO, UNDER_WAY, DONE = StepState.TO_DO, StepState.UNDER_WAY, StepState.DONE
COMMITTED, ABORTED = TransactionState.COMMITTED, TransactionState.ABORTED
BY_ANNA, BY_NONE = Ending(state=COMMITTED, who="anna"), Ending(state=COMMITTED, who="")


def incident(now: int, *transactions: Any, drivers: list[DriverState], **changes: Any) -> Incident:
    seen = situation(now, *transactions, drivers=drivers, **changes)
    return incidents(seen, parts(seen), ())[0]


def now(at: int, *transactions: Any, of: DriverState | None = None, **changes: Any) -> list[Step]:
    """Return what is to be done of the only application."""
    drivers = [of] if of is not None else []
    seen = situation(at, *transactions, drivers=drivers, **changes)
    return steps_now(parts(seen), changes.get("alerts", ()), of, seen)


def done(before: Incident, ended: Ending, at: int = 50_000, of: DriverState | None = None) -> list[Step]:
    """Return what was done of an incident of which nothing stands."""
    return steps_done(before, (), (), of, look(T0 + at, endings=lambda key: ended))


def test_a_driver_that_lives_is_restarted_only_where_something_asks_for_it() -> None:
    assert [step.what for step in now(5_000, COMMIT_IT, of=ALIVE)] == ["Commit batch 41"]
    open_alert = alert("A5", PREFIX, pipeline=PREFIX)
    assert now(5_000, of=ALIVE, alerts=[open_alert]) == []
    asking = replace(open_alert, remedy="restart")
    assert [step.remedy for step in now(5_000, of=ALIVE, alerts=[open_alert, asking])] == [Remedy.RESTART]
    assert [step.what for step in now(5_000, COMMIT_IT)] == ["Commit batch 41"], "without a driver nothing is restarted"


def test_a_pipeline_without_a_start_command_has_no_step() -> None:
    failed = driver(DriverCondition.FAILED)
    assert now(40_000, of=failed) == []
    asking = replace(alert("A6", PREFIX, pipeline=PREFIX), remedy="start")
    assert now(40_000, of=failed, alerts=[asking]) == []
    (start,) = now(40_000, of=failed, startable=[PREFIX])
    assert (start.what, start.remedy, start.target, start.note) == (
        f"Start {PREFIX}",
        Remedy.START,
        f"pipeline:{PREFIX}",
        "",
    )


def test_a_silent_driver_says_for_how_long_and_when_it_counts_as_frozen() -> None:
    late = replace(ALIVE, is_late=True, allowed_ms=30_000)
    assert now(13_000, COMMIT_IT, of=late)[1].note == "silent for 10 s; after 30 s it counts as frozen"
    assert now(13_000, of=ALIVE)[0].note == "silent for 10 s", "nothing stands, and its sign is awaited"
    assert now(13_000, of=replace(late, since_ms=None))[0].note == ""
    assert now(40_000, of=FROZEN)[0].note == "", "its headline says it"


@pytest.mark.parametrize(
    ("run", "note", "of_batch"),
    [(7, "run 7 is starting", "the new run does it"), (None, "its supervisor restarts it", "the new run does it")],
)
def test_a_restart_under_way_is_the_step_of_the_driver_and_of_what_it_writes_again(
    run: int | None, note: str, of_batch: str
) -> None:
    restart = RestartUnderWay(since_ms=T0 + 60_000, run=run, usually_ms=9_000, who="bob")
    of_driver, again = now(61_000, one(61_000, lost()), of=replace(ALIVE, restart=restart))
    assert (of_driver.state, of_driver.note, of_driver.target) == (UNDER_WAY, note, f"pipeline:{PREFIX}")
    assert of_driver.remedy is Remedy.RESTART
    assert (of_driver.who, of_driver.since_ms, of_driver.usually_ms) == ("bob", T0 + 60_000, 9_000)
    assert (again.state, again.note) == (UNDER_WAY, of_batch)
    waiting = now(61_000, one(61_000, lost()), of=FROZEN)[1]
    assert (waiting.state, waiting.note, waiting.remedy) == (TO_DO, "the restart does it", Remedy.OPEN)
    assert [step.note for step in now(61_000, one(61_000, lost()))] == ["the restart does it"]


def test_only_an_order_about_these_transactions_is_their_step_under_way() -> None:
    mine = RunUnderWay(keys=frozenset([ABORT_IT.view.key]), who="anna", done=0, transactions=1, begun_ms=T0 + 1)
    other = replace(mine, keys=frozenset(["kafka:other"]), who="bob")
    (step,) = now(40_000, ABORT_IT, runs=[other, mine])
    assert (step.what, step.state, step.note, step.who) == ("Abort 1 transaction", UNDER_WAY, "0 of 1 done", "anna")
    assert (step.remedy, step.target) == (Remedy.ABORT, ABORT_IT.view.key)
    ordered = incident(40_000, ABORT_IT, drivers=[], runs=[mine])
    assert [one.what for one in done(ordered, BY_NONE, of=ALIVE)] == ["Committed 1 transaction"], (
        "no driver was restarted"
    )
    assert now(40_000, ABORT_IT, runs=[other])[0].state is TO_DO


@pytest.mark.parametrize(
    ("part", "state", "what", "remedy", "lost"),
    [
        (COMMIT_IT, COMMITTED, "Committed batch 41", Remedy.COMMIT, ""),
        (COMMIT_IT, ABORTED, "Aborted batch 41", Remedy.ABORT, ""),
        (ABORT_IT, ABORTED, "Aborted 1 transaction", Remedy.ABORT, ""),
        (ABORT_IT, TransactionState.ABORTING, "Aborted 1 transaction", Remedy.ABORT, ""),
        (FOREIGN, ABORTED, "Aborted 1 transaction", Remedy.ABORT, OWNER_KNOWS),
        (FOREIGN, COMMITTED, "Committed 1 transaction", Remedy.COMMIT, ""),
        (FOREIGN, TransactionState.LOST, "1 transaction ended", Remedy.OPEN, "How it ended was not seen."),
        (FOREIGN, None, "1 transaction ended", Remedy.OPEN, "How it ended was not seen."),
    ],
)
def test_what_became_of_a_part(part: Any, state: TransactionState | None, what: str, remedy: Remedy, lost: str) -> None:
    (step,) = done(incident(40_000, part, drivers=[]), Ending(state=state, who="anna"))
    assert (step.what, step.remedy, step.lost) == (what, remedy, lost)
    assert (step.state, step.note, step.who, step.since_ms) == (DONE, "by anna", "anna", T0 + 50_000)
    assert (step.target, step.usually_ms) == (part.view.key, None)


def test_who_ordered_one_of_several_is_said_and_a_replay_has_no_orderer() -> None:
    before = incident(40_000, FOREIGN, drivers=[])
    (part,) = before.parts
    several = replace(before, parts=(replace(part, keys=("kafka:a", "kafka:b")),))
    by_key = {"kafka:a": BY_NONE, "kafka:b": BY_ANNA}
    (step,) = steps_done(several, (), (), None, look(T0, endings=by_key.__getitem__))
    assert (step.what, step.note) == ("Committed 2 transactions", "by anna")
    both = {"kafka:a": Ending(state=ABORTED, who=""), "kafka:b": Ending(state=TransactionState.ABORTING, who="")}
    (undone,) = steps_done(several, (), (), None, look(T0, endings=both.__getitem__))
    assert (undone.what, undone.lost) == ("Aborted 2 transactions", OWNER_KNOWS)
    again = done(incident(61_000, one(61_000, lost()), drivers=[]), Ending(state=TransactionState.LOST, who="anna"))
    assert [(step.what, step.note, step.who) for step in again] == [("Batch 41 was lost, then written again", "", "")]


def test_who_ordered_it_is_asked_again_only_of_an_order_and_only_for_a_moment() -> None:
    before = incident(40_000, FOREIGN, drivers=[])
    seen = replace(before, parts=(), steps=tuple(done(before, BY_NONE)))
    (later,) = done(seen, BY_ANNA, at=51_000)
    assert (later.note, later.who, later.since_ms) == ("by anna", "anna", T0 + 50_000)
    named = replace(seen, steps=(replace(seen.steps[0], who="bob", note="by bob"),))
    assert done(named, BY_ANNA, at=51_000) == list(named.steps), "it is known already"
    assert done(seen, BY_NONE, at=51_000) == list(seen.steps)
    ended = replace(seen, steps=(replace(seen.steps[0], remedy=Remedy.OPEN),))
    assert done(ended, BY_ANNA, at=51_000) == list(ended.steps), "how it ended is not known: who is not either"


def test_a_restart_is_done_once_its_driver_shows_life_and_a_silence_that_ends_by_itself_is_none() -> None:
    restart = RestartUnderWay(since_ms=T0 + 9_000, run=7, usually_ms=9_000, who="")
    going = incident(10_000, COMMIT_IT, drivers=[replace(ALIVE, restart=restart)])
    committed, restarted = done(going, BY_NONE, of=ALIVE)
    assert (committed.what, restarted.what) == ("Committed batch 41", "Restarted the driver")
    assert (restarted.state, restarted.note) == (DONE, "by its supervisor")
    assert (restarted.since_ms, restarted.usually_ms) == (T0 + 50_000, None)
    assert len(done(going, BY_NONE, of=FROZEN)) == len(done(going, BY_NONE)) == 1
    silent = incident(10_000, COMMIT_IT, drivers=[replace(ALIVE, is_late=True)])
    assert [step.what for step in done(silent, BY_NONE, of=ALIVE)] == ["Committed batch 41"]


def test_what_stands_under_another_verdict_was_not_done() -> None:
    before = incident(40_000, FOREIGN, drivers=[])
    (part,) = before.parts
    present = replace(part, key="transactions:unknown|billing")
    seen = look(T0 + 50_000, endings=lambda key: BY_NONE)
    assert steps_done(before, (), (present,), None, seen) == []
    assert steps_done(before, (), (part,), None, seen) == [], "it stands"


def test_an_ending_is_the_state_in_memory_and_who_ordered_it(current: CurrentState) -> None:
    statuses = (BrokerStatus.ONGOING, BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
    current.observe(
        [observed(n, broker_record(status, 10 * n, transaction="shop-1")) for n, status in enumerate(statuses)]
    )
    (judged,) = current.transactions.judged(settled=True)
    ending = endings(replace(look(T0), current=current))
    assert ending(judged.view.key) == BY_NONE
    current.executed(OperatorOrder(key=judged.view.key, action="commit", who="anna", at_ms=T0, audit=1))
    assert ending(judged.view.key) == BY_ANNA
    assert ending("kafka:none:1:1") == Ending(state=None, who="")
