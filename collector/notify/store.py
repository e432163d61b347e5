"""Alerts, silences and the outbox in history: what a step changes is written in one database transaction."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from indoubt.collector.assess.findings import Finding, Severity
from indoubt.collector.history import alert_sql
from indoubt.collector.history.store import Statement, Store
from indoubt.collector.notify.silences import Silence
from indoubt.collector.notify.state_machine import Alert, AlertState, AlertStates, Group, Notification, Notified, Step
from indoubt.lifecycle.rows.attention import Remedy
from indoubt.lifecycle.verdicts import Evidence

SILENCES_LOADED = 10_000
MAX_SHOWN = 200
"""So many alerts stand in a notification, the most urgent first; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One notification on its way to one receiver: its JSON, how often it was tried, and when it is due (epoch ms)."""

    number: int
    attempts: int
    next_ms: int
    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverStatus:
    """How one receiver is served: notifications that wait, since when, those given up, and why the newest one failed."""

    receiver: str
    waiting: int = 0
    oldest_ms: int | None = None
    given_up: int = 0
    error: str = ""


class AlertStore:
    """Reads and writes through the store; every method raises StoreFailed."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def load(self) -> AlertStates:
        """Return the states as it was written last, after everything that is on its way to be written."""
        self.store.flushed()
        alerts = [_alert(row) for row in self.store.rows(alert_sql.ALERTS)]
        groups = [_group(row) for row in self.store.rows(alert_sql.GROUPS)]
        ((number,),) = self.store.rows(alert_sql.LAST_NOTIFICATION)
        return AlertStates(
            alerts={alert.finding.key: alert for alert in alerts},
            groups={group.key: group for group in groups},
            number=number,
        )

    def keep(self, step: Step, receivers: Collection[str]) -> None:
        """Write a step, and a delivery of each of its notifications to each receiver."""
        statements: list[Statement] = []
        if step.alerts:
            statements.append((alert_sql.KEEP_ALERTS, _columns([_alert_row(alert) for alert in step.alerts])))
        if step.dropped_alerts:
            statements.append((alert_sql.DROP_ALERTS, [list(step.dropped_alerts)]))
        if step.groups:
            statements.append((alert_sql.KEEP_GROUPS, _columns([_group_row(group) for group in step.groups])))
        if step.dropped_groups:
            statements.append((alert_sql.DROP_GROUPS, [list(step.dropped_groups)]))
        for notification in step.notifications:
            row = [
                notification.number,
                notification.id,
                notification.at_ms,
                json.dumps(notification_json(notification)),
            ]
            statements.append((alert_sql.ADD_NOTIFICATION, row))
            statements += [
                (alert_sql.ADD_DELIVERY, [notification.number, receiver, notification.at_ms]) for receiver in receivers
            ]
        self.store.keep(statements)

    def silences(self) -> list[Silence]:
        """Return the silences, newest first, those that ended too."""
        rows = self.store.rows(alert_sql.SILENCES, SILENCES_LOADED)
        return [
            Silence(
                number=number,
                matchers=json.loads(matchers),
                reason=reason,
                author=author,
                starts_ms=starts_ms,
                ends_ms=ends_ms,
            )
            for number, matchers, reason, author, starts_ms, ends_ms in rows
        ]

    def next_silence(self) -> int:
        """Return the number of the next silence."""
        ((last,),) = self.store.rows(alert_sql.LAST_SILENCE)
        return int(last) + 1

    def keep_silence(self, silence: Silence, audit: Sequence[Any]) -> int:
        """Write a silence and its audit row (its columns but the number) together; return the audit row's number."""
        matchers = json.dumps(dict(silence.matchers))
        row = [silence.number, matchers, silence.reason, silence.author, silence.starts_ms, silence.ends_ms]
        return self.store.append_audit(audit, also=[(alert_sql.KEEP_SILENCE, row)])

    def next_delivery(self, receiver: str) -> Delivery | None:
        """Return the oldest notification that waits for a receiver, or None."""
        rows = self.store.rows(alert_sql.NEXT_DELIVERY, receiver)
        if not rows:
            return None
        number, attempts, next_ms, body = rows[0]
        return Delivery(number=number, attempts=attempts, next_ms=next_ms, body=json.loads(body))

    def note_delivery(self, delivery: Delivery, receiver: str, state: str, next_ms: int, error: str) -> None:
        """Write how an attempt ended: ``delivered``, ``waiting`` (to be tried again) or ``given up``."""
        row = [state, delivery.attempts + 1, next_ms, error, delivery.number, receiver]
        self.store.keep([(alert_sql.NOTE_DELIVERY, row)])

    def receiver_statuses(self) -> list[ReceiverStatus]:
        """Return the status of each receiver with a delivery in the outbox."""
        rows = self.store.named_rows(alert_sql.DELIVERIES)
        return [ReceiverStatus(**{**row, "error": row["error"] or ""}) for row in rows]

    def forget(self, before_ms: int) -> None:
        """Drop what is older, delivered or not."""
        self.store.keep([(alert_sql.FORGET_DELIVERIES, [before_ms]), (alert_sql.FORGET_NOTIFICATIONS, [before_ms])])


def alert_json(alert: Alert) -> dict[str, Any]:
    """Return an alert as receivers get it."""
    finding = alert.finding
    return {
        "key": finding.key,
        "rule": finding.rule,
        "state": alert.state.value,
        "severity": finding.severity.value,
        "summary": finding.summary,
        "evidence": [{"fact": e.fact, "source": e.source, "at_ms": e.at_ms} for e in finding.evidence],
        "labels": finding.labels,
        "group": finding.group,
        "remedy": finding.remedy.value,
        "path": finding.path,
        "found_at_ms": alert.found_ms,
        "fired_at_ms": alert.fired_ms,
        "since_ms": alert.since_ms,
    }


def notification_json(notification: Notification) -> dict[str, Any]:
    """Return a notification as it waits in the outbox and as the webhook gets it: no secret is in it."""
    return {
        "version": 1,
        "id": notification.id,
        "number": notification.number,
        "at_ms": notification.at_ms,
        "group": notification.group,
        "status": notification.status.value,
        "severity": notification.severity.value,
        "firing_count": len(notification.firing),
        "resolved_count": len(notification.resolved),
        "firing": [alert_json(alert) for alert in notification.firing[:MAX_SHOWN]],
        "resolved": [alert_json(alert) for alert in notification.resolved[:MAX_SHOWN]],
    }


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _alert_row(alert: Alert) -> list[Any]:
    finding = alert.finding
    value = {
        "rule": finding.rule,
        "subject": finding.subject,
        "group": finding.group,
        "severity": finding.severity.value,
        "summary": finding.summary,
        "evidence": [[e.fact, e.source, e.at_ms] for e in finding.evidence],
        "subject_labels": dict(finding.subject_labels),
        "for_ms": finding.for_ms,
        "remedy": finding.remedy.value,
        "object_path": finding.object_path,
    }
    return [finding.key, alert.state.value, alert.since_ms, alert.found_ms, alert.fired_ms, json.dumps(value)]


def _alert(row: Sequence[Any]) -> Alert:
    state, since_ms, found_ms, fired_ms, text = row
    value = json.loads(text)
    evidence = tuple(Evidence(fact=fact, source=source, at_ms=at_ms) for fact, source, at_ms in value.pop("evidence"))
    remedy = Remedy(value.pop("remedy"))
    finding = Finding(**{**value, "severity": Severity(value["severity"]), "evidence": evidence, "remedy": remedy})
    return Alert(finding=finding, state=AlertState(state), since_ms=since_ms, found_ms=found_ms, fired_ms=fired_ms)


def _group_row(group: Group) -> list[Any]:
    notified = {key: [alert.fired_ms, alert.severity.value] for key, alert in group.notified.items()}
    return [group.key, group.notified_ms, json.dumps(notified)]


def _group(row: Sequence[Any]) -> Group:
    key, notified_ms, text = row
    notified = {
        k: Notified(fired_ms=fired_ms, severity=Severity(word)) for k, (fired_ms, word) in json.loads(text).items()
    }
    return Group(key=key, notified=notified, notified_ms=notified_ms)
