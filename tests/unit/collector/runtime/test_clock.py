"""The collector's clock under steps: what is believed and when, and that whatever measures by it goes on as it did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.collector.assess import rules
from indoubt.collector.assess.findings import Finding, Severity
from indoubt.collector.assess.rules.readers import blocked_partitions
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.notify.notifiers.delivery import RetryPolicy
from indoubt.collector.notify.state_machine import AlertStates, moved, step
from indoubt.collector.runtime.clock import HOLD_MS, TOLERATED_MS, Clock
from indoubt.collector.verdicts.partition_state import PartitionFindings, PartitionTracker
from indoubt.lifecycle.verdicts import Evidence
from tests.unit.collector.assessments import look
from tests.unit.collector.observations import T0
from tests.unit.collector.partition_sightings import PARTITION

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
YEAR_MS = 365 * 24 * HOUR_MS
STEPS = (3 * MINUTE_MS, -3 * MINUTE_MS, YEAR_MS, -YEAR_MS)


class Machine:
    """A machine whose time goes on, and is stepped."""

    def __init__(self) -> None:
        self.wall_ms, self.steady_ms = T0, 5_000
        self.clock = Clock(lambda: self.wall_ms * 1_000_000, lambda: self.steady_ms * 1_000_000)

    def goes_on(self, ms: int, step_ms: int = 0) -> int:
        """Let time pass, step the machine's clock, and return what the collector's says."""
        self.wall_ms, self.steady_ms = self.wall_ms + ms + step_ms, self.steady_ms + ms
        return self.clock.now_ms()


def test_without_a_step_it_is_the_machines_time_and_drift_is_followed() -> None:
    machine = Machine()
    for _ in range(100):
        assert machine.goes_on(1_000, step_ms=TOLERATED_MS) == machine.wall_ms
    assert machine.clock.shifted_ms == 0


@pytest.mark.parametrize("step_ms", STEPS)
def test_a_step_that_comes_back_within_a_minute_was_never_there(step_ms: int) -> None:
    machine = Machine()
    assert machine.goes_on(1_000, step_ms) == T0 + 1_000
    assert machine.goes_on(HOLD_MS - 1_000) == T0 + HOLD_MS
    assert machine.goes_on(500, -step_ms) == T0 + HOLD_MS + 500 == machine.wall_ms
    assert machine.clock.shifted_ms == 0


@pytest.mark.parametrize("step_ms", STEPS)
def test_a_step_that_stands_for_a_minute_is_believed(step_ms: int) -> None:
    machine = Machine()
    machine.goes_on(0, step_ms)
    assert machine.goes_on(HOLD_MS - 1) == T0 + HOLD_MS - 1
    assert machine.goes_on(1) == machine.wall_ms
    assert machine.clock.shifted_ms == step_ms
    assert machine.goes_on(1_000) == machine.wall_ms


@pytest.mark.parametrize("off_ms", STEPS)
def test_the_brokers_time_is_followed_and_waits_move_with_it(off_ms: int) -> None:
    machine = Machine()
    machine.clock.follow(T0 - 5_000 - off_ms, error_ms=100)
    assert machine.goes_on(1_000) == T0 + 1_000 - off_ms
    assert machine.clock.shifted_ms == -off_ms
    assert machine.goes_on(10 * HOLD_MS) == T0 + 1_000 + 10 * HOLD_MS - off_ms, "the machine is never believed again"


@pytest.mark.parametrize("off_ms", STEPS)
def test_a_clock_that_is_put_right_goes_on_without_a_jump(off_ms: int) -> None:
    machine = Machine()
    machine.clock.follow(T0 - 5_000 - off_ms, error_ms=100)
    before_ms = machine.clock.now_ms()
    assert machine.goes_on(1_000, -off_ms) == before_ms + 1_000 == machine.wall_ms
    assert machine.clock.shifted_ms == -off_ms


@pytest.mark.parametrize("step_ms", STEPS)
def test_a_step_of_both_clocks_is_followed_once_brokers_are_measured(step_ms: int) -> None:
    machine = Machine()
    machine.clock.follow(T0 - 5_000, error_ms=100)
    assert machine.goes_on(1_000, step_ms) == T0 + 1_000
    machine.clock.follow(T0 - 5_000 + step_ms, error_ms=100)
    assert machine.clock.now_ms() == machine.wall_ms
    assert machine.clock.shifted_ms == step_ms


@pytest.mark.parametrize(("off_ms", "error_ms"), [(TOLERATED_MS, 0), (TOLERATED_MS + 500, 500), (-TOLERATED_MS, 0)])
def test_what_is_within_the_tolerance_moves_no_time(off_ms: int, error_ms: int) -> None:
    machine = Machine()
    machine.clock.follow(T0 - 5_000 - off_ms, error_ms)
    assert machine.clock.now_ms() == T0
    assert machine.clock.shifted_ms == 0


@pytest.mark.parametrize("step_ms", STEPS)
def test_a_machine_that_is_stepped_away_from_the_brokers_is_not_followed(step_ms: int) -> None:
    machine = Machine()
    machine.clock.follow(T0 - 5_000, error_ms=100)
    machine.goes_on(0, step_ms)
    assert machine.goes_on(10 * HOLD_MS) == T0 + 10 * HOLD_MS
    assert machine.clock.shifted_ms == 0


def test_a_second_step_begins_its_own_wait() -> None:
    machine = Machine()
    machine.goes_on(0, HOUR_MS)
    machine.goes_on(HOLD_MS - 1, HOUR_MS)
    assert machine.goes_on(HOLD_MS - 1) == T0 + 2 * HOLD_MS - 2
    machine.goes_on(1)
    assert machine.clock.shifted_ms == 2 * HOUR_MS


def finding(subject: str, for_ms: int) -> Finding:
    evidence = (Evidence(fact="f", source="s", at_ms=T0),)
    subject_labels = {"pipeline": "p"}
    return Finding(
        rule="A1",
        subject=subject,
        group="A1|p",
        severity=Severity.WARNING,
        summary="s",
        evidence=evidence,
        subject_labels=subject_labels,
        for_ms=for_ms,
    )


@pytest.mark.parametrize("step_ms", STEPS)
def test_a_clock_step_makes_no_alert_early_late_or_repeated(step_ms: int) -> None:
    timing = AlertSettings(group_wait_ms=0)
    told, slow, other = finding("told", 0), finding("slow", 10_000), replace(finding("other", 0), group="A1|q")
    before = step(AlertStates(), [told, slow], [], T0, timing)
    assert len(before.notifications) == 1
    at_ms = T0 + 5_000 + step_ms
    after = step(before.states, [told, slow], [], at_ms, timing, shift_ms=step_ms)
    assert not after.notifications
    assert {alert.finding.subject for alert in after.alerts} == {"told", "slow"}, "their times are written down anew"
    assert [group.notified_ms for group in after.groups] == [T0 + step_ms]
    later = step(after.states, [told, slow, other], [], at_ms + 10_000, timing)
    assert [n.group for n in later.notifications] == ["A1|p", "A1|q"]
    gone = step(later.states, [], [], at_ms + 11_000, timing, shift_ms=0)
    assert all(alert.is_firing for alert in gone.states.alerts.values())
    resolved = step(
        gone.states, [], [], at_ms + 11_000 + timing.keep_firing_ms - 1 - step_ms, timing, shift_ms=-step_ms
    )
    assert all(alert.is_firing for alert in resolved.states.alerts.values())


def test_after_a_restart_with_a_clock_set_back_alerts_notify_at_once() -> None:
    timing = AlertSettings(group_wait_ms=0)
    ahead = step(AlertStates(), [finding("t", 0)], [], T0 + YEAR_MS, timing).states
    loaded = moved(ahead, lambda at_ms: min(at_ms, T0))
    assert not step(loaded, [finding("t", 0)], [], T0 + 1_000, timing).notifications, "it was told already"
    both = step(loaded, [finding("t", 0), finding("u", 0)], [], T0 + timing.group_interval_ms, timing)
    assert [len(one.firing) for one in both.notifications] == [2]


def test_a_notification_whose_time_lies_far_ahead_is_tried_now() -> None:
    policy = RetryPolicy(max_ms=60_000)
    assert policy.wait_s(T0 + 60_000, T0) == 60
    assert policy.wait_s(T0 + HOUR_MS, T0) == 0
    assert policy.wait_s(T0 - 1, T0) <= 0


@pytest.mark.parametrize("step_ms", STEPS)
def test_waits_of_groups_are_as_long_after_a_step_as_before(step_ms: int) -> None:
    tracker = PartitionTracker(stalled_ms=30_000)
    for ms in (0, 10_000):
        tracker.saw_group("g", "Stable", {PARTITION: 100}, T0 + ms, is_whole=True)
        tracker.saw_partition(PARTITION, 100, 105, T0 + ms)
    tracker.shift(step_ms)
    at_ms = T0 + step_ms + 11_000
    tracker.saw_partition(PARTITION, 100, 105, at_ms)
    (blocked,) = blocked_partitions(PartitionFindings(at_ms=at_ms, blocked=tracker.blocked()))
    assert at_ms - blocked.since_ms == 11_000
    assert not list(rules.findings(look(now_ms=at_ms, blocked=(blocked,))))
