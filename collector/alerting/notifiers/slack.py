"""Slack's incoming webhooks: one message per notification, the most urgent alerts in words, the rest as a number."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from collector.config.receivers import Post

SHOWN = 10
MAX_TEXT = 2_900
"""Slack takes 3,000 characters in a section."""


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
    title = headline(notification)
    lines = [
        *_lines(notification["firing"], notification["firing_count"], ""),
        *_lines(notification["resolved"], notification["resolved_count"], "resolved: "),
    ]
    blocks: list[dict[str, Any]] = [_section(f"*{escaped(title)}*")]
    if lines:
        blocks.append(_section("\n".join(lines)))
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": f"notification {notification['id']}"}]})
    return {"text": escaped(title), "blocks": blocks}


def headline(notification: Mapping[str, Any]) -> str:
    """Return one line: how many alerts of which group fire, or that they are resolved."""
    firing, resolved = notification["firing_count"], notification["resolved_count"]
    rule, _, what = str(notification["group"]).partition("|")
    subject = f"{rule} {what}".strip()
    if not firing:
        return f"Resolved: {subject} ({resolved})"
    ended = f", {resolved} resolved" if resolved else ""
    return f"{str(notification['severity']).capitalize()}: {subject} ({firing} firing{ended})"


def escaped(text: str) -> str:
    """Return a text in which nothing is a link or a mention (Slack's own rule: these three characters)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _lines(alerts: Sequence[Mapping[str, Any]], count: int, before: str) -> list[str]:
    shown = [f"• {before}{escaped(alert['summary'])}" for alert in alerts[:SHOWN]]
    more = count - len(shown)
    return [*shown, f"• {before}and {more} more"] if more > 0 else shown


def _section(text: str) -> dict[str, Any]:
    cut = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"
    return {"type": "section", "text": {"type": "mrkdwn", "text": cut}}
