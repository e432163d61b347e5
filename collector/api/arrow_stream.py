"""A page of rows as an Arrow IPC stream: an empty one has its columns too. Lists and objects are JSON text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lifecycle.rows.columns import columns, without_null
from lifecycle.rows.row_json import row_to_json

_SCALARS = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def arrow_stream(row: type, rows: Sequence[Any], rest: Mapping[str, Any]) -> bytes:
    """Return rows of one class as an Arrow IPC stream; ``rest`` as JSON in its metadata."""
    kinds = {name: _SCALARS.get(without_null(column)[0], pa.string()) for name, column in columns(row).items()}
    schema = pa.schema(list(kinds.items()), {name: json.dumps(value) for name, value in rest.items()})
    objects = [row_to_json(item) for item in rows]
    arrays = [pa.array([_flat(item[name]) for item in objects], kind) for name, kind in kinds.items()]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pa.table(arrays, schema=schema))
    return bytes(sink.getvalue().to_pybytes())


def _flat(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value
