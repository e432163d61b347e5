"""The facts that a verdict about an open transaction of Flink shows: which checkpoint lists it, what REST and stores say."""

from __future__ import annotations

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.formats.flink_records import Committable, FlinkCommittables, Listed
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.records.xids import listed_of
from indoubt.collector.verdicts.flink_known import FlinkCase
from indoubt.collector.verdicts.flink_sink_words import words_of
from indoubt.collector.verdicts.flink_unread_lists import UnreadList
from indoubt.lifecycle.verdicts import Evidence

REST = ObserverKind.FLINK.value
STORE = ObserverKind.FLINK_STORE.value.removesuffix(" of")
FILES = ObserverKind.FLINK_FILES.value
METADATA, SETTINGS = "_metadata", "settings"


def listed_as(view: TransactionView) -> Listed | None:
    """Return how a checkpoint would list a transaction or file; None: as nothing, its producer or its xid is not known."""
    if view.branch is not None:
        return listed_of(view.branch.resource_manager, view.branch.transaction)
    if view.producer_id is None or view.producer_epoch is None:
        return None
    return Committable(view.transaction, view.producer_id, view.producer_epoch)


def checkpoint_name(listing: FlinkCommittables) -> str:
    """Return the last part of a checkpoint's path, ``chk-3``: what a person types to confirm a commit."""
    return listing.path.rstrip("/").rpartition("/")[2]


def in_words(case: FlinkCase) -> str:
    return f"{case.name} runs" if case.is_alive else f"{case.name} may run, it did when REST answered last"


def listed_exactly(case: FlinkCase) -> Evidence:
    listing = case.first
    fact = f"{listing.path}/{METADATA} lists exactly this {words_of(case).listed}"
    return Evidence(fact, METADATA, listing.written_ms)


def beside_the_lists(case: FlinkCase) -> tuple[Evidence, ...]:
    """Return what binds the list to this Kafka cluster, and which other jobs may do this work."""
    stated = [Evidence(case.stated, SETTINGS)] if case.stated and not case.is_branch else []
    return (*stated, *(Evidence(each.why, REST) for each in case.rivals))


def in_the_store(case: FlinkCase) -> tuple[Evidence, ...]:
    """Return what its job's high-availability store says where that does not prove that the checkpoint counts."""
    stored = case.stored
    if stored is None:
        return ()
    fact = f"the high-availability store points to checkpoint {stored.number} ({stored.where})"
    if any(stored.is_of(listing.number, listing.written_ms) for listing in case.listings):
        fact += ", which lists it. That proves it once no JobManager has the job: the session of one that died ends by its timeout"
    else:
        fact += ", which does not list it: a JobManager that recovers the job goes on from there"
    return (Evidence(fact, STORE, stored.since_ms),)


def unread_list(unread: UnreadList) -> tuple[Evidence, ...]:
    counts = f"REST reported checkpoint {unread.number} of {unread.name} as completed"
    cannot = f"its list {unread.path}/{METADATA} cannot be read: {unread.why}"
    return Evidence(counts, REST, unread.ended_ms), Evidence(cannot, METADATA)


def what_follows(case: FlinkCase) -> Evidence:
    first = case.first_not_failed
    fact = words_of(case).follows.format(number=first.number, name=checkpoint_name(first))
    return Evidence(fact, METADATA)
