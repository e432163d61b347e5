"""Runs of orders by filter over a real history: their parts, what stops them, and what the next start makes of those cut short."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from indoubt.collector.act.orders import order_runs
from indoubt.collector.act.orders.audit import AuditRow, OrderHistory
from indoubt.collector.act.orders.bulk_selection import PART, Previews
from indoubt.collector.act.orders.order_runs import CUT_SHORT, KEPT_S, OrderRuns
from indoubt.collector.act.orders.service import Actions
from indoubt.collector.history.store import Store, StoreFailed
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.orders import FirstAnswer, Order, OrderOutcome, OrderResult, Step, StepOutcome
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import OrderRefused, ResourceManagerError
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.order_request import Filter
from indoubt.lifecycle.rows.orders import OrderRun
from tests.unit.collector.notify.http_receiver import wait_until
from tests.unit.collector.observations import broker_record
from tests.unit.collector.serve.api.served_api import observed

NUMBER = 2 * PART + 7
WANTED = Filter(transaction_prefix="bank-")


class Giver(Actions):
    """Ends each order as told, and writes it into history as the real one does; no broker is there to ask."""

    def __init__(self, store: Store) -> None:
        self.history, self.given = OrderHistory(store), list[Order]()
        self.outcome = StepOutcome.ABORTED
        self.before: Callable[[int], None] = lambda number: None
        """Called with the number of orders before each."""

    def give(self, order: Order, who: str, *, why_not: object = None) -> OrderResult:
        self.before(len(self.given))
        self.given.append(order)
        outcome = StepOutcome.DRY_RUN if order.dry_run else self.outcome
        steps = tuple(Step(key=key, description="EndTxn(abort)", outcome=outcome) for key in order.keys)
        ended = OrderOutcome.DRY_RUN if order.dry_run else OrderOutcome.ACCEPTED
        row = AuditRow(
            who=who, action=order.action, keys=order.keys, reason=order.reason, outcome=ended, detail="", evidence=()
        )
        result = OrderResult(audit=0, outcome=ended, took_ms=5, steps=steps)
        return self.history.conclude(order, row, result, None)

    def refuse(self, order: Order, who: str, why: str) -> int:
        row = AuditRow(
            who=who, action=order.action, keys=(), reason=order.reason, outcome=OrderOutcome.REFUSED, detail=why
        )
        return self.history.audit(row)

    def answer(self, idempotency_key: str, who: str) -> FirstAnswer:
        return FirstAnswer(answer=self.history.first_answer(idempotency_key, who), refused=None)


class Collector:
    """A collector that knows so many foreign transactions, over one history."""

    def __init__(self, store: Store) -> None:
        self.store, self.now_s = store, 0.0
        self.current = CurrentState(store, settled_kept=100, checkpoints_kept=100, limits=Limits())
        self.current.see_decision_log(DecisionLogStatus.READABLE)
        self.current.observe(
            [
                observed(n, broker_record(BrokerStatus.ONGOING, 0, transaction=f"bank-{n:04}", producer_id=n + 1))
                for n in range(NUMBER)
            ]
        )
        self.giver, self.previews = Giver(store), Previews(self.current)
        self.runs = OrderRuns(self.current, store, self.giver, self.previews, lambda: self.now_s)

    def order(self, **changes: object) -> Order:
        """Return an order for what the filter means now."""
        (condition,) = self.previews.preview(Action.ABORT, WANTED).conditions
        order = Order(
            action=Action.ABORT,
            keys=(),
            seen={},
            reason="its job is gone",
            dry_run=False,
            confirm=condition.confirm,
            filter=WANTED,
            fingerprint=condition.fingerprint,
            idempotency_key="once",
            digest="d",
        )
        return replace(order, **changes)  # type: ignore[arg-type]

    def over(self, run: OrderRun) -> OrderRun:
        """Return a run once it is over."""

        def found() -> OrderRun | None:
            now = self.runs.find(run.run)
            return now if now is not None and now.is_over else None

        now: OrderRun = wait_until("the run is over", found)
        return now

    def audit(self) -> list[tuple[str, str, str, str]]:
        return [
            (row["who"], row["outcome"], row["reason"], row["detail"])
            for row in self.store.named_rows("select * from audit order by audit")
        ]


@pytest.fixture
def collector(store: Store) -> Collector:
    return Collector(store)


def test_everything_that_was_shown_is_ordered_in_parts(collector: Collector) -> None:
    order = collector.order()
    collector.current.observe(
        [observed(NUMBER, broker_record(BrokerStatus.ONGOING, 0, transaction="bank-9999", producer_id=9_999))]
    )
    over = collector.over(collector.runs.begin(order, "anna"))
    assert (over.who, over.transactions, over.sent, over.done, over.halted) == ("anna", NUMBER, NUMBER, NUMBER, "")
    assert (over.outcome, over.outcomes, over.took_ms) == ("accepted", {"aborted": NUMBER}, 15)
    assert [len(part.keys) for part in collector.giver.given] == [PART, PART, 7]
    for number, part in enumerate(collector.giver.given, 1):
        assert part.each
        assert part.confirm == "bank-0"
        assert set(part.seen) == set(part.keys)
        assert part.reason == f"its job is gone (part {number} of 3 of an order for 507: transaction prefix bank-)"
    assert [step.key for step in over.steps] == [key for part in collector.giver.given for key in part.keys]
    assert len({*(step.key for step in over.steps)}) == NUMBER
    assert [row[:2] for row in collector.audit()] == [("anna", "accepted")] * 3
    assert over.audits == (1, 2, 3)
    (listed,) = collector.runs.all("anna")
    assert listed == replace(over, steps=())
    assert collector.runs.all("bert") == []


def test_the_same_order_under_its_key_begins_once_also_after_a_restart(collector: Collector, store: Store) -> None:
    order = collector.order()
    first = collector.over(collector.runs.begin(order, "anna"))
    assert collector.runs.begin(order, "anna").run == first.run
    later = Collector(store)
    later.runs.start()
    assert later.runs.begin(order, "anna") == replace(first, steps=())
    assert later.runs.find(first.run) == first
    assert later.giver.given == []
    with pytest.raises(OrderRefused, match="came with another order"):
        later.runs.begin(replace(order, digest="another"), "anna")
    with pytest.raises(OrderRefused, match="not kept"):
        later.runs.begin(order, "bert")


def test_a_part_that_is_refused_stops_no_other(collector: Collector) -> None:
    def refuse(number: int) -> None:
        if number == 0:
            collector.giver.before = lambda _: None
            raise OrderRefused("none of these may be ordered so")

    collector.giver.before = refuse
    over = collector.over(collector.runs.begin(collector.order(), "anna"))
    assert (over.outcomes, over.outcome, over.halted) == ({"refused": PART, "aborted": PART + 7}, "failed", "")
    assert (over.done, over.audits) == (PART + 7, (1, 2))
    assert over.steps[0].detail == "none of these may be ordered so"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ResourceManagerError("no broker answers"), "no broker answers"),
        (StoreFailed("the disk is full"), "the disk is full"),
        (ZeroDivisionError(), "The collector failed (ZeroDivisionError): its log says why."),
    ],
)
def test_what_cannot_be_sent_halts_the_run_and_is_told(collector: Collector, error: Exception, says: str) -> None:
    def fail(number: int) -> None:
        if number == 1:
            raise error

    collector.giver.before = fail
    over = collector.over(collector.runs.begin(collector.order(), "anna"))
    assert (over.sent, over.halted) == (PART, says)
    assert collector.audit()[-1] == (
        "anna",
        "refused",
        "its job is gone (an order for 507: transaction prefix bank-)",
        f"{says} For 257 of 507 transactions nothing was sent",
    )
    ((keys,),) = collector.store.rows("select keys from audit where outcome = 'refused'")
    assert len(json.loads(keys)) == NUMBER - PART


def by_key(**changes: object) -> Order:
    order = Order(action=Action.ABORT, keys=("k",), seen={"k": "r"}, reason="it is gone", dry_run=False, confirm="c")
    return replace(order, subject="transaction k", idempotency_key="once", digest="d", **changes)  # type: ignore[arg-type]


def test_an_order_by_its_keys_is_carried_out_as_it_is(collector: Collector) -> None:
    order = by_key()
    over = collector.over(collector.runs.begin(order, "anna"))
    assert collector.giver.given == [order]
    assert (over.what, over.filter, over.outcome, over.done, over.audits) == ("transaction k", {}, "accepted", 1, (1,))
    assert collector.giver.answer("once", "anna").answer is not None, "its key finds its answer"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (OrderRefused("it changed"), "refused"),
        (ResourceManagerError("no broker answers"), "failed"),
        (StoreFailed("the disk is full"), "pending"),
    ],
)
def test_an_order_by_its_keys_that_is_not_carried_out_says_why(
    collector: Collector, error: Exception, outcome: str
) -> None:
    def fail(number: int) -> None:
        raise error

    collector.giver.before = fail
    over = collector.over(collector.runs.begin(by_key(), "anna"))
    assert (over.halted, over.outcome, over.done) == (str(error), outcome, 0)
    assert collector.audit() == [], "its own row says so"


def test_an_order_by_its_keys_that_was_not_begun_is_told_at_the_next_start(collector: Collector, store: Store) -> None:
    gone = threading.Event()

    def hold(number: int) -> None:
        gone.wait(30)
        raise OrderRefused("this thread belongs to a process that is gone")

    collector.giver.before = hold
    run = collector.runs.begin(by_key(), "anna")
    later = Collector(store)
    later.runs.start()
    found = later.runs.find(run.run)
    assert found is not None
    assert (found.is_over, found.halted, found.sent) == (True, CUT_SHORT, 0)
    assert later.audit() == [("anna", "refused", "it is gone", f"{CUT_SHORT} For 1 of 1 transactions nothing was sent")]
    gone.set()


def test_a_stopped_run_ends_after_its_part(collector: Collector) -> None:
    sending, may_go_on = threading.Event(), threading.Event()

    def hold(number: int) -> None:
        sending.set()
        assert may_go_on.wait(30)

    collector.giver.before = hold
    run = collector.runs.begin(collector.order(), "anna")
    assert sending.wait(30)
    stopping = collector.runs.stop_run(run.run, "bert")
    assert stopping is not None
    assert (stopping.is_over, stopping.halted) == (False, "bert stopped it.")
    may_go_on.set()
    over = collector.over(run)
    assert (over.sent, over.halted) == (PART, "bert stopped it.")
    assert collector.runs.stop_run(run.run, "carla") == replace(over, steps=())
    assert collector.runs.stop_run("another", "carla") is None


def test_a_run_that_the_collector_left_in_the_middle_is_told_at_the_next_start(
    collector: Collector, store: Store
) -> None:
    gone = threading.Event()

    def hold(number: int) -> None:
        if number == 1:
            gone.wait(30)
            raise OrderRefused("this thread belongs to a process that is gone")

    collector.giver.before = hold
    order = collector.order()
    run = collector.runs.begin(order, "anna")
    wait_until("a part is sent", lambda: (now := collector.runs.find(run.run)) and now.sent)
    later = Collector(store)
    later.runs.start()
    found = later.runs.find(run.run)
    assert found is not None
    assert (found.is_over, found.halted, found.sent, found.done) == (True, CUT_SHORT, PART, PART)
    assert len(found.steps) == PART
    assert later.audit()[-1][1:] == (
        "refused",
        "its job is gone (an order for 507: transaction prefix bank-)",
        f"{CUT_SHORT} For 257 of 507 transactions nothing was sent",
    )
    assert later.giver.given == [], "it is not taken up again"
    assert later.runs.begin(order, "anna").halted == CUT_SHORT
    rows = len(later.audit())
    Collector(store).runs.start()
    assert len(later.audit()) == rows, "it is told once"
    gone.set()


def test_a_collector_that_ends_waits_for_the_part_under_way(collector: Collector) -> None:
    sending, may_go_on = threading.Event(), threading.Event()

    def hold(number: int) -> None:
        sending.set()
        assert may_go_on.wait(30)

    collector.giver.before = hold
    run = collector.runs.begin(collector.order(), "anna")
    assert sending.wait(30)
    threading.Timer(0.1, may_go_on.set).start()
    collector.runs.stop()
    now = collector.runs.find(run.run)
    assert now is not None
    assert (now.is_over, now.sent, now.halted) == (True, PART, CUT_SHORT)


def test_a_dry_run_needs_no_text_and_leaves_nothing_to_tell(collector: Collector, store: Store) -> None:
    order = collector.order(dry_run=True, confirm="", idempotency_key="")
    over = collector.over(collector.runs.begin(order, "anna"))
    assert (over.done, over.outcome, over.outcomes) == (NUMBER, "dry_run", {"dry run": NUMBER})
    assert {part.idempotency_key for part in collector.giver.given} == {""}
    assert store.rows("select count(*) from order_answers") == [(0,)]


def test_runs_that_are_over_are_listed_for_an_hour_and_no_more_than_are_kept(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_runs, "MOST_KEPT", 3)
    order = collector.order(dry_run=True, idempotency_key="")
    first = collector.over(collector.runs.begin(order, "anna"))
    for second in range(1, 5):
        collector.now_s = float(second)
        last = collector.over(collector.runs.begin(order, "anna"))
    assert collector.runs.find(first.run) is None, "the next run is enough to forget it"
    listed = collector.runs.all()
    assert (len(listed), listed[0].run) == (3, last.run)
    collector.now_s += KEPT_S
    assert collector.runs.all() == []


def test_a_preview_is_kept_while_no_newer_ones_name_too_many(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indoubt.collector.act.orders.bulk_selection.MOST_PREVIEWED", NUMBER + 10)
    order = collector.order()
    one = Filter(transaction_prefix="bank-0001")
    collector.previews.preview(Action.ABORT, one)
    assert collector.previews.find(order) is not None
    collector.previews.preview(Action.ABORT, Filter(transaction_prefix="bank-00"))
    assert collector.previews.find(order) is None
    collector.over(collector.runs.begin(collector.order(), "anna"))
