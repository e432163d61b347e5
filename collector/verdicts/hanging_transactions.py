"""Hanging transactions (KIP-664): open on a partition while no coordinator will ever end them. Pure: rules, then two polls.

The order of the polls is the guard against a transaction that just began or ended: the partition's leader shows it open,
the coordinator is asked, and the leader shows the very same one open again some seconds later. So it was open while the
coordinator said that there was none. Times are epoch ms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.verdicts.known_ends import KnownEnd
from indoubt.lifecycle.durations import duration
from indoubt.lifecycle.orders import HANGING_KEY
from indoubt.lifecycle.verdicts import Assumption, Evidence, Judgement, Verdict
from indoubt.resource_managers.kafka.partitions import OpenProducer, Partition
from indoubt.resource_managers.protocol import OpenTransactionView

OVERDUE_MS = 60_000
"""How long past its timeout an open transaction must be: coordinators look for expired ones every 10 s, clocks differ."""
COORDINATOR, LEADER = "transaction coordinator", "partition leader"
COORDINATORS_LOG = ObserverKind.TRANSACTION_LOG.value
_OPEN = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


class Remedy(Enum):
    """How a hanging transaction is ended; the value is what the API says."""

    MARKER = "abort marker on the partition"
    """No coordinator will write one (WriteTxnMarkers, as kafka-transactions.sh abort does)."""
    COMMIT_MARKER = "commit marker on the partition"
    """It is proven that its coordinator has committed it, which takes the marker for written."""
    ORDINARY = "ordinary abort"
    """Its coordinator has it open: the transaction's own row takes the order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorView:
    """What coordinators said about one producer id.

    ``transactions``: those that have it now. ``moved``: transactional ids that had it once and have another one now, or
    are not known any more. ``end``: how the very transaction ended that is open on the partition, None where that is not
    proven.
    """

    transactions: tuple[OpenTransactionView, ...]
    moved: tuple[str, ...]
    asked_ms: int
    end: KnownEnd | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Why a transaction on a partition looks abandoned. ``transaction``: its transactional id, empty where it is unknown.

    A marker that ends it carries its own epoch: the partition refuses it once a later one has written there.
    """

    rule: int
    transaction: str
    evidence: Evidence
    remedy: Remedy
    may_abort: bool
    assumes: tuple[Assumption, ...] = ()

    @property
    def loses_data(self) -> bool:
        """Say whether an abort may lose rows: where anything about its end is assumed."""
        return bool(self.assumes)

    @property
    def may_commit(self) -> bool:
        """Say whether it may be ended by a commit marker."""
        return self.remedy is Remedy.COMMIT_MARKER


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A doubted transaction. ``since_ms``: first doubted; ``found_ms``: when it was proven, None before."""

    producer: OpenProducer
    doubt: Doubt
    since_ms: int
    found_ms: int | None = None

    @property
    def key(self) -> str:
        """Return the text that names it: ``hanging:topic-partition:producer_id:epoch:start_offset``."""
        return key_of(self.producer)

    @property
    def confirmation(self) -> str:
        """Return what an order must repeat where it may lose data: the transactional id, or without one the partition."""
        return (self.doubt.transaction or partition_name(self.producer.partition)) if self.doubt.loses_data else ""

    @property
    def revision(self) -> str:
        """Return a text that changes when what it rests on changes."""
        doubt = self.doubt
        parts = (self.key, doubt.rule, doubt.transaction, doubt.remedy.value, doubt.may_abort)
        return hashlib.sha256(repr((*parts, self.confirmation)).encode()).hexdigest()[:16]

    def shifted(self, by_ms: int) -> Suspect:
        """Return it with its times moved: the clock that gave them was stepped by this."""
        found_ms = None if self.found_ms is None else self.found_ms + by_ms
        return replace(self, since_ms=self.since_ms + by_ms, found_ms=found_ms)

    @property
    def judgement(self) -> Judgement:
        """Return the verdict with its evidence."""
        producer = self.producer
        opened = (
            f"producer {producer.producer_id}, epoch {producer.producer_epoch} holds "
            f"{partition_name(producer.partition)} open since offset {producer.start_offset}"
        )
        evidence = [
            Evidence(opened, LEADER, producer.last_timestamp_ms),
            self.doubt.evidence,
        ]
        if self.found_ms is not None:
            again = f"still open {duration(self.found_ms - self.since_ms)} after the coordinator said so first"
            evidence.append(Evidence(again, LEADER, self.found_ms))
        return Judgement(
            Verdict.HANGING,
            self.doubt.rule,
            tuple(evidence),
            may_commit=self.doubt.may_commit,
            may_abort=self.doubt.may_abort,
            assumes=self.doubt.assumes,
            loses_data=self.doubt.loses_data,
        )


def key_of(producer: OpenProducer) -> str:
    """Return the key of a transaction on a partition."""
    where = partition_name(producer.partition)
    return f"{HANGING_KEY}{where}:{producer.producer_id}:{producer.producer_epoch}:{producer.start_offset}"


def partition_name(partition: Partition) -> str:
    """Return ``topic-number``."""
    return f"{partition[0]}-{partition[1]}"


def doubt(producer: OpenProducer, view: CoordinatorView, now_ms: int) -> Doubt | None:
    """Return what the first rule that answers holds against the transaction, or None: its coordinator will end it."""
    return next((found for rule in RULES if (found := rule(producer, view, now_ms)) is not None), None)


def h1_nobody_has_the_producer_id(producer: OpenProducer, view: CoordinatorView, now_ms: int) -> Doubt | None:
    """No coordinator has the producer id under any transactional id."""
    if view.transactions or view.moved:
        return None
    fact = f"no coordinator has producer id {producer.producer_id} under any transactional id"
    return _marker(1, producer, "", fact, view, Assumption.ALL_IDS_ARE_LISTED)


def h2_the_id_went_on(producer: OpenProducer, view: CoordinatorView, now_ms: int) -> Doubt | None:
    """The transactional id that had this producer id has another one now, or is forgotten."""
    if view.transactions or not view.moved:
        return None
    fact = f"{view.moved[0]} gave up producer id {producer.producer_id}, and no other id has it"
    return _marker(2, producer, view.moved[0], fact, view, Assumption.ALL_IDS_ARE_LISTED)


def h3_no_open_transaction(producer: OpenProducer, view: CoordinatorView, now_ms: int) -> Doubt | None:
    """The coordinator has the producer id, and no open transaction of it."""
    if not view.transactions or any(t.state in _OPEN for t in view.transactions):
        return None
    t = view.transactions[0]
    fact = f"{t.transaction} has no open transaction: it is {t.state}, epoch {t.producer_epoch}"
    if t.state == "CompleteCommit":
        fact += "; if these rows are of what was committed, an abort loses them"
    return _marker(3, producer, t.transaction, fact, view)


def h4_open_elsewhere(producer: OpenProducer, view: CoordinatorView, now_ms: int) -> Doubt | None:
    """The producer's open transaction does not hold this partition: its end will write no marker here."""
    opened = [t for t in view.transactions if t.state in _OPEN]
    if not opened or any(producer.partition in t.partitions for t in opened):
        return None
    t = opened[0]
    fact = f"{t.transaction} is {t.state}, epoch {t.producer_epoch}, without {partition_name(producer.partition)}"
    if (t.producer_epoch or 0) > producer.producer_epoch:
        return _marker(4, producer, t.transaction, fact, view)
    # At the same epoch the running transaction may still come to this partition, and the marker would tear it apart.
    fact += ": at the same epoch; once that transaction has ended, this one can be aborted"
    return replace(_marker(4, producer, t.transaction, fact, view), may_abort=False)


def h5_overdue(producer: OpenProducer, view: CoordinatorView, now_ms: int) -> Doubt | None:
    """Its coordinator should have aborted it by its timeout long ago and did not."""
    for t in view.transactions:
        if t.state != "Ongoing" or t.started_at_ms is None or not t.timeout_ms:
            continue
        late_ms = now_ms - t.started_at_ms - t.timeout_ms
        if producer.partition in t.partitions and late_ms > OVERDUE_MS:
            fact = f"{t.transaction} is Ongoing {duration(late_ms)} past its timeout of {duration(t.timeout_ms)}"
            return replace(_marker(5, producer, t.transaction, fact, view), remedy=Remedy.ORDINARY)
    return None


def h6_ended_without_its_marker(producer: OpenProducer, view: CoordinatorView, now_ms: int) -> Doubt | None:
    """It is proven how this very transaction ended, and the partition never got the marker (KAFKA-20734)."""
    end = view.end
    if end is None or any(_may_end_it(t, producer) for t in view.transactions):
        return None
    fact = f"{end.why}; this partition never got the marker"
    evidence = Evidence(fact, COORDINATORS_LOG, end.at_ms)
    found = replace(_marker(6, producer, end.transaction, fact, view), evidence=evidence, assumes=())
    # An abort marker would lose what its writer believes to be committed.
    return replace(found, remedy=Remedy.COMMIT_MARKER, may_abort=False) if end.commit else found


def _may_end_it(t: OpenTransactionView, producer: OpenProducer) -> bool:
    """Say whether what the coordinator has open, or is ending, may be this very transaction after all."""
    return t.state in _OPEN and (t.state != "Ongoing" or (t.producer_epoch or 0) <= producer.producer_epoch)


RULES: tuple[Callable[[OpenProducer, CoordinatorView, int], Doubt | None], ...] = (
    h6_ended_without_its_marker,
    h1_nobody_has_the_producer_id,
    h2_the_id_went_on,
    h3_no_open_transaction,
    h4_open_elsewhere,
    h5_overdue,
)


def followed(
    before: Mapping[str, Suspect],
    polled: Collection[Partition],
    seen: Iterable[OpenProducer],
    doubts: Mapping[str, Doubt | None],
    *,
    polled_ms: int,
    answered_ms: int,
    confirm_ms: int,
) -> dict[str, Suspect]:
    """Return the suspects after a poll.

    ``seen``: open transactions on the partitions that were polled (``polled``), from ``polled_ms`` on. ``doubts``: what the
    coordinator, which was asked after that and answered by ``answered_ms``, makes of them: None where it explains the
    transaction, no entry where it could not be asked. A suspect is proven once a poll that began ``confirm_ms`` after
    the coordinator's first answer saw it still open and the coordinator said the same again.
    """
    after = {key: suspect for key, suspect in before.items() if suspect.producer.partition not in polled}
    for producer in seen:
        key = key_of(producer)
        known = before.get(key)
        if key not in doubts:
            if known is not None:
                after[key] = known
            continue
        doubted = doubts[key]
        if doubted is None:
            continue
        if known is None:
            after[key] = Suspect(producer=producer, doubt=doubted, since_ms=answered_ms)
            continue
        proven = known.found_ms is None and polled_ms - known.since_ms >= confirm_ms
        found_ms = polled_ms if proven else known.found_ms
        after[key] = replace(known, producer=producer, doubt=doubted, found_ms=found_ms)
    return after


def _marker(
    rule: int, producer: OpenProducer, transaction: str, fact: str, view: CoordinatorView, *assumes: Assumption
) -> Doubt:
    # Its writer may have been answered that it was committed: only the coordinator that ended it knows (H6).
    return Doubt(
        rule=rule,
        transaction=transaction,
        evidence=Evidence(fact, COORDINATOR, view.asked_ms),
        remedy=Remedy.MARKER,
        may_abort=True,
        assumes=(Assumption.NOT_REPORTED_COMMITTED, *assumes),
    )
