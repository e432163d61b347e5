"""What is remembered is made again only when it would be made of other things."""

from __future__ import annotations

from collector.runtime.remembered import Remembered, RememberedUntil


def test_it_is_made_again_only_of_other_things() -> None:
    remembered: Remembered[list[str]] = Remembered()
    first = remembered.of("sum", (1, "a"), lambda: ["first"])
    remembered.next_round()
    assert remembered.of("sum", (1, "a"), lambda: ["second"]) is first
    remembered.next_round()
    assert remembered.of("sum", (2, "a"), lambda: ["third"]) == ["third"]


def test_what_a_round_did_not_ask_for_is_forgotten() -> None:
    remembered: Remembered[str] = Remembered()
    remembered.of("sum", (), lambda: "first")
    remembered.next_round()
    remembered.next_round()
    assert remembered.of("sum", (), lambda: "second") == "second"


def test_more_or_fewer_things_are_other_things() -> None:
    remembered: Remembered[str] = Remembered()
    remembered.of("sum", (1,), lambda: "one")
    remembered.next_round()
    assert remembered.of("sum", (1, 2), lambda: "two") == "two"


def test_what_stands_until_a_time_is_made_again_then_and_when_the_clock_is_stepped_back() -> None:
    remembered: RememberedUntil[int] = RememberedUntil()
    thing, made = object(), iter(range(10))

    def at(at_ms: int, basis: str = "a") -> int:
        remembered.next_round(basis)
        return remembered.of(thing, at_ms, lambda _: (next(made), 100))

    assert [at(50), at(99), at(100), at(150)] == [0, 0, 1, 2]
    assert [at(60), at(59), at(60)] == [3, 4, 4]
    assert [at(60, "b"), at(60, "b")] == [5, 5]
    remembered.next_round("b")
    remembered.next_round("b")
    assert remembered.of(thing, 60, lambda _: (-1, 100)) == -1, "what a round did not ask for is forgotten"
    assert remembered.of(object(), 60, lambda _: (-2, 100)) == -2
