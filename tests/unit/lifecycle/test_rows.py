"""A row's JSON and its reader follow from the types of its fields, and so do the schemas of bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from pydantic import TypeAdapter

from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.order_request import (
    Filter,
    RunRequest,
    SingleOrderRequest,
    TransactionOrderRequest,
    read_body,
)
from indoubt.lifecycle.rows.row_json import read_row, row_to_json


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


def test_unknown_fields_are_ignored_and_known_ones_are_not_missing() -> None:
    assert read_row(Cart, {**JSON, "new": 1}) == CART
    with pytest.raises(ValueError, match="colour"):
        read_row(Cart, {name: value for name, value in JSON.items() if name != "colour"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", None), ("name", 3), ("load", "heavy"), ("is_full", 2), ("colour", "green"), ("wheels", {"spokes": 8}),
        ("wheels", [3]), ("wheels", [{"spokes": 8.5}]), ("colours", [None]), ("labels", []), ("labels", {"owner": 1}),
        ("driver", []),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_an_error_that_names_the_column(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        read_row(Cart, {**JSON, name: value})


def test_the_schemas_of_orders_say_their_limits() -> None:
    of_transactions, of_one, by_filter = (
        TypeAdapter(kind).json_schema() for kind in (TransactionOrderRequest, SingleOrderRequest, RunRequest)
    )
    assert of_transactions["required"] == of_one["required"] == ["action", "reason", "keys"]
    assert of_transactions["properties"]["action"]["enum"] == ["commit", "abort"]
    limits = {"minItems": 1, "maxItems": 1, "uniqueItems": True}
    assert limits.items() <= of_one["properties"]["keys"].items()
    assert "default" not in of_one["properties"]["idempotency_key"], "an empty key is no key"
    assert by_filter["properties"]["filter"]["minProperties"] == 1
    assert by_filter["$defs"]["Filter"]["additionalProperties"] is False
    assert "required" not in by_filter["$defs"]["Filter"]
    assert not any("default" in value for value in by_filter["$defs"]["Filter"]["properties"].values())


def test_a_body_is_read_as_its_schema_says() -> None:
    body = {"action": "abort", "filter": {"open_for_ms": 3}, "fingerprint": "f", "reason": "  because  "}
    read = read_body(RunRequest, body)
    assert (read.action, read.filter, read.reason) == (Action.ABORT, Filter(open_for_ms=3), "because")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"action": "burn"}, "field 'action' is 'burn'"),
        ({"action": "settle"}, "field 'action' is 'settle'; here it takes 'commit' or 'abort'"),
        ({"reason": " x "}, "field 'reason' takes 3 to 2000 characters: say why"),
        ({"reason": 3}, "field 'reason' is 3"),
        ({"filter": {}}, "field 'filter' takes one or more of pipeline, verdict"),
        ({"filter": {"colour": "red"}}, "field 'filter': 'colour' is not known; the fields are pipeline, verdict"),
        ({"keys": ["k"]}, "field 'keys' is not known; the fields are action, reason"),
        ({"dry_run": "yes"}, "field 'dry_run' is 'yes'"),
        ({"idempotency_key": "two words"}, "field 'idempotency_key' takes 1 to 128 printable ASCII characters"),
    ],
)
def test_an_error_says_which_field_and_what_it_takes(changes: dict[str, Any], message: str) -> None:
    body = {"action": "abort", "filter": {"pipeline": "p"}, "fingerprint": "f", "reason": "because", **changes}
    with pytest.raises(ValueError, match=message):
        read_body(RunRequest, body)


def test_what_is_no_object_is_no_body() -> None:
    with pytest.raises(ValueError, match="no JSON object"):
        read_body(RunRequest, [])
