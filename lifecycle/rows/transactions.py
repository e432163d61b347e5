"""Rows of GET /transactions and GET /transactions/{key}."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.lifecycle.application import Application, ApplicationKind
from indoubt.lifecycle.rows.ends import LossRow
from indoubt.lifecycle.rows.row_json import Json
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Certainty, Evidence, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRow:
    """One transaction; ``key`` names it and no later one of the same id, ``revision`` names what was seen of it.

    ``transaction``: transactional id, xid or gid. ``client_transaction_version``: 2 where each transaction of the client has an
    epoch of its own (KIP-890), 0 for an older client, None where the transaction log was not read. ``deadline_ms``: opened +
    timeout; None when unknown, no longer running, or never. ``pipeline`` is the application's name. ``checkpoint``: the number
    of the checkpoint that holds it, which for a pipeline is its batch. ``commit_confirmation``: what a commit must repeat,
    empty where it is right without a condition. ``written_again_at_ms``: when its batch was written again after it was lost.
    """

    key: str
    resource_manager: str
    transaction: str
    producer_id: int | None
    producer_epoch: int | None
    client_transaction_version: int | None
    pipeline: str
    application: Application
    managed: bool
    checkpoint_id: str | None
    batch: int | None
    attempt: int | None
    slot: int | None
    checkpoint: int | None
    state: TransactionState
    verdict: Verdict
    certainty: Certainty
    rule: int
    opened_at_ms: int | None
    timeout_ms: int | None
    deadline_ms: int | None
    rows: int | None
    bytes: int | None
    partitions: tuple[str, ...]
    may_commit: bool
    may_abort: bool
    loses_data: bool
    commit_confirmation: str
    evidence: tuple[Evidence, ...]
    revision: str
    updated_at_ms: int | None
    written_again_at_ms: int | None

    @property
    def confirmation_text(self) -> str:
        """Return what an abort must repeat; empty where it loses nothing."""
        return self.transaction if self.loses_data else ""

    @property
    def is_hanging(self) -> bool:
        """True for one that is open on a partition while no coordinator will end it: it takes orders, and has no timeline."""
        return self.verdict is Verdict.HANGING


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCountRow:
    """How many transactions of one application have one verdict; those that are settled are not counted. Times are epoch ms."""

    pipeline: str
    kind: ApplicationKind
    verdict: Verdict
    transactions: int
    oldest_opened_at_ms: int | None
    deadline_ms: int | None

    @property
    def of_whom(self) -> tuple[ApplicationKind, str, Verdict]:
        """Return what is counted, as a key."""
        return self.kind, self.pipeline, self.verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """One step of a transaction, and the source that showed it."""

    at_ms: int
    what: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSummary:
    """The decision about a transaction: its offset in the decision log, who decided, and what."""

    offset: int
    at_ms: int
    who: str
    ruling: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDetailRow(TransactionRow):
    """A transaction with all that is known of it, its timeline oldest first; ``siblings`` are the keys of its batch's others.

    ``handle``, ``broker`` and ``branch`` are what the decision log, the broker and the database say, for people to read.
    """

    timeline: tuple[TimelineEntry, ...]
    siblings: tuple[str, ...]
    decision: DecisionSummary | None
    handle: Json | None
    broker: Json | None
    branch: Json | None
    last_seen_ms: int | None
    loss: LossRow | None
