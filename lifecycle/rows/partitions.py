"""Rows of GET /blocked and GET /hanging, and the answer of GET /partitions/{topic}/{number}."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.lifecycle.application import Application
from indoubt.lifecycle.rows.events import EndedTransactionRow
from indoubt.lifecycle.rows.transactions import TransactionRow
from indoubt.lifecycle.verdicts import Certainty, Evidence, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A consumer group on a partition; ``waited_ms`` is known only where it waits."""

    group: str
    kind: str
    certainty: str
    state: str
    offset: int
    lag: int | None
    since_ms: int
    waited_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedRow:
    """A partition that hides records from read_committed readers, or on which a group has stopped.

    ``holder_key`` names the transaction that holds its last stable offset back; empty while it is not known. ``application``: the
    holder's, by the name that its other transactions have; None while no holder is known. ``hidden``: offsets between last stable
    offset and high watermark. ``held_since_ms``: the holder's opening by its coordinator, else when it was first seen. ``waiting``:
    how many groups and restores wait, ``waiting_since_ms`` and ``waited_ms`` of the longest wait. ``lag``: the largest, without
    markers.
    """

    topic: str
    partition: int
    last_stable_offset: int
    high_watermark: int
    hidden: int
    holder_key: str
    holder_transaction: str
    application: Application | None
    holder_producer_id: int | None
    holder_producer_epoch: int | None
    holder_start_offset: int | None
    held_since_ms: int | None
    waiting: int
    waiting_since_ms: int | None
    waited_ms: int | None
    lag: int | None
    groups: tuple[GroupRow, ...]
    seen_at_ms: int

    @property
    def topic_partition(self) -> str:
        """Return the name of the partition."""
        return f"{self.topic}-{self.partition}"

    @property
    def holder(self) -> str:
        """Return the transactional id of the holder, else its producer id; empty while no holder is known."""
        producer = "" if self.holder_producer_id is None else f"producer {self.holder_producer_id}"
        return self.holder_transaction or producer


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingRow:
    """A transaction that is open on a partition while no coordinator will end it; ``transaction`` is empty where unknown.

    ``application``: by the name that its other transactions have, or ``producer N`` where the id is unknown. ``confirm``
    is what an order must repeat, empty where it loses nothing. ``last_record_at_ms``: by its producer's clock. ``since_ms``: when
    it was first doubted, ``found_at_ms``: when that was proven.
    """

    key: str
    topic: str
    partition: int
    transaction: str
    application: Application
    producer_id: int
    producer_epoch: int
    start_offset: int | None
    coordinator_epoch: int | None
    last_record_at_ms: int | None
    since_ms: int
    found_at_ms: int | None
    verdict: Verdict
    certainty: Certainty
    rule: int
    hidden: int | None
    waiting: int
    remedy: str
    may_commit: bool
    may_abort: bool
    loses_data: bool
    confirm: str
    evidence: tuple[Evidence, ...]
    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A topic-partition. ``readers``: its row of GET /blocked, None where it is not watched, or hides nothing and no group lags.

    ``read_by``: the consumer groups with an offset on it. ``hanging`` and ``open``: what is open on it, the oldest first.
    ``ended``: the newest transactions that wrote to it, the newest first.
    """

    topic: str
    partition: int
    readers: BlockedRow | None
    read_by: tuple[str, ...]
    hanging: tuple[HangingRow, ...]
    open: tuple[TransactionRow, ...]
    ended: tuple[EndedTransactionRow, ...]
