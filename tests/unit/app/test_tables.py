"""Tables."""

from __future__ import annotations

import pytest

from indoubt.app.components.tables import Moment, table


def test_a_short_cell_of_a_table_stays_in_one_line():
    said = table(["Took", "Why"], [["640 ms", "a whole sentence that may be broken"]])
    assert '<td data-name="Took" class="short">640 ms</td>' in said
    assert '<td data-name="Why">' in said


DAY_MS = 86_400_000
NOON_MS = 1_795_262_400_000 - 1_795_262_400_000 % DAY_MS + DAY_MS // 2


def test_a_day_stands_once_above_its_rows():
    said = table(["When"], [[Moment(NOON_MS)], [Moment(NOON_MS - 1_000)], [Moment(NOON_MS - DAY_MS)]])
    assert said.count("UTC</th>") == 2
    assert [said.count(f">{text}</time>") for text in ("12:00:00", "11:59:59")] == [2, 1]


@pytest.mark.parametrize("moments", [(NOON_MS, NOON_MS - DAY_MS, NOON_MS), (NOON_MS, None)])
def test_rows_in_another_order_have_their_day_in_the_cell(moments):
    said = table(["When"], [[Moment(one)] for one in moments])
    assert "UTC</th>" not in said
    assert "11-21 12:00:00</time>" in said or "12:00:00</time>" in said.partition("-")[2]


def test_a_column_that_says_the_same_in_every_row_is_left_out():
    rows = [["1", "REST"], ["2", "REST"]]
    assert "REST" not in table(["Number", "Source"], rows, may_drop=["Source"])
    assert "REST" in table(["Number", "Source"], rows)
    assert "REST" in table(["Number", "Source"], rows[:1], may_drop=["Source"])


def test_a_phone_shows_some_columns_in_one_line():
    said = table(["Opened", "Id", "Why"], [["now", "a", "b"]], narrow=["Id", "Opened"])
    assert '<td data-name="Why" class="wide short">' in said
    assert '<td data-name="Id" class="grows short">' in said
    assert '<td data-name="Opened" class="short">' in said
