"""The state of one transaction, from what its coordinator, its database and the decision log say of it."""

from __future__ import annotations

from indoubt.collector.facts import branch_view
from indoubt.collector.facts.state import State
from indoubt.collector.records.branches import BranchFacts
from indoubt.collector.records.facts import BrokerIdentity, BrokerTransaction, HandleIdentity, ReportedTransaction
from indoubt.collector.records.observations import BranchProof, OperatorOrder
from indoubt.lifecycle.decisions import Decision, Outcome, Ruling, Settled
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.states import TransactionState


def state_of(
    broker: BrokerTransaction | None,
    reported: ReportedTransaction | None,
    listing: tuple[int, Decision] | None,
    outcome: Outcome | None,
    branch: BranchFacts | None,
    polled_ms: int | None,
    order: OperatorOrder | None,
    *,
    superseded: bool,
) -> TransactionState:
    """Return the state: a proof comes before what the coordinator says, that before the log, and an event's claim is last."""
    if branch is not None and branch.proof is BranchProof.COMMITTED:
        return TransactionState.COMMITTED
    if broker is not None and broker.is_committing:
        return TransactionState.COMMITTED if broker.is_final else TransactionState.COMMITTING
    if broker is not None and broker.is_aborting:
        if not broker.is_final:
            return TransactionState.ABORTING
        return TransactionState.LOST if listing is not None else TransactionState.ABORTED
    if outcome is not None and not branch_view.outlived(branch, polled_ms, outcome.at_ms):
        return TransactionState.COMMITTED if outcome.settled is Settled.COMMITTED else TransactionState.LOST
    is_decided = listing is not None and listing[1].ruling is Ruling.COMMIT
    ended = branch_view.end(branch, order, is_decided=is_decided) if branch is not None else None
    if ended is not None:
        return ended
    if is_decided:
        return TransactionState.DECIDED
    if branch is not None:
        return TransactionState.PREPARED
    if superseded and broker is not None:
        return TransactionState.ENDED
    # No coordinator knows "prepared": its writer reported it, and no decision depends on it.
    prepared = reported is not None and (
        reported.handle is not None or EventType.TRANSACTION_PREPARED in reported.event_times
    )
    return TransactionState.PREPARED if prepared else TransactionState.OPEN


def is_superseded(
    identity: HandleIdentity, broker: BrokerTransaction | None, latest: BrokerIdentity | None, state: State
) -> bool:
    """Say whether its id went on without it: a later transaction, or another producer. What has ended is not superseded."""
    if broker is not None and broker.gone_ms is not None:
        return not broker.is_final
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
