"""Alertmanager's API v2 (POST /api/v2/alerts): every alert of a notification, with the time at which it is over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from indoubt.collector.assess.findings import Severity
from indoubt.collector.assess.rules import RULES
from indoubt.collector.config.receivers import Post

GRACE_MS = 300_000
"""How long an alert outlasts a repetition that does not come."""


class Alertmanager:
    """Alertmanager names an alert by its labels, so telling it again is no second alert."""

    name = "alertmanager"

    def __init__(self, url: str, token: str, repeat_ms: int) -> None:
        self._url, self._token, self._repeat_ms = url.rstrip("/") + "/api/v2/alerts", token, repeat_ms

    def post(self, notification: Mapping[str, Any], now_ms: int) -> Post:
        """Return the POST of a notification."""
        alerts = self.alerts(notification)
        authorization = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        headers = {"Content-Type": "application/json", **authorization}
        return Post(url=self._url, headers=headers, content=json.dumps(alerts).encode())

    def alerts(self, notification: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what is posted. Severity is a label, so an alert is also ended under the severity that it has not."""
        at_ms = int(notification["at_ms"])
        until_ms = at_ms + self._repeat_ms + GRACE_MS
        found = [_alert(alert, alert["severity"], until_ms) for alert in notification["firing"]]
        for alert in notification["firing"]:
            others = [severity.value for severity in Severity if severity.value != alert["severity"]]
            found += [_alert(alert, severity, at_ms) for severity in others]
        for alert in notification["resolved"]:
            found += [_alert(alert, severity.value, int(alert["since_ms"])) for severity in Severity]
        return found


def _alert(alert: Mapping[str, Any], severity: str, ends_ms: int) -> dict[str, Any]:
    name = RULES[alert["rule"]].name.title().replace(" ", "")
    labels = {"alertname": f"Indoubt{name}", **alert["labels"], "severity": severity}
    evidence = "; ".join(f"{fact['fact']} ({fact['source']})" for fact in alert["evidence"])
    starts_ms = alert["fired_at_ms"] if alert["fired_at_ms"] is not None else alert["found_at_ms"]
    return {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {"summary": alert["summary"], "evidence": evidence},
        "startsAt": _rfc3339(min(int(starts_ms), ends_ms)),
        "endsAt": _rfc3339(ends_ms),
        **({"generatorURL": alert["url"]} if alert.get("url") else {}),
    }


def _rfc3339(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
