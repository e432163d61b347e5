"""What a standing order has given, and what of it counts: from the audit after a restart, from memory since."""

from __future__ import annotations

import json

import pytest

from indoubt.collector.act.standing_orders.given_orders import HOUR_S, GivenOrders
from indoubt.collector.history.store import Store
from indoubt.collector.records.orders import DRY_RUN, STANDING_ORDER, OrderOutcome
from indoubt.collector.records.standing_orders import StandingAct
from indoubt.collector.runtime.clock import now_ms
from indoubt.lifecycle.durations import HOUR_MS, MINUTE_MS
from tests.unit.collector.conftest import Clock

ORDER, OTHER = "save clicks", "save bills"
ACCEPTED, PENDING, REFUSED = OrderOutcome.ACCEPTED, OrderOutcome.PENDING, OrderOutcome.REFUSED


def audited(
    store: Store, *keys: str, ago_ms: int, outcome: OrderOutcome = ACCEPTED, order: str = ORDER, dry_run: bool = False
) -> int:
    """Write the audit row of an act that was given so long ago; return its number."""
    evidence = json.dumps([{STANDING_ORDER: order, DRY_RUN: dry_run}, {"more": 1}])
    return store.append_audit(
        (now_ms() - ago_ms, "owner", "commit", json.dumps(keys), "due", outcome.value, "", evidence)
    )


def test_a_restart_forgets_nothing_that_was_given(store: Store, clock: Clock) -> None:
    early = audited(store, "a", "b", ago_ms=30 * MINUTE_MS)
    audited(store, "c", ago_ms=2 * HOUR_MS)
    audited(store, "d", ago_ms=MINUTE_MS, outcome=REFUSED)
    audited(store, "e", ago_ms=MINUTE_MS, outcome=PENDING)
    audited(store, "f", ago_ms=MINUTE_MS, order=OTHER)
    store.append_audit((now_ms(), "anna", "commit", '["g"]', "a person's", ACCEPTED.value, "", "[]"))
    given = GivenOrders(clock)
    given.load(store)
    assert given.done(ORDER, dry_run=False) == {"a", "b", "c", "f"}, "any order's, however long ago"
    assert given.counted(ORDER, dry_run=False) == {"a", "b", "e"}
    assert given.counted(OTHER, dry_run=False) == {"f"}
    first = given.last_hour(ORDER, dry_run=False)[0]
    assert (first.key, first.audit, first.outcome, first.application) == ("a", early, "accepted", "")
    assert now_ms() - first.at_ms == pytest.approx(30 * MINUTE_MS, abs=30_000)
    # What was given half an hour before the start counts for half an hour more.
    clock.now_s += 29 * 60
    assert given.counted(ORDER, dry_run=False) == {"a", "b", "e"}
    clock.now_s += 61
    assert given.counted(ORDER, dry_run=False) == {"e"}


def test_what_the_audit_has_of_the_future_counts_from_now(store: Store, clock: Clock) -> None:
    audited(store, "a", ago_ms=-5 * HOUR_MS)
    given = GivenOrders(clock)
    given.load(store)
    clock.now_s += HOUR_S - 1
    assert given.counted(ORDER, dry_run=False) == {"a"}
    clock.now_s += 2
    assert given.counted(ORDER, dry_run=False) == frozenset(), "a clock that was stepped back closes no limit for long"


def test_dry_runs_are_the_order_s_own_and_use_up_their_own_limit(store: Store, clock: Clock) -> None:
    audited(store, "a", ago_ms=MINUTE_MS, outcome=OrderOutcome.DRY_RUN, dry_run=True)
    given = GivenOrders(clock)
    given.load(store)
    act = StandingAct(key="b", application="clicks", at_ms=now_ms(), audit=None, outcome=OrderOutcome.DRY_RUN.value)
    given.add(ORDER, act, is_dry_run=True)
    assert given.done(ORDER, dry_run=True) == {"a", "b"}
    assert given.counted(ORDER, dry_run=True) == {"a", "b"}
    assert given.done(OTHER, dry_run=True) == frozenset()
    assert given.done(ORDER, dry_run=False) == frozenset()
    assert given.counted(ORDER, dry_run=False) == frozenset()
    assert [each.key for each in given.last_hour(ORDER, dry_run=True)] == ["a", "b"]


@pytest.mark.parametrize(
    ("outcome", "counts", "is_done"),
    [(ACCEPTED, True, True), (PENDING, True, False), (OrderOutcome.FAILED, True, False), (REFUSED, False, False)],
)
def test_how_an_act_ended_says_whether_it_counts(
    clock: Clock, outcome: OrderOutcome, counts: bool, is_done: bool
) -> None:
    given = GivenOrders(clock)
    given.add(ORDER, StandingAct(key="a", application="", at_ms=1, audit=1, outcome=outcome.value), is_dry_run=False)
    assert ("a" in given.counted(ORDER, dry_run=False)) is counts
    assert ("a" in given.done(ORDER, dry_run=False)) is is_done
    assert [act.outcome for act in given.last_hour(ORDER, dry_run=False)] == [outcome.value]


def test_an_act_counts_for_less_than_an_hour_and_is_kept_no_longer(clock: Clock) -> None:
    given = GivenOrders(clock)
    for key in ("a", "b"):
        given.add(ORDER, StandingAct(key=key, application="", at_ms=1, audit=1, outcome="accepted"), is_dry_run=False)
        clock.now_s += HOUR_S
        assert given.counted(ORDER, dry_run=False) == frozenset()
    assert [act.key for act in given.last_hour(ORDER, dry_run=False)] == []
    assert len(given._given[ORDER]) == 1
