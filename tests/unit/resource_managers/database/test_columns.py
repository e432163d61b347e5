"""Which Arrow types fit which column: those whose every value it holds."""

from __future__ import annotations

import pyarrow as pa
import pytest

from indoubt.lifecycle.errors import SettingsError
from indoubt.resource_managers.database.columns import TargetColumn, TargetTable, decimals, integers, kind_of
from indoubt.resource_managers.mysql import columns as mysql_columns
from indoubt.resource_managers.postgres import columns as postgres_columns


def mysql_column(type_: str, family: str, **more: object) -> TargetColumn:
    row = {
        "name": "v",
        "type": type_,
        "family": family,
        "nullable": "YES",
        "default": None,
        "extra": "",
        "precision": None,
        "scale": None,
        "fraction": None,
        "characters": None,
        "collation": None,
    } | more
    return mysql_columns.target_column(list(row.values()))


def test_integers_fit_by_width_and_sign():
    assert integers(32) == {"int8", "int16", "int32", "uint8", "uint16"}
    assert integers(32, signed=False) == {"uint8", "uint16", "uint32"}
    assert "int64" not in integers(64, signed=False)
    assert integers(24) == {"int8", "int16", "uint8", "uint16"}


def test_decimals_hold_integers_by_their_digits():
    assert "int64" in decimals(19, 0)
    assert "int64" not in decimals(20, 2)
    assert "uint64" in decimals(20, 0)


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        (pa.string(), "string"),
        (pa.large_string(), "string"),
        (pa.large_binary(), "binary"),
        (pa.decimal128(10, 2), "decimal"),
        (pa.timestamp("us", "UTC"), "timestamp"),
        (pa.timestamp("ns"), ""),
        (pa.list_(pa.int8()), ""),
        (pa.struct([]), ""),
        (pa.null(), ""),
        (pa.float16(), ""),
        (pa.duration("us"), ""),
    ],
)
def test_kinds(type_, kind):
    assert kind_of(type_) == kind


def test_mysql_defaults_and_generated_columns():
    assert mysql_column("int(11)", "int", nullable="NO").must_be_filled
    assert not mysql_column("int(11)", "int", nullable="NO", default="0").must_be_filled
    assert not mysql_column("int(11)", "int", nullable="NO", extra="auto_increment").must_be_filled
    assert not mysql_column("datetime(6)", "datetime", nullable="NO", extra="DEFAULT_GENERATED").must_be_filled
    generated = mysql_column("int(11)", "int", nullable="NO", extra="STORED GENERATED")
    assert (generated.must_be_filled, generated.writable) == (False, False)


def test_mysql_texts_need_a_character_set_that_holds_them():
    assert "string" in mysql_column("varchar(5)", "varchar", characters="utf8mb4", collation="utf8mb4_bin").takes
    latin = mysql_column("varchar(5)", "varchar", characters="latin1", collation="latin1_bin")
    assert latin.takes == set()
    assert latin.type == "varchar(5) character set latin1"


def table(*columns: TargetColumn, key: tuple[str, ...] = (), ignores_case: bool = False) -> TargetTable:
    return TargetTable(name="t", columns=columns, primary_key=key, ignores_case=ignores_case)


WORD = TargetColumn(name="Word", type="text", takes=frozenset({"string"}), base_type="text")
COUNT = TargetColumn(name="count", type="bigint", takes=integers(64), base_type="bigint")


def test_columns_are_matched_by_name_with_case_where_the_database_minds_it():
    jobs = [("word", pa.string()), ("count", pa.int64())]
    assert table(WORD, COUNT, ignores_case=True).check(jobs) == {"word", "count"}
    assert table(WORD, COUNT).check(jobs) == {"count"}


def test_every_problem_is_reported_at_once():
    strict = TargetColumn(name="at", type="date", takes=frozenset({"date"}), must_be_filled=True)
    merging = TargetColumn(name="word", type="citext", takes=frozenset({"string"}), merges="compares without case")
    with pytest.raises(SettingsError) as caught:
        table(merging, COUNT, strict, key=("word",)).check([("word", pa.string()), ("count", pa.float64())])
    text = str(caught.value)
    assert "'count' is double, and bigint does not hold all of its values" in text
    assert "key column 'word' (citext) compares without case" in text
    assert "'at' (date) is NOT NULL without a default" in text


@pytest.mark.parametrize(
    ("digits", "fits"), [((12, 2), True), ((10, 2), True), ((10, 3), False), ((11, 1), False), (None, True)]
)
def test_decimals_fit_by_digits_before_and_after_the_point(digits, fits):
    column = TargetColumn(name="v", type="numeric", takes=frozenset({"decimal"}), digits=digits)
    columns = [("v", pa.decimal128(10, 2))]
    if fits:
        assert table(column).check(columns) == {"v"}
    else:
        with pytest.raises(SettingsError):
            table(column).check(columns)


def test_without_its_whole_key_a_table_gets_plain_inserts():
    both = table(WORD, COUNT, key=("Word", "count"))
    assert both.key_within([WORD, COUNT]) == ("Word", "count")
    assert both.key_within([WORD]) == ()
    assert table(WORD).key_within([WORD]) == ()


def test_mysql_upserts():
    found = mysql_columns.upsert_statement(table(WORD, COUNT, key=("Word",)), [WORD, COUNT])
    assert found == (
        "insert into `t` (`Word`, `count`) values (%s, %s) on duplicate key update `count` = values(`count`)"
    )
    assert mysql_columns.upsert_statement(table(WORD), [WORD]) == "insert into `t` (`Word`) values (%s)"
    assert mysql_columns.upsert_statement(table(WORD, key=("Word",)), [WORD]).endswith("update `Word` = `Word`")
    assert mysql_columns.quoted("shop.50%`s") == "`shop`.`50%%``s`"


def test_postgres_upserts_take_the_last_of_equal_keys():
    found = postgres_columns.upsert_statement(table(WORD, COUNT, key=("Word",)), [WORD, COUNT], ["Word"]).as_string()
    assert 'select distinct on ("Word") * from unnest(%s::text[], %s::bigint[]) with ordinality' in found
    assert 'on conflict ("Word") do update set "count" = excluded."count"' in found


def test_postgres_numerics_spell_precision_and_scale_in_their_modifier():
    def digits(modifier: int) -> tuple[int, int] | None:
        row = ("v", "numeric", "numeric", "N", modifier, False, False, False, False)
        return postgres_columns.target_column(row).digits

    assert digits(-1) is None
    assert digits(((12 << 16) | 2) + 4) == (12, 2)
    assert digits(((3 << 16) | (-2 & 0x7FF)) + 4) == (3, -2)
