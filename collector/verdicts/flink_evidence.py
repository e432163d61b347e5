"""The facts that a verdict about an open transaction of Flink shows: which checkpoint lists it, what REST and stores say."""

from __future__ import annotations

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.formats.flink_records import Committable, FlinkCommittables, Listed
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.records.xids import listed_of
from indoubt.collector.verdicts.flink_known import FlinkCase
from indoubt.collector.verdicts.flink_unread_lists import UnreadList
from indoubt.lifecycle.resource_manager_kinds import FILE_SINK, ICEBERG, PAIMON
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


def noun_of(case: FlinkCase) -> str:
    return {FILE_SINK.name: "file", ICEBERG.name: "commit", PAIMON.name: "commit"}.get(case.sink, "branch")


def done_by_job(case: FlinkCase) -> str:
    """Return what a job that runs does about it."""
    if case.sink == PAIMON.name:
        return "adds its files itself"
    if case.sink == ICEBERG.name:
        return "adds its files itself, perhaps a second time where another program has"
    return f"commits the {noun_of(case)} itself, and fails if another program has done so"


def in_words(case: FlinkCase) -> str:
    return f"{case.name} runs" if case.is_alive else f"{case.name} may run, it did when REST answered last"


def listed_exactly(case: FlinkCase) -> Evidence:
    listing = case.first
    of_branch = noun_of(case) if case.sink else "xid"
    what = of_branch if case.is_branch else "transactional id, producer id and epoch"
    fact = f"{listing.path}/{METADATA} lists exactly this {what}"
    return Evidence(fact=fact, source=METADATA, at_ms=listing.written_ms)


def beside_the_lists(case: FlinkCase) -> tuple[Evidence, ...]:
    """Return what binds the list to this Kafka cluster, and which other jobs may do this work."""
    stated = [Evidence(fact=case.stated, source=SETTINGS)] if case.stated and not case.is_branch else []
    return (*stated, *(Evidence(fact=each.why, source=REST) for each in case.rivals))


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
    return (Evidence(fact=fact, source=STORE, at_ms=stored.since_ms),)


def unread_list(unread: UnreadList) -> tuple[Evidence, ...]:
    counts = f"REST reported checkpoint {unread.number} of {unread.name} as completed"
    cannot = f"its list {unread.path}/{METADATA} cannot be read: {unread.why}"
    return Evidence(fact=counts, source=REST, at_ms=unread.ended_ms), Evidence(fact=cannot, source=METADATA)


def what_follows(case: FlinkCase) -> Evidence:
    number = case.first_not_failed.number
    if case.may_refuse_flink:
        name = checkpoint_name(case.first_not_failed)
        fact = (
            f"MariaDB refuses the commit that Flink sends after a restore from {name}, with this branch or without (XAER_OUTSIDE): "
            f"docs/databases.md says what to do. Commit it only if the job then goes on from {name} or from a later one. Restored "
            "from an earlier one, it writes these rows twice. A rollback loses its rows"
        )
        return Evidence(fact=fact, source=METADATA)
    if case.sink == PAIMON.name:
        fact = (
            f"no order adds its files: restart the job from {checkpoint_name(case.first_not_failed)} or from a later one, and its "
            "sink adds them. Restored from an earlier one, it writes these rows again"
        )
        return Evidence(fact=fact, source=METADATA)
    if case.sink == ICEBERG.name:
        fact = (
            f"what follows a commit: restored from checkpoint {number}, Flink finds the snapshot of that name and adds nothing. "
            "Restored from an earlier one, it writes these rows twice"
        )
        return Evidence(fact=fact, source=METADATA)
    if case.sink:
        fact = (
            f"what follows a commit: restored from checkpoint {number}, Flink finds the file visible and goes on. Restored from an "
            "earlier one, it writes these rows twice. Its removal loses them"
        )
        return Evidence(fact=fact, source=METADATA)
    if case.is_branch:
        fact = (
            f"what follows a commit: restored from checkpoint {number}, Flink logs that the transaction is 'unknown to "
            "RM (ignoring)' and goes on; nothing is lost. Restored from an earlier one, it writes these rows twice. A rollback "
            "loses its rows"
        )
        return Evidence(fact=fact, source=METADATA)
    fact = (
        f"what follows a commit: restored from checkpoint {number}, Flink logs that the transaction has 'already been "
        "fenced' and goes on; nothing is lost. Restored from an earlier one, it writes these rows twice. An abort, or the "
        "timeout, loses its rows"
    )
    return Evidence(fact=fact, source=METADATA)
