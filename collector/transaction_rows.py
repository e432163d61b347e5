"""Rows of the API's tables, in the columns and order of docs/api.md; all times epoch ms."""

from __future__ import annotations

from typing import Any

from collector import abort_causes
from collector.abort_causes import AbortClues
from collector.branch_rows import branch_row, branch_timeline
from collector.facts import CheckpointFacts
from collector.flink_facts import FlinkJobFacts
from collector.judging import Judged
from collector.newest_transactions import opening_place
from collector.observations import OperatorOrder
from collector.transaction_view import TransactionView
from lifecycle.json_record import WHOLE_NUMBER_MOST
from lifecycle.verdicts import URGENCY, Evidence, Verdict

_FAR = WHOLE_NUMBER_MOST


def urgency(judged: Judged) -> tuple[int, int, int, str]:
    """Return the sort key of the pending list: most urgent verdict, then nearest deadline, then oldest.

    Settled ones come last, newest opening first: there may be thousands of them.
    """
    view = judged.view
    if judged.judgement.verdict is Verdict.SETTLED:
        return (URGENCY.index(Verdict.SETTLED), *opening_place(view))
    return (URGENCY.index(judged.judgement.verdict), view.deadline_ms or _FAR, view.opened_ms or _FAR, view.key)


def transaction_row(judged: Judged) -> dict[str, Any]:
    """Return a row of GET /transactions."""
    view, judgement = judged.view, judged.judgement
    about, handle = view.about, view.handle
    return {
        "key": view.key,
        "resource_manager": view.resource_manager,
        "transaction": view.transaction,
        "producer_id": view.producer_id,
        "producer_epoch": view.producer_epoch,
        "pipeline": view.pipeline,
        "ours": view.ours,
        "life": about.life if about is not None else None,
        "batch": about.batch if about is not None else None,
        "attempt": about.attempt if about is not None else None,
        "slot": view.slot,
        "state": view.state.value,
        "verdict": judgement.verdict.value,
        "rule": judgement.rule,
        "opened_at_ms": view.opened_ms,
        "timeout_ms": view.timeout_ms,
        "deadline_ms": view.deadline_ms,
        "rows": handle.rows if handle is not None else None,
        "bytes": handle.bytes if handle is not None else None,
        "partitions": sorted(view.broker.partitions) if view.broker is not None else [],
        "may_commit": judgement.may_commit,
        "may_abort": judgement.may_abort,
        "loses_data": judgement.loses_data,
        "evidence": [evidence_row(evidence) for evidence in judgement.evidence],
        "revision": view.revision,
        "updated_at_ms": view.updated_ms,
    }


def evidence_row(evidence: Evidence) -> dict[str, Any]:
    """Return one fact of a verdict."""
    return {"fact": evidence.fact, "source": evidence.source, "at_ms": evidence.at_ms}


def detail_row(judged: Judged, orders: list[OperatorOrder], siblings: list[str]) -> dict[str, Any]:
    """Return the answer of GET /transactions/{key}."""
    view = judged.view
    sign = judged.pipeline.facts.sign_ms if judged.pipeline is not None else None
    return {
        **transaction_row(judged),
        "timeline": timeline(view, orders),
        "siblings": siblings,
        "decision": _decision_row(view),
        "handle": view.handle.to_json() if view.handle is not None else None,
        "broker": _broker_row(view),
        "branch": branch_row(view),
        "last_sign_of_life_ms": sign,
    }


def timeline(view: TransactionView, orders: list[OperatorOrder]) -> list[dict[str, Any]]:
    """Return what is known to have happened to a transaction, oldest first."""
    found: list[tuple[int, str, str]] = []
    broker = view.broker
    if broker is not None:
        source = broker.source
        found.append((broker.identity.start_ms, "opened", source))
        marks = (
            ("commit accepted", broker.prepare_commit_ms),
            ("abort accepted", broker.prepare_abort_ms),
            ("committed", broker.complete_commit_ms),
            ("aborted", broker.complete_abort_ms),
        )
        found += [(at_ms, what, source) for what, at_ms in marks if at_ms is not None]
    found += branch_timeline(view)
    if view.told is not None:
        found += [(at_ms, type_.value.replace("_", " "), "lifecycle events") for type_, at_ms in view.told.told.items()]
    if view.first_decision is not None:
        offset, decision, counts = view.first_decision
        void = "" if counts else " (void: a newer run had started)"
        found.append(
            (
                decision.at_ms,
                f"{decision.ruling.value} decided by {decision.who}, offset {offset}{void}",
                "decision log",
            )
        )
    if view.outcome is not None:
        found.append(
            (view.outcome.at_ms, f"outcome {view.outcome.settled.value}, by {view.outcome.who}", "decision log")
        )
    found += [(order.at_ms, f"{order.action} ordered by {order.who}, audit {order.audit}", "audit") for order in orders]
    return [{"at_ms": at_ms, "what": what, "source": source} for at_ms, what, source in sorted(found)]


def _decision_row(view: TransactionView) -> dict[str, Any] | None:
    found = view.listing or (view.first_decision[:2] if view.first_decision is not None else None)
    if found is None:
        return None
    offset, decision = found
    return {"offset": offset, "at_ms": decision.at_ms, "who": decision.who, "ruling": decision.ruling.value}


def _broker_row(view: TransactionView) -> dict[str, Any] | None:
    broker = view.broker
    if broker is None:
        return None
    return {
        "source": broker.source,
        "producer_id": broker.identity.producer_id,
        "ongoing_epoch": broker.ongoing_epoch,
        "end_epoch": broker.end_epoch,
        "start_ms": broker.identity.start_ms,
        "last_write_ms": broker.last_write_ms,
        "timeout_ms": broker.timeout_ms,
        "prepare_commit_ms": broker.prepare_commit_ms,
        "prepare_abort_ms": broker.prepare_abort_ms,
        "complete_commit_ms": broker.complete_commit_ms,
        "complete_abort_ms": broker.complete_abort_ms,
        "partitions": sorted(broker.partitions),
    }


def abort_row(clues: AbortClues) -> dict[str, Any]:
    """Return a row of GET /aborts."""
    view = clues.view
    cause, certainty = abort_causes.infer(clues)
    ended, opened = view.ended_ms, view.opened_ms
    return {
        "at_ms": ended,
        "key": view.key,
        "transaction": view.transaction,
        "pipeline": view.pipeline,
        "batch": view.about.batch if view.about is not None else None,
        "slot": view.slot,
        "verdict": view.state.value,
        "cause": cause.value,
        "certainty": certainty.value,
        "open_ms": max(0, ended - opened) if ended is not None and opened is not None else None,
        "rows": view.handle.rows if view.handle is not None else None,
    }


def checkpoint_row(checkpoint: CheckpointFacts, transactions: tuple[int, int] | None) -> dict[str, Any]:
    """Return a row of GET /checkpoints; ``transactions`` is their number and their rows, where known."""
    count, rows = transactions if transactions is not None else (None, None)
    return {
        "pipeline": checkpoint.pipeline,
        "number": checkpoint.number,
        "state": checkpoint.state.value,
        "started_at_ms": checkpoint.begun_ms,
        "ended_at_ms": checkpoint.ended_ms,
        "duration_ms": checkpoint.duration_ms,
        "transactions": count,
        "rows": checkpoint.rows if checkpoint.rows is not None else rows,
        "source": ", ".join(sorted(checkpoint.sources)),
        "kind": checkpoint.kind,
        "reason": checkpoint.reason,
        "state_bytes": checkpoint.state_bytes,
        "job": checkpoint.job,
        "path": checkpoint.path,
    }


def checkpoint_place(checkpoint: CheckpointFacts) -> tuple[int, int, str, str, str]:
    """Return where a checkpoint stands in the list: newest first."""
    begun_ms = checkpoint.begun_ms
    at_ms = begun_ms if begun_ms is not None else checkpoint.ended_ms
    return (-(at_ms or 0), -checkpoint.number, checkpoint.pipeline, checkpoint.kind, checkpoint.job)


def job_row(facts: FlinkJobFacts) -> dict[str, Any]:
    """Return a row of GET /jobs."""
    job = facts.job
    return {
        "cluster": job.cluster,
        "job": job.job,
        "name": job.name,
        "pipeline": facts.pipeline,
        "state": job.state,
        "started_at_ms": job.started_ms,
        "ended_at_ms": job.ended_ms,
        "changed_at_ms": job.changed_ms,
        "restarts": job.restarts,
        "restores": [{"checkpoint": restore.number, "at_ms": restore.at_ms} for restore in facts.restores],
        "restored_from": job.restored_number,
        "restored_at_ms": job.restored_ms,
        "restored_path": job.restored_path,
    }
