"""What the collector answers, as typed rows (docs/api.md). Times are epoch milliseconds; None: not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeVar

from lifecycle.checkpoints import CheckpointState
from lifecycle.states import TransactionState
from lifecycle.verdicts import Evidence, Verdict

Json = Mapping[str, Any]
Row = TypeVar("Row")


class Rows(list[Row]):
    """Rows of a table, and how many ``more`` there are behind them."""

    def __init__(self, rows: Iterable[Row], more: int) -> None:
        super().__init__(rows)
        self.more = more


class Action(Enum):
    """What an operator can order; the value is the API's word."""

    COMMIT = "commit"
    ABORT = "abort"
    RESTART = "restart"
    STOP = "stop"
    SETTLE = "settle"


class Orderable(Protocol):
    """What an order can be given over: ``key`` names it, ``revision`` changes when what an order rests on does."""

    @property
    def key(self) -> str:
        """Return the text that names it in orders."""

    @property
    def revision(self) -> str:
        """Return the text by which the collector finds that it has changed since."""


class Role(Enum):
    """What the caller's token allows."""

    VIEWER = "viewer"
    OPERATOR = "operator"


class AbortCause(Enum):
    """Why a transaction was aborted, as far as it can be told."""

    TIMEOUT = "timeout"
    FENCED = "fenced"
    CLIENT = "client"
    OPERATOR = "operator"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """One source the collector watches; ``delay_ms`` is the age of its last good look."""

    name: str
    state: str
    delay_ms: int | None
    since_ms: int | None
    error: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The collector's own history: why it cannot be written (empty while it can), rows that wait, damaged files set aside."""

    error: str
    waiting: int
    set_aside: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Who is asked and who asks."""

    now_ms: int
    cluster: str
    bootstrap: str
    name: str
    role: Role
    read_only: bool
    malformed: int
    events: int
    history: History
    observers: tuple[Observer, ...]

    @property
    def may_order(self) -> bool:
        """True when this token may give orders to this collector."""
        return self.role is Role.OPERATOR and not self.read_only


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsHand:
    """Transactions of one batch (or one foreign transaction) that wait for somebody."""

    verdict: Verdict
    pipeline: str
    batch: int | None
    keys: tuple[str, ...]
    rows: int | None
    decided_at_ms: int | None
    deadline_ms: int | None
    headline: str
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """How many transactions ended in one minute, by outcome."""

    minute_ms: int
    committed: int
    aborted: int
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The state of everything, in one look."""

    now_ms: int
    needs_hand: tuple[NeedsHand, ...]
    open: int
    prepared: int
    waiting_groups: int
    """Consumer groups that wait behind an open transaction."""
    committed_per_minute: float
    aborted_per_minute: float
    oldest_open_at_ms: int | None
    quiet_since_ms: int | None
    per_minute: tuple[Minute, ...]
    checkpoint_p50_ms: float | None
    checkpoint_p99_ms: float | None
    checkpoints_failed: int
    checkpoints_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One transaction; ``key`` names it and no later one of the same id, ``revision`` names what was seen of it."""

    key: str
    resource_manager: str
    transaction: str
    producer_id: int | None
    producer_epoch: int | None
    pipeline: str
    ours: bool
    life: str | None
    batch: int | None
    attempt: int | None
    slot: int | None
    state: TransactionState
    verdict: Verdict
    rule: int | None
    opened_at_ms: int | None
    timeout_ms: int | None
    deadline_ms: int | None
    rows: int | None
    bytes: int | None
    partitions: tuple[str, ...]
    may_commit: bool
    may_abort: bool
    loses_data: bool
    evidence: tuple[Evidence, ...]
    revision: str
    updated_at_ms: int | None
    to_type: str
    """What an abort that may lose data must repeat."""

    @property
    def is_hanging(self) -> bool:
        """True for one that is open on a partition while no coordinator will end it: it has orders, but no life of its own."""
        return self.verdict is Verdict.HANGING


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One step in the life of a transaction."""

    at_ms: int
    what: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDetail:
    """A transaction with all that is known of it; ``decision``, ``handle`` and ``broker`` are shown as they came."""

    transaction: Transaction
    timeline: tuple[Moment, ...]
    siblings: tuple[str, ...]
    decision: Json | None
    handle: Json | None
    broker: Json | None
    last_sign_of_life_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A consumer group on a partition. ``kind`` is the API's word, ``waited_ms`` known only where it waits."""

    group: str
    kind: str
    certainty: str
    lag: int | None
    waited_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedPartition:
    """A partition that hides records from read_committed readers, or on which a group has stopped.

    ``holder_key`` names the transaction that holds its last stable offset back; empty while it is not known.
    """

    partition: str
    last_stable_offset: int
    high_watermark: int
    hidden: int
    holder_key: str
    holder: str
    held_since_ms: int | None
    readers: tuple[Reader, ...]
    seen_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """A transaction that was aborted or lost."""

    at_ms: int
    key: str
    transaction: str
    pipeline: str
    batch: int | None
    slot: int | None
    lost: bool
    cause: AbortCause
    certainty: str
    open_ms: int | None
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A pipeline and its newest run: ``attempt`` is that run's number, ``state`` what it told of itself last."""

    key: str
    pipeline: str
    attempt: int
    state: str
    run_at_ms: int | None
    sign_at_ms: int | None
    sign: str
    interval_ms: int | None
    source: str
    sink: str
    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """One checkpoint and what it committed."""

    pipeline: str
    number: int
    state: CheckpointState
    started_at_ms: int | None
    ended_at_ms: int | None
    duration_ms: int | None
    transactions: int | None
    rows: int | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One order, whatever became of it."""

    audit: int
    at_ms: int
    who: str
    action: str
    keys: tuple[str, ...]
    reason: str
    outcome: str
    detail: tuple[str, ...]
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What was sent for one transaction, and what came of it."""

    key: str
    will: str
    outcome: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderResult:
    """What became of an order: ``outcome`` is ``accepted``, ``dry_run`` or ``failed``."""

    audit: int
    outcome: str
    took_ms: int
    steps: tuple[Step, ...]
