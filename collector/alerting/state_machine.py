"""Alerts as a pure state machine: pending -> firing -> resolved, and who is told when. No clock, no I/O.

One step takes what the rules find now and returns the next book, what of it must be kept, and what must be told. A step
that could not be kept is not taken: it is made again from the book as it is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from collector.alert_findings import Finding, Severity
from collector.silences import Silence, covering


class AlertState(Enum):
    """Where an alert stands; the value is what the API says."""

    PENDING = "pending"
    """Found, but not for long enough yet."""
    FIRING = "firing"
    RESOLVED = "resolved"
    """Not found any more, for the time that keeps it from flapping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """When to tell. ``keep_firing_ms``: how long an alert must be gone before it is resolved; ``group_wait_ms``: how long
    a group's first alert waits for others; ``group_interval_ms``: least time between two notifications of one group;
    ``repeat_ms``: how often an unchanged group is told again; ``resolved_kept_ms``: how long resolved alerts are shown."""

    keep_firing_ms: int = 15_000
    group_wait_ms: int = 2_000
    group_interval_ms: int = 15_000
    repeat_ms: int = 3_600_000
    resolved_kept_ms: int = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert. Times are epoch ms: ``since_ms`` when it came to its state, ``found_ms`` and ``fired_ms`` when this
    episode was first found and first fired, ``absent_ms`` since when it is firing and not found any more (never kept:
    after a restart that time starts anew)."""

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

    def kept(self) -> tuple[AlertState, int, int | None, Severity]:
        """Return what makes it worth writing down again; evidence alone changes with every second."""
        return self.state, self.found_ms, self.fired_ms, self.finding.severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What receivers last heard of a firing alert."""

    fired_ms: int
    severity: Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What receivers were told of one group: its firing alerts by key, and when."""

    key: str
    told: Mapping[str, Told]
    notified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """What receivers must be told of a group. ``id`` is the idempotency key: the same in every attempt to deliver it."""

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
class Book:
    """Everything that a step needs of those before it. ``number``: of the last notification."""

    alerts: Mapping[str, Alert] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The next book, and what changed: alerts and groups to write, keys of those to drop, notifications to deliver."""

    book: Book
    alerts: tuple[Alert, ...]
    dropped_alerts: tuple[str, ...]
    groups: tuple[Group, ...]
    dropped_groups: tuple[str, ...]
    notifications: tuple[Notification, ...]

    @property
    def is_change(self) -> bool:
        """Say whether anything must be written."""
        return bool(self.alerts or self.dropped_alerts or self.groups or self.dropped_groups or self.notifications)


def moved(book: Book, move: Callable[[int], int]) -> Book:
    """Return the book with all of its times moved: the clock that gave them was stepped."""

    def alert(one: Alert) -> Alert:
        fired_ms = None if one.fired_ms is None else move(one.fired_ms)
        absent_ms = None if one.absent_ms is None else move(one.absent_ms)
        since_ms, found_ms = move(one.since_ms), move(one.found_ms)
        return replace(one, since_ms=since_ms, found_ms=found_ms, fired_ms=fired_ms, absent_ms=absent_ms)

    def group(one: Group) -> Group:
        told = {key: replace(what, fired_ms=move(what.fired_ms)) for key, what in one.told.items()}
        return replace(one, told=told, notified_ms=move(one.notified_ms))

    return replace(
        book,
        alerts={key: alert(one) for key, one in book.alerts.items()},
        groups={key: group(one) for key, one in book.groups.items()},
    )


def step(
    book: Book,
    findings: Iterable[Finding],
    silences: Collection[Silence],
    now_ms: int,
    timing: Timing,
    held: frozenset[str] = frozenset(),
    shift_ms: int = 0,
) -> Step:
    """Return the next step. ``held``: rules and keys of alerts whose evidence cannot be seen: what was found is not gone.

    ``shift_ms``: by how much the clock was stepped since the step before this one.
    """
    kept, book = book, moved(book, lambda at_ms: at_ms + shift_ms) if shift_ms else book
    found = {finding.key: finding for finding in findings}
    told = {key for group in book.groups.values() for key in group.told}
    alerts: dict[str, Alert] = {}
    for key in book.alerts.keys() | found.keys():
        known = book.alerts.get(key)
        is_held = key in held or (known is not None and known.finding.rule in held)
        after = advance(known, found.get(key), is_held=is_held, now_ms=now_ms, timing=timing)
        if after is None and known is not None and key in told:
            # Told, resolved, found again for a moment: its end was not told yet.
            after = replace(known, state=AlertState.RESOLVED, since_ms=now_ms)
        if after is not None:
            alerts[key] = after
    groups, notifications = _tell(book, alerts, silences, now_ms, timing)
    told = {key for group in groups.values() for key in group.told}
    alerts = {key: a for key, a in alerts.items() if key in told or not _is_old(a, now_ms, timing)}
    number = notifications[-1].number if notifications else book.number
    return Step(
        book=Book(alerts=alerts, groups=groups, number=number),
        alerts=tuple(a for key, a in alerts.items() if key not in kept.alerts or kept.alerts[key].kept() != a.kept()),
        dropped_alerts=tuple(sorted(book.alerts.keys() - alerts.keys())),
        groups=tuple(group for key, group in groups.items() if kept.groups.get(key) != group),
        dropped_groups=tuple(sorted(book.groups.keys() - groups.keys())),
        notifications=tuple(notifications),
    )


def advance(
    known: Alert | None, finding: Finding | None, *, is_held: bool, now_ms: int, timing: Timing
) -> Alert | None:
    """Return the alert after this moment, or None where there is none (any more)."""
    if finding is not None:
        if known is None or known.state is AlertState.RESOLVED:
            known = Alert(finding=finding, state=AlertState.PENDING, since_ms=now_ms, found_ms=now_ms)
        if known.state is AlertState.PENDING and now_ms - known.found_ms >= finding.for_ms:
            return replace(known, finding=finding, state=AlertState.FIRING, since_ms=now_ms, fired_ms=now_ms)
        return replace(known, finding=finding, absent_ms=None)
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


def _is_old(alert: Alert, now_ms: int, timing: Timing) -> bool:
    return alert.state is AlertState.RESOLVED and now_ms - alert.since_ms >= timing.resolved_kept_ms


def _tell(
    book: Book, alerts: Mapping[str, Alert], silences: Collection[Silence], now_ms: int, timing: Timing
) -> tuple[dict[str, Group], list[Notification]]:
    """Return the groups that receivers know of, and what they must be told now, in the order of the groups' keys."""
    loud: dict[str, dict[str, Alert]] = {}
    for key, alert in alerts.items():
        if alert.is_firing and covering(silences, alert.finding.labels, now_ms) is None:
            loud.setdefault(alert.finding.group, {})[key] = alert
    groups: dict[str, Group] = {}
    notifications: list[Notification] = []
    for key in sorted(book.groups.keys() | loud.keys()):
        before, firing = book.groups.get(key), loud.get(key, {})
        ended = {k: alerts[k] for k in before.told if not alerts[k].is_firing} if before is not None else {}
        if not _is_due(before, firing, ended, now_ms, timing):
            if before is not None:
                groups[key] = before
            continue
        number = book.number + len(notifications) + 1
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
        # What was told and is silenced since stays known, so that its end is told too.
        told = {k: one for k, one in (before.told if before is not None else {}).items() if k not in ended}
        told |= {k: Told(fired_ms=a.fired_ms or now_ms, severity=a.finding.severity) for k, a in firing.items()}
        if told:
            groups[key] = Group(key=key, told=told, notified_ms=now_ms)
    return groups, notifications


def _is_due(
    before: Group | None, firing: Mapping[str, Alert], ended: Mapping[str, Alert], now_ms: int, timing: Timing
) -> bool:
    told = before.told if before is not None else {}
    news = [alert for key, alert in firing.items() if _is_news(alert, told.get(key))]
    if before is None:
        return bool(news) and now_ms - min(a.fired_ms or now_ms for a in news) >= timing.group_wait_ms
    waited_ms = now_ms - before.notified_ms
    if news or ended:
        return waited_ms >= timing.group_interval_ms
    return bool(firing) and waited_ms >= timing.repeat_ms


def _is_news(alert: Alert, told: Told | None) -> bool:
    return told is None or told.fired_ms != alert.fired_ms or told.severity.rank < alert.finding.severity.rank


def _by_urgency(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    return tuple(sorted(alerts, key=lambda a: (-a.finding.severity.rank, a.found_ms, a.finding.key)))


def _notification_id(group: str, number: int, at_ms: int) -> str:
    return hashlib.sha256(f"{group}|{number}|{at_ms}".encode()).hexdigest()[:32]
