"""The alert state machine: when an alert fires and is resolved, who is told what, and what a restart must not change."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from indoubt.collector.assess.findings import Finding, Severity
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.notify.silences import Silence
from indoubt.collector.notify.state_machine import Alert, AlertState, AlertStates, Notification, Step, advance, step
from indoubt.lifecycle.verdicts import Evidence

T0 = 1_795_000_000_000
TIMING = AlertSettings()
PENDING, FIRING, RESOLVED = AlertState
WARNING, CRITICAL = Severity


def finding(
    subject: str = "t-1", *, group: str = "A1|p", severity: Severity = WARNING, for_ms: int = 0, rule: str = "A1"
) -> Finding:
    fact = Evidence(fact="f", source="s", at_ms=T0)
    return Finding(
        rule=rule,
        subject=subject,
        group=group,
        severity=severity,
        summary=f"{subject} is near",
        evidence=(fact,),
        subject_labels={"pipeline": "p", "transaction": subject},
        for_ms=for_ms,
    )


def silence(starts: int, ends: int, **matchers: str) -> Silence:
    return Silence(number=1, matchers=matchers, reason="r", author="anna", starts_ms=T0 + starts, ends_ms=T0 + ends)


class Run:
    """Steps one after the other, each from what the one before it kept, as the collector keeps it."""

    def __init__(self, timing: AlertSettings = TIMING) -> None:
        self.states, self.timing = AlertStates(), timing
        self.notified: list[tuple[int, Notification]] = []
        self.last: Step | None = None

    def at(
        self, ms: int, *findings: Finding, silences: Iterable[Silence] = (), held: Iterable[str] = ()
    ) -> list[Notification]:
        """Make one step; return what must be told."""
        made = step(self.states, findings, list(silences), T0 + ms, self.timing, frozenset(held))
        self.states, self.last = made.states, made
        self.notified += [(ms, notification) for notification in made.notifications]
        return list(made.notifications)

    def restart(self) -> None:
        """Forget what is never kept."""
        kept = {key: replace(alert, absent_ms=None) for key, alert in self.states.alerts.items()}
        self.states = replace(self.states, alerts=kept)

    def state(self, subject: str = "t-1") -> AlertState | None:
        alert = self.states.alerts.get(f"A1|{subject}")
        return alert.state if alert else None


def alert(state: AlertState, *, found: int = 0, absent: int | None = None, for_ms: int = 10_000) -> Alert:
    fired = None if state is PENDING else T0 + found + for_ms
    return Alert(
        finding=finding(for_ms=for_ms),
        state=state,
        since_ms=fired or T0 + found,
        found_ms=T0 + found,
        fired_ms=fired,
        absent_ms=None if absent is None else T0 + absent,
    )


FOUND = finding(for_ms=10_000)


@pytest.mark.parametrize(
    ("known", "seen", "is_held", "at", "state"),
    [
        (None, None, False, 0, None),
        (None, FOUND, False, 0, PENDING),
        (None, finding(for_ms=0), False, 0, FIRING),
        (alert(PENDING), FOUND, False, 9_999, PENDING),
        (alert(PENDING), FOUND, False, 10_000, FIRING),
        (alert(PENDING), None, False, 5_000, None),
        (alert(PENDING), None, True, 5_000, PENDING),
        (alert(FIRING), FOUND, False, 60_000, FIRING),
        (alert(FIRING), None, False, 60_000, FIRING),
        (alert(FIRING, absent=60_000), None, False, 74_999, FIRING),
        (alert(FIRING, absent=60_000), None, False, 75_000, RESOLVED),
        (alert(FIRING, absent=60_000), None, True, 75_000, FIRING),
        (alert(FIRING, absent=60_000), FOUND, False, 75_000, FIRING),
        (alert(RESOLVED), None, False, 90_000, RESOLVED),
        (alert(RESOLVED), FOUND, False, 90_000, PENDING),
        (alert(RESOLVED), finding(for_ms=0), False, 90_000, FIRING),
    ],
)
def test_each_step_of_one_alert(
    known: Alert | None, seen: Finding | None, is_held: bool, at: int, state: AlertState | None
) -> None:
    after = advance(known, seen, is_held=is_held, now_ms=T0 + at, timing=TIMING)
    assert (after.state if after else None) is state
    if after is not None and known is not None and after.state is not known.state:
        assert after.since_ms == T0 + at
    if after is not None and after.state is PENDING and known is not None and known.state is RESOLVED:
        assert (after.found_ms, after.fired_ms) == (T0 + at, None), "a new episode"


def test_it_notifies_after_the_group_wait_and_when_it_is_resolved() -> None:
    run = Run()
    for ms in range(0, 60_000, 500):
        run.at(ms, *([finding()] if ms < 30_000 else []))
    (fired_at, fired), (resolved_at, resolved) = run.notified
    assert (fired_at, fired.status, len(fired.firing), fired.resolved) == (2_000, FIRING, 1, ())
    assert (resolved_at, resolved.status, len(resolved.resolved), resolved.firing) == (45_000, RESOLVED, 1, ())
    assert (fired.number, resolved.number) == (1, 2)
    assert fired.id != resolved.id
    assert run.states.groups == {}


def test_gone_before_its_time_nobody_hears_of_it() -> None:
    run = Run()
    for ms in range(0, 60_000, 500):
        run.at(ms, *([finding(for_ms=10_000)] if ms < 9_000 else []))
    assert run.notified == []
    assert run.states == AlertStates()


def test_an_alert_that_flaps_notifies_once() -> None:
    run = Run()
    for ms in range(0, 300_000, 1_000):
        run.at(ms, *([finding()] if ms % 20_000 < 6_000 else []))
    assert [n.status for _, n in run.notified] == [FIRING]


def test_alerts_of_one_group_are_one_notification() -> None:
    run = Run()
    many = [finding(f"t-{n}") for n in range(50)]
    other = finding("u-1", group="A1|q")
    for ms in range(0, 10_000, 500):
        # They come one after the other within the wait.
        run.at(ms, *many[: 1 + ms // 40], other)
    assert [(n.group, len(n.firing)) for _, n in run.notified] == [("A1|p", 50), ("A1|q", 1)]


def test_an_alert_that_moves_to_another_group_is_notified_there() -> None:
    run = Run()
    for ms in range(0, 60_000, 1_000):
        moved = "A1|q" if ms >= 20_000 else "A1|p"
        run.at(ms, *([finding(group=moved)] if ms < 30_000 else []))
    told = [(n.group, n.status) for _, n in run.notified]
    assert told == [("A1|p", FIRING), ("A1|q", FIRING), ("A1|q", RESOLVED)]
    assert not run.states.groups


def test_an_alert_that_moves_while_silenced_is_ended_where_it_was_notified() -> None:
    run, silenced = Run(), [silence(15_000, 3_600_000, rule="A1")]
    for ms in range(0, 60_000, 1_000):
        moved = "A1|q" if ms >= 20_000 else "A1|p"
        run.at(ms, *([finding(group=moved)] if ms < 30_000 else []), silences=silenced)
    assert [(n.group, n.status) for _, n in run.notified] == [("A1|p", FIRING), ("A1|p", RESOLVED)]


def test_a_late_alert_waits_for_the_group_interval() -> None:
    run = Run()
    for ms in range(0, 40_000, 500):
        run.at(ms, finding("t-1"), *([finding("t-2")] if ms >= 3_000 else []))
    assert [(ms, len(n.firing)) for ms, n in run.notified] == [(2_000, 1), (17_000, 2)]


def test_an_unchanged_group_is_repeated() -> None:
    run = Run(replace(TIMING, repeat_ms=60_000))
    for ms in range(0, 150_000, 1_000):
        run.at(ms, finding())
    assert [ms for ms, _ in run.notified] == [2_000, 62_000, 122_000]
    assert len({n.id for _, n in run.notified}) == 3


def test_a_rise_in_severity_is_news_and_a_fall_is_not() -> None:
    run = Run()
    for ms in range(0, 90_000, 1_000):
        run.at(ms, finding(severity=CRITICAL if 30_000 <= ms < 60_000 else WARNING))
    assert [(ms, n.severity) for ms, n in run.notified] == [(2_000, WARNING), (30_000, CRITICAL)]


def test_a_silenced_alert_fires_and_notifies_when_the_silence_ends() -> None:
    run = Run()
    quiet = [silence(0, 30_000, pipeline="p")]
    for ms in range(0, 40_000, 1_000):
        run.at(ms, finding(), silences=quiet)
        assert run.state() is FIRING
    assert [ms for ms, _ in run.notified] == [30_000]


def test_the_end_of_a_notified_alert_is_sent_despite_a_silence() -> None:
    run = Run()
    quiet = [silence(10_000, 3_000_000, transaction="t-*")]
    for ms in range(0, 90_000, 1_000):
        run.at(ms, *([finding()] if ms < 40_000 else []), silences=quiet)
    assert [(ms, n.status) for ms, n in run.notified] == [(2_000, FIRING), (55_000, RESOLVED)]


def test_an_alert_notified_before_its_silence_is_not_forgotten() -> None:
    run = Run()
    quiet = [silence(10_000, 3_000_000, transaction="t-1")]
    for ms in range(0, 120_000, 1_000):
        firing = [finding("t-1")] if ms < 60_000 else []
        run.at(ms, *firing, *([finding("t-2")] if ms >= 20_000 else []), silences=quiet)
    assert [(ms, len(n.firing), len(n.resolved)) for ms, n in run.notified] == [
        (2_000, 1, 0),
        (20_000, 1, 0),
        (75_000, 1, 1),
    ]


def test_an_end_that_was_not_reported_yet_is_kept_however_old() -> None:
    run = Run(replace(TIMING, group_interval_ms=60_000, resolved_kept_ms=1_000))
    for ms in range(0, 90_000, 1_000):
        run.at(ms, *([finding()] if ms < 10_000 else []))
    assert [(ms, n.status) for ms, n in run.notified] == [(2_000, FIRING), (62_000, RESOLVED)]
    assert run.states == AlertStates(number=2)


def test_a_silence_of_another_pipeline_silences_nothing() -> None:
    run = Run()
    for ms in range(0, 10_000, 1_000):
        run.at(ms, finding(), silences=[silence(0, 60_000, pipeline="q")])
    assert len(run.notified) == 1


def test_while_its_evidence_cannot_be_seen_nothing_is_resolved() -> None:
    run = Run()
    run.at(0, finding())
    for ms in range(1_000, 600_000, 1_000):
        run.at(ms, held={"A1"})
    assert run.state() is FIRING
    for ms in range(600_000, 620_000, 1_000):
        run.at(ms, held={"A1|t-1"})
    assert run.state() is FIRING
    for ms in range(620_000, 640_000, 1_000):
        run.at(ms, held={"A2", "A1|t-2"})
    assert run.state() is RESOLVED


def test_an_alert_found_again_for_a_moment_resolves_once() -> None:
    run = Run(replace(TIMING, group_interval_ms=60_000))
    slow = finding(for_ms=10_000)
    for ms in range(0, 200_000, 1_000):
        # Fires at 10 s, is gone at 20 s, resolved at 35 s, told at 72 s; in between it is pending for 5 s.
        run.at(ms, *([slow] if ms < 20_000 or 40_000 <= ms < 45_000 else []))
    assert [(ms, n.status) for ms, n in run.notified] == [(12_000, FIRING), (72_000, RESOLVED)]


def test_an_alert_fired_again_before_its_end_was_sent_is_sent_as_firing() -> None:
    run = Run(replace(TIMING, group_interval_ms=60_000))
    for ms in range(0, 120_000, 1_000):
        run.at(ms, *([finding()] if ms < 10_000 or ms >= 40_000 else []))
    assert [(ms, n.status, len(n.resolved)) for ms, n in run.notified] == [(2_000, FIRING, 0), (62_000, FIRING, 0)]


def test_resolved_alerts_are_shown_for_a_while() -> None:
    run = Run(replace(TIMING, resolved_kept_ms=60_000))
    for ms in range(0, 200_000, 1_000):
        run.at(ms, *([finding()] if ms < 10_000 else []))
        if ms == 80_000:
            assert run.state() is RESOLVED
    assert run.state() is None


def test_a_step_writes_what_changed_and_nothing_while_all_stays() -> None:
    run = Run()
    run.at(0, finding("t-1"), finding("t-2", for_ms=60_000))
    assert run.last is not None
    assert {a.state for a in run.last.alerts} == {FIRING, PENDING}
    for ms in (500, 1_000):
        run.at(ms, replace(finding("t-1"), summary=f"{ms}"), finding("t-2", for_ms=60_000))
        assert not run.last.is_change, "evidence alone is not written"
    run.at(2_000, finding("t-1"))
    assert run.last.dropped_alerts == ("A1|t-2",)
    assert [group.key for group in run.last.groups] == ["A1|p"]


def _random_findings(rng: random.Random) -> Mapping[int, list[Finding]]:
    """Return findings by second: five alerts of two groups that come and go."""
    present: dict[int, list[Finding]] = {}
    active: set[int] = set()
    for second in range(600):
        for n in range(5):
            if rng.random() < 0.02:
                active ^= {n}
        present[second] = [finding(f"t-{n}", group=f"A1|{n % 2}", for_ms=3_000 * (n % 3)) for n in sorted(active)]
    return present


@pytest.mark.parametrize("seed", range(20))
def test_each_alert_and_its_end_notify_once_over_a_restart(seed: int) -> None:
    rng = random.Random(seed)
    present = _random_findings(rng)
    run = Run()
    known: dict[str, int] = {}
    for second, findings in present.items():
        if rng.random() < 0.1:
            run.restart()
        for told in run.at(second * 1_000, *findings):
            news = {a.finding.key: a.fired_ms or 0 for a in told.firing}
            ended = {a.finding.key for a in told.resolved}
            assert ended <= known.keys(), "an end is told of what was told"
            assert ended or any(known.get(key) != fired for key, fired in news.items()), "nothing is told twice"
            known = {key: at for key, at in known.items() if key not in ended} | news
        if second > 60:
            for key, one in run.states.alerts.items():
                waited = second * 1_000 + T0 - one.since_ms
                if waited > TIMING.group_wait_ms + TIMING.group_interval_ms:
                    assert (key in known) is one.is_firing, "within the wait and the interval everybody knows"
    numbers = [notification.number for _, notification in run.notified]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len({notification.id for _, notification in run.notified}) == len(numbers)
