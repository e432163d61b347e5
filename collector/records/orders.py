"""Operators' orders and their results: what an order must hold, and the words of its answer."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from typing import Any

from lifecycle.errors import IndoubtError
from lifecycle.orders import Action
from lifecycle.rows.columns import columns
from lifecycle.rows.order_request import (
    IDEMPOTENCY_KEY,
    MAX_KEYS,
    MAX_REASON,
    MIN_REASON,
    OF_TRANSACTIONS,
    ORDER_REQUESTS,
    Filter,
    OrderRequest,
)

_KINDS = {Action: str, str: str, bool: bool, tuple[str, ...]: list, Mapping[str, str]: dict, Filter: dict}
"""Of each type of a field, what JSON has."""
_FIELDS = {name: _KINDS[kind] for request in ORDER_REQUESTS for name, kind in columns(request).items()}
"""Every field that some kind of order has."""
_REQUIRED = frozenset(entry.name for entry in fields(OrderRequest) if entry.default is MISSING)
_IDEMPOTENCY_KEY = re.compile(IDEMPOTENCY_KEY)


class OrderOutcome(Enum):
    """How an order ended; each one leaves an audit row."""

    ACCEPTED = "accepted"
    """Everything that was ordered was done."""
    PENDING = "pending"
    """It was sent, and how part of it ended is not known yet: a later audit row that refers to this one says it."""
    REFUSED = "refused"
    """Not safe, not allowed, or the evidence changed: nothing was done."""
    FAILED = "failed"
    """At least one transaction did not end as ordered."""
    DRY_RUN = "dry_run"
    """Every check passed; nothing was done."""


class StepOutcome(Enum):
    """How one transaction of an order ended, or the pipeline."""

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already committed"
    ABORTED = "aborted"
    LOST = "lost"
    RETRY_LATER = "retry later"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    """Another process decided first: nothing was done to it."""
    RESTARTED = "restarted"
    STARTED = "started"
    STOPPED = "stopped"
    DRY_RUN = "dry run"

    def fulfils(self, action: Action) -> bool:
        """Say whether it ended as ordered."""
        return self in _FULFILS[action]

    @property
    def is_known(self) -> bool:
        """False while the end must still be found out."""
        return self not in (StepOutcome.RETRY_LATER, StepOutcome.UNKNOWN)


_FULFILS = {
    Action.COMMIT: (StepOutcome.COMMITTED, StepOutcome.ALREADY_COMMITTED),
    Action.ABORT: (StepOutcome.ABORTED,),
    Action.SETTLE: (StepOutcome.COMMITTED, StepOutcome.ALREADY_COMMITTED, StepOutcome.ABORTED),
    Action.RESTART: (StepOutcome.RESTARTED,),
    Action.START: (StepOutcome.STARTED,),
    Action.STOP: (StepOutcome.STOPPED,),
}


STANDING_ORDER, REHEARSAL = "standing_order", "rehearsal"
"""The keys that mark the evidence of an order that no person gave."""


class InvalidOrder(IndoubtError):
    """An order lacks a field or has a wrong one; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Do this to these transactions, or to this pipeline; ``seen`` has the revision of each that the operator looked at.

    A bulk order has a ``filter`` and the ``fingerprint`` of its preview instead of keys. ``digest`` tells two bodies apart.
    """

    action: Action
    keys: tuple[str, ...]
    seen: Mapping[str, str]
    reason: str
    dry_run: bool
    confirm: str
    filter: Filter | None = None
    fingerprint: str = ""
    each: bool = False
    """Of several transactions, one that is refused stops no other."""
    idempotency_key: str = ""
    digest: str = ""
    standing_order: str = ""
    """The name of the standing order that gives it; empty: a person does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One transaction of an order, or the pipeline: what is sent, in words, and how it ended."""

    key: str
    description: str
    outcome: StepOutcome
    detail: str = ""

    def to_json(self) -> dict[str, str]:
        """Return it as the API's answer has it."""
        return {"key": self.key, "description": self.description, "outcome": self.outcome.value, "detail": self.detail}


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderResult:
    """The answer to an order that was not refused. ``confirm``: what must be typed to give it, where it may lose data."""

    audit: int
    outcome: OrderOutcome
    took_ms: int
    steps: tuple[Step, ...]
    confirm: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as the API's answer has it."""
        steps = [step.to_json() for step in self.steps]
        answer = {"audit": self.audit, "outcome": self.outcome.value, "took_ms": self.took_ms, "steps": steps}
        return answer | ({"confirm": self.confirm} if self.confirm else {})

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> OrderResult:
        """Return the answer that ``to_json`` wrote."""
        steps = tuple(
            Step(key=s["key"], description=s["description"], outcome=StepOutcome(s["outcome"]), detail=s["detail"])
            for s in value["steps"]
        )
        return cls(
            audit=value["audit"],
            outcome=OrderOutcome(value["outcome"]),
            took_ms=value["took_ms"],
            steps=steps,
            confirm=value.get("confirm", ""),
        )


def read(body: Any, idempotency_key: str = "") -> Order:
    """Return the order of a JSON body; ``idempotency_key`` is that of its header. Raises InvalidOrder that names the field."""
    values = _values(body)
    action = _action(values["action"])
    keys, seen, reason = values["keys"], values["seen"], values["reason"].strip()
    chosen = read_filter(values["filter"]) if values["filter"] else None
    if chosen is not None:
        _check_bulk(action, keys, values["fingerprint"])
    elif not _are_keys(keys):
        raise InvalidOrder(f"order field 'keys' takes 1 to {MAX_KEYS} different keys of transactions")
    elif action.is_of_pipeline and len(keys) != 1:
        raise InvalidOrder("order field 'keys' takes one pipeline's key at a time")
    elif action is Action.SETTLE and len(keys) != 1:
        raise InvalidOrder("order field 'keys' takes the key of one batch at a time")
    if values["each"] and (chosen is not None or action not in OF_TRANSACTIONS):
        raise InvalidOrder("order field 'each' goes with the keys of transactions that are committed or aborted")
    if not all(isinstance(revision, str) for revision in seen.values()):
        raise InvalidOrder("order field 'seen' takes a revision, a text, per key")
    if not MIN_REASON <= len(reason) <= MAX_REASON:
        raise InvalidOrder(f"order field 'reason' takes {MIN_REASON} to {MAX_REASON} characters: say why")
    return Order(
        action=action,
        keys=tuple(keys),
        seen=seen,
        reason=reason,
        dry_run=values["dry_run"],
        confirm=values["confirm"],
        filter=chosen,
        fingerprint=values["fingerprint"],
        each=values["each"],
        idempotency_key=_idempotency_key(values["idempotency_key"], idempotency_key),
        digest=_digest(body),
    )


def read_preview(body: Any) -> tuple[Action, Filter]:
    """Return action and filter of a request for a preview, ``{"action": "abort", "filter": {…}}``. Raises InvalidOrder."""
    if not isinstance(body, dict) or set(body) != {"action", "filter"}:
        raise InvalidOrder("a preview is a JSON object with 'action' and 'filter'")
    action = _action(body["action"])
    if action not in OF_TRANSACTIONS:
        raise InvalidOrder(f"order field 'action': a preview is of 'commit' or 'abort', not of {action.value!r}")
    return action, read_filter(body["filter"])


def read_filter(value: Any) -> Filter:
    """Return the filter. Raises InvalidOrder for an unknown name, a wrong value, and one that would mean everything."""
    kinds: dict[str, type] = {f.name: type(f.default) for f in fields(Filter)}
    if not isinstance(value, dict) or not value:
        raise InvalidOrder(f"order field 'filter' takes one or more of {', '.join(kinds)}")
    for name, given in value.items():
        if name not in kinds:
            raise InvalidOrder(f"order field 'filter' has no {name!r}; it takes {', '.join(kinds)}")
        is_kind = isinstance(given, kinds[name]) and not isinstance(given, bool)
        if not is_kind or not given or (isinstance(given, int) and given < 0):
            raise InvalidOrder(f"order field 'filter': {name!r} is {given!r}; it takes a {kinds[name].__name__}")
    return Filter(**value)


def _values(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise InvalidOrder("an order is a JSON object")
    unknown = sorted(set(body) - set(_FIELDS))
    if unknown:
        raise InvalidOrder(f"an order has no field {unknown[0]!r}; it has {', '.join(_FIELDS)}")
    values: dict[str, Any] = {}
    for name, kind in _FIELDS.items():
        value = body.get(name, None if name in _REQUIRED else kind())
        if not isinstance(value, kind):
            raise InvalidOrder(f"order field {name!r} is {value!r}; it takes a {kind.__name__}")
        values[name] = value
    return values


def _action(text: Any) -> Action:
    try:
        return Action(text)
    except ValueError:
        known = ", ".join(action.value for action in Action)
        raise InvalidOrder(f"order field 'action' is {text!r}; it takes one of {known}") from None


def _are_keys(keys: list[Any]) -> bool:
    return 0 < len(keys) <= MAX_KEYS and all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys)


def _check_bulk(action: Action, keys: list[Any], fingerprint: str) -> None:
    if action is not Action.ABORT:
        raise InvalidOrder(f"order field 'filter' goes with 'abort', not with {action.value!r}")
    if keys:
        raise InvalidOrder("order field 'keys': an order has keys or a 'filter', not both")
    if not fingerprint:
        raise InvalidOrder("order field 'fingerprint' is missing: ask for the preview of the filter first")


def _idempotency_key(of_field: str, of_header: str) -> str:
    if of_field and of_header and of_field != of_header:
        raise InvalidOrder("order field 'idempotency_key' and the header Idempotency-Key differ: give one of them")
    key = of_header or of_field
    if key and not _IDEMPOTENCY_KEY.fullmatch(key):
        raise InvalidOrder("order field 'idempotency_key' takes 1 to 128 printable ASCII characters without spaces")
    return key


def _digest(body: Mapping[str, Any]) -> str:
    """Return a text that is the same for the same order, however its body is written."""
    rest = {name: value for name, value in body.items() if name != "idempotency_key"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
