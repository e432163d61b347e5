"""Rows of the API about a branch in a database, as docs/api.md describes them; all times epoch ms."""

from __future__ import annotations

from typing import Any

from collector.records.branches import BranchDetail
from collector.state.transaction_view import TransactionView


def branch_view(view: TransactionView) -> dict[str, Any] | None:
    """Return what its database tells of a branch, or None for what is none."""
    branch, detail = view.branch, view.branch_detail or BranchDetail()
    if branch is None:
        return None
    return {
        "instance": branch.instance,
        "database": branch.database or None,
        "owner": branch.owner or None,
        "prepared_at_ms": branch.prepared_ms,
        "first_seen_at_ms": branch.first_seen_ms,
        "listed": branch.is_listed,
        "polled_at_ms": view.polled_ms,
        "gone_at_ms": branch.gone_ms,
        "marker": branch.proof.value if branch.proof is not None else None,
        "transaction_age": detail.transaction_age,
        "locks": [{"relation": lock.relation, "mode": lock.mode} for lock in detail.locks.held],
        "waiting": [
            {
                "process": lock.process,
                "user": lock.user,
                "application": lock.application,
                "relation": lock.relation or None,
                "mode": lock.mode,
                "since_ms": lock.since_ms,
            }
            for lock in detail.locks.waiting
        ],
    }


def branch_timeline(view: TransactionView) -> list[tuple[int, str, str]]:
    """Return (time, what, source) of what its database showed."""
    branch = view.branch
    if branch is None:
        return []
    marker = f", marker: {branch.proof.value}" if branch.proof is not None else ""
    marks = (
        (branch.prepared_ms, "prepared"),
        (branch.first_seen_ms, "first seen"),
        (branch.gone_ms, f"not listed any more{marker}"),
    )
    return [(at_ms, what, branch.listed_by) for at_ms, what in marks if at_ms is not None]
