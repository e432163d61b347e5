"""What the tables of the collector have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from indoubt.lifecycle.rows.search import FoundTransactionRow

Row = TypeVar("Row")


class Rows(list[Row]):
    """Rows of a table, and how many ``more`` there are behind them; ``next`` leads to those, None where nothing does."""

    def __init__(self, rows: Iterable[Row], more: int, next: str | None = None) -> None:
        super().__init__(rows)
        self.more, self.next = more, next


class FoundPage(list[FoundTransactionRow]):
    """A page of a search; ``next`` leads to what is behind it, None where nothing is."""

    def __init__(self, rows: Iterable[FoundTransactionRow], next: str | None) -> None:
        super().__init__(rows)
        self.next = next


class Orderable(Protocol):
    """What an order can be given over: ``key`` names it, ``revision`` changes when what an order rests on does."""

    @property
    def key(self) -> str:
        """Return the text that names it in orders."""

    @property
    def revision(self) -> str:
        """Return the text by which the collector finds that it has changed since."""
