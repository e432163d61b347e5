"""Which attempt at which batch a transaction belongs to, as the decision log tells it. What an event claims proves nothing.

A database's branch has batch and attempt in its name. An id of Kafka has the batch's parity alone: with the log that is enough for
a transaction of one run, because a run tries one batch at a time, the last decided one of its checkpoint id again or the
next.
"""

from __future__ import annotations

from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import BatchAttempt, RunStarted
from indoubt.lifecycle.identity import TransactionalId

OurId = TransactionalId | BranchId
"""A name that is parsed whole; it is ours once a run of its prefix is in the decision log."""


def of_branch(ledger: DecisionLedger, branch: BranchId) -> BatchAttempt | None:
    """Return what a decision on this branch would be about: its name has all but the checkpoint id, which its run started with."""
    checkpoint_id = ledger.checkpoint_id_of(branch.prefix, branch.attempt)
    return (
        None
        if checkpoint_id is None
        else BatchAttempt(checkpoint_id=checkpoint_id, batch=branch.batch, attempt=branch.attempt)
    )


def fits(ledger: DecisionLedger, id_: OurId, batch_attempt: BatchAttempt) -> bool:
    """Say whether a transaction of this name can belong to a batch as is claimed: its run is in the log, its parity is right."""
    if isinstance(id_, TransactionalId) and batch_attempt.batch % 2 != id_.parity:
        return False
    return ledger.checkpoint_id_of(id_.prefix, batch_attempt.attempt) == batch_attempt.checkpoint_id


def newest_run(ledger: DecisionLedger, prefix: str) -> tuple[int, RunStarted] | None:
    """Return (offset, record) of the run that voids what earlier runs of this prefix decide: its newest, or its checkpoint id's."""
    run = ledger.latest_run(prefix)
    return (ledger.newer_run(prefix, run[1].checkpoint_id, run[0]) or run) if run is not None else None


def of_run(ledger: DecisionLedger, id_: TransactionalId, log_end: int | None = None) -> BatchAttempt | None:
    """Return what a decision on an open transaction would be about, or None when the log does not tell.

    It is the newest run's; where the log ended at ``log_end`` when it was open already, the newest run's before that.
    """
    run = ledger.latest_run(id_.prefix) if log_end is None else ledger.run_before(id_.prefix, log_end)
    if run is None:
        return None
    last = ledger.last_decided_batch(run[1].checkpoint_id)
    if last is None and id_.parity != 0:
        return None
    first = last or 0
    batch = first if first % 2 == id_.parity else first + 1
    return BatchAttempt(checkpoint_id=run[1].checkpoint_id, batch=batch, attempt=run[0])
