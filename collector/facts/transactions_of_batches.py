"""The transactions of a batch or of a checkpoint, and which batch each belongs to.

Call all of it under the state's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from indoubt.collector.facts import attempts
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_join import (
    at_coordinator,
    is_evident,
    parsed_name,
    reported_of_branch,
    view_of,
)
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.facts import ReportedTransaction
from indoubt.collector.records.formats.flink_records import Committable
from indoubt.collector.records.xids import listed_of
from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.decisions import BatchAttempt


def of_batches(state: State, chosen: Callable[[BatchAttempt], bool]) -> Iterator[TransactionView]:
    """Yield in no order every transaction whose batch is known and ``chosen``."""
    for reported in state.reported.values():
        batch_attempt = batch_attempt_of(state, reported)
        if batch_attempt is not None and chosen(batch_attempt) and is_evident(state, reported):
            view = view_of(state, reported)
            if view.batch_attempt is not None and chosen(view.batch_attempt):
                yield view
    for branch in state.branches.values():
        if reported_of_branch(state, branch) is None:
            view = view_of(state, branch)
            if view.batch_attempt is not None and chosen(view.batch_attempt):
                yield view


def of_checkpoint(state: State, number: int) -> Iterator[TransactionView]:
    """Yield in no order every transaction in memory that a checkpoint of this number holds: a pipeline's batch, or Flink's."""
    yield from of_batches(state, lambda batch_attempt: batch_attempt.batch == number)
    listed = state.flink.lists.listed_in(number)
    if not listed:
        return
    for broker in state.broker.values():
        transaction, producer_id, _ = broker.identity
        if broker.handle_epoch is not None and Committable(transaction, producer_id, broker.handle_epoch) in listed:
            yield at_coordinator(state, broker.identity)
    for branch in state.branches.values():
        if listed_of(branch.resource_manager, branch.transaction) in listed:
            yield view_of(state, branch)


def batch_attempt_of(state: State, reported: ReportedTransaction) -> BatchAttempt | None:
    """Return its batch and attempt: as a decision or its branch's name has them, else as events claim."""
    id_ = parsed_name(reported.identity) if reported.listed is None else None
    return attempts.of_branch(state.ledger, id_) if isinstance(id_, BranchId) else reported.batch_attempt


def counted_by_batch(reported: Iterable[ReportedTransaction]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return (pipeline, batch) -> (transactions, rows) of each batch's newest attempt, as decisions and events have it."""
    newest: dict[tuple[str, int], tuple[int, int, int]] = {}
    for each in reported:
        id_ = parsed_name(each.identity)
        if each.batch_attempt is None or id_ is None:
            continue
        key, rows = (id_.prefix, each.batch_attempt.batch), each.handle.rows if each.handle is not None else 0
        attempt, count, total = newest.get(key, (each.batch_attempt.attempt, 0, 0))
        if each.batch_attempt.attempt > attempt:
            attempt, count, total = each.batch_attempt.attempt, 0, 0
        if each.batch_attempt.attempt == attempt:
            newest[key] = (attempt, count + 1, total + rows)
    return {key: (count, rows) for key, (_, count, rows) in newest.items()}


def shared_batches(state: State) -> set[tuple[str, int]]:
    """Return (checkpoint id, batch) of every batch that several resource managers hold."""
    managers: dict[tuple[str, int], str] = {}
    shared: set[tuple[str, int]] = set()
    for reported in state.reported.values():
        if (batch_attempt := batch_attempt_of(state, reported)) is not None:
            batch = (batch_attempt.checkpoint_id, batch_attempt.batch)
            if managers.setdefault(batch, reported.resource_manager) != reported.resource_manager:
                shared.add(batch)
    return shared
