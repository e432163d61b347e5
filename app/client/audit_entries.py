"""Audit rows with their details and evidence as lines of text, whatever their shape: steps, facts, or a text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from indoubt.lifecycle.rows.row_json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One order, whatever its outcome; ``given_at_ms``: when it was given, None where nothing was sent; ``at_ms``: its end."""

    audit: int
    at_ms: int
    given_at_ms: int | None
    who: str
    action: str
    keys: tuple[str, ...]
    reason: str
    outcome: str
    detail: tuple[str, ...]
    evidence: tuple[str, ...]


def read_audit(value: Json) -> AuditEntry:
    """Return a row of GET /audit. Raises ValueError, KeyError or TypeError when it lacks a field or has a wrong one."""
    keys = value["keys"]
    return AuditEntry(
        audit=int(value["audit"]),
        at_ms=int(value["at_ms"]),
        given_at_ms=value.get("given_at_ms"),
        who=str(value["who"]),
        action=str(value["action"]),
        keys=tuple(map(str, json.loads(keys) if isinstance(keys, str) else keys)),
        reason=str(value["reason"]),
        outcome=str(value["outcome"]),
        detail=tuple(dict.fromkeys(_lines(value["detail"]))),
        evidence=_lines(value["evidence"]),
    )


def _lines(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return tuple(value.splitlines())
    if isinstance(value, Mapping):
        return tuple(line for name, inner in value.items() for line in _named(str(name), _lines(inner)))
    if isinstance(value, list):
        return tuple(line for inner in value for line in _fact(inner))
    return () if value is None else (str(value),)


def _fact(value: Any) -> tuple[str, ...]:
    if isinstance(value, Mapping) and "fact" in value:
        return (f"{value['fact']} ({value['source']})" if value.get("source") else str(value["fact"]),)
    if isinstance(value, Mapping) and "description" in value:
        more = f" ({value['detail']})" if value.get("detail") else ""
        return (f"{value['description']}: {value.get('outcome', 'unknown')}{more}",)
    return _lines(value)


def _named(name: str, lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name}: {line}" for line in lines)
