"""Operators' orders and their results: what an order must hold, and the words of its answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from indoubt.lifecycle.errors import IndoubtError, OrderRefused
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.order_request import (
    OF_TRANSACTIONS,
    AnyOrder,
    Filter,
    KeyedOrderRequest,
    OrderRequest,
    PreviewRequest,
    RunRequest,
    SingleOrderRequest,
    TransactionOrderRequest,
    read_body,
)
from indoubt.lifecycle.rows.orders import OrderRun


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


STANDING_ORDER, DRY_RUN = "standing_order", "dry_run"
"""The keys that mark the evidence of an order that no person gave."""


class InvalidOrder(IndoubtError):
    """An order lacks a field or has a wrong one; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Do this to these transactions, or to this pipeline; ``seen`` has the revision of each that the operator looked at.

    An order by filter has a ``filter`` and the ``fingerprint`` of its preview instead of keys. ``digest`` tells two bodies apart.
    """

    action: Action
    keys: tuple[str, ...]
    seen: Mapping[str, str]
    reason: str
    dry_run: bool
    confirm: str
    filter: Filter | None = None
    fingerprint: str = ""
    subject: str = ""
    """What it is about, in words, as its sender has it."""
    each: bool = False
    """Of several transactions, one that is refused stops no other."""
    idempotency_key: str = ""
    digest: str = ""
    standing_order: str = ""
    """The name of the standing order that gives it; empty: a person does."""

    def revision_of(self, key: str) -> str:
        """Return the revision that was looked at. Raises OrderRefused where none is given."""
        if key not in self.seen:
            raise OrderRefused(f"the order does not say which revision of {key} was looked at: give it in 'seen'")
        return self.seen[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One transaction of an order, or the pipeline: what is sent, in words, and how it ended."""

    key: str
    description: str
    outcome: StepOutcome
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderResult:
    """The answer to an order that was not refused. ``confirm``: what must be typed to give it, where it may lose data."""

    audit: int
    outcome: OrderOutcome
    took_ms: int
    steps: tuple[Step, ...]
    confirm: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstAnswer:
    """The first answer to an idempotency key, or why it was refused; both None where the key is not known."""

    answer: OrderResult | None
    refused: str | None


def read(body: Any, idempotency_key: str = "") -> Order:
    """Return the order of a JSON body; ``idempotency_key`` is that of its header. Raises InvalidOrder that names the field."""
    return _read(_kind_of(body), body, idempotency_key)


def read_run(body: Any, idempotency_key: str = "") -> Order:
    """Return the order of a run's JSON body, which may have a filter, otherwise as ``read``."""
    by_filter = isinstance(body, dict) and "filter" in body
    return _read(RunRequest if by_filter else _kind_of(body), body, idempotency_key)


def _read(kind: type[OrderRequest], body: Any, idempotency_key: str) -> Order:
    if idempotency_key and isinstance(body, dict):
        if body.get("idempotency_key", idempotency_key) != idempotency_key:
            raise InvalidOrder("order field 'idempotency_key' and the header Idempotency-Key differ: give one of them")
        body = {**body, "idempotency_key": idempotency_key}
    try:
        request = read_body(kind, body)
    except ValueError as error:
        raise InvalidOrder(f"order {error}") from None
    of_keys = request if isinstance(request, KeyedOrderRequest) else None
    of_filter = request if isinstance(request, RunRequest) else None
    return Order(
        action=request.action,
        keys=of_keys.keys if of_keys else (),
        seen=of_keys.seen if of_keys else {},
        reason=request.reason,
        dry_run=request.dry_run,
        confirm=request.confirm,
        filter=of_filter.filter if of_filter else None,
        fingerprint=of_filter.fingerprint if of_filter else "",
        subject=of_keys.subject if of_keys else "",
        idempotency_key=request.idempotency_key,
        digest=_digest(body),
    )


def order_of_run(run: OrderRun) -> Order:
    """Return what a run is as an order, for the audit of an attempt to stop it."""
    return Order(action=run.action, keys=(), seen={}, reason=f"stop {run.run}: {run.reason}", dry_run=False, confirm="")


def read_preview(body: Any) -> tuple[Action, Filter]:
    """Return action and filter of a request for a preview, ``{"action": "abort", "filter": {…}}``. Raises InvalidOrder."""
    try:
        request = read_body(PreviewRequest, body)
    except ValueError as error:
        raise InvalidOrder(f"preview {error}") from None
    return request.action, request.filter


def _kind_of(body: Any) -> type[AnyOrder]:
    given = body if isinstance(body, dict) else {}
    is_of_transactions = given.get("action") in [action.value for action in OF_TRANSACTIONS]
    return TransactionOrderRequest if is_of_transactions else SingleOrderRequest


def _digest(body: Mapping[str, Any]) -> str:
    """Return a text that is the same for the same order, however its body is written."""
    rest = {name: value for name, value in body.items() if name != "idempotency_key"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
