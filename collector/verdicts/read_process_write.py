"""Open transactions of applications that read, process and write: Kafka Streams, Kafka Connect, and whoever does the same. Pure.

Such a transaction holds the offsets of its own input (KIP-129, KIP-618): an abort undoes them with its rows, and the input is read
again. So an abort never loses a row; it is due once the owner has stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

from collector.records.facts import CONSUMER_OFFSETS
from collector.state.state import State
from collector.state.transaction_view import TransactionView
from lifecycle.durations import duration
from lifecycle.verdicts import Evidence, Judgement, Verdict

CONNECT_PREFIX = "connect-cluster-"
"""Transactional ids of Connect's source tasks begin with it (Worker.taskTransactionalId, KIP-618): they hold source offsets."""
MIN_SILENT_MS = 5_000
SILENT_LENGTHS = 3
"""An owner counts as silent once its transaction is open for so many of the longest that was committed under its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadProcessWriteCase:
    """An open transaction of this kind: why it is one, how long it is open, and how long its owner's usually are (ms)."""

    why: str
    open_ms: int
    silent_after_ms: int
    at_ms: int


def reads_its_input(state: State, transaction: str) -> bool:
    """Say whether an id's application is known to write the offsets of its input in its transactions."""
    return transaction in state.longest_with_offsets or transaction.startswith(CONNECT_PREFIX)


def read_process_write_case(
    state: State, view: TransactionView, *, driver_silent_ms: int, now_ms: int
) -> ReadProcessWriteCase | None:
    """Return the case of an open transaction of another application, or None for one of another kind."""
    # An id of our form may be a pipeline's with another decision log: its offsets are markers, and it may be decided.
    if view.broker is None or view.named_prefix is not None or not view.is_running:
        return None
    longest_ms = state.longest_with_offsets.get(view.transaction)
    if any(partition.startswith(CONSUMER_OFFSETS) for partition in view.broker.partitions):
        why = "it holds the offsets of its own input"
    elif longest_ms is not None:
        why = "earlier transactions of its id held the offsets of their own input"
    elif view.transaction.startswith(CONNECT_PREFIX):
        why = "it is a Kafka Connect source task's: its source offsets are written in it"
    else:
        return None
    silent_after_ms = driver_silent_ms if longest_ms is None else max(MIN_SILENT_MS, SILENT_LENGTHS * longest_ms)
    start_ms = view.broker.identity.start_ms
    return ReadProcessWriteCase(
        why=why, open_ms=max(0, now_ms - start_ms), silent_after_ms=silent_after_ms, at_ms=start_ms
    )


def judge(case: ReadProcessWriteCase) -> Judgement:
    """Rules 28 and 29: abort it once its owner is silent, leave it before."""
    held = Evidence(
        fact=f"{case.why}: an abort undoes them with its rows, and the input is read again", source="partitions"
    )
    if case.open_ms <= case.silent_after_ms:
        return rule_29_owner_works(case, held)
    return rule_28_owner_silent(case, held)


def rule_28_owner_silent(case: ReadProcessWriteCase, held: Evidence) -> Judgement:
    """Its owner has stopped: an abort loses nothing and lets readers go on."""
    fact = (
        f"open for {duration(case.open_ms)}, and its owner is silent after {duration(case.silent_after_ms)}: a new instance has "
        "other ids or fences it, and readers wait for its end"
    )
    return Judgement(
        verdict=Verdict.ABORT_IT,
        rule=28,
        evidence=(held, Evidence(fact=fact, source="transaction coordinator", at_ms=case.at_ms)),
        may_abort=True,
    )


def rule_29_owner_works(case: ReadProcessWriteCase, held: Evidence) -> Judgement:
    """Its owner commits it within its usual time."""
    fact = f"open for less than {duration(case.silent_after_ms)}, after which its owner counts as silent"
    return Judgement(
        verdict=Verdict.IN_PROGRESS,
        rule=29,
        evidence=(held, Evidence(fact=fact, source="transaction coordinator", at_ms=case.at_ms)),
    )
