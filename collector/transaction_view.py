"""One transaction as it stands: the coordinator's view, what was told, the decision and the outcome, joined by identity."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from collector import branch_view
from collector.branch_view import TOLD_ENDS
from collector.branches import BranchDetail, BranchFacts
from collector.facts import BrokerIdentity, BrokerTransaction, HandleIdentity, ToldTransaction
from collector.fold import State
from collector.observations import BranchProof, OperatorOrder
from lifecycle.branch_id import BranchId
from lifecycle.decisions import BatchAttempt, Decision, Outcome, Ruling, Settled
from lifecycle.events import EventType
from lifecycle.identity import Handle, TransactionalId
from lifecycle.states import TransactionState

_KEY_PATTERN = re.compile(
    r"[^:]*:(?P<id>.*):(?P<producer_id>[0-9]{1,19}):(?P<epoch>-?[0-9]{1,19})(?:@(?P<start>[0-9]{1,19}))?", re.DOTALL
)
KAFKA = "kafka"


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
        if self.handle is not None:
            return self.handle.opened_at_ms
        told_ms = self.told.told.get(EventType.TRANSACTION_OPENED) if self.told is not None else None
        return told_ms if told_ms is not None or self.branch is None else self.branch.since_ms

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


def views(state: State, *, settled: bool, undone_since_ms: int = 0) -> Iterator[TransactionView]:
    """Yield transactions in no order: those that are open, aborted or lost, and with ``settled`` every other one in memory.

    Left out is what was aborted before ``undone_since_ms`` and is of no known batch: there may be thousands of them.
    Call it under the state's lock.
    """
    for identity in state.broker if settled else state.open | state.aborted:
        broker = state.broker[identity]
        handle = broker.handle_identity
        # An id whose epoch stays (transaction version 0 and 1) has several transactions under one handle: the newest is meant.
        told = state.told.get(handle) if state.by_handle.get(handle) == identity else None
        is_old = broker.is_aborting and broker.is_final and (broker.ended_ms or 0) < undone_since_ms
        if is_old and (told is None or told.about is None):
            continue
        yield _view(state, handle, broker, told)
    for handle, told in state.told.items():
        if handle not in state.by_handle and (settled or not _is_known_committed(state, told)):
            yield _view(state, handle, None, told)
    for branch in state.branches.values():
        named = HandleIdentity(branch.transaction, None, None)
        if named not in state.told and (settled or branch.proof is not BranchProof.COMMITTED):
            yield _view(state, named, None, None, branch)


def replayed_ms(state: State, view: TransactionView) -> int | None:
    """Return when a transaction's batch was completed after it had ended, or None."""
    if view.about is None or view.ended_ms is None:
        return None
    checkpoint = state.checkpoints.get((view.pipeline, view.about.batch))
    if checkpoint is not None and checkpoint.completed_ms is not None and checkpoint.completed_ms > view.ended_ms:
        return checkpoint.completed_ms
    decided = state.last_decided.get(view.about.life)
    return decided[1] if decided is not None and decided[0] > view.about.batch else None


def _is_known_committed(state: State, told: ToldTransaction) -> bool:
    outcome, branch = state.ledger.outcome(told.key), state.branches.get(told.key)
    if branch is not None and branch.is_listed:
        return False
    if branch is not None and branch.proof is BranchProof.COMMITTED:
        return True
    return EventType.TRANSACTION_COMMITTED in told.told or (
        outcome is not None and outcome.settled is Settled.COMMITTED
    )


def find(state: State, key: str) -> TransactionView | None:
    """Return the transaction of that key, or None. A key without a start time finds it once the start is known too."""
    listed = state.branches.get(key)
    if listed is not None:
        in_list = HandleIdentity(listed.transaction, None, None)
        return _view(state, in_list, None, state.told.get(in_list), listed)
    branch = key.partition(":")[2]
    if BranchId.parse(branch) is not None:
        named = HandleIdentity(branch, None, None)
        told = state.told.get(named)
        return _view(state, named, None, told) if told is not None and told.key == key else None
    parts = _KEY_PATTERN.fullmatch(key)
    if parts is None:
        return None
    id_, producer_id, start = parts["id"], int(parts["producer_id"]), parts["start"]
    identity = HandleIdentity(id_, producer_id, int(parts["epoch"]))
    found = state.by_handle.get(identity)
    if start and (found is None or found.start_ms != int(start)):
        older = state.broker.get(BrokerIdentity(id_, producer_id, int(start)))
        same = older is not None and older.handle_identity == identity
        return _view(state, identity, older, None) if same else None
    if found is None and identity not in state.told:
        return None
    return _view(state, identity, state.broker[found] if found else None, state.told.get(identity))


def _view(
    state: State,
    identity: HandleIdentity,
    broker: BrokerTransaction | None,
    told: ToldTransaction | None,
    branch: BranchFacts | None = None,
) -> TransactionView:
    if branch is None and told is not None:
        branch = state.branches.get(told.key)
    branch_id = BranchId.parse(identity.transaction) if branch is not None else None
    parsed = TransactionalId.parse(identity.transaction) if branch is None else branch_id
    prefix = parsed.prefix if parsed is not None else told.pipeline if told is not None else ""
    ours = prefix in state.ledger.prefixes()
    key = told.key if told is not None else branch.key if branch is not None else ""
    look = state.looks.get(branch.place) if branch is not None and branch.is_listed else None
    looked_ms = look.at_ms if look is not None else None
    listing = state.ledger.listing(key) if key else None
    outcome = state.ledger.outcome(key) if key else None
    first = state.ledger.first(told.about) if told is not None and told.about is not None else None
    latest = state.latest_of_id.get(identity.transaction)
    overtaken = _overtaken(identity, broker, latest, state)
    return TransactionView(
        transaction=identity.transaction,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        pipeline=prefix if ours else identity.transaction,
        ours=ours,
        slot=told.slot if told is not None and told.slot is not None else parsed.slot if parsed and ours else None,
        state=_transaction_state(broker, told, listing, outcome, branch, looked_ms, state.orders.get(key)),
        broker=broker,
        told=told,
        first_decision=first,
        listing=listing,
        outcome=outcome,
        overtaken=overtaken,
        branch=branch,
        branch_detail=look.details.get(key) if look is not None else None,
        looked_ms=looked_ms,
        branch_about=branch_view.about(state, branch_id),
    )


def _overtaken(
    identity: HandleIdentity, broker: BrokerTransaction | None, latest: BrokerIdentity | None, state: State
) -> bool:
    if latest is None:
        return False
    if broker is not None:
        return not broker.is_final and latest != broker.identity
    if identity.producer_id is None or identity.producer_epoch is None:
        return False
    newest = state.inits.get(identity.transaction, ())
    known = [(i.producer_id, i.producer_epoch) for i in newest]
    current = state.broker.get(latest)
    if current is not None and current.handle_identity.producer_epoch is not None:
        known.append((latest.producer_id, current.handle_identity.producer_epoch))
    return any(seen > (identity.producer_id, identity.producer_epoch) for seen in known)


def _transaction_state(
    broker: BrokerTransaction | None,
    told: ToldTransaction | None,
    listing: tuple[int, Decision] | None,
    outcome: Outcome | None,
    branch: BranchFacts | None,
    looked_ms: int | None,
    order: OperatorOrder | None,
) -> TransactionState:
    if branch is not None and branch.proof is BranchProof.COMMITTED:
        return TransactionState.COMMITTED
    if broker is not None and broker.is_committing:
        return TransactionState.COMMITTED if broker.is_final else TransactionState.COMMITTING
    if broker is not None and broker.is_aborting:
        if not broker.is_final:
            return TransactionState.ABORTING
        return TransactionState.LOST if listing is not None else TransactionState.ABORTED
    if outcome is not None and not branch_view.outlived(branch, looked_ms, outcome.at_ms):
        return TransactionState.COMMITTED if outcome.settled is Settled.COMMITTED else TransactionState.LOST
    if broker is None and told is not None:
        for type_, state in TOLD_ENDS:
            if type_ in told.told and not branch_view.outlived(branch, looked_ms, told.told[type_]):
                return state
    is_decided = listing is not None and listing[1].ruling is Ruling.COMMIT
    ended = branch_view.end(branch, order, is_decided=is_decided) if branch is not None else None
    if ended is not None:
        return ended
    if is_decided:
        return TransactionState.DECIDED
    if branch is not None:
        return TransactionState.PREPARED
    prepared = told is not None and (told.handle is not None or EventType.TRANSACTION_PREPARED in told.told)
    return TransactionState.PREPARED if prepared else TransactionState.OPEN
