"""Long lists inside a row: an answer has their beginning, and says how long they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar

Row = TypeVar("Row")


def cut_lists(row: Row, longest: Mapping[str, int], first: Collection[str] = ()) -> Row:
    """Return the row with each of these fields cut to its length, and the whole length in the field NAME_total.

    ``first``: what a list keeps wherever it stood. A list that is not longer is left alone, and its total is None.
    """
    changed: dict[str, Any] = {}
    for name, most in longest.items():
        items: tuple[Any, ...] = getattr(row, name)
        if len(items) > most:
            kept = [item for item in items if item in first][:most] if first else []
            others = (item for item in items if item not in first) if kept else items
            changed[name] = (*kept, *(item for item, _ in zip(others, range(most - len(kept)), strict=False)))
            changed[f"{name}_total"] = len(items)
    return replace(row, **changed) if changed else row  # type: ignore[type-var]


def whole_length(row: Any, name: str) -> int:
    """Return how long the list of this name is, also where it is cut."""
    total = getattr(row, f"{name}_total")
    return len(getattr(row, name)) if total is None else int(total)
