"""What is remembered is made again only when it would be made of other things."""

from __future__ import annotations

from collector.runtime.remembered import Remembered


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
