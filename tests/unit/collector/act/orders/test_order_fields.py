"""What an order's body may hold: every wrong field is named, and two bodies that mean the same have the same digest."""

from __future__ import annotations

from typing import Any

import pytest

from indoubt.collector.records import orders
from indoubt.collector.records.orders import InvalidOrder, OrderOutcome, OrderResult, Step, StepOutcome
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.order_request import Filter
from indoubt.lifecycle.rows.row_json import read_row, row_to_json

BY_FILTER = {"action": "abort", "filter": {"pipeline": "p"}, "fingerprint": "f", "reason": "because"}
PLAIN = {"action": "commit", "keys": ["k"], "seen": {"k": "r"}, "reason": "because"}


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (BY_FILTER | {"filter": {"color": "red"}}, "'color'"),
        (BY_FILTER | {"filter": {"pipeline": ""}}, "'pipeline'"),
        (BY_FILTER | {"filter": {"open_for_ms": -1}}, "'open_for_ms'"),
        (BY_FILTER | {"filter": {"open_for_ms": True}}, "'open_for_ms'"),
        (BY_FILTER | {"filter": {"open_for_ms": "1"}}, "'open_for_ms'"),
        (BY_FILTER | {"filter": []}, "'filter'"),
        (BY_FILTER | {"keys": ["k"]}, "'keys'"),
        (BY_FILTER | {"fingerprint": ""}, "'fingerprint'"),
        (BY_FILTER | {"action": "restart"}, "'action'"),
        ({"action": "abort", "filter": {}, "fingerprint": "f", "reason": "because"}, "'filter'"),
        (PLAIN | {"action": "restart", "keys": ["pipeline:a", "pipeline:b"]}, "'keys'"),
        (PLAIN | {"idempotency_key": "two words"}, "'idempotency_key'"),
        (PLAIN | {"idempotency_key": "k" * 129}, "'idempotency_key'"),
        (PLAIN | {"seen": {"k": 1}}, "'seen'"),
        (PLAIN | {"filter": {"pipeline": "p"}}, "'filter'"),
        (PLAIN | {"each": True}, "'each'"),
    ],
)
def test_a_wrong_field_is_named(body: dict[str, Any], named: str) -> None:
    read = orders.read_run if "fingerprint" in body else orders.read
    with pytest.raises(InvalidOrder, match=named):
        read(body)


def test_an_order_by_filter_carries_its_filter_and_fingerprint() -> None:
    order = orders.read_run(BY_FILTER)
    assert (order.filter, order.fingerprint, order.keys) == (Filter(pipeline="p"), "f", ())


@pytest.mark.parametrize("action", [Action.COMMIT, Action.ABORT])
def test_a_preview_is_of_a_commit_or_an_abort(action: Action) -> None:
    wanted = {"verdict": "commit it"}
    assert orders.read_preview({"action": action.value, "filter": wanted}) == (action, Filter(verdict="commit it"))
    with pytest.raises(InvalidOrder, match="'action'"):
        orders.read_preview({"action": "restart", "filter": wanted})


@pytest.mark.parametrize("body", [{}, [], {"action": "abort"}, {"action": "abort", "filter": {}, "reason": "because"}])
def test_a_preview_takes_an_action_and_a_filter_and_nothing_else(body: Any) -> None:
    with pytest.raises(InvalidOrder):
        orders.read_preview(body)


def test_the_idempotency_key_comes_in_the_header_or_in_the_body() -> None:
    assert orders.read(PLAIN, "a").idempotency_key == "a"
    assert orders.read(PLAIN | {"idempotency_key": "b"}).idempotency_key == "b"
    assert orders.read(PLAIN | {"idempotency_key": "b"}, "b").idempotency_key == "b"
    with pytest.raises(InvalidOrder, match="differ"):
        orders.read(PLAIN | {"idempotency_key": "b"}, "a")


def test_the_digest_tells_orders_apart_and_not_how_they_are_written() -> None:
    digest = orders.read(PLAIN).digest
    assert orders.read(dict(reversed(PLAIN.items()))).digest == digest
    assert orders.read(PLAIN | {"idempotency_key": "a"}).digest == digest
    assert orders.read(PLAIN | {"reason": "another"}).digest != digest
    assert orders.read(PLAIN | {"dry_run": True}).digest != digest


def test_an_answer_is_read_back_as_it_was_written() -> None:
    steps = tuple(Step(key=kind.name, description="w", outcome=kind, detail="d") for kind in StepOutcome)
    for outcome in OrderOutcome:
        answer = OrderResult(audit=7, outcome=outcome, took_ms=3, steps=steps, confirm="id")
        assert read_row(OrderResult, row_to_json(answer)) == answer


@pytest.mark.parametrize("action", Action)
def test_what_fulfils_an_order_is_known(action: Action) -> None:
    fulfilling = [outcome for outcome in StepOutcome if outcome.fulfils(action)]
    assert fulfilling
    assert all(outcome.is_known for outcome in fulfilling)
    assert not any(o.fulfils(action) for o in (StepOutcome.LOST, StepOutcome.REFUSED, StepOutcome.DRY_RUN))
