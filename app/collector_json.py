"""The collector's JSON (docs/api.md) read into typed rows.

``read_*`` raise ValueError, KeyError or TypeError when an answer lacks a field or has a wrong one; unknown fields are
ignored, so that a newer collector can tell more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from app.collector_rows import (
    Abort,
    AbortCause,
    AuditRow,
    BlockedPartition,
    CheckpointRow,
    History,
    Json,
    Minute,
    Moment,
    NeedsHand,
    Observer,
    OrderResult,
    Overview,
    Pipeline,
    Reader,
    Role,
    Status,
    Step,
    Transaction,
    TransactionDetail,
)
from lifecycle.checkpoints import CheckpointState
from lifecycle.states import TransactionState
from lifecycle.verdicts import Evidence, Verdict


def read_status(value: Json) -> Status:
    """Return the status."""
    return Status(
        now_ms=int(value["now_ms"]),
        cluster=read_text(value.get("cluster")),
        bootstrap=read_text(value.get("bootstrap")),
        name=read_text(value["name"]),
        role=Role(value["role"]),
        read_only=bool(value.get("read_only", False)),
        malformed=int(value.get("malformed") or 0),
        events=int(value.get("events") or 0),
        history=_history(value.get("history") or {}),
        observers=tuple(
            Observer(
                name=read_text(one["name"]),
                state=read_text(one["state"]),
                delay_ms=read_int(one.get("delay_ms")),
                since_ms=read_int(one.get("since_ms")),
                error=read_text(one.get("error")),
                records=int(one.get("records") or 0),
            )
            for one in value["observers"]
        ),
    )


def _history(value: Json) -> History:
    return History(
        error=read_text(value.get("error")),
        waiting=int(value.get("waiting") or 0),
        set_aside=tuple(read_text(one) for one in value.get("set_aside") or []),
    )


def read_overview(value: Json) -> Overview:
    """Return the overview; groups keep the collector's order, most urgent first."""
    counts, checkpoints = value["counts"], value["checkpoints"]
    return Overview(
        now_ms=int(value["now_ms"]),
        needs_hand=tuple(_needs_hand(one) for one in value["needs_hand"]),
        open=int(counts["open"]),
        prepared=int(counts["prepared"]),
        waiting_groups=int(counts["waiting_groups"]),
        committed_per_minute=float(counts["committed_per_minute"] or 0),
        aborted_per_minute=float(counts["aborted_per_minute"] or 0),
        oldest_open_at_ms=read_int(value.get("oldest_open_at_ms")),
        quiet_since_ms=read_int(value.get("quiet_since_ms")),
        per_minute=tuple(
            Minute(
                minute_ms=int(one["minute_ms"]),
                committed=int(one["committed"]),
                aborted=int(one["aborted"]),
                lost=int(one["lost"]),
            )
            for one in value["per_minute"]
        ),
        checkpoint_p50_ms=_float(checkpoints.get("p50_ms")),
        checkpoint_p99_ms=_float(checkpoints.get("p99_ms")),
        checkpoints_failed=int(checkpoints.get("failed") or 0),
        checkpoints_total=int(checkpoints.get("total") or 0),
    )


def _needs_hand(one: Json) -> NeedsHand:
    return NeedsHand(
        verdict=Verdict(one["verdict"]),
        pipeline=read_text(one["pipeline"]),
        batch=read_int(one.get("batch")),
        keys=_texts(one["keys"]),
        rows=read_int(one.get("rows")),
        decided_at_ms=read_int(one.get("decided_at_ms")),
        deadline_ms=read_int(one.get("deadline_ms")),
        headline=read_text(one.get("headline")),
        partitions=_texts(one.get("partitions")),
    )


def read_transaction(value: Json) -> Transaction:
    """Return one transaction."""
    return Transaction(
        key=str(value["key"]),
        resource_manager=read_text(value["resource_manager"]),
        transaction=read_text(value["transaction"]),
        producer_id=read_int(value.get("producer_id")),
        producer_epoch=read_int(value.get("producer_epoch")),
        pipeline=read_text(value.get("pipeline")),
        ours=bool(value["ours"]),
        life=value.get("life"),
        batch=read_int(value.get("batch")),
        attempt=read_int(value.get("attempt")),
        slot=read_int(value.get("slot")),
        state=TransactionState(value["state"]),
        verdict=Verdict(value["verdict"]),
        rule=read_int(value.get("rule")),
        opened_at_ms=read_int(value.get("opened_at_ms")),
        timeout_ms=read_int(value.get("timeout_ms")),
        deadline_ms=read_int(value.get("deadline_ms")),
        rows=read_int(value.get("rows")),
        bytes=read_int(value.get("bytes")),
        partitions=_texts(value.get("partitions")),
        may_commit=bool(value["may_commit"]),
        may_abort=bool(value["may_abort"]),
        loses_data=bool(value["loses_data"]),
        evidence=read_evidence(value),
        revision=str(value["revision"]),
        updated_at_ms=read_int(value.get("updated_at_ms")),
        to_type=read_text(value["transaction"]) if value["loses_data"] else "",
    )


def read_hanging(value: Json) -> Transaction:
    """Return a hanging transaction: on one partition, open since its last record at the latest, with no timeout."""
    name = read_text(value.get("transaction")) or f"producer {value['producer_id']}"
    known_open_ms = [
        at_ms for at_ms in (read_int(value.get("last_record_at_ms")), read_int(value["since_ms"])) if at_ms
    ]
    return Transaction(
        key=str(value["key"]),
        resource_manager="kafka",
        transaction=name,
        producer_id=int(value["producer_id"]),
        producer_epoch=int(value["producer_epoch"]),
        pipeline=name,
        ours=False,
        life=None,
        batch=None,
        attempt=None,
        slot=None,
        state=TransactionState.OPEN,
        verdict=Verdict(value["verdict"]),
        rule=read_int(value.get("rule")),
        opened_at_ms=min(known_open_ms, default=None),
        timeout_ms=None,
        deadline_ms=None,
        rows=None,
        bytes=None,
        partitions=(f"{value['topic']}-{value['partition']}",),
        may_commit=bool(value["may_commit"]),
        may_abort=bool(value["may_abort"]),
        loses_data=bool(value["loses_data"]),
        evidence=read_evidence(value),
        revision=str(value["revision"]),
        updated_at_ms=read_int(value.get("found_at_ms")),
        to_type=read_text(value.get("confirm")),
    )


def read_evidence(value: Json) -> tuple[Evidence, ...]:
    """Return the evidence of a row."""
    return tuple(
        Evidence(fact=read_text(one["fact"]), source=read_text(one.get("source")), at_ms=read_int(one.get("at_ms")))
        for one in _list(value.get("evidence"))
    )


def read_blocked(value: Json) -> BlockedPartition:
    """Return a partition that hides records, or on which a group has stopped."""
    return BlockedPartition(
        partition=f"{value['topic']}-{value['partition']}",
        last_stable_offset=int(value["last_stable_offset"]),
        high_watermark=int(value["high_watermark"]),
        hidden=int(value["hidden"]),
        holder_key=read_text(value.get("holder_key")),
        holder=_holder(value),
        held_since_ms=read_int(value.get("held_since_ms")),
        readers=tuple(
            Reader(
                group=read_text(one["group"]),
                kind=read_text(one["kind"]),
                certainty=read_text(one.get("certainty")),
                lag=read_int(one.get("lag")),
                waited_ms=read_int(one.get("waited_ms")),
            )
            for one in _list(value.get("groups"))
        ),
        seen_at_ms=read_int(value.get("seen_at_ms")),
    )


def _holder(value: Json) -> str:
    producer_id = value.get("holder_producer_id")
    return read_text(value.get("holder_transaction")) or (f"producer {producer_id}" if producer_id is not None else "")


def read_detail(value: Json) -> TransactionDetail:
    """Return a transaction with its timeline (oldest first) and evidence."""
    moments = (
        Moment(at_ms=int(one["at_ms"]), what=read_text(one["what"]), source=read_text(one.get("source")))
        for one in _list(value.get("timeline"))
    )
    return TransactionDetail(
        transaction=read_transaction(value),
        timeline=tuple(sorted(moments, key=lambda moment: moment.at_ms)),
        siblings=_texts(value.get("siblings")),
        decision=value.get("decision"),
        handle=value.get("handle"),
        broker=value.get("broker"),
        last_sign_of_life_ms=read_int(value.get("last_sign_of_life_ms")),
    )


def read_abort(value: Json) -> Abort:
    """Return one abort."""
    return Abort(
        at_ms=int(value["at_ms"]),
        key=str(value["key"]),
        transaction=read_text(value["transaction"]),
        pipeline=read_text(value.get("pipeline")),
        batch=read_int(value.get("batch")),
        slot=read_int(value.get("slot")),
        lost=value["verdict"] == "lost",
        cause=AbortCause(value["cause"]),
        certainty=read_text(value.get("certainty")),
        open_ms=read_int(value.get("open_ms")),
        rows=read_int(value.get("rows")),
    )


def read_checkpoint(value: Json) -> CheckpointRow:
    """Return one checkpoint."""
    return CheckpointRow(
        pipeline=read_text(value["pipeline"]),
        number=int(value["number"]),
        state=CheckpointState(value["state"]),
        started_at_ms=read_int(value.get("started_at_ms")),
        ended_at_ms=read_int(value.get("ended_at_ms")),
        duration_ms=read_int(value.get("duration_ms")),
        transactions=read_int(value.get("transactions")),
        rows=read_int(value.get("rows")),
        source=read_text(value.get("source")),
    )


def read_audit(value: Json) -> AuditRow:
    """Return one audit row; its evidence and detail become lines of text, whatever their shape."""
    return AuditRow(
        audit=int(value["audit"]),
        at_ms=int(value["at_ms"]),
        who=read_text(value["who"]),
        action=read_text(value["action"]),
        keys=_texts(value.get("keys")),
        reason=read_text(value.get("reason")),
        outcome=read_text(value["outcome"]),
        detail=tuple(dict.fromkeys(_lines(value.get("detail")))),
        evidence=_lines(value.get("evidence")),
    )


def read_pipeline(value: Json) -> Pipeline:
    """Return a row of the pipelines."""
    return Pipeline(
        key=str(value["key"]),
        pipeline=read_text(value["pipeline"]),
        attempt=int(value["attempt"]),
        state=read_text(value["state"]),
        run_at_ms=read_int(value["run_at_ms"]),
        sign_at_ms=read_int(value["sign_at_ms"]),
        sign=read_text(value["sign"]),
        interval_ms=read_int(value["interval_ms"]),
        source=read_text(value["source"]),
        sink=read_text(value["sink"]),
        revision=read_text(value["revision"]),
    )


def read_result(value: Json) -> OrderResult:
    """Return what became of an order."""
    return OrderResult(
        audit=int(value["audit"]),
        outcome=read_text(value["outcome"]),
        took_ms=int(value.get("took_ms") or 0),
        steps=tuple(
            Step(
                key=str(one["key"]),
                will=read_text(one.get("will")),
                outcome=read_text(one.get("outcome")),
                detail=read_text(one.get("detail")),
            )
            for one in value["steps"]
        ),
    )


def read_int(value: Any) -> int | None:
    """Return a whole number, None where it is not known."""
    return None if value is None else int(value)


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


def read_text(value: Any) -> str:
    """Return a text, empty where there is none."""
    return "" if value is None else str(value)


def _list(value: Any) -> list[Any]:
    decoded = json.loads(value) if isinstance(value, str) and value else value
    return list(decoded or [])


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(one) for one in _list(value))


def _lines(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return tuple(value.splitlines())
    if isinstance(value, Mapping):
        return tuple(line for name, inner in value.items() for line in _named(str(name), _lines(inner)))
    if isinstance(value, list):
        return tuple(line for inner in value for line in _fact(inner))
    return () if value is None else (str(value),)


def _fact(value: Any) -> tuple[str, ...]:
    if isinstance(value, Mapping) and "fact" in value:
        return (f"{value['fact']} ({value['source']})" if value.get("source") else str(value["fact"]),)
    if isinstance(value, Mapping) and "will" in value:
        more = f" ({value['detail']})" if value.get("detail") else ""
        return (f"{value['will']}: {value.get('outcome', 'unknown')}{more}",)
    return _lines(value)


def _named(name: str, lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name}: {line}" for line in lines)
