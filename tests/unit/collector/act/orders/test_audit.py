"""Orders in a real history file: answers to idempotency keys, intents that were cut short, and their follow-up, over restarts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indoubt.collector.act.orders.audit import AuditRow, Intent, KeyLocks, KeyReused, OrderHistory
from indoubt.collector.act.orders.outcome_resolver import CUT_SHORT, OutcomeResolver
from indoubt.collector.act.orders.plan import ActionResult, PlannedAction
from indoubt.collector.history import row_coding, sql
from indoubt.collector.history.store import Store
from indoubt.collector.records import orders
from indoubt.collector.records.orders import Order, OrderOutcome, OrderResult, Step, StepOutcome
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import OrderRefused, Unreachable
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.row_json import row_to_json

LIMIT_S = 10.0
ACTS = tuple(PlannedAction(key=key, description=f"end {key}", target={"kind": "look"}) for key in ("k1", "k2"))


def an_order(key: str = "key-1", **changes: str) -> Order:
    body = {"action": "commit", "keys": ["k1", "k2"], "seen": {}, "reason": "because", **changes}
    return orders.read(body, key)


def row(outcome: OrderOutcome, detail: str = "") -> AuditRow:
    return AuditRow(who="anna", action=Action.COMMIT, keys=["k1"], reason="because", outcome=outcome, detail=detail)


class History:
    """A history file that is closed and opened again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.open()

    def open(self) -> None:
        self.store = Store(self._path)
        self.orders = OrderHistory(self.store)

    def reopen(self) -> None:
        self.store.close()
        self.open()

    @property
    def audit(self) -> list[tuple[int, str, str, int | None]]:
        """Return (number, keys, outcome, refers to) of each audit row, oldest first."""
        rows = self.store.named_rows(sql.AUDIT, "", [], *sql.AUDIT_FROM_NEWEST, 100)
        return [(r["audit"], r["keys"], r["outcome"], r["refers_to"]) for r in reversed(rows)]

    def follow_up(
        self, probe: Callable[[PlannedAction, Intent], ActionResult], *, max_ms: int = 3_600_000
    ) -> OutcomeResolver:
        current = CurrentState(self.store, settled_kept=10, checkpoints_kept=10, limits=Limits())
        return OutcomeResolver(current, self.orders, {"look": probe}, pause_ms=1, max_ms=max_ms)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    made = History(tmp_path / "history.duckdb")
    yield made
    made.store.close()


def test_orders_that_are_not_settled_outlive_a_damaged_history(history: History) -> None:
    sent = history.orders.intend(an_order("key-1"), "anna", [{"fact": "f"}], ACTS)
    cut_short = history.orders.intend(an_order("key-2"), "ben", [], ACTS)
    done = history.orders.intend(an_order("key-3"), "anna", [], ACTS)
    for intent, unknown in ((sent, ["k2"]), (done, [])):
        result = OrderResult(audit=0, outcome=OrderOutcome.PENDING, took_ms=1, steps=())
        history.orders.conclude(an_order(intent.idempotency_key), row(OrderOutcome.PENDING), result, intent, unknown)
    before = history.orders.unsettled()
    assert [(one.intent, one.first_audit, one.unknown) for one in before] == [
        (sent.intent, 1, frozenset({"k2"})),
        (cut_short.intent, None, frozenset({"k1", "k2"})),
    ]
    history.store.close()
    path = history.store.path
    path.write_bytes(bytes(len(path.read_bytes())))
    history.open()
    assert len(history.store.set_aside) == 1
    assert history.orders.unsettled() == before
    assert history.orders.intend(an_order("key-4"), "anna", [], ACTS).intent == done.intent + 1, "numbers go on"
    followed(history, lambda planned, intent: (StepOutcome.COMMITTED, ""))
    assert [outcome for _, _, outcome, _ in history.audit].count("accepted") == 3


def followed(
    history: History, probe: Callable[[PlannedAction, Intent], ActionResult], *, max_ms: int = 3_600_000
) -> None:
    """Run a follow-up until nothing is unsettled."""
    follow_up, deadline = history.follow_up(probe, max_ms=max_ms), threading.Event()
    follow_up.start()
    try:
        for _ in range(int(LIMIT_S / 0.02)):
            if not history.orders.unsettled():
                return
            deadline.wait(0.02)
        raise AssertionError(f"still unsettled after {LIMIT_S:.0f} s: {history.orders.unsettled()}")
    finally:
        follow_up.stop()


def test_the_first_answer_is_given_again_also_after_a_restart(history: History) -> None:
    order = an_order()
    steps = (Step(key="k1", description="w", outcome=StepOutcome.COMMITTED),)
    result = OrderResult(audit=0, outcome=OrderOutcome.ACCEPTED, took_ms=3, steps=steps)
    answer = history.orders.conclude(order, row(OrderOutcome.ACCEPTED), result, None)
    assert answer.audit == 1
    history.reopen()
    assert history.orders.answer_to(order, "anna") == answer
    assert history.orders.answer_to(order, "carla") is None, "each caller has keys of its own"
    assert history.orders.answer_to(an_order(""), "anna") is None


def test_a_refusal_is_an_answer_too(history: History) -> None:
    history.orders.refuse(an_order(), "anna", row(OrderOutcome.REFUSED, "not safe"))
    history.reopen()
    with pytest.raises(OrderRefused, match="not safe"):
        history.orders.answer_to(an_order(), "anna")


def test_another_body_under_the_same_key_is_refused(history: History) -> None:
    history.orders.refuse(an_order(), "anna", row(OrderOutcome.REFUSED, "not safe"))
    with pytest.raises(KeyReused, match="'key-1' came with another order"):
        history.orders.answer_to(an_order(reason="another"), "anna")


def test_an_order_cut_short_is_pending_and_settled_after_a_restart(history: History) -> None:
    history.orders.intend(an_order(), "anna", [{"key": "k1"}], ACTS)
    history.reopen()
    assert [one.first_audit for one in history.orders.unsettled()] == [None]
    followed(history, lambda planned, intent: (StepOutcome.COMMITTED, f"seen {planned.key}"))
    assert history.audit == [(1, '["k1", "k2"]', "pending", None), (2, '["k1", "k2"]', "accepted", 1)]
    answer = history.orders.answer_to(an_order(), "anna")
    assert answer is not None
    assert (answer.audit, answer.outcome, answer.steps[0].detail) == (1, OrderOutcome.PENDING, CUT_SHORT)


def test_an_audit_row_that_came_late_is_not_written_again(history: History) -> None:
    intent = history.orders.intend(an_order(), "anna", [], ACTS)
    result = OrderResult(audit=0, outcome=OrderOutcome.ACCEPTED, took_ms=3, steps=())
    history.orders.conclude(an_order(), row(OrderOutcome.ACCEPTED), result, intent)
    found = history.orders.interrupted(intent, row(OrderOutcome.PENDING), result)
    assert (found.first_audit, found.unknown) == (1, frozenset())
    assert len(history.audit) == 1


def test_only_what_ended_as_ordered_counts_as_the_operators_deed(history: History) -> None:
    steps = [
        Step(key="k1", description="w", outcome=StepOutcome.COMMITTED),
        Step(key="k2", description="w", outcome=StepOutcome.LOST),
    ]
    detail = json.dumps(row_to_json(steps))
    for outcome in (OrderOutcome.PENDING, OrderOutcome.REFUSED):
        history.orders.audit(row(outcome, detail))
    history.orders.audit(row(OrderOutcome.FAILED, "Unreachable: no broker"))
    found = list(row_coding.operator_orders(history.store.rows(sql.ORDERS_CARRIED_OUT, 10)))
    assert [(one.key, one.action, one.audit) for one in found] == [("k1", "commit", 1)]


def test_each_part_is_reported_as_soon_as_it_is_known(history: History) -> None:
    seen: list[str] = []

    def probe(planned: PlannedAction, intent: Intent) -> ActionResult:
        seen.append(planned.key)
        if planned.key == "k2" and seen.count("k2") < 3:
            raise Unreachable("no broker answers")
        return (StepOutcome.COMMITTED if planned.key == "k1" else StepOutcome.LOST), ""

    history.orders.intend(an_order(), "anna", [], ACTS)
    followed(history, probe)
    assert history.audit == [
        (1, '["k1", "k2"]', "pending", None),
        (2, '["k1"]', "accepted", 1),
        (3, '["k2"]', "failed", 1),
    ]
    assert seen.count("k1") == 1, "what is known is not looked at again"


def test_what_is_known_at_the_end_is_not_probed_after_a_restart(history: History) -> None:
    intent = history.orders.intend(an_order(), "anna", [], ACTS)
    result = OrderResult(audit=0, outcome=OrderOutcome.PENDING, took_ms=3, steps=())
    history.orders.conclude(an_order(), row(OrderOutcome.PENDING), result, intent, ["k2"])
    history.reopen()
    polled: list[str] = []
    followed(history, lambda planned, _: (polled.append(planned.key), (StepOutcome.COMMITTED, ""))[1])
    assert polled == ["k2"]
    assert history.audit[-1] == (2, '["k2"]', "accepted", 1)


def test_what_nobody_can_tell_is_given_up_and_said_to_be(history: History) -> None:
    history.orders.intend(an_order(), "anna", [], ACTS)
    followed(history, lambda *_: (StepOutcome.UNKNOWN, "marker gone"), max_ms=0)
    assert history.audit[-1] == (2, '["k1", "k2"]', "failed", 1)
    (detail,) = history.store.rows("select detail from audit where audit = 2")[0]
    assert "given up; its end is unknown: marker gone" in detail


def test_an_order_that_was_refused_in_the_middle_is_settled(history: History) -> None:
    intent = history.orders.intend(an_order(), "anna", [], ACTS)
    history.orders.refuse(an_order(), "anna", row(OrderOutcome.REFUSED, "somebody was first"), intent)
    assert history.orders.unsettled() == []


def test_the_same_key_at_the_same_time_waits_for_the_first() -> None:
    locks, running, together = KeyLocks(), [], []

    def hold(key: str) -> None:
        with locks.held(key):
            running.append(key)
            together.append(running.count("a"))
            running.remove(key)

    threads = [threading.Thread(target=hold, args=(key,)) for key in ("a", "a", "b", "a") * 20]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert max(together) == 1
    assert not locks._locks
