"""Alerts as a pure state machine: pending -> firing -> resolved, and when receivers are notified. No clock, no I/O.

One step takes what the rules find now and returns the next states, what of it must be kept, and what must be notified. A step
that could not be kept is not taken: it is made again from the states as it is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from indoubt.collector.assess.findings import Finding, Severity
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.notify.silences import Silence, covering


class AlertState(Enum):
    """Where an alert stands; the value is what the API says."""

    PENDING = "pending"
    """Found, but not for long enough yet."""
    FIRING = "firing"
    RESOLVED = "resolved"
    """Not found any more, for the time that keeps it from flapping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert. Times are epoch ms: ``since_ms`` when it came to its state, ``found_ms`` and ``fired_ms`` when this
    episode was first found and first fired, ``absent_ms`` since when it is firing and not found any more (never kept:
    after a restart that time starts over)."""

    finding: Finding
    state: AlertState
    since_ms: int
    found_ms: int
    fired_ms: int | None = None
    absent_ms: int | None = None

    @property
    def is_firing(self) -> bool:
        """True while it fires."""
        return self.state is AlertState.FIRING

    def kept(self) -> tuple[AlertState, int, Severity]:
        """Return what makes it worth writing down again; evidence alone changes with every second."""
        return self.state, self.found_ms, self.finding.severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Notified:
    """What the last notification said of a firing alert."""

    fired_ms: int
    severity: Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The last notification of one group: its firing alerts by key, and when."""

    key: str
    notified: Mapping[str, Notified]
    notified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A message about one group. ``id`` is the idempotency key: the same in every attempt to deliver it."""

    number: int
    id: str
    group: str
    at_ms: int
    firing: tuple[Alert, ...]
    resolved: tuple[Alert, ...]

    @property
    def status(self) -> AlertState:
        """Return firing while one of its alerts is."""
        return AlertState.FIRING if self.firing else AlertState.RESOLVED

    @property
    def severity(self) -> Severity:
        """Return the worst of what fires, else of what is resolved."""
        return max((a.finding.severity for a in self.firing or self.resolved), key=lambda severity: severity.rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertStates:
    """Everything that a step needs of those before it. ``number``: of the last notification."""

    alerts: Mapping[str, Alert] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The next states, and what changed: alerts and groups to write, keys of those to drop, notifications to deliver."""

    states: AlertStates
    alerts: tuple[Alert, ...]
    dropped_alerts: tuple[str, ...]
    groups: tuple[Group, ...]
    dropped_groups: tuple[str, ...]
    notifications: tuple[Notification, ...]

    @property
    def is_change(self) -> bool:
        """Say whether anything must be written."""
        return bool(self.alerts or self.dropped_alerts or self.groups or self.dropped_groups or self.notifications)


def moved(states: AlertStates, move: Callable[[int], int]) -> AlertStates:
    """Return the states with all of its times moved: the clock that gave them was stepped."""

    def alert(old: Alert) -> Alert:
        fired_ms = None if old.fired_ms is None else move(old.fired_ms)
        absent_ms = None if old.absent_ms is None else move(old.absent_ms)
        since_ms, found_ms = move(old.since_ms), move(old.found_ms)
        return replace(old, since_ms=since_ms, found_ms=found_ms, fired_ms=fired_ms, absent_ms=absent_ms)

    def group(old: Group) -> Group:
        notified = {key: replace(what, fired_ms=move(what.fired_ms)) for key, what in old.notified.items()}
        return replace(old, notified=notified, notified_ms=move(old.notified_ms))

    return replace(
        states,
        alerts={key: alert(old) for key, old in states.alerts.items()},
        groups={key: group(old) for key, old in states.groups.items()},
    )


def step(
    states: AlertStates,
    findings: Iterable[Finding],
    silences: Collection[Silence],
    now_ms: int,
    timing: AlertSettings,
    held: frozenset[str] = frozenset(),
    shift_ms: int = 0,
) -> Step:
    """Return the next step. ``held``: rules and keys of alerts whose evidence cannot be seen: what was found is not gone.

    ``shift_ms``: by how much the clock was stepped since the step before this one.
    """
    kept, states = states, moved(states, lambda at_ms: at_ms + shift_ms) if shift_ms else states
    found = {finding.key: finding for finding in findings}
    notified = {key for group in states.groups.values() for key in group.notified}
    alerts: dict[str, Alert] = {}
    for key in states.alerts.keys() | found.keys():
        known = states.alerts.get(key)
        is_held = key in held or (known is not None and known.finding.rule in held)
        after = advance(known, found.get(key), is_held=is_held, now_ms=now_ms, timing=timing)
        if after is None and known is not None and key in notified:
            # Notified, resolved, found again for a moment: its end was not notified yet.
            after = replace(known, state=AlertState.RESOLVED, since_ms=now_ms)
        if after is not None:
            alerts[key] = after
    groups, notifications = _tell(states, alerts, silences, now_ms, timing)
    notified = {key for group in groups.values() for key in group.notified}
    alerts = {key: a for key, a in alerts.items() if key in notified or not _is_old(a, now_ms, timing)}
    number = notifications[-1].number if notifications else states.number
    return Step(
        states=AlertStates(alerts=states.alerts if alerts == states.alerts else alerts, groups=groups, number=number),
        alerts=tuple(a for key, a in alerts.items() if key not in kept.alerts or kept.alerts[key].kept() != a.kept()),
        dropped_alerts=tuple(key for key in states.alerts if key not in alerts),
        groups=tuple(group for key, group in groups.items() if kept.groups.get(key) != group),
        dropped_groups=tuple(key for key in states.groups if key not in groups),
        notifications=tuple(notifications),
    )


def advance(
    known: Alert | None, finding: Finding | None, *, is_held: bool, now_ms: int, timing: AlertSettings
) -> Alert | None:
    """Return the alert after this moment, or None where there is none (any more)."""
    if finding is not None:
        if known is None or known.state is AlertState.RESOLVED:
            known = Alert(finding=finding, state=AlertState.PENDING, since_ms=now_ms, found_ms=now_ms)
        if known.state is AlertState.PENDING and now_ms - known.found_ms >= finding.for_ms:
            return replace(known, finding=finding, state=AlertState.FIRING, since_ms=now_ms, fired_ms=now_ms)
        # What stays as it was stays the same object: whoever shows it need not look at it again.
        is_same = known.finding == finding and known.absent_ms is None
        return known if is_same else replace(known, finding=finding, absent_ms=None)
    if known is None or known.state is AlertState.RESOLVED:
        return known
    if is_held:
        return replace(known, absent_ms=None)
    if known.state is AlertState.PENDING:
        return None
    absent_ms = known.absent_ms if known.absent_ms is not None else now_ms
    if now_ms - absent_ms < timing.keep_firing_ms:
        return replace(known, absent_ms=absent_ms)
    return replace(known, state=AlertState.RESOLVED, since_ms=now_ms, absent_ms=None)


def _is_old(alert: Alert, now_ms: int, timing: AlertSettings) -> bool:
    return alert.state is AlertState.RESOLVED and now_ms - alert.since_ms >= timing.resolved_kept_ms


def _tell(
    states: AlertStates, alerts: Mapping[str, Alert], silences: Collection[Silence], now_ms: int, timing: AlertSettings
) -> tuple[dict[str, Group], list[Notification]]:
    """Return the groups that receivers know of, and the notifications that are due, in the order of the groups' keys."""
    loud: dict[str, dict[str, Alert]] = {}
    for key, alert in alerts.items():
        if alert.is_firing and covering(silences, alert.finding.labels, now_ms) is None:
            loud.setdefault(alert.finding.group, {})[key] = alert
    groups: dict[str, Group] = {}
    notifications: list[Notification] = []
    for key in sorted(states.groups.keys() | loud.keys()):
        before, firing = _without_moved(states.groups.get(key), alerts, loud), loud.get(key, {})
        ended = {k: alerts[k] for k in before.notified if not alerts[k].is_firing} if before is not None else {}
        if not _is_due(before, firing, ended, now_ms, timing):
            if before is not None:
                groups[key] = before
            continue
        number = states.number + len(notifications) + 1
        notifications.append(
            Notification(
                number=number,
                id=_notification_id(key, number, now_ms),
                group=key,
                at_ms=now_ms,
                firing=_by_urgency(firing.values()),
                resolved=_by_urgency(ended.values()),
            )
        )
        # What was notified and is silenced since stays known, so that its end is notified too.
        notified = {k: alert for k, alert in (before.notified if before is not None else {}).items() if k not in ended}
        notified |= {k: Notified(fired_ms=a.fired_ms or now_ms, severity=a.finding.severity) for k, a in firing.items()}
        if notified:
            groups[key] = Group(key=key, notified=notified, notified_ms=now_ms)
    return groups, notifications


def _without_moved(
    group: Group | None, alerts: Mapping[str, Alert], loud: Mapping[str, Mapping[str, Alert]]
) -> Group | None:
    """Return the group without what fires in another one now, None where nothing is left: the other one tells its end."""
    if group is None:
        return None
    notified = {
        key: what
        for key, what in group.notified.items()
        if alerts[key].finding.group == group.key or key not in loud.get(alerts[key].finding.group, {})
    }
    return replace(group, notified=notified) if notified else None


def _is_due(
    before: Group | None, firing: Mapping[str, Alert], ended: Mapping[str, Alert], now_ms: int, timing: AlertSettings
) -> bool:
    notified = before.notified if before is not None else {}
    news = [alert for key, alert in firing.items() if _is_news(alert, notified.get(key))]
    if before is None:
        return bool(news) and now_ms - min(a.fired_ms or now_ms for a in news) >= timing.group_wait_ms
    waited_ms = now_ms - before.notified_ms
    if news or ended:
        return waited_ms >= timing.group_interval_ms
    return bool(firing) and waited_ms >= timing.repeat_ms


def _is_news(alert: Alert, notified: Notified | None) -> bool:
    return (
        notified is None or notified.fired_ms != alert.fired_ms or notified.severity.rank < alert.finding.severity.rank
    )


def _by_urgency(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    return tuple(sorted(alerts, key=lambda a: (-a.finding.severity.rank, a.found_ms, a.finding.key)))


def _notification_id(group: str, number: int, at_ms: int) -> str:
    return hashlib.sha256(f"{group}|{number}|{at_ms}".encode()).hexdigest()[:32]
