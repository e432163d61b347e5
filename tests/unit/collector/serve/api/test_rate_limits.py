"""Token buckets with a clock of the test's own."""

from __future__ import annotations

import pytest

from indoubt.collector.serve.api.auth.authentication import Caller
from indoubt.collector.serve.api.auth.rate_limits import MAX_KEYS, Buckets, Rate, RequestLimits, TooManyRequests
from indoubt.lifecycle.orders import Role
from indoubt.lifecycle.persons import Person

ANNA, BEN = (Caller(name=name, role=Role.OPERATOR) for name in ("anna", "ben"))
GUESSABLE = Caller(name="carla", role=Role.OPERATOR, is_guessable=True)


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_bucket_gives_its_burst_then_its_rate() -> None:
    clock = Clock()
    buckets = Buckets(Rate(per_s=2, burst=3), clock)
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 0]
    assert buckets.take("a") == pytest.approx(0.5)
    assert buckets.take("b") == 0, "another key has its own"
    clock.now_s += 0.5
    assert (buckets.take("a"), buckets.take("a") > 0) == (0, True)
    clock.now_s += 3600
    assert [buckets.take("a") > 0 for _ in range(4)] == [False, False, False, True], "never more than the burst"


def test_persons_who_share_the_token_of_an_app_have_a_limit_each() -> None:
    limits = RequestLimits(requests_per_second=1, clock=Clock())
    app = Caller(name="pages", role=Role.OPERATOR, for_persons=True)
    carla, dora = (app.asking_for(Person(name=name, role=Role.VIEWER)) for name in ("carla", "dora"))
    for _ in range(10):
        limits.admit(carla, changes_something=False)
    with pytest.raises(TooManyRequests, match="requests by carla via pages"):
        limits.admit(carla, changes_something=False)
    limits.admit(dora, changes_something=False)
    limits.admit(app.asking_for(None), changes_something=False)


def test_asking_takes_nothing_and_a_refusal_takes_nothing() -> None:
    clock = Clock()
    buckets = Buckets(Rate(per_s=1, burst=1), clock)
    assert [buckets.wait_s("a") for _ in range(3)] == [0, 0, 0]
    assert buckets.take("a") == 0
    for _ in range(10):
        assert buckets.take("a") == pytest.approx(1)
    clock.now_s += 1
    assert buckets.take("a") == 0


def test_memory_is_bounded() -> None:
    buckets = Buckets(Rate(per_s=0.001, burst=1), Clock())
    for number in range(MAX_KEYS + 10):
        buckets.take(str(number))
    assert len(buckets._levels) == MAX_KEYS
    assert buckets.take(str(MAX_KEYS + 9)) > 0, "the newest is kept"


def test_orders_have_a_limit_of_their_own_and_callers_theirs() -> None:
    limits = RequestLimits(requests_per_second=100, orders_per_minute=2, clock=Clock())
    for _ in range(2):
        limits.admit(ANNA, changes_something=True)
    with pytest.raises(TooManyRequests, match=r"orders by anna: ask again in 30 s") as refused:
        limits.admit(ANNA, changes_something=True)
    assert refused.value.retry_after_s == 30
    limits.admit(ANNA, changes_something=False)
    limits.admit(BEN, changes_something=True)


def test_requests_are_limited() -> None:
    limits = RequestLimits(requests_per_second=1, clock=Clock())
    for _ in range(10):
        limits.admit(ANNA, changes_something=False)
    with pytest.raises(TooManyRequests, match="requests by anna"):
        limits.admit(ANNA, changes_something=False)


def test_a_client_that_reads_too_often_can_still_give_orders() -> None:
    limits = RequestLimits(requests_per_second=1, orders_per_minute=2, clock=Clock())
    for _ in range(10):
        limits.admit(ANNA, changes_something=False)
    with pytest.raises(TooManyRequests):
        limits.admit(ANNA, changes_something=False)
    limits.admit(ANNA, changes_something=True)


def test_an_address_that_fails_too_often_is_shut_out() -> None:
    clock = Clock()
    limits = RequestLimits(failed_authentications_per_minute=3, clock=clock)
    for _ in range(3):
        limits.check_address("10.0.0.9", None)
        limits.failed("10.0.0.9")
    for caller in (None, GUESSABLE):
        with pytest.raises(TooManyRequests, match="failed authentications"):
            limits.check_address("10.0.0.9", caller)
    limits.check_address("10.0.0.9", ANNA)
    limits.check_address("10.0.0.8", GUESSABLE)
    clock.now_s += 20
    limits.check_address("10.0.0.9", GUESSABLE)
