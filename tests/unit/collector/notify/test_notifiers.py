"""What each receiver is sent."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import fields
from typing import Any

import pytest

from indoubt.collector.config import receivers
from indoubt.collector.config.receivers import NAMES, Post, ReceiverSettings
from indoubt.collector.notify.notifiers import rendering
from indoubt.collector.notify.notifiers.delivery import linked
from indoubt.collector.notify.notifiers.rendering import Alertmanager, Slack, Webhook
from indoubt.collector.notify.service import notifiers
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.errors import SettingsError

NOW = 1_795_000_000_000
SECRET = "a-secret-of-sixteen-and-more"
ENVIRONMENT = {
    "INDOUBT_WEBHOOK_URL": "https://user:pass@hooks.example/indoubt?token=in-the-address",
    "INDOUBT_WEBHOOK_SECRET": SECRET,
    "INDOUBT_SLACK_URL": "https://hooks.slack.com/services/T0/B0/secret-part",
    "INDOUBT_ALERTMANAGER_URL": "http://127.0.0.1:9093/",
    "INDOUBT_ALERTMANAGER_TOKEN": "token-of-the-alertmanager",
}


def alert(n: int = 1, *, severity: str = "critical", state: str = "firing", summary: str = "") -> dict[str, Any]:
    return {
        "key": f"A1|t-{n}",
        "rule": "A1",
        "state": state,
        "severity": severity,
        "summary": summary or f"transaction t-{n} has 12 s left",
        "evidence": [{"fact": "the broker aborts it then", "source": "transaction coordinator", "at_ms": NOW}],
        "labels": {"rule": "A1", "severity": severity, "pipeline": "p", "transaction": f"t-{n}"},
        "found_at_ms": NOW - 5_000,
        "fired_at_ms": NOW - 4_000,
        "since_ms": NOW - 4_000 if state == "firing" else NOW - 1_000,
    }


def notification(firing: list[dict[str, Any]], resolved: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {
        "version": 1,
        "id": "0123456789abcdef",
        "number": 7,
        "at_ms": NOW,
        "group": "batch 41 of p",
        "status": "firing" if firing else "resolved",
        "severity": "critical",
        "firing_count": len(firing),
        "resolved_count": len(resolved or []),
        "firing": firing,
        "resolved": resolved or [],
    }


def test_the_webhook_is_signed_and_carries_the_idempotency_key() -> None:
    sent = notification([alert()])
    post = Webhook("http://h/", SECRET).post(sent, NOW + 999)
    assert json.loads(post.content) == sent
    assert post.headers["Idempotency-Key"] == sent["id"]
    assert post.headers["X-Indoubt-Timestamp"] == str(NOW // 1000)
    # As docs/alerts.md tells a receiver to check it.
    expected = hmac.new(SECRET.encode(), f"{NOW // 1000}.".encode() + post.content, hashlib.sha256).hexdigest()
    assert post.headers["X-Indoubt-Signature"] == f"v1={expected}"


def test_another_time_body_or_secret_has_another_signature() -> None:
    hook, sent = Webhook("http://h/", SECRET), notification([alert()])
    signatures = {
        hook.post(sent, NOW).headers["X-Indoubt-Signature"],
        hook.post(sent, NOW + 1_000).headers["X-Indoubt-Signature"],
        hook.post(notification([alert(2)]), NOW).headers["X-Indoubt-Signature"],
        Webhook("http://h/", SECRET + "!").post(sent, NOW).headers["X-Indoubt-Signature"],
    }
    assert len(signatures) == 4


def test_slack_gets_firing_and_resolved_in_one_message() -> None:
    sent = json.loads(Slack("http://h/").post(notification([alert(1)], [alert(2, state="resolved")]), NOW).content)
    assert sent["text"] == "Critical: batch 41 of p (1 firing, 1 resolved)"
    _, firing, resolved, last = sent["blocks"]
    assert firing["text"]["text"] == "• transaction t-1 has 12 s left"
    assert resolved["text"]["text"] == "• resolved: transaction t-2 has 12 s left"
    assert "0123456789abcdef" in json.dumps(last)


def test_slack_gets_no_links_no_mentions_and_no_more_than_it_takes() -> None:
    evil = alert(summary="<!channel> & <http://evil|click> " + "x" * 5_000)
    sent = rendering.message(notification([evil] * 40))
    for block in sent["blocks"][:2]:
        assert "<" not in block["text"]["text"]
        assert len(block["text"]["text"]) <= 3_000
    many = rendering.message(notification([alert(n) for n in range(40)]))["blocks"][1]["text"]["text"]
    assert many.endswith("• and 30 more")


def test_each_receiver_gets_a_link_to_what_the_alert_is_about() -> None:
    path = page_paths.batch("p|<x>y", 41)
    firing, ended = {**alert(), "path": path}, {**alert(2, state="resolved"), "path": page_paths.ALERTS}
    sent = linked(notification([firing], [ended]), "https://ops.example/indoubt")
    address = "https://ops.example/indoubt/batch?pipeline=p%7C%3Cx%3Ey&number=41"

    (of_webhook,) = json.loads(Webhook("http://h/", SECRET).post(sent, NOW).content)["firing"]
    assert of_webhook["url"] == address
    _, first, last, _ = rendering.message(sent)["blocks"]
    # Slack reads an address with its three characters escaped, and ends it at the bar.
    assert first["text"]["text"] == f"• transaction t-1 has 12 s left <{address.replace('&', '&amp;')}|Open>"
    assert last["text"]["text"].endswith(" <https://ops.example/indoubt/alerts|Open>")
    to_alertmanager = Alertmanager("http://h", "", 3_600_000).alerts(sent)
    assert {one["generatorURL"] for one in to_alertmanager if one["labels"]["transaction"] == "t-1"} == {address}


def test_each_receiver_is_told_of_which_cluster_it_is() -> None:
    sent = linked(notification([{**alert(), "path": page_paths.ALERTS}]), "https://ops.example", "eu")
    of_webhook = json.loads(Webhook("http://h/", SECRET).post(sent, NOW).content)
    assert (of_webhook["cluster"], of_webhook["firing"][0]["labels"]["cluster"]) == ("eu", "eu")
    assert of_webhook["firing"][0]["url"] == "https://ops.example/alerts?cluster=eu"
    assert ": eu: " in rendering.message(sent)["text"]
    assert {one["labels"]["cluster"] for one in Alertmanager("http://h", "", 3_600_000).alerts(sent)} == {"eu"}
    assert "cluster" not in linked(notification([{**alert(), "path": page_paths.ALERTS}]), "")


def test_without_an_address_of_the_app_there_is_no_link() -> None:
    sent = linked(notification([{**alert(), "path": "/alerts"}]), "")
    assert sent["firing"][0]["url"] is None
    assert "<" not in json.dumps(rendering.message(sent))
    assert all("generatorURL" not in one for one in Alertmanager("http://h", "", 3_600_000).alerts(sent))


def test_a_link_is_sent_to_slack_whole_or_not_at_all() -> None:
    longest = {**alert(summary="&" * 5_000), "path": page_paths.transaction("t" * 900)}
    words = rendering.message(linked(notification([longest] * 10), "https://ops.example"))["blocks"][1]["text"]["text"]
    assert len(words) <= 3_000
    assert words.count("<https://") == words.count("|Open>") == 1
    assert words.endswith("|Open>\n• and 9 more")
    endless = {**alert(), "path": page_paths.transaction("t" * 5_000)}
    assert "<" not in json.dumps(rendering.message(linked(notification([endless]), "https://ops.example")))


def test_alertmanager_gets_every_alert_with_labels_and_times() -> None:
    manager = Alertmanager("http://h:9093/", "", 3_600_000)
    post = manager.post(notification([alert(1)], [alert(2, state="resolved")]), NOW)
    assert post.url == "http://h:9093/api/v2/alerts"
    assert "Authorization" not in post.headers
    sent = json.loads(post.content)
    firing = [one for one in sent if one["endsAt"] > "2026-11-18T12"]
    (one,) = firing
    assert one["labels"] == {
        "alertname": "IndoubtTimeoutNear",
        "rule": "A1",
        "severity": "critical",
        "pipeline": "p",
        "transaction": "t-1",
    }
    assert one["startsAt"] == "2026-11-18T11:06:36.000Z"
    assert one["endsAt"] == "2026-11-18T12:11:40.000Z", "until the next repetition and five minutes more"
    assert one["annotations"]["evidence"] == "the broker aborts it then (transaction coordinator)"


def test_an_alert_that_rose_in_severity_does_not_stand_under_its_old_one() -> None:
    sent = Alertmanager("http://h", "", 3_600_000).alerts(notification([alert(1)], [alert(2, state="resolved")]))
    ends = {(one["labels"]["transaction"], one["labels"]["severity"]): one["endsAt"] for one in sent}
    assert ends["t-1", "critical"] > ends["t-1", "warning"] == "2026-11-18T11:06:40.000Z"
    assert ends["t-2", "critical"] == ends["t-2", "warning"] == "2026-11-18T11:06:39.000Z"
    assert all(one["startsAt"] <= one["endsAt"] for one in sent)


def test_receivers_are_read_from_the_environment() -> None:
    made = notifiers(receivers.read(ENVIRONMENT), 60_000)
    assert [notifier.name for notifier in made] == ["webhook", "slack", "alertmanager"]
    assert made[2].post(notification([alert()]), NOW).headers["Authorization"] == "Bearer token-of-the-alertmanager"
    assert notifiers(receivers.read({}), 60_000) == []


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"INDOUBT_WEBHOOK_SECRET": ""}, "INDOUBT_WEBHOOK_SECRET go together"),
        ({"INDOUBT_WEBHOOK_URL": ""}, "INDOUBT_WEBHOOK_URL"),
        ({"INDOUBT_WEBHOOK_SECRET": "short-secret"}, "16 characters"),
        ({"INDOUBT_SLACK_URL": "hooks.slack.com/secret-part"}, "INDOUBT_SLACK_URL"),
        ({"INDOUBT_SLACK_URL": "https:///secret-part"}, "INDOUBT_SLACK_URL"),
        ({"INDOUBT_SLACK_URL": "https://h:port/secret-part"}, "INDOUBT_SLACK_URL"),
        ({"INDOUBT_SLACK_URL": "https://h/secret-part\n"}, "INDOUBT_SLACK_URL"),
        ({"INDOUBT_ALERTMANAGER_URL": "file:///secret-part"}, "INDOUBT_ALERTMANAGER_URL"),
        ({"INDOUBT_ALERTMANAGER_URL": ""}, "INDOUBT_ALERTMANAGER_TOKEN"),
    ],
)
def test_a_wrong_receiver_is_named_and_its_value_never_shown(changes: dict[str, str], names: str) -> None:
    with pytest.raises(SettingsError, match=names) as raised:
        receivers.read({**ENVIRONMENT, **changes})
    for value in ("secret-part", "short-secret", SECRET, "token-of-the-alertmanager", "in-the-address"):
        assert value not in str(raised.value)


def test_nothing_shows_an_address_or_a_secret() -> None:
    read = receivers.read(ENVIRONMENT)
    assert {field.name for field in fields(ReceiverSettings)} == {n.removeprefix("INDOUBT_").lower() for n in NAMES}
    shown = repr(read)
    for notifier in notifiers(read, 60_000):
        post = notifier.post(notification([alert()]), NOW)
        assert isinstance(post, Post)
        shown += repr(notifier) + repr(post) + str(post)
    for value in ENVIRONMENT.values():
        assert value not in shown
    assert "secret-part" not in shown
