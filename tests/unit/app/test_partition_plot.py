"""The plot of a partition: its end against its last stable offset, and who held it back."""

from __future__ import annotations

import re
from typing import Any

from indoubt.app.components.partition_plot import partition_plot
from indoubt.lifecycle.rows.groups import PartitionSeries
from indoubt.lifecycle.rows.row_json import read_row
from tests.unit.app.contract_pipeline_rows import holder_span, series_of_partition
from tests.unit.app.contract_rows import now_ms
from tests.unit.app.page_driver import HOSTILE


def plot(**changes: Any) -> str:
    return str(partition_plot(read_row(PartitionSeries, series_of_partition(**changes))))


def path(markup: str, kind: str) -> str:
    found = re.search(rf'<path d="([^"]*)" class="{kind}"', markup)
    return found[1] if found else ""


def test_the_last_stable_offset_stands_while_the_end_goes_on() -> None:
    drawn = plot()
    assert path(drawn, "line-of end") == "M0 158.0H1L1 95.6H2M3 2.0H4"
    assert path(drawn, "line-of stable").startswith("M0 158.0H1L1 158.0H2M3 2.0H4")
    assert path(drawn, "held").startswith("M1 ")
    assert "frozenset" not in drawn
    assert '<i class="unseen" style="left:50.00%;width:25.00%">' in drawn


def test_only_what_is_held_back_for_long_is_coloured() -> None:
    short = holder_span(ended_ms=now_ms() - 179_000)
    assert "held long" not in plot(holders=[short])
    assert path(plot(holders=[short, holder_span()]), "held long").startswith("M1 ")


def test_the_crosshair_says_end_and_what_is_hidden() -> None:
    assert 'data-values="end 100|end 140, 40 hidden|no data|end 200"' in plot()


def test_a_transaction_that_held_it_is_a_bar_with_its_name_and_its_end() -> None:
    drawn = plot(holders=[holder_span()])
    assert "orders-1" in drawn
    assert "of shop: aborted after 1 min 00 s" in drawn
    assert re.search(r'class="warning" style="left:2[45]\.\d+%;width:25\.\d+%"', drawn)


def test_one_that_is_open_reaches_to_now_and_counts_on() -> None:
    drawn = plot(holders=[holder_span(ended_ms=None, outcome="open")])
    assert re.search(r'class="calm" style="left:2[45]\.\d+%;width:7[45]\.\d+%"', drawn)
    assert "open for <time data-since=" in drawn


def test_short_ones_share_a_lane() -> None:
    now = now_ms()
    short = [holder_span(f"ip-count-{n}-0", from_ms=now - 9_000 * n, ended_ms=now - 9_000 * n + 400, outcome="committed")
             for n in range(1, 6)]  # fmt: skip
    drawn = plot(holders=short)
    assert drawn.count('class="lane"') == 1
    assert "5 transactions, each open for 400 ms at most" in drawn


def test_without_any_sample_a_sentence_says_why() -> None:
    assert "Its end has not been noted in this time" in plot(high_watermark=[None] * 4, hidden=[None] * 4)


def test_hostile_names_are_shown_as_text() -> None:
    assert "<img" not in plot(holders=[holder_span(HOSTILE)])
