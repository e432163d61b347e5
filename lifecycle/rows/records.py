"""Rows of GET /audit and GET /quarantined."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.lifecycle.rows.row_json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One order, whatever its outcome; ``refers_to``: the audit number of the order that this row follows up.

    ``given_at_ms``: when it was given, None where nothing was sent; ``at_ms``: when it ended.
    """

    audit: int
    at_ms: int
    who: str
    action: str
    keys: tuple[str, ...]
    reason: str
    outcome: str
    detail: str
    evidence: tuple[Json, ...]
    refers_to: int | None
    given_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRow:
    """A record that could not be understood: where it is, what is wrong with it, and the beginning of its value."""

    at_ms: int
    source: str
    partition: int
    offset: int
    error: str
    value: str
