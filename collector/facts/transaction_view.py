"""One transaction as it stands: the coordinator's view, what was reported, decision and outcome, joined by transaction_join.py."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from indoubt.collector.records.branches import BranchDetail, BranchFacts
from indoubt.collector.records.facts import KAFKA, BrokerTransaction, ReportedTransaction
from indoubt.lifecycle.application import Application
from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Outcome
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.identity import Handle, TransactionalId, transaction_key
from indoubt.lifecycle.states import TransactionState

NO_PRODUCER = -1
"""What stands for the producer id, where transactions are ordered, of one that has none: a branch in a database."""


@dataclass(frozen=True, kw_only=True)
class TransactionView:
    """One transaction, joined. Times are epoch ms; None: not known.

    Without slots: what is asked of it again and again is found out once.
    """

    transaction: str
    producer_id: int | None
    producer_epoch: int | None
    application: Application
    managed: bool
    slot: int | None
    state: TransactionState
    broker: BrokerTransaction | None
    reported: ReportedTransaction | None
    first_decision: tuple[int, Decision, bool] | None
    """Offset, decision and whether it counts, of the first decision for its attempt."""
    listing: tuple[int, Decision] | None
    """Offset and decision of the commit decision that counts and lists it."""
    outcome: Outcome | None
    superseded: bool
    """Its id went on without it (a later transaction, or another producer), and its end was not seen."""
    branch: BranchFacts | None = None
    """What its database lists, or listed, of a branch."""
    branch_detail: BranchDetail | None = None
    polled_ms: int | None = None
    """When its database was polled last, where the server answered that listed it."""
    not_asked: str = ""
    """Why its database does not tell whether the branch is still there; empty where it does."""
    proven_batch_attempt: BatchAttempt | None = None
    """Its batch and attempt, as a decision or the branch's name and the log's runs tell them."""
    reported_batch_attempt: BatchAttempt | None = None
    """What an event claims of that, where it fits the log. It is shown; nothing rests on it."""
    log_end: int | None = None
    """Where the decision log ended when it was asked for after this one was seen open: a run from there on is newer."""
    flink_checkpoint: int | None = None
    """The first checkpoint whose ``_metadata`` lists it, where it is Flink's."""
    written_again_ms: int | None = None
    """When its batch was completed after it was undone, or None."""

    @property
    def pipeline(self) -> str:
        """Return its application's name: the prefix of a pipeline of ours, else what all ids of the application go by."""
        return self.application.name

    @cached_property
    def key(self) -> str:
        """Return the text that names it and no later one: the handle's key, and where it is known the start time."""
        name = f"kafka:{self.transaction}:{self.producer_id}:{self.producer_epoch}"
        if self.branch is not None:
            return self.branch.key
        if self.broker is not None:
            return f"{name}@{self.broker.identity.start_ms}"
        return self.reported.key if self.reported is not None else name

    @property
    def handle_key(self) -> str:
        """Return the key that the decision log has for its handle."""
        if self.branch is not None:
            return self.branch.key
        return transaction_key(self.resource_manager, self.transaction, self.producer_id, self.producer_epoch)

    @property
    def sort_key(self) -> tuple[str, int, int]:
        """Return what orders transactions of one time: id, producer id and opening, of its coordinator where that is known."""
        if self.broker is not None:
            return self.broker.identity
        return (self.transaction, NO_PRODUCER if self.producer_id is None else self.producer_id, self.opened_ms or 0)

    @cached_property
    def named_prefix(self) -> str | None:
        """Return the prefix that its id names, whether or not a pipeline ever ran under it; None for an id of another form."""
        parse = TransactionalId.parse if self.resource_manager == KAFKA else BranchId.parse
        parsed = parse(self.transaction)
        return parsed.prefix if parsed is not None else None

    @property
    def handle(self) -> Handle | None:
        """Return the whole handle as a decision lists it, else as its prepared event claims: to be shown."""
        return self.reported.handle if self.reported is not None else None

    @property
    def listed_handle(self) -> Handle | None:
        """Return the whole handle where a decision lists it."""
        return self.reported.listed.handle if self.reported is not None and self.reported.listed is not None else None

    @property
    def batch_attempt(self) -> BatchAttempt | None:
        """Return the batch and attempt as proven, else as claimed: to be shown, and to group transactions by."""
        return self.proven_batch_attempt or self.reported_batch_attempt

    @property
    def checkpoint(self) -> int | None:
        """Return the number of the checkpoint that holds it: its batch, or Flink's; None where none is known."""
        return self.batch_attempt.batch if self.batch_attempt is not None else self.flink_checkpoint

    @property
    def is_only_reported(self) -> bool:
        """True when no coordinator, no database and no decision knows of it: an event claims that it exists."""
        seen = (self.broker, self.branch, self.listing, self.outcome, self.listed_handle)
        return all(time is None for time in seen)

    @property
    def resource_manager(self) -> str:
        """Return the resource manager's name."""
        if self.branch is not None:
            return self.branch.resource_manager
        return self.reported.resource_manager if self.reported is not None else KAFKA

    @cached_property
    def opened_ms(self) -> int | None:
        """Return when it was opened: by the broker's clock, else its writer's, else since when it is known to be prepared."""
        return self.broker.identity.start_ms if self.broker is not None else opening_ms(self.reported, self.branch)

    @property
    def is_listed(self) -> bool:
        """True while its database lists it as prepared."""
        return self.branch is not None and self.branch.is_listed

    @property
    def has_vanished(self) -> bool:
        """True when its database lists it no more, and its end was not reported."""
        return self.branch is not None and not self.branch.is_listed and not self.state.is_final

    @property
    def timeout_ms(self) -> int | None:
        """Return the resource manager's limit, counted from its opening; None where none ends it, or none is known.

        None ends a branch of a database, nor a Kafka transaction of a producer with a two-phase commit of its own (KIP-939).
        """
        if self.broker is not None and self.broker.timeout_ms is not None:
            return self.broker.timeout_ms or None
        return (self.listed_handle.timeout_ms or None) if self.listed_handle is not None else None

    @cached_property
    def is_running(self) -> bool:
        """True while the timeout's clock runs: only Ongoing expires."""
        open_states = (TransactionState.OPEN, TransactionState.PREPARED, TransactionState.DECIDED)
        return self.state in open_states and not (self.superseded or self.has_vanished or self.is_only_reported)

    @cached_property
    def deadline_ms(self) -> int | None:
        """Return when the resource manager will abort it, or None when it will not."""
        if not self.is_running or self.opened_ms is None or self.timeout_ms is None:
            return None
        return self.opened_ms + self.timeout_ms

    @property
    def ended_ms(self) -> int | None:
        """Return when its end began, or None while it is open."""
        if self.broker is not None and self.broker.ended_ms is not None:
            return self.broker.ended_ms
        if self.outcome is not None:
            return self.outcome.at_ms
        return self.branch.gone_ms if self.branch is not None else None

    @property
    def revision(self) -> str:
        """Return a text that changes when its identity, state or decision changes."""
        ruled = self.listing or self.first_decision
        decision = f"{ruled[0]}:{ruled[1].ruling.value}" if ruled else ""
        # The start time stays out: it only becomes known later, the transaction is the same.
        parts = (
            self.transaction,
            self.producer_id,
            self.producer_epoch,
            self.state.value,
            decision,
            self.outcome is None,
            # A foreign branch's name may be used again: by its age it is told from the next of that name.
            self.branch.since_ms if self.branch is not None and self.named_prefix is None else None,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    @property
    def updated_ms(self) -> int | None:
        """Return the newest time in what is known of it."""
        times: list[int | None] = [self.opened_ms, self.ended_ms, self.listing[1].at_ms if self.listing else None]
        if self.broker is not None:
            times += [self.broker.last_write_ms, self.broker.complete_commit_ms, self.broker.complete_abort_ms]
        if self.reported is not None:
            times += self.reported.event_times.values()
        return max((at for at in times if at is not None), default=None)


def opening_ms(reported: ReportedTransaction | None, branch: BranchFacts | None) -> int | None:
    """Return when a transaction that no coordinator was seen to have was opened (epoch ms).

    As a decision has it, else since when its database lists it, else as events claim.
    """
    if reported is not None and reported.listed is not None:
        return reported.listed.handle.opened_at_ms
    if branch is not None and branch.since_ms is not None:
        return branch.since_ms
    if reported is None:
        return None
    return (
        reported.handle.opened_at_ms
        if reported.handle is not None
        else reported.event_times.get(EventType.TRANSACTION_OPENED)
    )
