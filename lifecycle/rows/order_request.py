"""The bodies of POST /orders and of its preview: three kinds of orders, which differ in what they are about.

A field without a default is required. ``metadata`` holds what its type does not say, in JSON Schema's words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from lifecycle.json_record import MAX_WHOLE_NUMBER
from lifecycle.orders import Action

MIN_REASON = 3
MAX_REASON = 2_000
MAX_KEYS = 1_000
PART = 250
"""Keys that a client sends at once of an order for more: fewer than is taken, so that it shows sooner how it goes."""
IDEMPOTENCY_KEY = r"[!-~]{1,128}"
"""Printable ASCII without blanks."""
THREE_VISIBLE = r"[^\s\x1c-\x1f\x85][\s\S]+[^\s\x1c-\x1f\x85]"
"""Three characters or more once the blanks at both ends are gone, in Python's sense of a blank."""
REASON: Mapping[str, Any] = {
    "minLength": MIN_REASON,
    "maxLength": MAX_REASON,
    "pattern": THREE_VISIBLE,
    "description": "Why.",
}
OF_TRANSACTIONS = (Action.COMMIT, Action.ABORT)
OF_ONE_THING = tuple(action for action in Action if action not in OF_TRANSACTIONS)
"""Actions on a pipeline or a batch, which take one key."""
_NOT_EMPTY = {"minLength": 1}


def _one_of(actions: Sequence[Action]) -> Mapping[str, Any]:
    return {"enum": [action.value for action in actions]}


def _keys(largest: int) -> Mapping[str, Any]:
    return {"minItems": 1, "maxItems": largest, "uniqueItems": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which transactions a bulk order means: all that have every value given. Empty and 0: any value."""

    pipeline: str = field(default="", metadata=_NOT_EMPTY)
    verdict: str = field(default="", metadata=_NOT_EMPTY)
    certainty: str = field(default="", metadata=_NOT_EMPTY)
    resource_manager: str = field(default="", metadata=_NOT_EMPTY)
    transaction_prefix: str = field(default="", metadata=_NOT_EMPTY)
    open_for_ms: int = field(default=0, metadata={"minimum": 1, "maximum": MAX_WHOLE_NUMBER})

    def to_json(self) -> dict[str, Any]:
        """Return what was given, as an order has it."""
        return {name: value for name, value in asdict(self).items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRequest:
    """What every order has. ``confirm``: what must be typed. ``idempotency_key``: also taken from the header of that name."""

    action: Action
    reason: str = field(metadata=REASON)
    dry_run: bool = False
    confirm: str = field(default="", metadata={"description": "What must be typed, where the order loses data."})
    idempotency_key: str = field(default="", metadata={"pattern": f"^{IDEMPOTENCY_KEY}$"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedOrderRequest(OrderRequest):
    """About these keys. ``seen``: the revision of each key that the operator read."""

    keys: tuple[str, ...] = field(metadata=_keys(MAX_KEYS))
    seen: Mapping[str, str] = field(
        default_factory=dict, metadata={"description": "The revision of each key, as the operator read it."}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOrderRequest(KeyedOrderRequest):
    """About transactions. ``each``: whichever changed, or may not be ended so any more, is refused alone."""

    action: Action = field(metadata=_one_of(OF_TRANSACTIONS))
    each: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleOrderRequest(KeyedOrderRequest):
    """About one pipeline or one batch."""

    action: Action = field(metadata=_one_of(OF_ONE_THING))
    keys: tuple[str, ...] = field(metadata=_keys(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOrderRequest(OrderRequest):
    """About all transactions that a filter means. ``fingerprint``: of the preview, which says which ones these were."""

    action: Action = field(metadata=_one_of([Action.ABORT]))
    filter: Filter = field(metadata={"minProperties": 1})
    fingerprint: str = field(metadata=_NOT_EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewRequest:
    """What an order by filter would be about."""

    action: Action = field(metadata=_one_of(OF_TRANSACTIONS))
    filter: Filter = field(metadata={"minProperties": 1})


ORDER_REQUESTS: tuple[type, ...] = (TransactionOrderRequest, SingleOrderRequest, BulkOrderRequest)
"""A body is one of these."""
