"""Offsets of clocks: what is measured by bounds, what is off, and that an unmeasured clock is a doubt."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indoubt.collector.observe.clocks import WIDTH_MS, narrowed
from indoubt.collector.runtime.clock import BROKERS, KEPT_MS, MOST_MS, NOT_MEASURED, Clock, ClockOffset, ClockOffsets
from tests.unit.collector.observations import T0

MINUTE_MS = 60_000
FLINK = "flink fl"


class Machine:
    """A machine whose clock is ``ahead_ms`` ahead of the true time; it counts from 0 since it was started."""

    def __init__(self, ahead_ms: int = 0) -> None:
        self.true_ms, self.ahead_ms = T0, ahead_ms
        self.clock = Clock(lambda: (self.true_ms + self.ahead_ms) * 1_000_000, lambda: (self.true_ms - T0) * 1_000_000)
        self.offsets = ClockOffsets(self.clock)

    def asks(self, owner: str, owner_ahead_ms: int = 0, takes_ms: int = 10) -> None:
        """Ask an owner for its time: it answers in the middle of ``takes_ms``."""
        asked_ms = self.clock.steady_ms()
        told_ms = self.true_ms + takes_ms // 2 + owner_ahead_ms
        self.true_ms += takes_ms
        self.offsets.saw(owner, told_ms, after_ms=asked_ms, before_ms=self.clock.steady_ms())

    def found(self, owner: str) -> ClockOffset | None:
        return next((each for each in self.offsets.all() if each.owner == owner), None)


@pytest.mark.parametrize("ahead_ms", [0, 120_000, -120_000])
def test_an_answer_with_a_time_measures_a_clock_by_its_round_trip(ahead_ms: int) -> None:
    machine = Machine(ahead_ms)
    machine.asks("broker 1")
    assert machine.found("broker 1") == ClockOffset(owner="broker 1", ahead_ms=ahead_ms, error_ms=5)
    assert bool(machine.offsets.doubt()) is bool(ahead_ms)


def test_the_fact_says_which_clock_is_where() -> None:
    offset = ClockOffset(owner="broker 1", ahead_ms=120_000, error_ms=110)
    assert offset.fact == "this machine's clock is 2 min 00 s ahead of the clock of broker 1 (± 0.1 s)"
    assert "2 min 00 s behind the clock" in ClockOffset(owner="broker 1", ahead_ms=-120_000, error_ms=110).fact


@pytest.mark.parametrize(
    ("ahead_ms", "error_ms", "is_off"), [(1_000, 0, False), (1_001, 0, True), (-1_101, 100, True), (1_100, 100, False)]
)
def test_a_clock_is_off_where_the_error_cannot_explain_it(ahead_ms: int, error_ms: int, is_off: bool) -> None:
    assert ClockOffset(owner=FLINK, ahead_ms=ahead_ms, error_ms=error_ms).is_off is is_off


def test_an_unmeasured_broker_is_a_doubt_and_other_owners_do_not_stand_in() -> None:
    machine = Machine()
    assert machine.offsets.doubt() == NOT_MEASURED
    machine.asks(FLINK)
    assert machine.offsets.doubt() == NOT_MEASURED
    machine.asks("broker 1")
    assert machine.offsets.doubt() == ""


def test_one_bound_alone_measures_nothing() -> None:
    machine = Machine()
    machine.offsets.saw("broker 1", T0, after_ms=0)
    assert machine.found("broker 1") is None
    machine.offsets.saw("broker 1", T0, before_ms=100)
    assert machine.found("broker 1") is not None


@pytest.mark.parametrize(("takes_ms", "is_measured"), [(2 * MOST_MS, True), (2 * MOST_MS + 2, False)])
def test_a_measurement_that_leaves_more_than_a_second_open_is_none(takes_ms: int, is_measured: bool) -> None:
    machine = Machine()
    machine.asks("broker 1", takes_ms=takes_ms)
    assert (machine.found("broker 1") is not None) is is_measured


def test_old_bounds_count_no_more_once_newer_ones_came() -> None:
    machine = Machine()
    machine.asks("broker 1")
    machine.true_ms += KEPT_MS + 1
    assert machine.found("broker 1") is not None, "a source that answers no more has not changed its clock"
    machine.offsets.saw("broker 1", machine.true_ms, after_ms=machine.clock.steady_ms())
    assert machine.found("broker 1") is None


@pytest.mark.parametrize("step_ms", [5_000, -5_000])
def test_an_owners_step_drops_what_was_measured_before(step_ms: int) -> None:
    machine = Machine()
    machine.asks(FLINK)
    machine.asks(FLINK, step_ms)
    assert machine.found(FLINK) == ClockOffset(owner=FLINK, ahead_ms=-step_ms, error_ms=5)


@pytest.mark.parametrize("ahead_ms", [0, 120_000, -120_000])
def test_the_collectors_time_is_the_brokers_whatever_this_machine_says(ahead_ms: int) -> None:
    machine = Machine(ahead_ms)
    machine.asks(FLINK, 7_000)
    machine.asks("broker 1")
    assert abs(machine.clock.now_ms() - machine.true_ms) <= 10


def test_the_collectors_time_follows_the_middle_of_three_brokers() -> None:
    machine = Machine(120_000)
    for broker, ahead_ms in ((1, 0), (2, -600_000), (3, 100)):
        machine.asks(f"broker {broker}", ahead_ms)
    for broker, ahead_ms in ((1, 0), (2, -600_000), (3, 100)):
        machine.asks(f"broker {broker}", ahead_ms)
    assert abs(machine.clock.now_ms() - machine.true_ms) <= 120
    assert "broker 2" in machine.offsets.doubt()


def test_all_brokers_together_are_told_only_where_none_alone_is() -> None:
    machine = Machine()
    machine.asks(BROKERS, 50_000)
    assert [each.owner for each in machine.offsets.all()] == [BROKERS]
    machine.asks("broker 1")
    assert [each.owner for each in machine.offsets.all()] == ["broker 1"]


@given(truth_ms=st.integers(-(10**12), 10**12), guess_ms=st.integers(-(10**12), 10**12))
def test_the_questions_find_any_offset_with_both_bounds(truth_ms: int, guess_ms: int) -> None:
    below: list[int] = []
    above: list[int] = []

    def is_beyond(offset_ms: int) -> bool:
        (below if truth_ms > offset_ms else above).append(offset_ms)
        return truth_ms > offset_ms

    assert narrowed(is_beyond, guess_ms)
    assert max(below) < truth_ms <= min(above)
    assert min(above) - max(below) <= WIDTH_MS


def test_a_right_guess_takes_two_questions() -> None:
    asked: list[int] = []
    answer: Callable[[int], bool] = lambda offset_ms: asked.append(offset_ms) or offset_ms < 0  # noqa: E731
    assert narrowed(answer, 0)
    assert len(asked) == 2


def test_a_question_that_is_not_answered_ends_the_measurement() -> None:
    assert not narrowed(lambda offset_ms: None, 0)
