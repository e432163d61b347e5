"""The buttons of the orders that are safe for a group of transactions, in a live region."""

from __future__ import annotations

from collections.abc import Mapping

from indoubt.app.components.links_and_buttons import FILTER, order_button
from indoubt.app.components.markup import Html
from indoubt.app.components.transaction_groups import TransactionGroup
from indoubt.lifecycle.orders import Action


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
