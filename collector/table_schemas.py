"""Columns of the API's tables as Arrow types, so that an empty table has its columns too. Lists and objects are JSON text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

_TEXT, _INT, _FLAG = pa.string(), pa.int64(), pa.bool_()


def _columns(text: str = "", ints: str = "", flags: str = "") -> dict[str, pa.DataType]:
    kinds = ((text, _TEXT), (ints, _INT), (flags, _FLAG))
    return {name: kind for names, kind in kinds for name in names.split()}


TRANSACTIONS = _columns(
    text="key resource_manager transaction pipeline life state verdict partitions evidence revision",
    ints="producer_id producer_epoch batch attempt slot rule opened_at_ms timeout_ms deadline_ms rows bytes updated_at_ms",
    flags="ours may_commit may_abort loses_data",
)
ABORTS = _columns(text="key transaction pipeline verdict cause certainty", ints="at_ms batch slot open_ms rows")
LOSSES = _columns(
    text="key transaction pipeline verdict certainty why cause cause_certainty partitions offsets",
    ints="at_ms producer_id producer_epoch checkpoint opened_at_ms rows",
)
IDS = _columns(
    text="prefix why example",
    ints="ids created_last_hour stale_ids newest_at_ms oldest_at_ms lives fenced_last_hour",
    flags="leaks shared",
) | {"growth_per_hour": pa.float64()}
CHECKPOINTS = _columns(
    text="pipeline state source kind reason job path",
    ints="number started_at_ms ended_at_ms duration_ms transactions rows state_bytes",
)
JOBS = _columns(
    text="cluster job name pipeline state restores restored_path",
    ints="started_at_ms ended_at_ms changed_at_ms restarts restored_from restored_at_ms",
)
PIPELINES = _columns(
    text="key pipeline life state sign source sink revision",
    ints="attempt run_at_ms started_at_ms restarting_at_ms stopped_at_ms sign_at_ms interval_ms",
)
TIMEOUTS = _columns(
    text="pipeline risk advice recovery longest_transaction oldest_key",
    ints="timeout_ms left_ms recovery_ms transactions timed_out p50_ms p95_ms p99_ms longest_ms open oldest_opened_at_ms "
    "oldest_deadline_ms",
    flags="ours",
)
BATCHES = _columns(
    text="key pipeline life verdict explanation committed_on missing_on decision decided_by settle sides transactions revision",
    ints="batch attempt decision_offset decided_at_ms rows opened_at_ms updated_at_ms",
)
AUDIT = _columns(text="who action keys reason outcome detail evidence", ints="audit at_ms refers_to")
ALERTS = _columns(
    text="key rule name state severity group summary evidence labels",
    ints="since_ms found_at_ms fired_at_ms silenced_by",
)
RECEIVERS = _columns(text="receiver error", ints="waiting oldest_at_ms given_up")
SILENCES = _columns(text="matchers reason author state", ints="silence starts_at_ms ends_at_ms")
BLOCKED = _columns(
    text="topic holder_key holder_transaction groups",
    ints="partition last_stable_offset high_watermark hidden holder_producer_id holder_producer_epoch holder_start_offset "
    "held_since_ms waiting waiting_since_ms waited_ms lag seen_at_ms",
)
HANGING = _columns(
    text="key topic transaction verdict remedy confirm evidence revision",
    ints="partition producer_id producer_epoch start_offset coordinator_epoch last_record_at_ms since_ms found_at_ms rule "
    "hidden waiting",
    flags="may_commit may_abort loses_data",
)
MALFORMED = _columns(text="source error value", ints="at_ms partition offset")


def arrow_stream(columns: dict[str, pa.DataType], rows: Sequence[dict[str, Any]], rest: Mapping[str, Any]) -> bytes:
    """Return rows as an Arrow IPC stream of ``columns``, in the order of the first row's; ``rest`` as JSON in its metadata."""
    names = list(rows[0]) if rows else list(columns)
    metadata = {name: json.dumps(value) for name, value in rest.items()}
    schema = pa.schema([(name, columns[name]) for name in names], metadata)
    arrays = [pa.array([_flat(row[name]) for row in rows], columns[name]) for name in names]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pa.table(arrays, schema=schema))
    return bytes(sink.getvalue().to_pybytes())


def _flat(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value
