"""JSON Schemas of the API's answers and bodies. Times are epoch milliseconds, UTC."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from collector.alerting import silences
from collector.assess.findings import LABELS
from collector.records.orders import OrderOutcome, StepOutcome
from lifecycle.rows.alerts import AlertRow, ReceiverRow, SilenceRow
from lifecycle.rows.attention import Attention
from lifecycle.rows.batches import BatchRow
from lifecycle.rows.ends import AbortRow, LossRow
from lifecycle.rows.events import EndedTransactionRow, RawEventRow
from lifecycle.rows.json_schema import body_schema_of, schema_of
from lifecycle.rows.order_request import IDEMPOTENCY_KEY, OF_TRANSACTIONS, ORDER_REQUESTS, REASON, PreviewRequest
from lifecycle.rows.orders import PreviewedCondition, PreviewedVerdict, UnderWayRow
from lifecycle.rows.overview import Overview
from lifecycle.rows.partitions import BlockedRow, HangingRow, PartitionRow
from lifecycle.rows.pipelines import CheckpointRow, IdsRow, JobRow, PipelineRow, TimeoutRow
from lifecycle.rows.records import AuditRow, QuarantinedRow
from lifecycle.rows.search import FoundTransactionRow
from lifecycle.rows.series import CheckpointGapsRow, Series
from lifecycle.rows.standing_orders import StandingOrderRow, SwitchAnswer, SwitchRequest
from lifecycle.rows.status import Status
from lifecycle.rows.transactions import TransactionCountRow, TransactionDetailRow, TransactionRow
from lifecycle.verdicts import Certainty, Verdict

Json = dict[str, Any]
TEXT: Json = {"type": "string"}
WHOLE: Json = {"type": "integer"}
FLAG: Json = {"type": "boolean"}
TEXT_OR_NULL: Json = {"type": ["string", "null"]}
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


def table_of(row: type) -> Json:
    """Return a page of a table: its rows, the number of the remaining ones, and the cursor of the next page."""
    return object_of(rows=list_of(schema_of(row)), more={"type": "integer", "minimum": 0}, next=TEXT_OR_NULL)


TABLES: dict[str, type] = {
    "/api/v1/transactions": TransactionRow,
    "/api/v1/transaction-counts": TransactionCountRow,
    "/api/v1/attention": Attention,
    "/api/v1/transactions/{key}/events": RawEventRow,
    "/api/v1/transactions/{key}/earlier": EndedTransactionRow,
    "/api/v1/search": FoundTransactionRow,
    "/api/v1/aborts": AbortRow,
    "/api/v1/losses": LossRow,
    "/api/v1/batches": BatchRow,
    "/api/v1/checkpoints": CheckpointRow,
    "/api/v1/checkpoints/gaps": CheckpointGapsRow,
    "/api/v1/timeouts": TimeoutRow,
    "/api/v1/ids": IdsRow,
    "/api/v1/jobs": JobRow,
    "/api/v1/pipelines": PipelineRow,
    "/api/v1/audit": AuditRow,
    "/api/v1/orders/under-way": UnderWayRow,
    "/api/v1/blocked": BlockedRow,
    "/api/v1/hanging": HangingRow,
    "/api/v1/quarantined": QuarantinedRow,
    "/api/v1/alerts": AlertRow,
    "/api/v1/silences": SilenceRow,
    "/api/v1/receivers": ReceiverRow,
    "/api/v1/standing-orders": StandingOrderRow,
}
"""The row of each table, by the path that answers it."""

_STEP = object_of(key=TEXT, description=TEXT, outcome=one_of(StepOutcome), detail=TEXT)

ANSWERS: dict[tuple[str, str], Json] = {
    ("get", "/api/v1/health"): object_of(ready=FLAG),
    ("get", "/api/v1/openapi.json"): object_of(openapi=TEXT, info=OBJECT, paths=OBJECT),
    ("get", "/api/v1/status"): schema_of(Status),
    ("get", "/api/v1/overview"): schema_of(Overview),
    ("get", "/api/v1/series"): schema_of(Series),
    ("get", "/api/v1/transactions/{key}"): schema_of(TransactionDetailRow),
    ("get", "/api/v1/partitions/{topic}/{number}"): schema_of(PartitionRow),
    ("post", "/api/v1/orders"): object_of(
        audit=WHOLE, outcome=one_of(OrderOutcome), took_ms=WHOLE, steps=list_of(_STEP)
    ),
    ("get", "/api/v1/orders"): object_of(answer=OBJECT_OR_NULL, refused=TEXT_OR_NULL),
    ("post", "/api/v1/orders/preview"): object_of(
        action=one_of(OF_TRANSACTIONS),
        filter=OBJECT,
        fingerprint=TEXT,
        keys=list_of(TEXT),
        seen=OBJECT,
        summary=list_of(schema_of(PreviewedVerdict)),
        confirm=TEXT,
        conditions=list_of(schema_of(PreviewedCondition)),
        rows=list_of(schema_of(TransactionRow)),
        left_out=list_of(object_of(key=TEXT, transaction=TEXT, verdict=one_of(Verdict), certainty=one_of(Certainty))),
        left_out_total=WHOLE,
    ),
    ("post", "/api/v1/backup"): object_of(audit=WHOLE, file=TEXT, bytes=WHOLE, took_ms=WHOLE),
    ("post", "/api/v1/silences"): schema_of(SilenceRow),
    ("delete", "/api/v1/silences/{number}"): schema_of(SilenceRow),
    ("post", "/api/v1/standing-orders"): schema_of(SwitchAnswer),
}
"""By method and path; what stands neither here nor among the tables is described by its route's own annotation."""

TEXTS: dict[tuple[str, str], str] = {
    ("get", "/api/v1/changes"): "text/event-stream",
    ("get", "/metrics"): "text/plain",
}
"""Media types of the answers that are text."""

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
        "reason": {"type": "string", **REASON},
        "ends_at_ms": WHOLE,
        "duration_ms": {"type": "integer", "minimum": 1, "maximum": silences.LONGEST_MS},
    },
    "oneOf": [{"required": ["ends_at_ms"]}, {"required": ["duration_ms"]}],
}
BODIES: dict[tuple[str, str], Json] = {
    ("post", "/api/v1/orders"): {"oneOf": [body_schema_of(kind) for kind in ORDER_REQUESTS]},
    ("post", "/api/v1/orders/preview"): body_schema_of(PreviewRequest),
    ("post", "/api/v1/silences"): _SILENCE_BODY,
    ("post", "/api/v1/standing-orders"): body_schema_of(SwitchRequest),
}
"""Bodies that are read by hand, so that their errors can be kind."""

HEADERS: dict[tuple[str, str], dict[str, Json]] = {
    ("post", "/api/v1/orders"): {"Idempotency-Key": {"type": "string", "pattern": f"^{IDEMPOTENCY_KEY}$"}}
}
"""Headers that a route reads, none of them required."""
