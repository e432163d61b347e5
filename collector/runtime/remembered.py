"""What is made of other things: made again only when those are not the same, or equal, any more."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Remembered(Generic[T]):
    """For rounds that make many things of many others, of which few change. For one thread at a time.

    Only what never changes may be given. What is the very same object is not compared any further.
    """

    def __init__(self) -> None:
        self._before: dict[Hashable, tuple[tuple[Any, ...], T]] = {}
        self._now: dict[Hashable, tuple[tuple[Any, ...], T]] = {}

    def next_round(self) -> None:
        """Begin a round: what is not asked for in it is forgotten by the one after."""
        self._before, self._now = self._now, {}

    def of(self, name: Hashable, things: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Return what was made under this name of these things, or make it."""
        known = self._before.get(name)
        if known is None or len(known[0]) != len(things) or any(map(_differ, known[0], things)):
            known = (things, make())
        self._now[name] = known
        return known[1]


def _differ(one: object, other: object) -> bool:
    return one is not other and one != other
