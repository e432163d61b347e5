"""Slack's incoming webhooks: one message per notification, the most urgent alerts in words, the rest as a number."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from indoubt.collector.config.receivers import Post

SHOWN = 10
MAX_LINES, MAX_SUMMARY, MAX_TITLE, MAX_URL = 2_800, 300, 300, 1_000
"""In characters; Slack takes 3,000 in a section, and escaped text is up to five times as long."""


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
