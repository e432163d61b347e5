"""Single steps of the alert state machine at their edges: what changes, what stays the same object, what is told in which order."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from indoubt.collector.assess.findings import Finding, Severity
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.notify.evaluator import ShownAlert
from indoubt.collector.notify.state_machine import (
    Alert,
    AlertState,
    AlertStates,
    Group,
    Notification,
    Notified,
    Step,
    advance,
    moved,
    step,
)
from indoubt.collector.serve.api.alert_routes import firing_rows
from tests.unit.collector.notify.test_state_machine import (
    CRITICAL,
    FIRING,
    PENDING,
    RESOLVED,
    T0,
    WARNING,
    finding,
    silence,
)

TIMING = AlertSettings()
WAIT, INTERVAL, REPEAT = TIMING.group_wait_ms, TIMING.group_interval_ms, TIMING.repeat_ms


def alert(state: AlertState = FIRING, of: Finding | None = None, at: int = 0, **changes: Any) -> Alert:
    """Return an alert that was found, fired and came to its state ``at`` ms after T0."""
    fired_ms = None if state is PENDING else T0 + at
    made = Alert(finding=of or finding(), state=state, since_ms=T0 + at, found_ms=T0 + at, fired_ms=fired_ms)
    return replace(made, **changes)


def told(*alerts: Alert, at: int = 0, key: str = "A1|p") -> Group:
    """Return a group of which these were notified ``at`` ms after T0."""
    what = {a.finding.key: Notified(fired_ms=a.fired_ms or 0, severity=a.finding.severity) for a in alerts}
    return Group(key=key, notified=what, notified_ms=T0 + at)


def states(*alerts: Alert, groups: tuple[Group, ...] = (), number: int = 0) -> AlertStates:
    return AlertStates(
        alerts={a.finding.key: a for a in alerts}, groups={group.key: group for group in groups}, number=number
    )


def made(before: AlertStates, at: int, *findings: Finding, **more: Any) -> Step:
    return step(before, findings, [], T0 + at, TIMING, **more)


def advanced(known: Alert | None, seen: Finding | None, at: int, *, is_held: bool = False) -> Alert | None:
    return advance(known, seen, is_held=is_held, now_ms=T0 + at, timing=TIMING)


def test_what_stays_as_it_was_is_the_same_object() -> None:
    known = alert()
    assert advanced(known, finding(), 9) is known
    newer = replace(finding(), summary="nearer")
    assert advanced(known, newer, 9) == replace(known, finding=newer)
    before = states(known, groups=(told(known),))
    after = made(before, 9, finding())
    assert after.states.alerts is before.alerts
    assert not after.is_change
    assert made(before, 9, newer).states.alerts == {known.finding.key: replace(known, finding=newer)}


def test_what_is_found_again_or_cannot_be_seen_is_absent_no_more() -> None:
    absent = alert(absent_ms=T0 + 5)
    assert advanced(absent, finding(), 9) == alert()
    assert advanced(absent, None, 9, is_held=True) == alert()
    assert advanced(alert(), None, 9) == alert(absent_ms=T0 + 9)
    assert advanced(absent, None, 9) == absent


def test_one_that_fires_or_is_resolved_says_since_when() -> None:
    slow = finding(for_ms=10)
    fired = advanced(alert(PENDING, slow), slow, 10)
    assert fired == alert(FIRING, slow, since_ms=T0 + 10, fired_ms=T0 + 10)
    gone = advanced(alert(absent_ms=T0), None, TIMING.keep_firing_ms)
    assert gone == alert(RESOLVED, since_ms=T0 + TIMING.keep_firing_ms)
    again = advanced(alert(RESOLVED), slow, 99)
    assert again == alert(PENDING, slow, 99)


def test_all_times_move_with_a_clock_that_was_stepped() -> None:
    pending, firing = alert(PENDING, finding("t-2")), alert(absent_ms=T0 + 5, fired_ms=T0 + 1, found_ms=T0 + 2)
    found = moved(states(pending, firing, groups=(told(firing, at=7),), number=3), lambda at_ms: at_ms + 1_000)
    assert found.alerts == {
        "A1|t-2": replace(pending, since_ms=T0 + 1_000, found_ms=T0 + 1_000),
        "A1|t-1": replace(firing, since_ms=T0 + 1_000, found_ms=T0 + 1_002, fired_ms=T0 + 1_001, absent_ms=T0 + 1_005),
    }
    notified = {"A1|t-1": Notified(fired_ms=T0 + 1_001, severity=WARNING)}
    assert found.groups == {"A1|p": Group(key="A1|p", notified=notified, notified_ms=T0 + 1_007)}
    assert found.number == 3


@pytest.mark.parametrize("shift_ms", [0, -500, 500])
def test_a_stepped_clock_is_no_news_and_what_it_moved_is_written(shift_ms: int) -> None:
    known = alert()
    after = made(states(known, groups=(told(known),)), INTERVAL + shift_ms, finding(), shift_ms=shift_ms)
    assert after.notifications == ()
    assert [a.found_ms for a in after.alerts] == ([T0 + shift_ms] if shift_ms else [])
    assert [group.notified_ms for group in after.groups] == ([T0 + shift_ms] if shift_ms else [])
    assert after.is_change is bool(shift_ms)


@pytest.mark.parametrize(
    ("changed", "is_change"),
    [
        ({}, False),
        ({"alerts": (alert(),)}, True),
        ({"dropped_alerts": ("A1|t-1",)}, True),
        ({"groups": (told(alert()),)}, True),
        ({"dropped_groups": ("A1|p",)}, True),
        ({"notifications": (object(),)}, True),
    ],
)
def test_each_part_of_a_step_must_be_written(changed: dict[str, Any], is_change: bool) -> None:
    parts: dict[str, Any] = dict.fromkeys(("alerts", "dropped_alerts", "groups", "dropped_groups", "notifications"), ())
    assert Step(states=AlertStates(), **(parts | changed)).is_change is is_change


def test_a_step_names_what_it_drops() -> None:
    ended, old = alert(RESOLVED), alert(RESOLVED, finding("t-2", group="A1|q"))
    before = states(ended, old, groups=(told(ended),), number=7)
    after = made(before, TIMING.resolved_kept_ms)
    assert (after.dropped_alerts, after.dropped_groups) == (("A1|t-1", "A1|t-2"), ("A1|p",))
    assert (after.states.number, after.notifications[0].number) == (8, 8)
    assert after.states.groups == {}
    later = made(after.states, TIMING.resolved_kept_ms + 1)
    assert (later.dropped_alerts, later.dropped_groups, later.states.number) == ((), (), 8)


def test_a_resolved_one_leaves_once_its_time_is_over() -> None:
    known = states(alert(RESOLVED))
    assert made(known, TIMING.resolved_kept_ms - 1).dropped_alerts == ()
    assert made(known, TIMING.resolved_kept_ms).dropped_alerts == ("A1|t-1",)
    assert made(states(alert()), TIMING.resolved_kept_ms, finding()).dropped_alerts == ()


def notification(firing: tuple[Alert, ...] = (), resolved: tuple[Alert, ...] = ()) -> Notification:
    return Notification(number=1, id="i", group="A1|p", at_ms=T0, firing=firing, resolved=resolved)


def test_a_notification_is_as_severe_as_the_worst_that_fires() -> None:
    mild, bad = alert(), alert(of=finding("t-2", severity=CRITICAL))
    assert [notification(firing).severity for firing in ((mild, bad), (bad, mild), (mild,))] == [
        CRITICAL,
        CRITICAL,
        WARNING,
    ]
    assert notification((mild,), (bad,)).severity is WARNING
    assert notification((), (mild, bad)).severity is CRITICAL
    assert notification((mild,), (bad,)).status is FIRING
    assert notification((), (bad,)).status is RESOLVED


EQUAL = ("e-1", "e-2", "e-3", "e-4", "e-5", "e-6")


def test_the_worst_is_told_first_then_the_oldest_then_by_name() -> None:
    fired = [
        alert(of=finding("t-4", severity=WARNING), at=1),
        alert(of=finding("t-3", severity=CRITICAL), at=9),
        *(alert(of=finding(name, severity=WARNING), at=5) for name in EQUAL),
    ]
    (news,) = made(states(*fired), WAIT + 1, *(each.finding for each in fired)).notifications
    assert [each.finding.subject for each in news.firing] == ["t-3", "t-4", *EQUAL]


@pytest.mark.parametrize(
    ("known", "at", "seen", "is_told"),
    [
        (states(alert()), WAIT - 1, [finding()], False),
        (states(alert()), WAIT, [finding()], True),
        # The first of a group decides how long is waited.
        (states(alert(), alert(of=finding("t-2"), at=WAIT - 1)), WAIT, [finding(), finding("t-2")], True),
        (states(alert(), groups=(told(alert()),)), REPEAT - 1, [finding()], False),
        (states(alert(), groups=(told(alert()),)), REPEAT, [finding()], True),
        (states(alert(), groups=(told(alert(at=-9)),)), INTERVAL - 1, [finding()], False),
        (states(alert(), groups=(told(alert(at=-9)),)), INTERVAL, [finding()], True),
        (states(alert(RESOLVED), groups=(told(alert()),)), INTERVAL - 1, [], False),
        (states(alert(RESOLVED), groups=(told(alert()),)), INTERVAL, [], True),
        (states(alert(PENDING, finding(for_ms=REPEAT))), WAIT, [finding(for_ms=REPEAT)], False),
    ],
    ids=[
        "within the wait",
        "after the wait",
        "the first of two",
        "told already",
        "to be repeated",
        "fired again, within the interval",
        "fired again",
        "resolved, within the interval",
        "resolved",
        "pending",
    ],
)
def test_a_group_is_told_when_it_is_due(known: AlertStates, at: int, seen: list[Finding], is_told: bool) -> None:
    assert len(made(known, at, *seen).notifications) == int(is_told)


@pytest.mark.parametrize(
    ("before", "now", "is_told"),
    [(WARNING, CRITICAL, True), (CRITICAL, WARNING, False), (WARNING, WARNING, False)],
)
def test_only_a_rise_in_severity_is_told_within_the_time_to_repeat(
    before: Severity, now: Severity, is_told: bool
) -> None:
    known = alert(of=finding(severity=before))
    after = made(states(known, groups=(told(known),)), INTERVAL, finding(severity=now))
    assert len(after.notifications) == int(is_told)
    assert [a.finding.severity for a in after.alerts] == ([now] if now is not before else [])


def test_a_group_notes_what_was_told_of_it_and_when() -> None:
    after = made(states(alert(at=1)), WAIT + 1, finding())
    assert after.groups == (told(alert(at=1), at=WAIT + 1),)
    assert after.states.groups == {"A1|p": after.groups[0]}
    (news,) = after.notifications
    assert (news.group, news.at_ms, len(news.id)) == ("A1|p", T0 + WAIT + 1, 32)


def test_groups_are_told_one_after_the_other_in_the_order_of_their_keys() -> None:
    fired = [alert(of=finding(f"t-{name}", group=f"A1|{name}")) for name in "cab"]
    after = made(states(*fired, number=4), WAIT, *(each.finding for each in fired))
    assert [(each.number, each.group) for each in after.notifications] == [(5, "A1|a"), (6, "A1|b"), (7, "A1|c")]
    assert after.states.number == 7


def test_one_that_moved_stays_in_its_group_until_it_is_loud_in_the_other() -> None:
    old, other = alert(), alert(of=finding("t-2"))
    here = finding(group="A1|q")
    before = states(old, other, groups=(told(old, other),))
    after = made(before, 1, here, finding("t-2"))
    assert after.states.groups["A1|p"].notified.keys() == {"A1|t-2"}
    alone = made(states(old, groups=(told(old),)), 1, here)
    assert (alone.states.groups, alone.dropped_groups) == ({}, ("A1|p",))
    fired = made(states(old, groups=(told(old),)), WAIT, here)
    assert [each.group for each in fired.notifications] == ["A1|q"]


def test_a_held_rule_or_alert_keeps_what_was_found() -> None:
    pending = states(alert(PENDING, finding(for_ms=99)))
    for held, stays in (({"A1"}, True), ({"A1|t-1"}, True), ({"A2"}, False)):
        after = made(pending, 1, held=frozenset(held))
        assert bool(after.states.alerts) is stays


@pytest.mark.parametrize(
    ("known", "at", "seen", "written"),
    [
        (alert(absent_ms=T0), TIMING.keep_firing_ms, [], [RESOLVED]),
        (alert(RESOLVED), 5, [finding(for_ms=99)], [PENDING]),
        (alert(PENDING, finding(for_ms=99)), 99, [finding(for_ms=99)], [FIRING]),
        (alert(PENDING, finding(for_ms=99)), 98, [finding(for_ms=99)], []),
        (alert(), TIMING.keep_firing_ms, [], []),
    ],
    ids=["resolved", "found again", "fires", "still pending", "absent, which is never kept"],
)
def test_each_change_of_state_is_written(known: Alert, at: int, seen: list[Finding], written: list[AlertState]) -> None:
    assert [one.state for one in made(states(known), at, *seen).alerts] == written


def test_a_pending_one_that_a_stepped_clock_moved_is_written() -> None:
    slow = finding(for_ms=REPEAT)
    after = made(states(alert(PENDING, slow)), 500, slow, shift_ms=500)
    assert [one.found_ms for one in after.alerts] == [T0 + 500]


def test_one_that_is_gone_before_its_end_was_told_is_shown_as_resolved() -> None:
    again = alert(PENDING, finding(for_ms=99))
    after = made(states(again, groups=(told(alert()),)), 7)
    assert after.states.alerts == {"A1|t-1": replace(again, state=RESOLVED, since_ms=T0 + 7)}
    assert made(states(again), 7).states.alerts == {}


def test_one_that_fires_says_what_was_found_last() -> None:
    nearer = replace(finding(for_ms=10), summary="nearer")
    fired = advanced(alert(PENDING, finding(for_ms=10)), nearer, 10)
    assert fired == alert(FIRING, nearer, since_ms=T0 + 10, fired_ms=T0 + 10)


def test_what_was_told_and_is_silenced_since_is_not_repeated() -> None:
    known = alert()
    before = states(known, groups=(told(known),))
    hush = silence(0, 2 * REPEAT, pipeline="p")
    after = step(before, [finding()], [hush], T0 + REPEAT, TIMING)
    assert (after.notifications, after.states.groups) == ((), before.groups)


def test_what_is_not_found_any_more_needs_nobody_though_it_is_not_resolved_yet() -> None:
    found, gone = (ShownAlert(alert=one, silence=None) for one in (alert(), alert(absent_ms=T0)))
    evaluator: Any = SimpleNamespace(alerts=lambda: [found, gone])
    assert [row.absent_at_ms for row in firing_rows(evaluator)] == [None]
