"""The bodies of orders: about transactions or one thing by their keys, and by filter, with the preview that comes before.

pydantic checks them and writes their schemas. A field without a default is required; empty and 0 stand for what was not given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails

from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.row_json import adapter_of

MIN_REASON = 3
MAX_REASON = 2_000
MAX_KEYS = 1_000
IDEMPOTENCY_KEY = r"[!-~]{1,128}"
"""Printable ASCII without blanks."""
THREE_VISIBLE = r"[^\s\x1c-\x1f\x85][\s\S]+[^\s\x1c-\x1f\x85]"
"""Three characters or more once the blanks at both ends are gone, in Python's sense of a blank."""
OF_TRANSACTIONS = (Action.COMMIT, Action.ABORT)
OF_ONE_THING = tuple(action for action in Action if action not in OF_TRANSACTIONS)
"""Actions on a pipeline or a batch, which take one key."""
Json = dict[str, Any]
REASON_SCHEMA: Json = {
    "type": "string",
    "minLength": MIN_REASON,
    "maxLength": MAX_REASON,
    "pattern": THREE_VISIBLE,
    "description": "Why.",
}


def _reason(text: str) -> str:
    if len(text) > MAX_REASON or len(text.strip()) < MIN_REASON:
        raise ValueError(f"takes {MIN_REASON} to {MAX_REASON} characters: say why")
    return text.strip()


def _idempotency_key(text: str) -> str:
    if text and not re.fullmatch(IDEMPOTENCY_KEY, text):
        raise ValueError("takes 1 to 128 printable ASCII characters without spaces")
    return text


def _keys(most: int, words: str) -> tuple[AfterValidator, WithJsonSchema]:
    def check(keys: tuple[str, ...]) -> tuple[str, ...]:
        if not 1 <= len(keys) <= most or len(set(keys)) < len(keys):
            raise ValueError(f"takes {words}")
        return keys

    limits = {"minItems": 1, "maxItems": most, "uniqueItems": True}
    return AfterValidator(check), WithJsonSchema({"type": "array", "items": {"type": "string"}, **limits})


def _one_of(actions: Sequence[Action]) -> tuple[AfterValidator, WithJsonSchema]:
    values = [action.value for action in actions]

    def check(action: Action) -> Action:
        if action not in actions:
            raise ValueError(f"is {action.value!r}; here it takes {' or '.join(map(repr, values))}")
        return action

    return AfterValidator(check), WithJsonSchema({"type": "string", "enum": values})


def without_default(schema: Json) -> None:
    """Leave out of a schema a default that its own limits forbid."""
    del schema["default"]


def _idempotency_key_schema(schema: Json) -> None:
    without_default(schema)
    schema["pattern"] = f"^{IDEMPOTENCY_KEY}$"


Reason = Annotated[str, AfterValidator(_reason), WithJsonSchema(REASON_SCHEMA)]
Given = Annotated[str, Field(min_length=1, json_schema_extra=without_default)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBody:
    """A body takes no other fields than its own, and no value of another type than JSON's."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(RequestBody):
    """Which transactions a bulk order means: all that have every value given. Empty and 0: any value."""

    pipeline: Given = ""
    verdict: Given = ""
    certainty: Given = ""
    resource_manager: Given = ""
    transaction_prefix: Given = ""
    open_for_ms: Annotated[int, Field(ge=1, le=MAX_WHOLE_NUMBER, json_schema_extra=without_default)] = 0

    def to_json(self) -> dict[str, Any]:
        """Return what was given, as an order has it."""
        return {name: value for name, value in asdict(self).items() if value}


def in_words(wanted: Mapping[str, Any]) -> str:
    """Return a filter in words."""
    return " and ".join(f"{name.replace('_', ' ')} {value}" for name, value in wanted.items())


def _not_everything(chosen: Filter) -> Filter:
    if chosen == Filter():
        raise ValueError(f"takes one or more of {', '.join(asdict(chosen))}")
    return chosen


SomeTransactions = Annotated[Filter, AfterValidator(_not_everything), Field(json_schema_extra={"minProperties": 1})]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRequest(RequestBody):
    """What every order has. ``confirm``: what must be typed. ``idempotency_key``: also taken from the header of that name."""

    action: Action
    reason: Reason
    dry_run: bool = False
    confirm: Annotated[str, Field(description="What must be typed, where the order loses data.")] = ""
    idempotency_key: Annotated[
        str, AfterValidator(_idempotency_key), Field(json_schema_extra=_idempotency_key_schema)
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedOrderRequest(OrderRequest):
    """About these keys. ``seen``: the revision of each key that the operator read."""

    keys: tuple[str, ...]
    seen: Annotated[Mapping[str, str], Field(description="The revision of each key, as the operator read it.")] = field(
        default_factory=dict
    )
    subject: Annotated[str, Field(max_length=200, description="What it is about, in words: a run shows it.")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOrderRequest(KeyedOrderRequest):
    """About transactions."""

    action: Annotated[Action, *_one_of(OF_TRANSACTIONS)]
    keys: Annotated[tuple[str, ...], *_keys(MAX_KEYS, f"1 to {MAX_KEYS} different keys of transactions")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleOrderRequest(KeyedOrderRequest):
    """About one pipeline or one batch."""

    action: Annotated[Action, *_one_of(OF_ONE_THING)]
    keys: Annotated[tuple[str, ...], *_keys(1, "the key of one pipeline, or of one batch")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest(OrderRequest):
    """About all transactions that a filter meant. ``fingerprint``: of a condition of its preview, which says which these were."""

    action: Annotated[Action, *_one_of(OF_TRANSACTIONS)]
    filter: SomeTransactions
    fingerprint: Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewRequest(RequestBody):
    """What an order by filter would be about."""

    action: Annotated[Action, *_one_of(OF_TRANSACTIONS)]
    filter: SomeTransactions


AnyOrder = TransactionOrderRequest | SingleOrderRequest
Body = TypeVar("Body", bound=RequestBody)


def read_body(kind: type[Body], body: Any) -> Body:
    """Return a request's body. Raises ValueError, which names the field that is wrong."""
    try:
        return adapter_of(kind).validate_json(json.dumps(body))
    except ValidationError as error:
        raise ValueError(_words(kind, error.errors()[0])) from None


def _words(kind: type[RequestBody], wrong: ErrorDetails) -> str:
    where = "field " + ": ".join(repr(part) for part in wrong["loc"])
    if wrong["type"] == "unexpected_keyword_argument":
        known = fields(Filter if len(wrong["loc"]) > 1 else kind)
        return f"{where} is not known; the fields are {', '.join(each.name for each in known)}"
    if wrong["type"] == "missing":
        return f"{where} is missing"
    if wrong["type"] == "value_error":
        return f"{where} {wrong['ctx']['error']}"
    return f"{where} is {wrong['input']!r}: {wrong['msg']}" if wrong["loc"] else "the body is no JSON object"
