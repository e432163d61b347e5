"""Tables of MySQL and MariaDB: which Arrow types fit which column type, and the upsert."""

from __future__ import annotations

import re
from collections.abc import Sequence

from indoubt.resource_managers.database.columns import TargetColumn, TargetTable, decimals, integers

INTEGER_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
TEXT = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json", "enum", "uuid", "inet4", "inet6")
BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
UNICODE = ("utf8mb4", "utf16", "utf16le", "utf32", None)
"""Character sets that hold every text; None: the type has none of its own (uuid, and json in MySQL)."""
MICROSECOND_DIGITS = 6

COLUMNS = """
select column_name, column_type, data_type, is_nullable, column_default, extra, numeric_precision, numeric_scale,
       datetime_precision, character_set_name, collation_name
from information_schema.columns where table_schema = %s and table_name = %s order by ordinal_position"""

PRIMARY_KEY = """
select column_name from information_schema.key_column_usage
where table_schema = %s and table_name = %s and constraint_name = 'PRIMARY' order by ordinal_position"""

STORED_NAME = """
select concat(quote(table_schema), '.', quote(table_name)) from information_schema.tables
where table_schema = %s and table_name = %s"""

ENGINE = """
select t.table_type, t.engine, e.xa from information_schema.tables t
left join information_schema.engines e on e.engine = t.engine where t.table_schema = %s and t.table_name = %s"""


def target_column(row: Sequence[object]) -> TargetColumn:
    """Return the column that a row of COLUMNS describes."""
    name, type_, family, nullable, default, extra, precision, scale, fraction, characters, collation = row
    family, extra = str(family).lower(), str(extra).lower()
    takes: frozenset[str] = frozenset()
    digits = None
    if family in INTEGER_BITS:
        takes = integers(INTEGER_BITS[family], signed="unsigned" not in str(type_)) | {"bool"}
    elif family == "decimal":
        digits = (int(str(precision)), int(str(scale)))
        takes = decimals(*digits)
    elif family == "double":
        takes = frozenset({"float32", "float64", "int8", "int16", "int32", "uint8", "uint16", "uint32"})
    elif family == "float":
        takes = frozenset({"float32", "int8", "int16", "uint8", "uint16"})
    elif family in TEXT and characters in UNICODE:
        takes = frozenset({"string"})
    elif family in BYTES:
        takes = frozenset({"binary"})
    elif family == "date":
        takes = frozenset({"date"})
    elif family in ("datetime", "timestamp") and fraction == MICROSECOND_DIGITS:
        # Fewer digits would round without a word.
        takes = frozenset({"timestamp"})
    generated = "generated" in extra and "default_generated" not in extra
    has_default = default is not None or "auto_increment" in extra or "default_generated" in extra
    merges = ""
    if collation is not None and not str(collation).endswith("_bin"):
        merges = f"compares without case or accents ({collation}; take utf8mb4_bin)"
    return TargetColumn(
        name=str(name),
        type=f"{type_} character set {characters}" if characters not in UNICODE else str(type_),
        takes=takes,
        must_be_filled=str(nullable).upper() == "NO" and not has_default and not generated,
        writable=not generated,
        digits=digits,
        merges=merges,
    )


def upsert_statement(table: TargetTable, columns: Sequence[TargetColumn]) -> str:
    """Return an insert with one ``%s`` for each column that overwrites the row of an equal key.

    Written with values(): MySQL 8 prefers a row alias, which MariaDB does not know.
    """
    return f"{_insert(table, columns)} values ({', '.join(['%s'] * len(columns))}){_on_duplicate(table, columns)}"


def trial_statement(table: TargetTable, columns: Sequence[TargetColumn]) -> str:
    """Return the same insert of no rows: the server checks names and privileges."""
    nulls = ", ".join(["null"] * len(columns))
    return f"{_insert(table, columns)} select {nulls} from dual where false{_on_duplicate(table, columns)}"  # noqa: S608 (quoted identifiers)


def _insert(table: TargetTable, columns: Sequence[TargetColumn]) -> str:
    names = ", ".join(quoted(column.name) for column in columns)
    return f"insert into {quoted(table.name)} ({names})"


def _on_duplicate(table: TargetTable, columns: Sequence[TargetColumn]) -> str:
    key = table.key_within(columns)
    if not key:
        return ""
    rest = [quoted(column.name) for column in columns if column.name not in key]
    changes = ", ".join(f"{name} = values({name})" for name in rest) or f"{quoted(key[0])} = {quoted(key[0])}"
    return f" on duplicate key update {changes}"


def quoted(name: str) -> str:
    """Return a table or column name in backticks; ``%`` doubled, because statements are formatted with ``%s``."""
    parts = re.split(r"\.", name)
    return ".".join("`" + part.replace("`", "``").replace("%", "%%") + "`" for part in parts)
