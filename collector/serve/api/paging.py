"""Pages of a table: the first rows, how many more there are, and a cursor that the next page begins behind.

A cursor is the place of the last row in the table's own order. So a page begins where the one before ended, although rows come
and go meanwhile.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from indoubt.lifecycle.errors import IndoubtError
from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER

SortKey = tuple[int | str, ...]
Row = Any
Item = TypeVar("Item")


class InvalidCursor(IndoubtError):
    """What was sent as ``after`` is no cursor of this table."""

    def __init__(self) -> None:
        super().__init__("parameter 'after': it takes what this table answered as 'next'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Rows, how many ``more`` are behind them, and the place of the last one; None where the table has no cursor."""

    rows: Sequence[Row]
    more: int = 0
    last: SortKey | None = None

    @property
    def next(self) -> str | None:
        """Return the cursor of the next page, or None where there is none."""
        return cursor(self.last) if self.more and self.last is not None else None


def cursor(sort_key: SortKey) -> str:
    """Return a place as text that fits into an address."""
    return base64.urlsafe_b64encode(json.dumps(sort_key, separators=(",", ":")).encode()).decode().rstrip("=")


def place_of(text: str | None, *kinds: type) -> Any:
    """Return the place that a cursor names, None for no cursor; ``kinds``: int or str, of each of its parts.

    Raises InvalidCursor.
    """
    if text is None:
        return None
    try:
        found = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise InvalidCursor from None
    if not isinstance(found, list) or [type(part) for part in found] != list(kinds):
        raise InvalidCursor
    if any(isinstance(part, int) and abs(part) > MAX_WHOLE_NUMBER for part in found):
        raise InvalidCursor
    return tuple(found)


def behind(
    items: Iterable[Item], sort_key: Callable[[Item], SortKey], limit: int, after: SortKey | None
) -> tuple[list[Item], int]:
    """Return the first ``limit`` items behind ``after``, in the order of their places, and how many more there are."""
    sort_keys = ((sort_key(item), number, item) for number, item in enumerate(items))
    found = [entry for entry in sort_keys if after is None or entry[0] > after]
    chosen = heapq.nsmallest(limit, found)
    return [item for _, _, item in chosen], len(found) - len(chosen)


def page(
    items: Iterable[Item],
    sort_key: Callable[[Item], SortKey],
    row: Callable[[Item], Row],
    limit: int,
    after: SortKey | None,
) -> Page:
    """Return the page of ``limit`` rows behind ``after``; rows are made of those items only."""
    chosen, more = behind(items, sort_key, limit, after)
    return Page(rows=[row(item) for item in chosen], more=more, last=sort_key(chosen[-1]) if chosen else None)


def first(rows: Sequence[Row], limit: int) -> Page:
    """Return the first rows of a short table, which has no cursor."""
    return Page(rows=rows[:limit], more=max(0, len(rows) - limit))
