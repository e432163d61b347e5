"""Transactions of one batch belong together: they are shown, and ordered, as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from app.collector_rows import Action, Transaction
from app.markup import widget_token
from lifecycle.states import FINAL
from lifecycle.verdicts import URGENCY, Verdict

_URGENCY_RANK = {verdict: rank for rank, verdict in enumerate(URGENCY)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionGroup:
    """One batch attempt of a pipeline of ours, or one transaction of anybody else. Never empty, by slot."""

    transactions: tuple[Transaction, ...]

    @property
    def first(self) -> Transaction:
        """Return the first transaction, by slot."""
        return self.transactions[0]

    @property
    def is_batch(self) -> bool:
        """True when it is a batch of a pipeline of ours."""
        return self.first.ours and self.first.batch is not None

    @property
    def token(self) -> str:
        """Return ten hex digits that name this group: stable while it lives, safe in a widget's key."""
        one = self.first
        return widget_token(repr((one.pipeline, one.life, one.batch, one.attempt) if self.is_batch else one.key))

    @property
    def verdict(self) -> Verdict:
        """Return the most urgent verdict in it."""
        return min((one.verdict for one in self.transactions), key=_URGENCY_RANK.__getitem__)

    @property
    def deadline_ms(self) -> int | None:
        """Return the earliest timeout of those that still run."""
        return min((one.deadline_ms for one in self.transactions if one.deadline_ms is not None), default=None)

    @property
    def opened_at_ms(self) -> int | None:
        """Return when the first of them was opened."""
        return min((one.opened_at_ms for one in self.transactions if one.opened_at_ms is not None), default=None)

    @property
    def rows(self) -> int | None:
        """Return how many rows they hold, or None when that is known of none."""
        return rows_held(self.transactions)

    @property
    def resource_managers(self) -> tuple[str, ...]:
        """Return the names of those that hold its transactions, sorted."""
        return tuple(sorted({one.resource_manager for one in self.transactions}))

    @property
    def partitions(self) -> tuple[str, ...]:
        """Return the partitions they wrote to, sorted."""
        return tuple(sorted({partition for one in self.transactions for partition in one.partitions}))

    def orderable(self, action: Action) -> tuple[Transaction, ...]:
        """Return the transactions for which that order is safe, as the collector says."""
        allowed: Callable[[Transaction], bool] = (
            (lambda one: one.may_commit) if action is Action.COMMIT else (lambda one: one.may_abort)
        )
        return tuple(one for one in self.transactions if one.state not in FINAL and allowed(one))


def rows_held(transactions: Iterable[Transaction]) -> int | None:
    """Return how many rows they hold, or None when that is known of none; the parts of a batch in each sink hold the same rows."""
    held: dict[str, int] = {}
    for one in transactions:
        if one.rows is not None:
            held[one.resource_manager] = held.get(one.resource_manager, 0) + one.rows
    return max(held.values(), default=None)


def grouped(transactions: Iterable[Transaction]) -> list[TransactionGroup]:
    """Return the groups, most urgent first, then by the earliest timeout; the collector's order decides what is left."""
    members: dict[object, list[Transaction]] = {}
    for one in transactions:
        is_batch = one.ours and one.batch is not None
        identity = (one.pipeline, one.life, one.batch, one.attempt) if is_batch else one.key
        members.setdefault(identity, []).append(one)
    groups = [TransactionGroup(transactions=by_slot(found)) for found in members.values()]
    return sorted(groups, key=lambda group: (_URGENCY_RANK[group.verdict], group.deadline_ms or 2**62))


def by_slot(transactions: Iterable[Transaction]) -> tuple[Transaction, ...]:
    """Return the transactions ordered by slot, then by key."""
    return tuple(sorted(transactions, key=lambda one: (one.slot if one.slot is not None else 0, one.key)))


def matching(groups: Sequence[TransactionGroup], *, words: str, verdicts: Iterable[Verdict]) -> list[TransactionGroup]:
    """Return the groups of these verdicts (none given: any) that hold every word in an id, pipeline or partition."""
    wanted, parts = set(verdicts), words.casefold().split()
    return [
        group
        for group in groups
        if (not wanted or group.verdict in wanted) and all(part in _searchable(group) for part in parts)
    ]


def _searchable(group: TransactionGroup) -> str:
    said = [group.first.pipeline, *group.resource_managers, f"batch {group.first.batch}", *group.partitions]
    return "\n".join([*said, *(one.transaction for one in group.transactions)]).casefold()
