"""Rows about what needs a person, and what is done without one, as docs/api.md has them."""

from __future__ import annotations

from typing import Any

from tests.unit.app.contract_rows import now_ms


def alert(rule: str = "A2", **changes: Any) -> dict[str, Any]:
    """Return a row of the alerts: a commit that is overdue, firing for 40 s, unless changed."""
    return {
        "key": f"{rule}|kafka:ip-count-0-1:4001:7",
        "rule": rule,
        "name": "commit overdue",
        "state": "firing",
        "severity": "critical",
        "summary": "ip-count-0-1 was decided and is not committed",
        "evidence": [{"fact": "decision 88213 lists it", "source": "decision log", "at_ms": now_ms() - 60_000}],
        "labels": {"rule": rule, "severity": "critical", "pipeline": "ip-count", "transaction": "ip-count-0-1"},
        "since_ms": now_ms() - 40_000,
        "found_at_ms": now_ms() - 50_000,
        "fired_at_ms": now_ms() - 40_000,
        "absent_at_ms": None,
        "group": "application ip-count",
        "remedy": "commit",
        "path": "/transaction?key=kafka%3Aip-count-0-1%3A4001%3A7",
        "silenced_by": None,
        **changes,
    }


def silence(number: int = 1, **changes: Any) -> dict[str, Any]:
    """Return a row of the silences: one of a whole pipeline, for an hour from now, unless changed."""
    return {
        "silence": number,
        "matchers": {"pipeline": "ip-count"},
        "reason": "its broker is being moved",
        "author": "bob",
        "starts_at_ms": now_ms() - 1000,
        "ends_at_ms": now_ms() + 3_600_000,
        "state": "active",
        **changes,
    }


def quarantined(offset: int = 41, **changes: Any) -> dict[str, Any]:
    """Return a row of the quarantined records, unless changed."""
    return {
        "at_ms": now_ms() - 60_000,
        "source": "transaction_lifecycle",
        "partition": 0,
        "offset": offset,
        "error": "event is not JSON",
        "value": '{"specversion":',
        **changes,
    }


def standing_order(name: str = "save clicks", **changes: Any) -> dict[str, Any]:
    """Return one standing order that acts, and has acted once."""
    return {
        "name": name,
        "state": "acts",
        "act": "commit",
        "applications": ["eu/clicks"],
        "when": "less than 20 s left or driver gone",
        "most_per_hour": 50,
        "acts": 1,
        "dry_runs": 0,
        "held": 0,
        "why": "",
        "last_at_ms": now_ms() - 60_000,
        "owner": "carla",
        "switched_by": "",
        "switched_at_ms": None,
        "evaluated_at_ms": now_ms(),
        **changes,
    }


def step(part: str, **changes: Any) -> dict[str, Any]:
    """Return a step of an incident: a restart of the pipeline ip-count that is to be done, unless changed."""
    return {
        "part": part,
        "what": "Restart the driver",
        "state": "to do",
        "note": "",
        "who": "",
        "remedy": "restart",
        "target": "pipeline:ip-count",
        "since_ms": None,
        "usually_ms": None,
        "lost": "",
        **changes,
    }


def step_of(part: dict[str, Any]) -> dict[str, Any]:
    """Return the step that a part with an order asks for."""
    target = part["target"] if part["remedy"] in ("restart", "start") else part["keys"][0]
    return step(part["key"], what=f"{part['remedy'].capitalize()} it", remedy=part["remedy"], target=target)


def incident(*parts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the incident of parts of one application, which needs a person, unless changed."""
    first = parts[0] if parts else attention()
    return {
        "key": first["group"],
        "application": first["pipeline"],
        "state": "act",
        "severity": "critical" if any(part["severity"] == "critical" for part in parts) else "warning",
        "headline": first["headline"],
        "consequence": first["consequence"],
        "since_ms": first["since_ms"],
        "deadline_ms": min((part["deadline_ms"] for part in parts if part["deadline_ms"]), default=None),
        "steps": [step_of(part) for part in parts if part["remedy"] != "open"],
        "parts": list(parts),
        "alerts": [],
        **changes,
    }


def attention(kind: str = "pipeline", **changes: Any) -> dict[str, Any]:
    """Return a part of an incident: the driver of the pipeline ip-count stands still, unless changed."""
    return {
        "key": f"{kind}/ip-count",
        "kind": kind,
        "group": f"application {changes.get('pipeline', 'ip-count')}",
        "badge": "frozen",
        "verdict": None,
        "certainty": None,
        "severity": "critical",
        "pipeline": "ip-count",
        "batch": None,
        "keys": [],
        "headline": "No sign of life for 16 s.",
        "waits": [],
        "since_ms": now_ms() - 16_000,
        "deadline_ms": None,
        "consequence": "Its input is not processed.",
        "remedy": "restart",
        "target": "pipeline:ip-count",
        "rows": None,
        "partitions": [],
        **changes,
    }
