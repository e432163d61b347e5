"""What each receiver is sent, as a POST: a webhook of your own, Slack's incoming webhooks, Alertmanager's API v2.

Your own gets the notification as JSON, signed so that it can tell who sent it and when. Slack gets one message for each, the most
urgent alerts in words, the rest as a number. Alertmanager gets every alert, with the time at which it is over.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from indoubt.collector.assess.findings import Severity
from indoubt.collector.assess.rules import RULES
from indoubt.collector.config.receivers import Post

TIMESTAMP, SIGNATURE, KEY = "X-Indoubt-Timestamp", "X-Indoubt-Signature", "Idempotency-Key"
SHOWN = 10
MAX_LINES, MAX_SUMMARY, MAX_TITLE, MAX_URL = 2_800, 300, 300, 1_000
"""In characters; Slack takes 3,000 in a section, and escaped text is up to five times as long."""
GRACE_MS = 300_000
"""How long an alert outlasts a repetition that does not come."""


class Webhook:
    """``X-Indoubt-Signature: v1=<hex>`` is HMAC-SHA256 of ``<timestamp>.<body>``; the timestamp is epoch seconds."""

    name = "webhook"

    def __init__(self, url: str, secret: str) -> None:
        self._url, self._secret = url, secret.encode()

    def post(self, notification: Mapping[str, Any], now_ms: int) -> Post:
        """Return the POST of a notification; its id is the idempotency key."""
        content = json.dumps(notification, separators=(",", ":")).encode()
        timestamp = str(now_ms // 1000)
        headers = {
            "Content-Type": "application/json",
            KEY: str(notification["id"]),
            TIMESTAMP: timestamp,
            SIGNATURE: signature(self._secret, timestamp, content),
        }
        return Post(url=self._url, headers=headers, content=content)


def signature(secret: bytes, timestamp: str, content: bytes) -> str:
    """Return the signature of a body that is sent at a time."""
    return "v1=" + hmac.new(secret, timestamp.encode() + b"." + content, hashlib.sha256).hexdigest()


class Slack:
    """The address is the secret: whoever knows it may post."""

    name = "slack"

    def __init__(self, url: str) -> None:
        self._url = url

    def post(self, notification: Mapping[str, Any], now_ms: int) -> Post:
        """Return the POST of a notification. Slack knows no idempotency key; the message shows the notification's id."""
        content = json.dumps(message(notification)).encode()
        return Post(url=self._url, headers={"Content-Type": "application/json"}, content=content)


def message(notification: Mapping[str, Any]) -> dict[str, Any]:
    """Return Slack's message (Block Kit)."""
    title = _cut(headline(notification), MAX_TITLE)
    blocks = [_section(f"*{escaped(title)}*")]
    for of, before in (("firing", ""), ("resolved", "resolved: ")):
        if lines := _lines(notification[of], notification[f"{of}_count"], before):
            blocks.append(_section("\n".join(lines)))
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": f"notification {notification['id']}"}]})
    return {"text": escaped(title), "blocks": blocks}


def headline(notification: Mapping[str, Any]) -> str:
    """Return one line: how many alerts about what fire, or that they are resolved."""
    firing, resolved = notification["firing_count"], notification["resolved_count"]
    cluster = notification.get("cluster")
    subject = f"{cluster}: {notification['group']}" if cluster else notification["group"]
    if not firing:
        return f"Resolved: {subject} ({resolved})"
    ended = f", {resolved} resolved" if resolved else ""
    return f"{str(notification['severity']).capitalize()}: {subject} ({firing} firing{ended})"


def escaped(text: str) -> str:
    """Return a text in which nothing is a link or a mention (Slack's own rule: these three characters)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _lines(alerts: Sequence[Mapping[str, Any]], count: int, before: str) -> list[str]:
    """Return a line per alert, whole ones as far as there is room, then how many there are besides."""
    shown: list[str] = []
    for alert in alerts[:SHOWN]:
        line = f"• {before}{escaped(_cut(alert['summary'], MAX_SUMMARY))}{_link(alert.get('url'))}"
        if sum(map(len, shown)) + len(line) > MAX_LINES:
            break
        shown.append(line)
    more = count - len(shown)
    return [*shown, f"• {before}and {more} more"] if more > 0 else shown


def _link(url: str | None) -> str:
    """Return the link to an alert's page; a cut one would lead nowhere."""
    return f" <{escaped(url)}|Open>" if url and len(url) <= MAX_URL else ""


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


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
        found = [_of_alertmanager(alert, alert["severity"], until_ms) for alert in notification["firing"]]
        for alert in notification["firing"]:
            others = [severity.value for severity in Severity if severity.value != alert["severity"]]
            found += [_of_alertmanager(alert, severity, at_ms) for severity in others]
        for alert in notification["resolved"]:
            found += [_of_alertmanager(alert, severity.value, int(alert["since_ms"])) for severity in Severity]
        return found


def _of_alertmanager(alert: Mapping[str, Any], severity: str, ends_ms: int) -> dict[str, Any]:
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
