"""Long lists of a row: cut to their beginning, with their whole length beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from indoubt.lifecycle.rows.cut_lists import cut_lists, whole_length


@dataclass(frozen=True)
class Row:
    keys: tuple[str, ...]
    partitions: tuple[str, ...]
    keys_total: int | None = None
    partitions_total: int | None = None


ROW = Row(keys=("a", "b", "c", "d"), partitions=("p-0",))


def test_a_long_list_is_cut_and_says_how_long_it_was():
    cut = cut_lists(ROW, {"keys": 3, "partitions": 3})
    assert cut == replace(ROW, keys=("a", "b", "c"), keys_total=4)
    assert [whole_length(cut, name) for name in ("keys", "partitions")] == [4, 1]


def test_a_list_that_fits_leaves_the_very_same_row():
    assert cut_lists(ROW, {"keys": 4, "partitions": 1}) is ROW
    assert whole_length(ROW, "keys") == 4


def test_what_was_asked_for_stands_first():
    assert cut_lists(ROW, {"keys": 2}, {"d", "elsewhere"}).keys == ("d", "a")
    assert cut_lists(ROW, {"keys": 2}, {"b", "c", "d"}).keys == ("b", "c")
    assert cut_lists(ROW, {"keys": 2}, {"elsewhere"}).keys == ("a", "b")
