"""Tables of PostgreSQL: which Arrow types fit which column type, and the upsert."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from indoubt.resource_managers.database.columns import TargetColumn, TargetTable, decimals, integers

INTEGER_BITS = {"smallint": 16, "integer": 32, "bigint": 64}
TEXT_LIKE = ("json", "jsonb", "uuid", "xml")
CHARACTER_TYPES = ("character varying", "bpchar", "text")
ALL_INTEGERS = integers(64) | {"uint64"}

TABLE = """
select c.oid, c.relkind::text, c.relpersistence::text from pg_class c where c.oid = to_regclass(%s)"""

STORED_NAME = """
select concat_ws('.', quote_ident(current_database()), quote_ident(n.nspname), quote_ident(c.relname))
from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = to_regclass(%s)"""

COLUMNS = """
select a.attname, format_type(a.atttypid, -1), format_type(a.atttypid, a.atttypmod), t.typcategory::text, a.atttypmod,
       a.attnotnull, a.atthasdef or a.attidentity <> '', a.attgenerated <> '' or a.attidentity = 'a',
       t.typname = 'citext' or not coalesce(l.collisdeterministic, true)
from pg_attribute a join pg_type t on t.oid = a.atttypid left join pg_collation l on l.oid = a.attcollation
where a.attrelid = %s and a.attnum > 0 and not a.attisdropped order by a.attnum"""

PRIMARY_KEY = """
select a.attname from pg_index i join lateral unnest(i.indkey) with ordinality as k(attnum, place) on true
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
where i.indrelid = %s and i.indisprimary order by k.place"""


def target_column(row: Sequence[object]) -> TargetColumn:
    """Return the column that a row of COLUMNS describes; its ``type`` is written with its length or precision."""
    name, family, type_, category, modifier, not_null, has_default, generated, without_case = row
    takes: frozenset[str] = frozenset()
    digits = None
    if family in INTEGER_BITS:
        takes = integers(INTEGER_BITS[str(family)])
    elif family == "numeric":
        digits = _numeric_digits(int(str(modifier)))
        takes = decimals(*digits) if digits else decimals(1000, 500) | ALL_INTEGERS
    elif family == "double precision":
        takes = frozenset({"float32", "float64", "int8", "int16", "int32", "uint8", "uint16", "uint32"})
    elif family == "real":
        takes = frozenset({"float32", "int8", "int16", "uint8", "uint16"})
    elif family == "boolean":
        takes = frozenset({"bool"})
    elif family == "bytea":
        takes = frozenset({"binary"})
    elif family == "date":
        takes = frozenset({"date"})
    elif type_ in ("timestamp with time zone", "timestamp without time zone"):
        # One with a precision, timestamp(0), would round without a word.
        takes = frozenset({"timestamp"})
    elif category in ("S", "E", "I") or family in TEXT_LIKE:
        takes = frozenset({"string"})
    return TargetColumn(
        name=str(name),
        type=str(type_),
        takes=takes,
        must_be_filled=bool(not_null) and not has_default and not generated,
        writable=not generated,
        digits=digits,
        merges="compares without case or accents" if without_case else "",
        base_type=str(family),
    )


def _numeric_digits(modifier: int) -> tuple[int, int] | None:
    # pg_attribute.atttypmod of numeric: 4, plus precision in the upper 16 bits and scale in 11 bits with a sign (numeric.c).
    if modifier < 0:
        return None
    bounds = modifier - 4
    return bounds >> 16, ((bounds & 0x7FF) ^ 0x400) - 0x400


def upsert_statement(table: TargetTable, columns: Sequence[TargetColumn], key: Sequence[str]) -> sql.Composed:
    """Return an insert that takes one array for each column; of rows with equal keys the last wins, as the server compares keys.

    Without the ``distinct on``, two of them in one statement are an error (cannot affect row a second time).
    """
    names = [_formatted(column.name) for column in columns]
    # Types without their length: a cast to varchar(3) would cut without a word, where the insert refuses what is too long.
    arrays = [sql.SQL("%s::{}[]").format(_type(column.base_type)) for column in columns]
    by_name = {column.name: column for column in columns}
    keys = [_as_compared(by_name[name]) for name in key]
    rest = [name for name in by_name if name not in key]
    changes = [sql.SQL("{0} = excluded.{0}").format(_formatted(name)) for name in rest]
    return sql.SQL(
        "insert into {table} ({names}) select {names} from (select distinct on ({keys}) * from unnest({arrays}) "
        "with ordinality as given({names}, {place}) order by {keys}, {place} desc) as last_of_each "
        "on conflict ({key}) do {deed}"
    ).format(
        table=_formatted(*table.name.split(".")),
        names=sql.SQL(", ").join(names),
        keys=sql.SQL(", ").join(keys),
        arrays=sql.SQL(", ").join(arrays),
        place=sql.Identifier("indoubt place in the batch"),
        key=sql.SQL(", ").join(_formatted(name) for name in key),
        deed=sql.SQL("update set {}").format(sql.SQL(", ").join(changes)) if changes else sql.SQL("nothing"),
    )


def copy_statement(table: TargetTable, columns: Sequence[TargetColumn]) -> sql.Composed:
    """Return the COPY that adds rows to a table without a primary key."""
    names = sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)
    return sql.SQL("copy {} ({}) from stdin").format(table_name(table.name), names)


def table_name(name: str) -> sql.Identifier:
    """Return ``table`` or ``schema.table`` as a quoted name."""
    return sql.Identifier(*name.split("."))


def _as_compared(column: TargetColumn) -> sql.Composed:
    # As the column will hold it: numeric(10, 2) makes 1.001 and 1.002 equal.
    name = _formatted(column.name)
    if column.base_type in CHARACTER_TYPES:
        return sql.SQL("{}").format(name)
    return sql.SQL("{}::{}").format(name, _type(column.type))


def _formatted(*parts: str) -> sql.Identifier:
    # % doubled, because statements with parameters are formatted with %s, names and all.
    return sql.Identifier(*(part.replace("%", "%%") for part in parts))


def _type(name: str) -> sql.SQL:
    # As format_type spells it, quoted where it needs to be.
    return sql.SQL(name.replace("%", "%%"))
