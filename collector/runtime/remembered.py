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


class RememberedUntil(Generic[T]):
    """For rounds that look at many things which stay as they are until a time that is known. For one thread at a time.

    A thing is known by being the same object: what is given must never change.
    """

    def __init__(self) -> None:
        self._basis: object = None
        self._before: dict[int, tuple[object, int, int, T]] = {}
        self._now: dict[int, tuple[object, int, int, T]] = {}

    def next_round(self, basis: object) -> None:
        """Begin a round: what is not asked for in it is forgotten by the one after, and everything where ``basis`` is another."""
        self._before, self._now = (self._now if basis == self._basis else {}), {}
        self._basis = basis

    def of(self, thing: object, at_ms: int, make: Callable[[Any], tuple[T, int]]) -> T:
        """Return what was made of this thing, or make it: ``make`` returns it and until when it stands (epoch ms)."""
        known = self._before.get(id(thing))
        if known is None or known[0] is not thing or not known[1] <= at_ms < known[2]:
            made, until_ms = make(thing)
            known = (thing, at_ms, until_ms, made)
        self._now[id(thing)] = known
        return known[3]


def _differ(one: object, other: object) -> bool:
    return one is not other and one != other
