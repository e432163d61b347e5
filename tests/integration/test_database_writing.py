"""What is written is what the rows held: types, equal keys, tables without a key, large batches; and without transactions."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator

import pyarrow as pa
import pytest

from indoubt.lifecycle.errors import ResourceManagerError, SettingsError, Unreachable
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.lifecycle.outcomes import Committed
from tests.integration.database_fixtures import COLUMNS, FINGERPRINT, DatabaseSink, counts, make_sink

pytestmark = pytest.mark.integration

KINDS = ["mysql", "postgres"]


def server_of(request: pytest.FixtureRequest, kind: str):
    return request.getfixturevalue("mariadb" if kind == "mysql" else "postgres")


@pytest.fixture(params=KINDS)
def sink(request: pytest.FixtureRequest) -> Iterator[DatabaseSink]:
    yield from make_sink(server_of(request, request.param))


@pytest.fixture
def on_each_server(request: pytest.FixtureRequest):
    """Return a function that yields a sink of a given table definition on each server in turn."""

    def sinks(definition, columns=COLUMNS):
        for kind in KINDS:
            text = definition[kind] if isinstance(definition, dict) else definition
            quote = "`" if kind == "mysql" else '"'
            yield from make_sink(server_of(request, kind), text.replace("{q}", quote), columns)

    return sinks


EVERY_TYPE = {
    "mysql": "k bigint primary key, b tinyint(1), i int, f float, d double, n decimal(12,2), t varchar(200), "
    "x varbinary(20), day date, at datetime(6), u bigint unsigned, j json",
    "postgres": "k bigint primary key, b boolean, i integer, f real, d double precision, n numeric(12,2), t text, "
    "x bytea, day date, at timestamptz, u numeric, j jsonb",
}
TYPES = pa.schema(
    {
        "k": pa.int64(),
        "b": pa.bool_(),
        "i": pa.int32(),
        "f": pa.float32(),
        "d": pa.float64(),
        "n": pa.decimal128(10, 2),
        "t": pa.string(),
        "x": pa.binary(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "u": pa.uint64(),
        "j": pa.string(),
    }
)
AWKWARD = 'it\'s "quoted", `ticked`, 100%, %s, back\\slash\n\ttab, Ä, 漢, 🦀, \\N'
ROW = {
    "k": -(2**63),
    "b": True,
    "i": -(2**31),
    "f": 0.5,
    "d": 0.1,
    "n": decimal.Decimal("12345678.90"),
    "t": AWKWARD,
    "x": bytes([0, 39, 92, 255, 10]),
    "day": datetime.date(2026, 11, 21),
    "at": datetime.datetime(2026, 11, 21, 13, 14, 15, 123456, datetime.UTC),
    "u": 2**64 - 1,
    "j": '{"a": [1, null]}',
}


@pytest.fixture(params=KINDS)
def typed(request: pytest.FixtureRequest) -> Iterator[DatabaseSink]:
    yield from make_sink(
        server_of(request, request.param), EVERY_TYPE[request.param], tuple(zip(TYPES.names, TYPES.types, strict=True))
    )


def test_every_type_arrives_as_it_was(typed):
    nulls = dict.fromkeys(TYPES.names) | {"k": 1}
    typed.commit(typed.prepare(pa.RecordBatch.from_pylist([ROW, nulls], TYPES)))
    wanted = dict(ROW)
    if typed.kind == "mysql":
        wanted |= {"b": 1, "at": ROW["at"].replace(tzinfo=None)}
    else:
        wanted |= {"u": decimal.Decimal(2**64 - 1), "j": {"a": [1, None]}}
    found = typed.ask(f"select {', '.join(TYPES.names)} from {typed.table} order by k")  # noqa: S608 (names made here)
    assert dict(zip(TYPES.names, found[0], strict=True)) == wanted
    assert found[1] == tuple(nulls[name] for name in TYPES.names)


def test_slices_and_large_types_arrive_too(typed):
    schema = pa.schema([("k", pa.int64()), ("t", pa.large_string()), ("x", pa.large_binary())])
    rows = pa.RecordBatch.from_pylist([{"k": k, "t": f"t{k}", "x": b"%d" % k} for k in range(10)], schema)
    typed.commit(typed.prepare(rows.slice(3, 4)))
    found = typed.ask(f"select k, t, x from {typed.table} order by k")  # noqa: S608 (a name made here)
    assert found == [(k, f"t{k}", b"%d" % k) for k in range(3, 7)]


def test_columns_that_the_table_has_not_are_left_to_others(sink):
    rows = counts(a=1).append_column("value", pa.array([b"{}"]))
    handle = sink.prepare(rows)
    sink.commit(handle)
    assert sink.seen() == {"a": 1}
    assert handle.bytes == sum(counts(a=1).column(position).nbytes for position in range(2))


def test_a_later_row_with_an_equal_key_wins(sink):
    def rows(words, numbers):
        return pa.RecordBatch.from_pydict({"word": words, "count": numbers}, schema=pa.schema(list(COLUMNS)))

    transaction = sink.begin()
    transaction.write(rows(["a", "b", "a", "a"], [1, 2, 3, 4]))
    transaction.write(rows(["b", "c"], [5, 6]))
    sink.commit(transaction.prepare(FINGERPRINT))
    assert sink.seen() == {"a": 4, "b": 5, "c": 6}


def test_rows_of_an_earlier_batch_are_overwritten(sink):
    sink.commit(sink.prepare(counts(a=1, b=1), batch=0), batch=0)
    sink.commit(sink.prepare(counts(b=2, c=2), batch=1), batch=1)
    assert sink.seen() == {"a": 1, "b": 2, "c": 2}


def test_postgres_compares_keys_as_the_column_holds_them(request):
    """Padded characters, and a numeric's zeros."""
    columns = (("word", pa.string()), ("n", pa.decimal128(10, 4)), ("count", pa.int64()))
    definition = 'word char(5), n numeric(20, 4), "count" bigint not null, primary key (word, n)'
    postgres = make_sink(server_of(request, "postgres"), definition, columns)
    sink = next(postgres)
    values = {"word": ["a", "a    "], "n": [decimal.Decimal("1.5"), decimal.Decimal("1.5000")], "count": [1, 2]}
    sink.commit(sink.prepare(pa.RecordBatch.from_pydict(values, schema=pa.schema(list(columns)))))
    assert list(sink.seen().values()) == [2]
    assert next(postgres, None) is None


def test_a_table_without_a_primary_key_gets_plain_inserts(on_each_server):
    for sink in on_each_server("word varchar(50), {q}count{q} bigint"):
        rows = pa.RecordBatch.from_pydict(
            {"word": ["a", AWKWARD[:40], None], "count": [1, 2, None]}, schema=pa.schema(list(COLUMNS))
        )
        sink.commit(sink.prepare(rows, batch=0), batch=0)
        sink.commit(sink.prepare(counts(a=1), batch=1), batch=1)
        found = sink.ask(f"select word, {sink.quote}count{sink.quote} from {sink.table}")  # noqa: S608 (names made here)
        assert sorted(found, key=str) == sorted([("a", 1), ("a", 1), (AWKWARD[:40], 2), (None, None)], key=str)


def test_a_table_of_key_columns_only(on_each_server):
    for sink in on_each_server("word varchar(50) primary key", (("word", pa.string()),)):
        rows = pa.RecordBatch.from_pydict({"word": ["a", "a", "b"]})
        for batch in (0, 1):
            assert isinstance(sink.commit(sink.prepare(rows, batch=batch), batch=batch), Committed)
        assert sorted(sink.ask(f"select word from {sink.table}")) == [("a",), ("b",)]  # noqa: S608 (a name made here)


def test_names_that_need_quotes(on_each_server):
    columns = (("the word", pa.string()), ("50% of`it", pa.int64()), ('say "hi"', pa.int64()))
    mysql = '`the word` varchar(50) primary key, `50% of``it` bigint, `say "hi"` bigint'
    postgres = '"the word" varchar(50) primary key, "50% of`it" bigint, "say ""hi""" bigint'
    for sink in on_each_server({"mysql": mysql, "postgres": postgres}, columns):
        rows = pa.RecordBatch.from_pydict(dict(zip([name for name, _ in columns], [["a"], [1], [2]], strict=True)))
        sink.commit(sink.prepare(rows))
        assert sink.ask(f"select * from {sink.table}") == [("a", 1, 2)]  # noqa: S608 (a name made here)


def test_a_batch_of_fifty_thousand_rows(sink):
    total = 50_000
    words = [f"word{number}" for number in range(total)]
    rows = pa.RecordBatch.from_pydict({"word": words, "count": list(range(total))}, schema=pa.schema(list(COLUMNS)))
    handle = sink.prepare(rows)
    assert handle.rows == total
    sink.commit(handle)
    assert sink.seen() == dict(zip(words, range(total), strict=True))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"word": ["x" * 101], "count": [1]}, "too long"),
        ({"word": ["a"], "count": [None]}, "null"),
    ],
)
def test_a_value_that_does_not_fit_fails_the_slot_and_never_changes(sink, rows, message):
    batch = pa.RecordBatch.from_pydict(rows, schema=pa.schema(list(COLUMNS)))
    with pytest.raises(ResourceManagerError, match=f"(?i)write to '{sink.table}': .*{message}"):
        sink.prepare(batch)
    assert sink.prepared() == []
    sink.commit(sink.prepare(counts(a=1)))
    assert sink.seen() == {"a": 1}


def test_at_least_once_doubles_no_row_by_upsert(sink):
    writer = sink.manager().begin_without_transaction(DeliveryGuarantee.AT_LEAST_ONCE)
    writer.write(counts(a=1))
    writer.write(counts(b=2))
    assert sink.seen() == {}, "an ordinary transaction"
    writer.finish()
    assert sink.seen() == {"a": 1, "b": 2}
    assert (writer.rows, sink.prepared()) == (2, [])
    assert writer.bytes == counts(a=1).nbytes + counts(b=2).nbytes
    writer.abort()
    assert sink.seen() == {"a": 1, "b": 2}, "abort after finish does nothing"


def test_at_least_once_writes_again_what_a_failed_batch_had_written(on_each_server):
    """What it does not promise: without a key to overwrite by, a batch that is written again is there twice."""
    for sink in on_each_server("word varchar(50), {q}count{q} bigint"):
        for _ in range(2):
            writer = sink.manager().begin_without_transaction(DeliveryGuarantee.AT_LEAST_ONCE)
            writer.write(counts(a=1))
            writer.finish()
        assert len(sink.ask(f"select word from {sink.table}")) == 2  # noqa: S608 (a name made here)


def test_at_least_once_aborted_leaves_nothing(sink):
    writer = sink.manager().begin_without_transaction(DeliveryGuarantee.AT_LEAST_ONCE)
    writer.write(counts(a=1))
    writer.abort()
    writer.abort()
    assert sink.seen() == {}


def test_at_least_once_raises_when_rows_are_not_stored(sink):
    writer = sink.manager().begin_without_transaction(DeliveryGuarantee.AT_LEAST_ONCE)
    writer.write(counts(a=1))
    sink.server.kill()
    with pytest.raises(Unreachable):
        writer.finish()
    writer.abort()
    sink.server.start()
    assert sink.seen() == {}


def test_none_shows_rows_at_once_and_keeps_them_whatever_follows(sink):
    writer = sink.manager().begin_without_transaction(DeliveryGuarantee.NONE)
    writer.write(counts(a=1))
    assert sink.seen() == {"a": 1}
    writer.abort()
    assert sink.seen() == {"a": 1}


def test_none_loses_rows_without_an_error_and_counts_them(sink, caplog):
    writer = sink.manager().begin_without_transaction(DeliveryGuarantee.NONE)
    writer.write(counts(a=1))
    sink.server.kill()
    writer.write(counts(b=1, c=1))
    sink.server.start()
    writer.write(counts(d=1))
    writer.finish()
    assert sink.seen() == {"a": 1, "d": 1}
    assert (writer.rows, writer.failed_rows) == (2, 2)
    assert "2 rows were not written" in caplog.text


def test_without_a_table_nothing_is_begun(sink):
    with pytest.raises(SettingsError, match=f"write it as {sink.kind}:<table>"):
        sink.begin(table="")
