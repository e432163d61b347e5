"""A row's JSON, its schema and its reader follow from the types of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from lifecycle.rows.columns import without_null
from lifecycle.rows.json_schema import body_schema_of, schema_of
from lifecycle.rows.order_request import ORDER_REQUESTS
from lifecycle.rows.row_json import read_row, row_to_json


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    spokes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cart:
    name: str
    load: float | None
    is_full: bool
    colour: Colour | None
    wheels: tuple[Wheel, ...]
    colours: tuple[Colour, ...]
    labels: Mapping[str, str]
    driver: Wheel | None
    rest: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LongCart(Cart):
    metres: int


CART = Cart(
    name="first",
    load=1.5,
    is_full=False,
    colour=Colour.RED,
    wheels=(Wheel(spokes=8), Wheel(spokes=None)),
    colours=(Colour.BLUE,),
    labels={"owner": "anna"},
    driver=None,
    rest=[1, {"a": None}],
)
JSON = {
    "name": "first",
    "load": 1.5,
    "is_full": False,
    "colour": "red",
    "wheels": [{"spokes": 8}, {"spokes": None}],
    "colours": ["blue"],
    "labels": {"owner": "anna"},
    "driver": None,
    "rest": [1, {"a": None}],
}


def test_a_row_is_written_in_the_order_of_its_fields_and_read_back() -> None:
    written = row_to_json(CART)
    assert written == JSON
    assert list(written) == list(JSON)
    assert read_row(Cart, written) == CART


def test_the_columns_of_a_base_come_first() -> None:
    long = read_row(LongCart, {**JSON, "metres": 3})
    assert list(row_to_json(long)) == [*JSON, "metres"]


def test_unknown_fields_are_ignored_and_what_may_be_none_may_be_absent() -> None:
    known = {name: value for name, value in JSON.items() if name not in ("load", "colour", "driver", "rest")}
    row = read_row(Cart, {**known, "new": 1})
    assert (row.load, row.colour, row.driver, row.rest) == (None, None, None, None)


@pytest.mark.parametrize("name", ["name", "is_full", "wheels", "labels"])
def test_what_is_never_none_may_not_be_absent(name: str) -> None:
    with pytest.raises(KeyError, match=name):
        read_row(Cart, {known: value for known, value in JSON.items() if known != name})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", None), ("name", 3), ("load", "1.5"), ("load", True), ("is_full", 0), ("wheels", {"spokes": 8}),
        ("wheels", [3]), ("wheels", [{"spokes": 8.5}]), ("colours", [None]), ("labels", []), ("labels", {"owner": 1}),
        ("driver", []),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_an_error(name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        read_row(Cart, {**JSON, name: value})


def test_an_error_names_the_columns_that_lead_to_the_value() -> None:
    with pytest.raises(TypeError, match=r"^wheels: spokes: '8' is no int$"):
        read_row(Cart, {**JSON, "wheels": [{"spokes": "8"}]})


def test_a_member_that_is_not_known_is_an_error() -> None:
    with pytest.raises(ValueError, match="green"):
        read_row(Cart, {**JSON, "colour": "green"})


def test_what_is_no_object_is_no_row() -> None:
    with pytest.raises(TypeError):
        read_row(Cart, [])  # type: ignore[arg-type]


def test_a_whole_number_is_a_number() -> None:
    assert read_row(Cart, {**JSON, "load": 2}).load == 2


def test_the_schema_says_types_members_and_what_may_be_null() -> None:
    wheel = {
        "type": "object",
        "properties": {"spokes": {"type": ["integer", "null"]}},
        "required": ["spokes"],
        "additionalProperties": False,
    }
    schema = schema_of(Cart)
    assert schema["required"] == list(JSON)
    assert schema["additionalProperties"] is False
    assert schema["properties"] == {
        "name": {"type": "string"},
        "load": {"type": ["number", "null"]},
        "is_full": {"type": "boolean"},
        "colour": {"type": ["string", "null"], "enum": ["red", "blue", None]},
        "wheels": {"type": "array", "items": wheel},
        "colours": {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "driver": {**wheel, "type": ["object", "null"]},
        "rest": {},
    }


def test_a_column_of_two_types_is_refused() -> None:
    with pytest.raises(TypeError, match="one type"):
        without_null(int | str)


def test_the_bodies_of_orders_follow_from_their_types() -> None:
    of_transactions, of_one, bulk = (body_schema_of(kind) for kind in ORDER_REQUESTS)
    assert of_transactions["required"] == of_one["required"] == ["action", "reason", "keys"]
    assert of_transactions["properties"]["action"] == {"type": "string", "enum": ["commit", "abort"]}
    assert of_one["properties"]["keys"] == {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "maxItems": 1,
        "uniqueItems": True,
    }
    assert of_one["properties"]["dry_run"] == {"type": "boolean", "default": False}
    assert "default" not in of_one["properties"]["idempotency_key"], "an empty key is no key"
    assert bulk["properties"]["filter"]["additionalProperties"] is False
    assert "required" not in bulk["properties"]["filter"]
