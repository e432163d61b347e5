"""One transaction as it stands: the coordinator's view, what was told, decision and outcome, joined by transaction_joins.py."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from collector.branch_view import TOLD_ENDS
from collector.branches import BranchDetail, BranchFacts
from collector.facts import KAFKA, BrokerTransaction, ToldTransaction
from lifecycle.branch_id import BranchId
from lifecycle.decisions import BatchAttempt, Decision, Outcome
from lifecycle.events import EventType
from lifecycle.identity import Handle, TransactionalId
from lifecycle.states import TransactionState


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionView:
    """One transaction, joined. Times are epoch ms; None: not known."""

    transaction: str
    producer_id: int | None
    producer_epoch: int | None
    pipeline: str
    ours: bool
    slot: int | None
    state: TransactionState
    broker: BrokerTransaction | None
    told: ToldTransaction | None
    first_decision: tuple[int, Decision, bool] | None
    """Offset, decision and whether it counts, of the first decision for its attempt."""
    listing: tuple[int, Decision] | None
    """Offset and decision of the commit decision that counts and lists it."""
    outcome: Outcome | None
    overtaken: bool
    """A later transaction of the same id is known, and this one's end was not seen."""
    branch: BranchFacts | None = None
    """What its database lists, or listed, of a branch."""
    branch_detail: BranchDetail | None = None
    looked_ms: int | None = None
    """When its database was looked at last."""
    branch_about: BatchAttempt | None = None
    """Batch and attempt as the branch's name and the log's runs tell them."""

    @property
    def key(self) -> str:
        """Return the text that names it and no later one: the handle's key, and where it is known the start time."""
        name = f"kafka:{self.transaction}:{self.producer_id}:{self.producer_epoch}"
        if self.branch is not None:
            return self.branch.key
        if self.broker is not None:
            return f"{name}@{self.broker.identity.start_ms}"
        return self.told.key if self.told is not None else name

    @property
    def place(self) -> tuple[str, int, int]:
        """Return what orders transactions of one time: id, producer id and opening, of its coordinator where that is known."""
        if self.broker is not None:
            return self.broker.identity
        return (self.transaction, -1 if self.producer_id is None else self.producer_id, self.opened_ms or 0)

    @property
    def named_prefix(self) -> str | None:
        """Return the prefix that its id names, whether or not a pipeline ever ran under it; None for an id of another form."""
        parse = TransactionalId.parse if self.resource_manager == KAFKA else BranchId.parse
        parsed = parse(self.transaction)
        return parsed.prefix if parsed is not None else None

    @property
    def handle(self) -> Handle | None:
        """Return the whole handle where the prepared event or a decision told it."""
        return self.told.handle if self.told is not None else None

    @property
    def about(self) -> BatchAttempt | None:
        """Return the batch and attempt where they are known."""
        told = self.told.about if self.told is not None else None
        return told or self.branch_about

    @property
    def resource_manager(self) -> str:
        """Return the resource manager's name."""
        if self.branch is not None:
            return self.branch.resource_manager
        return self.told.resource_manager if self.told is not None else "kafka"

    @property
    def opened_ms(self) -> int | None:
        """Return when it was opened: by the broker's clock, else by its writer's, else since when it is known to be prepared."""
        if self.broker is not None:
            return self.broker.identity.start_ms
        if self.told is not None:
            return told_opening_ms(self.told, self.branch)
        return self.branch.since_ms if self.branch is not None else None

    @property
    def is_listed(self) -> bool:
        """True while its database lists it as prepared."""
        return self.branch is not None and self.branch.is_listed

    @property
    def has_vanished(self) -> bool:
        """True when its database lists it no more, and nobody told how it ended."""
        return self.branch is not None and not self.branch.is_listed and not self.state.is_final

    @property
    def timeout_ms(self) -> int | None:
        """Return the resource manager's limit, counted from its opening; None where it has none (databases) or none is known."""
        if self.broker is not None and self.broker.timeout_ms is not None:
            return self.broker.timeout_ms
        return (self.handle.timeout_ms or None) if self.handle is not None else None

    @property
    def is_running(self) -> bool:
        """True while the timeout's clock runs: only Ongoing expires."""
        open_states = (TransactionState.OPEN, TransactionState.PREPARED, TransactionState.DECIDED)
        return self.state in open_states and not self.overtaken and not self.has_vanished

    @property
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
        times = [self.told.told[type_] for type_, _ in TOLD_ENDS if type_ in self.told.told] if self.told else []
        return min(times, default=self.branch.gone_ms if self.branch is not None else None)

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
        if self.told is not None:
            times += self.told.told.values()
        return max((at for at in times if at is not None), default=None)


def told_opening_ms(told: ToldTransaction, branch: BranchFacts | None) -> int | None:
    """Return when a transaction was opened by its writer's clock, else since when its database has it prepared."""
    if told.handle is not None:
        return told.handle.opened_at_ms
    told_ms = told.told.get(EventType.TRANSACTION_OPENED)
    return told_ms if told_ms is not None or branch is None else branch.since_ms
