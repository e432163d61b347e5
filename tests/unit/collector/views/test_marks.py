"""What happened at a moment, as plots mark it."""

from __future__ import annotations

from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.views.series import of_pipeline
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.rows.series import MarkKind
from tests.unit.collector.observations import (
    PREFIX,
    T0,
    broker_record,
    decided,
    event,
    handle,
    run_started,
)
from tests.unit.collector.serve.api.served_api import observed
from tests.unit.collector.views.counted_history import Ask, History, always


def test_marks_say_what_happened_when_and_to_whom(history: History, ask: Ask) -> None:
    always(history)
    history.observe(
        run_started(),
        event(EventType.PIPELINE_STARTED, 1_000, job="ip_count"),
        *(event(EventType.PIPELINE_ALIVE, at, job="ip_count") for at in range(1_500, 1_900)),
        event(EventType.PIPELINE_RESTARTING, 2_000, reason="its driver died", restart=1),
        event(EventType.PIPELINE_STOPPED, 3_000, reason="stopped on request"),
    )
    history.audit(4_000, "abort", f'["kafka:{PREFIX}-0-1:0:4@{T0}"]')
    history.audit(5_000, "restart", f'["pipeline:{PREFIX}"]')
    history.audit(6_000, "settle", f'["{PREFIX}/some-id/41/0", "mysql:{PREFIX}:41:0:0:0a1b2c3d"]')
    history.commit(6_500, "shop-1f0a91b4-3", producer_id=70)
    history.audit(7_000, "commit", '["hanging:orders-3:70:2:100"]')
    history.audit(7_500, "commit", '["hanging:orders-3:71:2:100"]')
    gone = broker_record(
        BrokerStatus.COMPLETE_COMMIT, 6_600, transaction="bills-2f0a91b4-3", producer_id=72, start=6_500
    )
    history.store.append([observed(9_000, gone)])
    history.store.flushed()
    history.audit(7_600, "abort", '["hanging:orders-3:72:2:100"]')
    history.audit(8_000, "abort", f'["kafka:{PREFIX}-0-1:0:4@{T0}"]', "refused")
    history.audit(9_000, "backup", "[]")
    found = ask()
    assert [(mark.at_ms - T0, mark.kind, mark.pipeline, mark.text) for mark in found.marks] == [
        (1_000, MarkKind.START, PREFIX, "started"),
        (2_000, MarkKind.RESTART, PREFIX, "restarting: its driver died"),
        (3_000, MarkKind.STOP, PREFIX, "stopped: stopped on request"),
        (4_000, MarkKind.ORDER, PREFIX, "abort by anna (audit 1)"),
        (5_000, MarkKind.ORDER, PREFIX, "restart by anna (audit 2)"),
        (6_000, MarkKind.ORDER, PREFIX, "settle by anna (audit 3)"),
        (7_000, MarkKind.ORDER, "shop", "commit by anna (audit 4)"),
        (7_500, MarkKind.ORDER, "", "commit by anna (audit 5)"),
        (7_600, MarkKind.ORDER, "bills", "abort by anna (audit 6)"),
    ]
    assert {mark.pipeline for mark in of_pipeline(found, PREFIX, 10).marks} == {PREFIX}


def test_lost_transactions_of_a_moment_are_one_mark(history: History, ask: Ask) -> None:
    always(history)
    handles = [handle(f"ip-count-{slot}-1", slot=slot, producer_id=slot) for slot in range(3)]
    history.observe(run_started())
    for one_handle in handles:
        history.observe(
            broker_record(BrokerStatus.ONGOING, 0, transaction=one_handle.transaction, producer_id=one_handle.slot)
        )
    history.observe(decided(1, *handles))
    for one_handle in handles:
        name, number = one_handle.transaction, one_handle.slot
        for status in (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT):
            history.observe(broker_record(status, 61_000, transaction=name, producer_id=number, epoch=5))
    (mark,) = ask().marks
    assert (mark.kind, mark.pipeline) == (MarkKind.LOST, PREFIX)
    assert mark.text == "lost: 3 transactions, ip-count-0-1 among them"
