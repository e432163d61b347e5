"""Rows as files: Parquet or JSON lines, one for each partition, whose directory is named as Hive has it (``day=2026-11-30``)."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from indoubt.lifecycle.errors import SettingsError
from indoubt.resource_managers.files.access import JSON_LINES, PARQUET, FilesAccess

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""Hive's name for the partition of rows without a value; readers take it for null. Spark also names the empty text so."""
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
"""What Hive and Spark write as % and two digits; all else they leave as it is."""
_PARTITION_TYPES: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_date32,
)


def check(columns: Sequence[tuple[str, pa.DataType]], access: FilesAccess) -> None:
    """Return when rows of these columns can be written. Raises SettingsError that names the column."""
    types = dict(columns)
    for name in access.partition_by:
        if name not in types:
            raise SettingsError(f"files_partition_by names column {name!r}, and the job has: {', '.join(types)}")
        if not any(is_(types[name]) for is_ in _PARTITION_TYPES):
            raise SettingsError(
                f"column {name!r} is {types[name]}, which is no name of a directory: partition by a string, an integer, a date "
                "or a boolean"
            )
    left = [(name, type_) for name, type_ in columns if name not in access.partition_by]
    if not left:
        raise SettingsError(
            f"files_partition_by names every column of the job ({', '.join(types)}): none is left to write"
        )
    for name, type_ in left:
        if access.format == JSON_LINES and _is_no_json(type_):
            raise SettingsError(f"column {name!r} is {type_}, which JSON does not hold: cast it in the job")
        try:
            encode(pa.table({name: pa.nulls(1, type_)}), access.format)
        except pa.ArrowException as error:
            raise SettingsError(
                f"column {name!r} is {type_}, which {access.format} does not hold: {error}. Cast it in the job"
            ) from None


def encode(rows: pa.Table, format_: str) -> bytes:
    """Return the content of a file that holds these rows."""
    if format_ == PARQUET:
        out = pa.BufferOutputStream()
        pq.write_table(rows, out)
        return bytes(out.getvalue())
    return "".join(f"{_line(row)}\n" for row in rows.to_pylist()).encode()


def suffix_of(format_: str) -> str:
    """Return what the names of such files end with."""
    return {PARQUET: "parquet", JSON_LINES: "jsonl"}[format_]


def partitions(rows: pa.Table, partition_by: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """Yield (directory, its rows without the partition's columns), the directory empty where there are no partitions."""
    if not partition_by or not rows.num_rows:
        yield "", rows
        return
    segments = [_segments(name, rows.column(name)) for name in partition_by]
    directories = pc.binary_join_element_wise(*segments, "/").dictionary_encode()
    numbers = directories.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(numbers, kind="stable")
    rest = rows.drop_columns(list(partition_by)).take(pa.array(order))
    ends = np.flatnonzero(np.diff(numbers[order], append=-1)) + 1
    begin = 0
    for end in ends.tolist():
        yield directories.dictionary[int(numbers[order[begin]])].as_py(), rest.slice(begin, end - begin)
        begin = end


def _segments(name: str, column: pa.ChunkedArray) -> pa.Array:
    """Return ``name=value`` for each row."""
    values = pc.cast(column, pa.string()).combine_chunks().dictionary_encode()
    names = [f"{name}={_ESCAPED.sub(_percent, value) or NO_VALUE}" for value in values.dictionary.to_pylist()]
    indices = values.indices.fill_null(len(names))
    return pa.array([*names, f"{name}={NO_VALUE}"], pa.string()).take(indices)


def _percent(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


def _is_no_json(type_: pa.DataType) -> bool:
    if pa.types.is_duration(type_) or pa.types.is_interval(type_):
        return True
    return any(_is_no_json(type_.field(at).type) for at in range(type_.num_fields))


def _line(row: dict[str, Any]) -> str:
    try:
        return json.dumps(row, default=_as_json, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_without_nan(row), default=_as_json, ensure_ascii=False)


def _without_nan(value: Any) -> Any:
    """Return the value with "NaN", "Infinity" and "-Infinity" as texts, as Spark writes and reads them."""
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _as_json(value: Any) -> str:
    # As Spark writes them: bytes in base64, times in ISO 8601. A decimal stays exact as a text.
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
