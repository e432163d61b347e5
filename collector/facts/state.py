"""The present state that observations fold into, and the index that finds a transaction by its handle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import NamedTuple

from indoubt.collector.facts.transactional_ids import KnownIds
from indoubt.collector.records.application_ids import form_of, name_by_id
from indoubt.collector.records.branches import BranchFacts, DatabaseSnapshot
from indoubt.collector.records.facts import (
    BrokerIdentity,
    BrokerTransaction,
    CheckpointFacts,
    HandleIdentity,
    Init,
    PipelineFacts,
    ReportedTransaction,
)
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.observations import OffsetsSeen, OperatorOrder
from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.offsets_topics import CONNECT_OFFSETS, CONSUMER_OFFSETS
from indoubt.resource_managers.kafka.group_members import GroupMembers, HeldOffsets

MOST_FORMS = 10_000
NO_FORM = ""
"""The form of ids beyond ``MOST_FORMS``; no id is empty."""
LOST_KEPT = 10_000
"""How many lost transactions whose batch was not replayed stay in memory, besides the other ones that ended."""


class LastDecided(NamedTuple):
    """A commit decision that counts: its batch, its attempt, when it was made (epoch ms). The highest batch is the newest."""

    batch: int
    attempt: int
    at_ms: int


@dataclass(slots=True)
class EndedTransactions:
    """Which transactions that ended are in memory, and which leave it next (eviction.py)."""

    kept: int = 10_000
    lost_kept: int = LOST_KEPT
    identities: set[BrokerIdentity] = field(default_factory=set)
    """Those that ended, or that a later one of the same id shows to have ended: the oldest leave memory."""
    order: list[tuple[int, BrokerIdentity]] = field(default_factory=list, compare=False, repr=False)
    """A heap of when they ended: an entry may be of one that is gone, or has another end by now."""
    spared: set[BrokerIdentity] = field(default_factory=set)
    """Lost ones that stay until their batch is replayed, as far as they would have left; they are not in ``identities``."""
    lost_forgotten: int = 0
    """How many lost ones left memory without a replay, since there were more than ``lost_kept``."""
    evicted_until_ms: int = field(default=0, compare=False)
    """All that ended later is in memory (epoch ms); 0: everything is."""
    dropped_until_ms: int = field(default=0, compare=False)
    """All that began later at a coordinator is in memory (epoch ms)."""
    trim_at: int = 0


@dataclass(slots=True)
class EndCounts:
    """Ends seen since this process began, by the coordinator's records; what history held is not counted."""

    committed: int = 0
    rolled_back: int = 0
    of_forms: dict[str, list[int]] = field(default_factory=dict)
    """Both by the form of ids (``form_of``), since they were taken last."""
    newest_commit_ms: dict[str, int] = field(default_factory=dict, compare=False)
    """When the newest committed transaction of a form ended, also of what history held; by what was known of its end then."""

    def put(self, transaction: str, *, is_commit: bool, ended_ms: int) -> None:
        """Count that a transaction of an id ended, once and for all: nothing that leaves memory takes it back."""
        self.committed += is_commit
        self.rolled_back += not is_commit
        form = form_of(transaction)
        counts = self.of_forms.get(form)
        if counts is None:
            # Nothing may ever take them, and ids may have nothing in common.
            form = form if len(self.of_forms) < MOST_FORMS else NO_FORM
            counts = self.of_forms.setdefault(form, [0, 0])
        counts[not is_commit] += 1
        newest_ms = self.newest_commit_ms.get(form, -1 if len(self.newest_commit_ms) < MOST_FORMS else ended_ms)
        if is_commit and ended_ms > newest_ms:
            self.newest_commit_ms[form] = ended_ms

    def take(self) -> dict[str, list[int]]:
        """Return how many were committed and rolled back since the last time, by the form of their ids."""
        taken, self.of_forms = self.of_forms, {}
        return taken


@dataclass(slots=True)
class CommitCounts:
    """The committed transactions in memory."""

    of_id: dict[str, int] = field(default_factory=dict)
    """How many of an id's, where any was."""
    ids_of_application: dict[str, int] = field(default_factory=dict)
    """How many ids of an application are in ``of_id``, where any is, by its name (``name_by_id``)."""
    longest_with_offsets: dict[str, int] = field(default_factory=dict)
    """Of ids whose committed transactions held offsets of their input: the longest of them (ms), also of those that left."""

    def put(self, transaction: str) -> None:
        """Count a committed transaction of an id."""
        commits = self.of_id.get(transaction, 0)
        self.of_id[transaction] = commits + 1
        if not commits:
            name = name_by_id(transaction)
            self.ids_of_application[name] = self.ids_of_application.get(name, 0) + 1

    def take(self, transaction: str) -> None:
        """Undo that, when it leaves memory."""
        _take_one(self.of_id, transaction)
        if transaction not in self.of_id:
            _take_one(self.ids_of_application, name_by_id(transaction))

    def of_application(self, transaction: str) -> bool:
        """Say whether a committed transaction is in memory of this id, or of another one of the same application."""
        return name_by_id(transaction) in self.ids_of_application


@dataclass(slots=True)
class DriverSigns:
    """When pipelines' drivers gave signs, by the steady clock of this machine (ms): their own clock is another one."""

    heard_of: set[str] = field(default_factory=set)
    """Pipelines whose drivers gave a sign since whoever has a clock took them."""
    heard_ms: dict[str, int] = field(default_factory=dict)
    """When the last sign of a pipeline's driver arrived here."""
    listening_ms: int | None = None
    """Since when signs arrive here."""

    def note(self, at_ms: int) -> None:
        """Note that those of ``heard_of`` gave their signs now."""
        self.heard_ms.update(dict.fromkeys(self.heard_of, at_ms))
        self.heard_of.clear()


def _take_one(counts: dict[str, int], name: str) -> None:
    left = counts[name] - 1
    if left:
        counts[name] = left
    else:
        del counts[name]


@dataclass(slots=True)
class State:
    """Everything that is known now. Values are frozen: a reader may keep them after the lock is gone."""

    settled_kept: InitVar[int] = 10_000
    lost_kept: InitVar[int] = LOST_KEPT
    checkpoints_kept: int = 2_000
    flink_writes_here: Mapping[str, bool] = field(default_factory=dict)
    """What the settings say of each Flink cluster (FlinkState.writes_here)."""
    offsets_topics: tuple[str, ...] = (CONSUMER_OFFSETS, CONNECT_OFFSETS)
    """Topics with the offsets of an application's own input: a transaction that holds one of them reads, processes and writes."""
    broker: dict[BrokerIdentity, BrokerTransaction] = field(default_factory=dict)
    latest_of_id: dict[str, BrokerIdentity] = field(default_factory=dict)
    older_by_handle: dict[HandleIdentity, BrokerIdentity] = field(default_factory=dict)
    """The transactions that are not the latest of their ids; of those with one handle the newest. See ``of_handle``."""
    inits: dict[str, tuple[Init, ...]] = field(default_factory=dict)
    reported: dict[HandleIdentity, ReportedTransaction] = field(default_factory=dict)
    pipelines: dict[str, PipelineFacts] = field(default_factory=dict)
    checkpoints: dict[tuple[str, int], CheckpointFacts] = field(default_factory=dict)
    branches: dict[str, BranchFacts] = field(default_factory=dict)
    """Branches that databases list or listed, by key."""
    database_snapshots: dict[str, DatabaseSnapshot] = field(default_factory=dict)
    """The newest look at each database, by its name."""
    orders: dict[str, OperatorOrder] = field(default_factory=dict)
    flink: FlinkState = field(init=False)
    offsets: dict[BrokerIdentity, dict[str, OffsetsSeen]] = field(default_factory=dict)
    """Where the records of transactions are, by partition, as far as that was looked for."""
    groups: dict[str, GroupMembers] = field(default_factory=dict)
    """Who is in the consumer groups of applications that have a transaction open, as far as it was asked; no history."""
    held_offsets: dict[str, HeldOffsets] = field(default_factory=dict)
    """Partition of ``__consumer_offsets`` (``topic-number``) -> whose offsets are held there; no history."""
    ids: KnownIds = field(default_factory=KnownIds)
    ledger: DecisionLedger = field(default_factory=DecisionLedger)
    log_end_of: dict[BrokerIdentity, int] = field(default_factory=dict)
    """Where the decision log ended when it was asked for after an open transaction was seen: a run from there on is newer."""
    open: set[BrokerIdentity] = field(default_factory=set)
    """Transactions whose end was not seen."""
    aborted: set[BrokerIdentity] = field(default_factory=set)
    """Transactions that were undone: those that were decided are lost."""
    last_decided: dict[str, LastDecided] = field(default_factory=dict)
    """The newest commit decision of each checkpoint id that counts: every batch below it is done with."""
    ended: EndedTransactions = field(init=False)
    commits: CommitCounts = field(default_factory=CommitCounts)
    ends: EndCounts = field(default_factory=EndCounts)
    signs: DriverSigns = field(default_factory=DriverSigns, compare=False)
    events: int = 0
    malformed: int = 0
    newer_decision: str = ""
    """Which decision in history a newer collector wrote."""

    def __post_init__(self, settled_kept: int, lost_kept: int) -> None:
        """Give the parts what the settings say."""
        self.ended = EndedTransactions(kept=settled_kept, lost_kept=lost_kept)
        self.flink = FlinkState(checkpoints_kept=self.checkpoints_kept, writes_here=self.flink_writes_here)


def holds_offsets(state: State, partitions: Iterable[str]) -> bool:
    """Say whether one of the partitions (``topic-number``) is of a topic with the offsets of an application's input."""
    return any(partition.rpartition("-")[0] in state.offsets_topics for partition in partitions)


def of_handle(state: State, handle: HandleIdentity) -> BrokerIdentity | None:
    """Return the newest transaction in memory that has this handle.

    An id whose epoch stays (transaction version 0 and 1) has several. There may be a million ids with one transaction each: only
    what is not the latest of its id takes an entry.
    """
    latest = state.latest_of_id.get(handle.transaction)
    if latest is None or latest.producer_id != handle.producer_id:
        return state.older_by_handle.get(handle)
    # By its parts: to make its handle would take three times as long, and many pages ask.
    if state.broker[latest].handle_epoch == handle.producer_epoch:
        return latest
    return state.older_by_handle.get(handle)


def put_with_older(state: State, identity: BrokerIdentity) -> None:
    """Have ``of_handle`` find a transaction that is not the latest of its id."""
    handle = state.broker[identity].handle_identity
    indexed = state.older_by_handle.get(handle)
    if indexed is None or indexed.start_ms <= identity.start_ms:
        state.older_by_handle[handle] = identity


def take_from_older(state: State, identity: BrokerIdentity, handle: HandleIdentity) -> None:
    """Undo that, before it changes or leaves."""
    if state.older_by_handle and state.older_by_handle.get(handle) == identity:
        del state.older_by_handle[handle]
