"""Operators' orders and their results: what an order must hold, and the words of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from lifecycle.errors import IndoubtError

REASON_LEAST = 3
REASON_MOST = 2_000
KEYS_MOST = 1_000
_FIELDS = {"action": str, "keys": list, "seen": dict, "reason": str, "dry_run": bool, "confirm": str}
_OPTIONAL = {"seen": {}, "dry_run": False, "confirm": ""}


class Action(Enum):
    """What an operator may order."""

    COMMIT = "commit"
    ABORT = "abort"


class OrderOutcome(Enum):
    """How an order ended; each one leaves an audit row."""

    ACCEPTED = "accepted"
    """Everything that was ordered was done."""
    REFUSED = "refused"
    """Not safe, not allowed, or the evidence changed: nothing was done."""
    FAILED = "failed"
    """At least one transaction did not end as ordered."""
    DRY_RUN = "dry_run"
    """Every check passed; nothing was done."""


class StepOutcome(Enum):
    """How one transaction of an order ended."""

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already committed"
    ABORTED = "aborted"
    LOST = "lost"
    RETRY_LATER = "retry later"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    """Somebody else decided about its batch first: nothing was done to it."""
    DRY_RUN = "dry run"

    def fulfils(self, action: Action) -> bool:
        """Say whether the transaction ended as ordered."""
        if action is Action.COMMIT:
            return self in (StepOutcome.COMMITTED, StepOutcome.ALREADY_COMMITTED)
        return self is StepOutcome.ABORTED


class InvalidOrder(IndoubtError):
    """An order lacks a field or has a wrong one; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Commit or abort these transactions; ``seen`` has the revision of each that the operator looked at."""

    action: Action
    keys: tuple[str, ...]
    seen: Mapping[str, str]
    reason: str
    dry_run: bool
    confirm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One transaction of an order: what is sent, in words, and how it ended."""

    key: str
    will: str
    outcome: StepOutcome
    detail: str = ""

    def to_json(self) -> dict[str, str]:
        """Return it as the API's answer has it."""
        return {"key": self.key, "will": self.will, "outcome": self.outcome.value, "detail": self.detail}


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderResult:
    """The answer to an order that was not refused."""

    audit: int
    outcome: OrderOutcome
    took_ms: int
    steps: tuple[Step, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as the API's answer has it."""
        steps = [step.to_json() for step in self.steps]
        return {"audit": self.audit, "outcome": self.outcome.value, "took_ms": self.took_ms, "steps": steps}


def read(body: Any) -> Order:
    """Return the order of a JSON body. Raises InvalidOrder that names the field."""
    if not isinstance(body, dict):
        raise InvalidOrder("an order is a JSON object")
    unknown = sorted(set(body) - set(_FIELDS))
    if unknown:
        raise InvalidOrder(f"an order has no field {unknown[0]!r}; it has {', '.join(_FIELDS)}")
    values: dict[str, Any] = {}
    for name, kind in _FIELDS.items():
        value = body.get(name, _OPTIONAL.get(name))
        if not isinstance(value, kind):
            raise InvalidOrder(f"order field {name!r} is {value!r}; it takes a {kind.__name__}")
        values[name] = value
    try:
        action = Action(values["action"])
    except ValueError:
        raise InvalidOrder(f"order field 'action' is {values['action']!r}; it takes commit or abort") from None
    keys, seen, reason = values["keys"], values["seen"], values["reason"].strip()
    if (
        not keys
        or len(keys) > KEYS_MOST
        or not all(isinstance(key, str) for key in keys)
        or len(set(keys)) != len(keys)
    ):
        raise InvalidOrder(f"order field 'keys' takes 1 to {KEYS_MOST} different keys of transactions")
    if not all(isinstance(revision, str) for revision in seen.values()):
        raise InvalidOrder("order field 'seen' takes a revision, a text, per key")
    if not REASON_LEAST <= len(reason) <= REASON_MOST:
        raise InvalidOrder(f"order field 'reason' takes {REASON_LEAST} to {REASON_MOST} characters: say why")
    return Order(
        action=action, keys=tuple(keys), seen=seen, reason=reason, dry_run=values["dry_run"], confirm=values["confirm"]
    )
