"""The columns of a target table, and whether those of a job fit into them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from indoubt.lifecycle.errors import SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetColumn:
    """One column: its name and type as the database has them; ``takes`` holds the kinds of Arrow types that fit (see kind_of).

    ``must_be_filled``: NOT NULL and without a default, so a row without it is refused.
    """

    name: str
    type: str
    takes: frozenset[str]
    must_be_filled: bool = False
    writable: bool = True
    digits: tuple[int, int] | None = None
    """Precision and scale of a decimal column, None for one without bounds and for other types."""
    merges: str = ""
    """Why texts that differ for the job may be equal for this column, empty when they never are: asked of keys."""
    base_type: str = ""
    """PostgreSQL's type without its length or precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTable:
    """A table that rows are written to; ``primary_key`` are column names in the key's order, none for a table without one."""

    name: str
    columns: tuple[TargetColumn, ...]
    primary_key: tuple[str, ...]
    ignores_case: bool = False
    """True where the database takes ``Word`` and ``word`` for the same column."""

    def column(self, name: str) -> TargetColumn | None:
        """Return the column that a job's column of that name goes to, or None."""
        for column in self.columns:
            if column.name == name or (self.ignores_case and column.name.lower() == name.lower()):
                return column
        return None

    def takes(self, names: Sequence[str]) -> list[tuple[int, TargetColumn]]:
        """Return (position in ``names``, column) for those that the table has."""
        found = [(position, self.column(name)) for position, name in enumerate(names)]
        return [(position, column) for position, column in found if column is not None]

    def key_within(self, columns: Sequence[TargetColumn]) -> tuple[str, ...]:
        """Return the primary key when all of it is among ``columns``: rows are upserts then, else plain inserts."""
        names = {column.name for column in columns}
        return self.primary_key if set(self.primary_key) <= names else ()

    def check(self, columns: Sequence[tuple[str, pa.DataType]]) -> frozenset[str]:
        """Return the names of the columns that are written here. Raises SettingsError naming each column that does not fit."""
        taken = self.takes([name for name, _ in columns])
        problems = [
            problem
            for position, column in taken
            if (problem := _misfit(columns[position][0], columns[position][1], column))
        ]
        problems += [
            f"key column {column.name!r} ({column.type}) {column.merges}: rows that differ for the job would be one row, and "
            "slots would wait for each other's locks"
            for _, column in taken
            if column.merges and column.name in self.primary_key
        ]
        filled = {column.name for _, column in taken}
        problems += [
            f"column {column.name!r} ({column.type}) is NOT NULL without a default, and the job has no such column"
            for column in self.columns
            if column.must_be_filled and column.name not in filled
        ]
        if not taken:
            there = ", ".join(column.name for column in self.columns)
            problems = [f"it has none of the job's columns ({', '.join(name for name, _ in columns)}); it has: {there}"]
        if problems:
            raise SettingsError(f"table {self.name!r} does not fit: {'; '.join(problems)}")
        return frozenset(columns[position][0] for position, _ in taken)


def kind_of(type_: pa.DataType) -> str:
    """Return the kind of an Arrow type: what ``TargetColumn.takes`` names; an empty text for one that no table takes."""
    for kind, is_kind in _KINDS.items():
        if is_kind(type_):
            return kind
    return ""


def integers(bits: int, *, signed: bool = True) -> frozenset[str]:
    """Return the kinds whose every value an integer column of so many bits holds."""
    widths = (8, 16, 32, 64)
    unsigned = {f"uint{width}" for width in widths if width < bits or (width == bits and not signed)}
    return frozenset(unsigned | {f"int{width}" for width in widths if signed and width <= bits})


def decimals(precision: int, scale: int) -> frozenset[str]:
    """Return the kinds whose every value a decimal column holds; of decimals it depends on their own digits."""
    digits = {"int8": 3, "int16": 5, "int32": 10, "int64": 19, "uint8": 3, "uint16": 5, "uint32": 10, "uint64": 20}
    return frozenset({"decimal"} | {kind for kind, needed in digits.items() if precision - scale >= needed})


def _misfit(name: str, type_: pa.DataType, column: TargetColumn) -> str:
    kind = kind_of(type_)
    if not kind:
        return f"column {name!r} is {type_}, which no table takes: cast it in the job, for example to a string"
    if not column.writable:
        return f"column {name!r} is generated by the database: it cannot be written"
    if kind not in column.takes:
        return f"column {name!r} is {type_}, and {column.type} does not hold all of its values"
    if kind == "decimal" and column.digits is not None:
        precision, scale = column.digits
        if scale < type_.scale or precision - scale < type_.precision - type_.scale:
            return f"column {name!r} is {type_}, and {column.type} does not hold all of its values"
    return ""


_KINDS: Mapping[str, Callable[[pa.DataType], bool]] = {
    "bool": pa.types.is_boolean,
    "int8": pa.types.is_int8,
    "int16": pa.types.is_int16,
    "int32": pa.types.is_int32,
    "int64": pa.types.is_int64,
    "uint8": pa.types.is_uint8,
    "uint16": pa.types.is_uint16,
    "uint32": pa.types.is_uint32,
    "uint64": pa.types.is_uint64,
    "float32": pa.types.is_float32,
    "float64": pa.types.is_float64,
    "decimal": pa.types.is_decimal,
    "string": lambda type_: pa.types.is_string(type_) or pa.types.is_large_string(type_),
    "binary": lambda type_: pa.types.is_binary(type_) or pa.types.is_large_binary(type_),
    "date": pa.types.is_date32,
    # Databases count microseconds: nanoseconds would be cut off without a word.
    "timestamp": lambda type_: pa.types.is_timestamp(type_) and type_.unit != "ns",
}
