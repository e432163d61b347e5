"""JSON Schemas of the API's answers and bodies that are no tables. Times are epoch milliseconds, UTC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

from collector import silences
from collector.alert_findings import LABELS
from collector.orders import KEYS_MOST, REASON_LEAST, REASON_MOST, Action, OrderOutcome, StepOutcome
from collector.token_file import Role
from lifecycle.json_record import WHOLE_NUMBER_MOST
from lifecycle.verdicts import Verdict

Json = dict[str, Any]
TEXT: Json = {"type": "string"}
WHOLE: Json = {"type": "integer"}
FLAG: Json = {"type": "boolean"}
TEXT_OR_NULL: Json = {"type": ["string", "null"]}
WHOLE_OR_NULL: Json = {"type": ["integer", "null"]}
OBJECT: Json = {"type": "object"}
OBJECT_OR_NULL: Json = {"type": ["object", "null"]}


def object_of(**properties: Json) -> Json:
    """Return an object that has all of these."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def list_of(items: Json) -> Json:
    """Return a list of these."""
    return {"type": "array", "items": items}


def one_of(kind: Iterable[Enum]) -> Json:
    """Return a text that is the value of one of these members."""
    return {"type": "string", "enum": [member.value for member in kind]}


def table_of(rows: Json) -> Json:
    """Return a page of a table: its rows, how many more there are behind them, and the cursor of the next page."""
    return object_of(rows=rows, more={"type": "integer", "minimum": 0}, next=TEXT_OR_NULL)


_FACT = object_of(fact=TEXT, source=TEXT, at_ms=WHOLE_OR_NULL)
NESTED_COLUMNS: dict[str, Json] = {
    "partitions": list_of(TEXT),
    "keys": list_of(TEXT),
    "committed_on": list_of(TEXT),
    "missing_on": list_of(TEXT),
    "sides": list_of(OBJECT),
    "transactions": list_of(OBJECT),
    "evidence": list_of(OBJECT),
    "groups": list_of(OBJECT),
    "labels": OBJECT,
    "matchers": OBJECT,
    "offsets": list_of(OBJECT),
    "restores": list_of(object_of(checkpoint=WHOLE_OR_NULL, at_ms=WHOLE_OR_NULL)),
}
"""Columns that are lists or objects: JSON text in Arrow."""

_GROUP = object_of(
    verdict=one_of(Verdict),
    pipeline=TEXT,
    batch=WHOLE_OR_NULL,
    keys=list_of(TEXT),
    rows=WHOLE_OR_NULL,
    decided_at_ms=WHOLE_OR_NULL,
    deadline_ms=WHOLE_OR_NULL,
    headline=TEXT,
    partitions=list_of(TEXT),
)
_OBSERVER = object_of(
    name=TEXT, state=TEXT, delay_ms=WHOLE_OR_NULL, since_ms=WHOLE, error=TEXT, records={"type": "integer", "minimum": 0}
)
_TRANSACTION = object_of(
    key=TEXT,
    resource_manager=TEXT,
    transaction=TEXT,
    producer_id=WHOLE_OR_NULL,
    producer_epoch=WHOLE_OR_NULL,
    pipeline=TEXT,
    ours=FLAG,
    life=TEXT_OR_NULL,
    batch=WHOLE_OR_NULL,
    attempt=WHOLE_OR_NULL,
    slot=WHOLE_OR_NULL,
    state=TEXT,
    verdict=one_of(Verdict),
    rule=WHOLE,
    opened_at_ms=WHOLE_OR_NULL,
    timeout_ms=WHOLE_OR_NULL,
    deadline_ms=WHOLE_OR_NULL,
    rows=WHOLE_OR_NULL,
    bytes=WHOLE_OR_NULL,
    partitions=list_of(TEXT),
    may_commit=FLAG,
    may_abort=FLAG,
    loses_data=FLAG,
    evidence=list_of(_FACT),
    revision=TEXT,
    updated_at_ms=WHOLE_OR_NULL,
    timeline=list_of(object_of(at_ms=WHOLE, what=TEXT, source=TEXT)),
    siblings=list_of(TEXT),
    decision={**object_of(offset=WHOLE, at_ms=WHOLE, who=TEXT, ruling=TEXT), "type": ["object", "null"]},
    handle=OBJECT_OR_NULL,
    broker=OBJECT_OR_NULL,
    last_sign_of_life_ms=WHOLE_OR_NULL,
)
_STEP = object_of(key=TEXT, will=TEXT, outcome=one_of(StepOutcome), detail=TEXT)

_SILENCE = object_of(
    silence=WHOLE, matchers=OBJECT, reason=TEXT, author=TEXT, starts_at_ms=WHOLE, ends_at_ms=WHOLE, state=TEXT
)

ANSWERS: dict[tuple[str, str], Json] = {
    ("get", "/api/v1/health"): object_of(ready=FLAG),
    ("get", "/api/v1/openapi.json"): object_of(openapi=TEXT, info=OBJECT, paths=OBJECT),
    ("get", "/api/v1/status"): object_of(
        now_ms=WHOLE,
        cluster=TEXT,
        bootstrap=TEXT,
        name=TEXT,
        role=one_of(Role),
        read_only=FLAG,
        malformed=WHOLE,
        events=WHOLE,
        history=object_of(error=TEXT, waiting=WHOLE, set_aside=list_of(TEXT)),
        observers=list_of(_OBSERVER),
    ),
    ("get", "/api/v1/overview"): object_of(
        now_ms=WHOLE,
        needs_hand=list_of(_GROUP),
        counts=object_of(
            open=WHOLE,
            prepared=WHOLE,
            committed_per_minute=WHOLE,
            aborted_per_minute=WHOLE,
            blocked_partitions=WHOLE,
            waiting_groups=WHOLE,
            hanging=WHOLE,
        ),
        oldest_open_at_ms=WHOLE_OR_NULL,
        quiet_since_ms=WHOLE_OR_NULL,
        per_minute=list_of(object_of(minute_ms=WHOLE, committed=WHOLE, aborted=WHOLE, lost=WHOLE)),
        checkpoints=object_of(p50_ms=WHOLE_OR_NULL, p99_ms=WHOLE_OR_NULL, failed=WHOLE, total=WHOLE),
    ),
    ("get", "/api/v1/transactions/{key}"): _TRANSACTION,
    ("post", "/api/v1/orders"): object_of(
        audit=WHOLE, outcome=one_of(OrderOutcome), took_ms=WHOLE, steps=list_of(_STEP)
    ),
    ("get", "/api/v1/orders"): object_of(answer=OBJECT_OR_NULL, refused=TEXT_OR_NULL),
    ("post", "/api/v1/orders/preview"): object_of(
        action=one_of([Action.ABORT]),
        filter=OBJECT,
        fingerprint=TEXT,
        keys=list_of(TEXT),
        confirm=TEXT,
        rows=list_of(OBJECT),
        left_out=list_of(object_of(key=TEXT, transaction=TEXT, verdict=one_of(Verdict))),
    ),
    ("post", "/api/v1/backup"): object_of(audit=WHOLE, file=TEXT, bytes=WHOLE, took_ms=WHOLE),
    ("post", "/api/v1/silences"): _SILENCE,
    ("delete", "/api/v1/silences/{number}"): _SILENCE,
}
"""By method and path; what stands neither here nor among the tables is described by its route's own annotation."""

TEXTS: dict[tuple[str, str], str] = {
    ("get", "/api/v1/changes"): "text/event-stream",
    ("get", "/metrics"): "text/plain",
}
"""Media types of the answers that are text."""

_SOME_TEXT: Json = {"type": "string", "minLength": 1}
IDEMPOTENCY_KEY: Json = {"type": "string", "pattern": "^[!-~]{1,128}$"}
THREE_VISIBLE = r"[^\s\x1c-\x1f\x85][\s\S]+[^\s\x1c-\x1f\x85]"
"""Three characters or more once the blanks at both ends are gone, in Python's sense of a blank."""
_REASON: Json = {
    "type": "string",
    "minLength": REASON_LEAST,
    "maxLength": REASON_MOST,
    "pattern": THREE_VISIBLE,
    "description": "Why.",
}
_FILTER: Json = {
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "properties": {
        **dict.fromkeys(("pipeline", "verdict", "resource_manager", "transaction_prefix"), _SOME_TEXT),
        "open_for_ms": {"type": "integer", "minimum": 1, "maximum": WHOLE_NUMBER_MOST},
    },
}


def _order(actions: Sequence[Action], required: Sequence[str], **properties: Json) -> Json:
    """Return one kind of order; ``properties`` are what only this kind has."""
    every = {
        "action": one_of(actions),
        "reason": _REASON,
        "dry_run": {"type": "boolean", "default": False},
        "confirm": {"type": "string", "default": "", "description": "What must be typed, where the order loses data."},
        "idempotency_key": IDEMPOTENCY_KEY,
    }
    needed = ["action", "reason", *required]
    return {"type": "object", "additionalProperties": False, "required": needed, "properties": every | properties}


def _keyed(actions: Sequence[Action], most: int) -> Json:
    keys = {**list_of(TEXT), "minItems": 1, "maxItems": most, "uniqueItems": True}
    seen = {
        "type": "object",
        "additionalProperties": TEXT,
        "description": "The revision of each key that was looked at.",
    }
    return _order(actions, ["keys"], keys=keys, seen=seen)


_OF_TRANSACTIONS = (Action.COMMIT, Action.ABORT)
_ORDER: Json = {
    "oneOf": [
        _keyed(_OF_TRANSACTIONS, KEYS_MOST),
        _keyed([action for action in Action if action not in _OF_TRANSACTIONS], 1),
        _order([Action.ABORT], ["filter", "fingerprint"], filter=_FILTER, fingerprint=_SOME_TEXT),
    ]
}
_SILENCE_BODY: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["matchers", "reason"],
    "properties": {
        "matchers": {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"enum": list(LABELS)},
            "additionalProperties": {"type": "string", "minLength": 1},
            "description": "Label to text, in which * stands for anything; all must match.",
        },
        "reason": _REASON,
        "ends_at_ms": WHOLE,
        "duration_ms": {"type": "integer", "minimum": 1, "maximum": silences.LONGEST_MS},
    },
    "oneOf": [{"required": ["ends_at_ms"]}, {"required": ["duration_ms"]}],
}
BODIES: dict[tuple[str, str], Json] = {
    ("post", "/api/v1/orders"): _ORDER,
    ("post", "/api/v1/orders/preview"): {
        **object_of(action=one_of([Action.ABORT]), filter=_FILTER),
        "additionalProperties": False,
    },
    ("post", "/api/v1/silences"): _SILENCE_BODY,
}
"""Bodies that are read by hand, so that their errors can be kind."""

HEADERS: dict[tuple[str, str], dict[str, Json]] = {("post", "/api/v1/orders"): {"Idempotency-Key": IDEMPOTENCY_KEY}}
"""Headers that a route reads, none of them required."""
