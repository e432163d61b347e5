"""Orders to a pipeline: their records, which run they hit, and how the collector reads the answer from events."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indoubt.collector.act.orders.audit import Intent
from indoubt.collector.act.orders.pipelines import PipelineOrders, pipeline_row, prefix_of, state_of
from indoubt.collector.act.orders.plan import PlannedAction
from indoubt.collector.history.store import Store
from indoubt.collector.records import orders
from indoubt.collector.records.observations import DecisionSeen, Observation, Observed, Position
from indoubt.collector.records.orders import StepOutcome
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle import pipeline_orders
from indoubt.lifecycle.decisions import RunStarted
from indoubt.lifecycle.errors import MalformedRecord, OrderRefused, UnknownVersion
from indoubt.lifecycle.events import STOPPED_ON_REQUEST, EventType
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.pipeline_orders import PipelineAction, PipelineOrder, Run
from indoubt.pipeline.supervision.order_watch import OrderWatch
from indoubt.pipeline.supervision.supervisor import stands_still
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.unit.collector.observations import CHECKPOINT_ID, PREFIX, T0, event

NOBODY = KafkaConnection("127.0.0.1:1")
RUN = Run(prefix=PREFIX, checkpoint_id=CHECKPOINT_ID, attempt=88)
ORDER = PipelineOrder(run=RUN, action=PipelineAction.RESTART, who="anna", reason="stuck", id="o1", at_ms=T0)


@pytest.mark.parametrize("action", PipelineAction)
def test_a_record_is_read_back_as_it_was_written(action: PipelineAction) -> None:
    order = replace(ORDER, action=action)
    assert pipeline_orders.decode(pipeline_orders.encode(order)) == order


@pytest.mark.parametrize("name", ["prefix", "checkpoint_id", "attempt", "action", "who", "reason", "id", "at_ms"])
@pytest.mark.parametrize("value", [None, True, [], ""])
def test_a_wrong_field_is_named(name: str, value: Any) -> None:
    fields = json.loads(pipeline_orders.encode(ORDER)) | {name: value}
    with pytest.raises(MalformedRecord, match=name):
        pipeline_orders.decode(json.dumps(fields).encode())


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b"1"])
def test_what_is_no_record_is_malformed(value: bytes | None) -> None:
    with pytest.raises(MalformedRecord):
        pipeline_orders.decode(value)


def test_a_newer_format_is_named() -> None:
    with pytest.raises(UnknownVersion):
        pipeline_orders.decode(b'{"version": 2}')


def test_an_order_hits_the_run_that_it_names_and_no_other() -> None:
    watch = OrderWatch(NOBODY, "", PREFIX)
    named = [
        replace(ORDER, id="earlier run", run=replace(RUN, attempt=87)),
        replace(ORDER, id="another checkpoint id", run=replace(RUN, checkpoint_id="checkpoint-2")),
        replace(ORDER, id="another pipeline", run=replace(RUN, prefix="word-count")),
        replace(ORDER, id="mine"),
        replace(ORDER, id="mine again"),
    ]
    for order in named:
        watch.offer(pipeline_orders.encode(order))
    watch.offer(b"not a record")
    assert watch.has_any()
    taken = watch.take(RUN)
    assert taken is not None
    assert taken.id == "mine"
    assert watch.take(replace(RUN, attempt=120)) is None, "the second order for the old run does not hit the new one"
    assert not watch.has_any()


def test_a_stopped_process_is_not_taken_for_a_running_one() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            assert not stands_still(process.pid)
            process.send_signal(19)  # SIGSTOP
            while not stands_still(process.pid):
                assert process.poll() is None
        finally:
            process.kill()
    assert not stands_still(process.pid)


class Seen:
    """What the collector has seen of one pipeline."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path)
        self.current = CurrentState(self.store, settled_kept=10, checkpoints_kept=10, limits=Limits())
        self.orders = PipelineOrders(self.current, NOBODY, DecisionLog(NOBODY), "pipeline_orders", limit_ms=100)
        self._number = 0
        self.run(88)

    def see(self, observation: Observation) -> None:
        self._number += 1
        position = Position(source="test", partition=0, offset=self._number)
        self.current.observe([Observed(position=position, observation=observation, raw="{}")])

    def run(self, offset: int) -> None:
        record = RunStarted(prefix=PREFIX, checkpoint_id=CHECKPOINT_ID, run="r", at_ms=T0 + offset)
        self.see(DecisionSeen(offset=offset, record=record))

    def end(self, action: Action) -> tuple[StepOutcome, str]:
        planned = PlannedAction(
            key=f"pipeline:{PREFIX}", description="", target={"prefix": PREFIX, "attempt": 88, "order": "o1"}
        )
        intent = Intent(
            intent=1,
            at_ms=T0,
            who="anna",
            action=action,
            reason="r",
            evidence=(),
            actions=(planned,),
            idempotency_key="",
            digest="",
        )
        return self.orders.probe(planned, intent)


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[Seen]:
    made = Seen(tmp_path / "history.duckdb")
    yield made
    made.store.close()


def told(type_: EventType, at: int, attempt: int, **data: Any) -> Observation:
    return event(type_, at, attempt=attempt, job="ip_count", **data)


def test_a_restart_is_done_when_a_newer_run_has_started_its_query(seen: Seen) -> None:
    outcome, why = seen.end(Action.RESTART)
    assert outcome is StepOutcome.UNKNOWN
    assert "stands still" in why
    assert "kill -9" in why
    seen.see(told(EventType.PIPELINE_STARTED, 10, 88))
    assert not seen.end(Action.RESTART)[0].is_known, "this is the run that shall end"
    seen.see(told(EventType.PIPELINE_RESTARTING, 20, 88, order="o1"))
    assert "has not started yet" in seen.end(Action.RESTART)[1]
    seen.run(120)
    assert "run 120 is recovering" in seen.end(Action.RESTART)[1]
    seen.see(told(EventType.PIPELINE_STARTED, 30, 120))
    assert seen.end(Action.RESTART) == (StepOutcome.RESTARTED, "run 120 started")


def test_a_start_is_done_when_a_newer_run_has_started_its_query(seen: Seen) -> None:
    assert seen.end(Action.START) == (
        StepOutcome.UNKNOWN, "the start command has returned; no run after run 88 has begun yet",
    )  # fmt: skip
    seen.run(120)
    assert "run 120 is recovering" in seen.end(Action.START)[1]
    seen.see(told(EventType.PIPELINE_STARTED, 30, 120))
    assert seen.end(Action.START) == (StepOutcome.STARTED, "run 120 started")


def test_a_stop_is_done_when_the_supervisor_answers_this_very_order(seen: Seen) -> None:
    seen.see(told(EventType.PIPELINE_STOPPED, 10, 88, reason=STOPPED_ON_REQUEST))
    seen.see(told(EventType.PIPELINE_STOPPED, 11, 88, order="another"))
    assert not seen.end(Action.STOP)[0].is_known
    seen.see(told(EventType.PIPELINE_STOPPED, 12, 88, order="o1"))
    assert seen.end(Action.STOP)[0] is StepOutcome.STOPPED


def test_a_stop_that_a_newer_run_was_faster_than_was_not_done(seen: Seen) -> None:
    seen.run(120)
    outcome, why = seen.end(Action.STOP)
    assert outcome is StepOutcome.REFUSED
    assert "for run 88 alone" in why


@pytest.mark.parametrize("key", ["ip-count", "pipeline:", "kafka:a:1:1"])
def test_an_order_names_a_pipeline_by_its_key(key: str) -> None:
    with pytest.raises(OrderRefused, match="no pipeline's key"):
        prefix_of(key)


def test_a_pipeline_shows_what_it_reported_last(seen: Seen) -> None:
    def state() -> str:
        now = seen.current.newest_run(PREFIX)
        assert now is not None
        assert pipeline_row(now).revision == str(now.attempt)
        return state_of(now)

    assert state() == "recovering"
    for at, type_, word in (
        (200, EventType.PIPELINE_STARTED, "running"),
        (300, EventType.PIPELINE_RESTARTING, "restarting"),
        (400, EventType.PIPELINE_STOPPED, "stopped"),
    ):
        seen.see(told(type_, at, 88))
        assert state() == word
    seen.run(500)
    assert state() == "recovering"


def test_the_actions_of_both_sides_have_the_same_names() -> None:
    # No supervisor is left that would read an order to start.
    of_pipelines = {action.value for action in Action if action.is_of_pipeline} - {Action.START.value}
    assert of_pipelines == {action.value for action in PipelineAction}
    body = {"action": "stop", "keys": ["pipeline:p"], "seen": {}, "reason": "because"}
    assert orders.read(body).action is Action.STOP
