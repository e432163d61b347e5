"""Silences: what they match, and which ones are refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from indoubt.collector.notify import silences
from indoubt.collector.notify.silences import Silence

NOW = 1_795_000_000_000
LABELS = {"rule": "A1", "severity": "warning", "pipeline": "ip-count", "transaction": "ip-count-0-1"}
BODY: dict[str, Any] = {"matchers": {"pipeline": "ip-count"}, "reason": "maintenance", "duration_ms": 60_000}


ABSENT = object()


def of(number: int = 1, ends: int = 60_000, **matchers: str) -> Silence:
    return Silence(number=number, matchers=matchers, reason="r", author="a", starts_ms=NOW, ends_ms=NOW + ends)


@pytest.mark.parametrize(
    ("matchers", "covers"),
    [
        ({"pipeline": "ip-count"}, True),
        ({"pipeline": "ip-count", "rule": "A1"}, True),
        ({"pipeline": "ip-count", "rule": "A2"}, False),
        ({"pipeline": "ip"}, False),
        ({"pipeline": "ip*"}, True),
        ({"transaction": "*-0-*"}, True),
        ({"pipeline": "IP-COUNT"}, False),
        # Only the star is special.
        ({"pipeline": "ip?count"}, False),
        ({"pipeline": "[i]p-count"}, False),
        # A label that the alert does not carry is empty.
        ({"observer": "decision log"}, False),
        ({"observer": "X"}, False),
        ({"observer": "*"}, True),
    ],
)
def test_every_matcher_must_match(matchers: dict[str, str], covers: bool) -> None:
    assert of(**matchers).covers(LABELS, NOW) is covers


@pytest.mark.parametrize(("at", "covers"), [(-1, False), (0, True), (59_999, True), (60_000, False)])
def test_it_holds_from_its_start_to_its_end(at: int, covers: bool) -> None:
    assert of(rule="A1").covers(LABELS, NOW + at) is covers


def test_the_one_that_ends_last_is_named() -> None:
    found = silences.covering([of(1, 10), of(2, 30, rule="A1"), of(3, 20), of(4, 99, rule="A2")], LABELS, NOW)
    assert found is not None
    assert found.number == 2
    assert silences.covering([], LABELS, NOW) is None
    newest = silences.covering([of(1, 30), of(5, 30), of(3, 30)], LABELS, NOW)
    assert newest is not None
    assert newest.number == 5, "of those that end together the newest"


def test_a_body_is_read() -> None:
    silence = silences.read(BODY, "anna", NOW)
    assert (silence.author, silence.starts_ms, silence.ends_ms) == ("anna", NOW, NOW + 60_000)
    assert (silence.number, silence.matchers, silence.reason) == (0, {"pipeline": "ip-count"}, "maintenance")
    body = {**BODY, "ends_at_ms": NOW + 5}
    del body["duration_ms"]
    assert silences.read(body, "anna", NOW).ends_ms == NOW + 5


@pytest.mark.parametrize("reason", ["abc", " abc ", "a" * 2_000])
def test_a_reason_of_three_to_two_thousand_characters_is_enough(reason: str) -> None:
    assert silences.read({**BODY, "reason": reason}, "anna", NOW).reason == reason.strip()


@pytest.mark.parametrize("ends", [1, 30 * 86_400_000])
def test_it_ends_after_now_and_within_thirty_days(ends: int) -> None:
    assert silences.read({**BODY, "duration_ms": ends}, "anna", NOW).ends_ms == NOW + ends


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"matchers": {}}, "'matchers'"),
        ({"matchers": ["pipeline"]}, "'matchers'"),
        ({"matchers": {"pipelin": "x"}}, "'pipelin'"),
        ({"matchers": {"pipeline": ""}}, "'pipeline'"),
        ({"matchers": {"pipeline": 1}}, "'pipeline'"),
        ({"reason": " a "}, "'reason'"),
        ({"reason": " ab "}, "'reason'"),
        ({"reason": "a" * 2_001}, "'reason'"),
        ({"reason": None}, "'reason'"),
        ({"duration_ms": 0}, "'duration_ms'"),
        ({"duration_ms": True}, "'duration_ms'"),
        ({"duration_ms": "60"}, "'duration_ms'"),
        ({"duration_ms": 30 * 86_400_000 + 1}, "'duration_ms'"),
        ({"ends_at_ms": NOW + 5}, "in one of"),
        ({"ends_at_ms": NOW, "duration_ms": ABSENT}, "'ends_at_ms'"),
        ({"ends_at_ms": NOW + 30 * 86_400_000 + 1, "duration_ms": ABSENT}, "30 days"),
        ({"duration_ms": ABSENT}, "in one of"),
        ({"author": "somebody else"}, "'author'"),
    ],
)
def test_a_wrong_body_is_refused_and_the_field_named(changes: dict[str, Any], names: str) -> None:
    with pytest.raises(ValueError, match=re.escape(names)):
        silences.read({n: v for n, v in {**BODY, **changes}.items() if v is not ABSENT}, "anna", NOW)


@pytest.mark.parametrize("body", [[BODY], [], None, "matchers"])
def test_a_body_that_is_no_object_is_refused(body: Any) -> None:
    with pytest.raises(ValueError, match="no JSON object"):
        silences.read(body, "anna", NOW)
