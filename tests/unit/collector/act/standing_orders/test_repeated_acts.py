"""What a standing order does again: an act whose end is not known, and one that was refused."""

from __future__ import annotations

from dataclasses import replace

from indoubt.collector.act.standing_orders.decision import decide
from indoubt.collector.act.standing_orders.given_orders import FailedAttempts, GivenOrders
from indoubt.collector.records.orders import OrderOutcome
from indoubt.collector.records.standing_orders import StandingAct
from tests.unit.collector.act.standing_orders.test_decision import (
    ACT,
    CERTAIN_COMMIT,
    COMMIT,
    HOLD_BACK,
    at,
    candidate,
)
from tests.unit.collector.conftest import Clock
from tests.unit.collector.observations import T0

FIRST, SECOND = candidate(CERTAIN_COMMIT, 0, driver_gone=True), candidate(CERTAIN_COMMIT, 1, driver_gone=True)
ORDER = replace(COMMIT, driver_gone=True, most_per_hour=2)
REFUSED, PENDING, FAILED = OrderOutcome.REFUSED, OrderOutcome.PENDING, OrderOutcome.FAILED


def key(of: object = FIRST) -> str:
    return FIRST.judged.view.key if of is FIRST else SECOND.judged.view.key


def add(given: GivenOrders, outcome: OrderOutcome, of: object = FIRST) -> None:
    act = StandingAct(key=key(of), application="orders", at_ms=T0, audit=1, outcome=outcome.value)
    given.add(ORDER.name, act, is_dry_run=False)


def moves(given: GivenOrders, failed: FailedAttempts) -> dict[str, object]:
    when = at(
        done=given.done(ORDER.name, dry_run=False),
        counted=given.counted(ORDER.name, dry_run=False),
        failed=failed.waiting(),
    )
    return {made.candidate.judged.view.key: made.move for made in decide(ORDER, [FIRST, SECOND], when)}


def test_an_act_whose_end_is_not_known_is_held_back_loudly_then_repeated(clock: Clock) -> None:
    given, failed = GivenOrders(clock), FailedAttempts(clock)
    add(given, PENDING)
    failed.add(key(), PENDING, "its end is not known")
    assert moves(given, failed) == {key(): HOLD_BACK, key(SECOND): ACT}
    clock.now_s += 10
    assert moves(given, failed) == {key(): ACT, key(SECOND): ACT}, "its repetition uses up no limit"
    add(given, PENDING)
    add(given, OrderOutcome.ACCEPTED, SECOND)
    assert moves(given, failed) == {key(): ACT}, "the limit is reached, and counts it once"
    add(given, OrderOutcome.ACCEPTED)
    assert moves(given, failed) == {}


def test_refused_attempts_use_up_no_limit(clock: Clock) -> None:
    given, failed = GivenOrders(clock), FailedAttempts(clock)
    attempts = 0
    for _ in range(3_599):
        if moves(given, failed)[key()] is ACT:
            attempts += 1
            add(given, REFUSED)
            failed.add(key(), REFUSED, "its list is gone")
        clock.now_s += 1
    assert attempts < 60
    assert moves(given, failed)[key(SECOND)] is ACT
    assert len(given.last_hour(ORDER.name, dry_run=False)) == attempts, "the report has them all"


def test_one_that_is_refused_again_is_left_alone_for_longer(clock: Clock) -> None:
    failed = FailedAttempts(clock)
    pauses = []
    for _ in range(6):
        failed.add(key(), REFUSED, "no")
        before_s = clock.now_s
        while failed.waiting():
            clock.now_s += 0.5
        pauses.append(clock.now_s - before_s)
    assert pauses == [10, 20, 40, 80, 80, 80]
    failed.add(key(), FAILED, "the broker is gone")
    assert failed.waiting() == {key(): "the broker is gone"}
    clock.now_s += 10
    assert failed.waiting() == {}, "what only failed has its short pause"


def test_one_that_was_not_tried_for_long_begins_with_a_short_pause(clock: Clock) -> None:
    failed = FailedAttempts(clock)
    for _ in range(4):
        failed.add(key(), REFUSED, "no")
    clock.now_s += 160
    failed.waiting()
    failed.add(key(), REFUSED, "no")
    clock.now_s += 10
    assert failed.waiting() == {}


def test_an_hour_later_the_limit_is_free_again(clock: Clock) -> None:
    given = GivenOrders(clock)
    add(given, OrderOutcome.ACCEPTED, SECOND)
    assert given.counted(ORDER.name, dry_run=False) == {key(SECOND)}
    assert given.counted(ORDER.name, dry_run=True) == frozenset()
    clock.now_s += 3_601
    assert given.counted(ORDER.name, dry_run=False) == frozenset()
