"""Whether a transaction has the words in its names that a person types who looks for it."""

from __future__ import annotations

from collections.abc import Iterable

from collector.state.transaction_view import TransactionView
from collector.verdicts.judging import Judged


def having(found: Iterable[Judged], words: str) -> list[Judged]:
    """Return the transactions that have every word; of a batch of ours all, where they have them together.

    An order about a batch is about all of it, so a word that fits one of its slots finds the others too.
    """
    wanted = words.casefold().split()
    every = list(found)
    texts: dict[object, list[str]] = {}
    for judged in every:
        texts.setdefault(_identity(judged.view), []).append(_text(judged.view))
    fitting = {identity for identity, parts in texts.items() if _has("\n".join(parts), wanted)}
    return [judged for judged in every if _identity(judged.view) in fitting]


def has(view: TransactionView, words: str) -> bool:
    """Say whether one transaction has every word in its id, application, batch, resource manager or partitions."""
    return _has(_text(view), words.casefold().split())


def _has(text: str, wanted: list[str]) -> bool:
    return all(word in text for word in wanted)


def _identity(view: TransactionView) -> object:
    return (view.pipeline, view.batch_attempt) if view.ours and view.batch_attempt is not None else view.key


def _text(view: TransactionView) -> str:
    batch = "" if view.batch_attempt is None else f"batch {view.batch_attempt.batch}"
    partitions = () if view.broker is None else view.broker.partitions
    return "\n".join((view.transaction, view.pipeline, batch, view.resource_manager, *partitions)).casefold()
