"""Transactions of one batch, or of one application: a page shows them, and an order settles them, as a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from indoubt.app.components.links_and_buttons import FILTER, order_button
from indoubt.app.components.markup import Html, widget_token
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.transactions import TransactionRow
from indoubt.lifecycle.states import FINAL
from indoubt.lifecycle.verdicts import URGENCY, Certainty, Verdict, least_sure

_URGENCY_RANK = {verdict: rank for rank, verdict in enumerate(URGENCY)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionGroup:
    """A batch attempt of a pipeline of ours, or what another application has of one verdict. Never empty; ordered by slot."""

    transactions: tuple[TransactionRow, ...]

    @property
    def first(self) -> TransactionRow:
        """Return the first transaction, by slot."""
        return self.transactions[0]

    @property
    def is_batch(self) -> bool:
        """True for a batch of an indoubt pipeline."""
        return _is_part_of_batch(self.first)

    @property
    def token(self) -> str:
        """Return ten hex digits that name this group: stable while it exists, safe in a widget's key."""
        return widget_token(repr(_identity(self.first)))

    @property
    def verdict(self) -> Verdict:
        """Return the most urgent verdict in the group."""
        return min((transaction.verdict for transaction in self.transactions), key=_URGENCY_RANK.__getitem__)

    @property
    def certainty(self) -> Certainty:
        """Return how sure that verdict is: of the least sure of those that have it."""
        return least_sure(each.certainty for each in self.transactions if each.verdict is self.verdict)

    @property
    def deadline_ms(self) -> int | None:
        """Return the earliest timeout that still runs."""
        return min(
            (transaction.deadline_ms for transaction in self.transactions if transaction.deadline_ms is not None),
            default=None,
        )

    @property
    def opened_at_ms(self) -> int | None:
        """Return when the first transaction was opened."""
        return min(
            (transaction.opened_at_ms for transaction in self.transactions if transaction.opened_at_ms is not None),
            default=None,
        )

    @property
    def rows(self) -> int | None:
        """Return how many rows the group holds, or None if unknown."""
        return rows_held(self.transactions)

    @property
    def resource_managers(self) -> tuple[str, ...]:
        """Return the resource managers of its transactions, sorted."""
        return tuple(sorted({transaction.resource_manager for transaction in self.transactions}))

    @property
    def partitions(self) -> tuple[str, ...]:
        """Return the partitions that its transactions wrote to, sorted."""
        return tuple(sorted({partition for transaction in self.transactions for partition in transaction.partitions}))

    def orderable(self, action: Action) -> tuple[TransactionRow, ...]:
        """Return the transactions for which the collector says that this order is safe."""
        return tuple(
            transaction
            for transaction in self.transactions
            if transaction.state not in FINAL
            and (transaction.may_commit if action is Action.COMMIT else transaction.may_abort)
        )


def rows_held(transactions: Iterable[TransactionRow]) -> int | None:
    """Return how many rows the transactions hold, or None if unknown; each sink of a batch holds the same rows."""
    held: dict[str, int] = {}
    for transaction in transactions:
        if transaction.rows is not None:
            held[transaction.resource_manager] = held.get(transaction.resource_manager, 0) + transaction.rows
    return max(held.values(), default=None)


def grouped(transactions: Iterable[TransactionRow]) -> list[TransactionGroup]:
    """Return the groups, most urgent first, then by the earliest timeout, then in the collector's order."""
    members: dict[object, list[TransactionRow]] = {}
    for transaction in transactions:
        members.setdefault(_identity(transaction), []).append(transaction)
    groups = [TransactionGroup(transactions=by_slot(parts)) for parts in members.values()]
    return sorted(groups, key=lambda group: (_URGENCY_RANK[group.verdict], group.deadline_ms or 2**62))


def _is_part_of_batch(transaction: TransactionRow) -> bool:
    return transaction.managed and transaction.batch is not None


def _identity(transaction: TransactionRow) -> object:
    if not _is_part_of_batch(transaction):
        if transaction.managed or transaction.is_hanging:
            return transaction.key
        # An order asks for what ids begin with: the ids of a topic's and of a database's have nothing in common.
        return (
            transaction.resource_manager,
            transaction.application.kind,
            transaction.pipeline,
            transaction.verdict,
            transaction.commit_confirmation,
        )
    return (transaction.pipeline, transaction.checkpoint_id, transaction.batch, transaction.attempt)


def by_slot(transactions: Iterable[TransactionRow]) -> tuple[TransactionRow, ...]:
    """Return the transactions ordered by slot, then by key."""
    return tuple(sorted(transactions, key=lambda transaction: (transaction.slot or 0, transaction.key)))


def filter_order_buttons(group: TransactionGroup, wanted: Mapping[str, str], number: int) -> list[Html]:
    """Return a button for each order that is safe for some of the group, about everything that fits the filter: that many."""
    fits = [f"{name}={value}" for name, value in wanted.items()]
    return [
        order_button(
            f"{word} all {number:,}",
            action,
            FILTER,
            fits,
            is_main=action is Action.COMMIT,
            loses_data=action is Action.ABORT and any(transaction.loses_data for transaction in orderable),
        )
        for action, word in ((Action.COMMIT, "Commit"), (Action.ABORT, "Abort"))
        if (orderable := group.orderable(action))
    ]


def order_buttons(group: TransactionGroup) -> list[Html]:
    """Return a button for each order that the collector calls safe for this group: commit first, then abort.

    What loses data is aborted one transaction at a time where it is ours.
    """
    size = f" batch {group.first.batch}" if group.is_batch else ""
    buttons = []
    for action, word in ((Action.COMMIT, "Commit"), (Action.ABORT, "Abort")):
        shown = group.orderable(action)
        risky = action is Action.ABORT and any(transaction.loses_data for transaction in shown)
        if not shown or (risky and len(shown) > 1 and group.first.managed):
            continue
        number = size or (f" {len(shown)}" if len(shown) > 1 else "")
        keys = [transaction.key for transaction in shown]
        is_main = action is Action.COMMIT
        buttons.append(order_button(f"{word}{number}", action, "transactions", keys, is_main=is_main, loses_data=risky))
    return buttons
