"""The time line of one transaction: its driver's and its readers' bars stand on the axis of the ruler above them."""

from __future__ import annotations

import re

from indoubt.app.components.life_line import life_line
from indoubt.lifecycle.rows.attention import WaitingGroup
from indoubt.lifecycle.rows.row_json import read_row
from indoubt.lifecycle.rows.transactions import TransactionDetailRow
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_rows import batch


def test_readers_wait_from_their_place_on_the_ruler_until_now() -> None:
    known = Answers(transactions=batch())
    detail = read_row(TransactionDetailRow, known.detail(known.transactions[0]["key"]))
    opened_ms, deadline_ms = detail.opened_at_ms, detail.deadline_ms
    assert opened_ms is not None
    assert deadline_ms is not None
    group = WaitingGroup(group="dashboard", lag=40, partitions=1, since_ms=opened_ms + (deadline_ms - opened_ms) // 2)
    life = life_line(detail, [group])
    left, width = re.findall(r'class="wait" style="left:([\d.]+)%;width:([\d.]+)%', life)[0]
    assert (round(float(left)), round(float(width))) == (50, 50)
    ends = f'data-now-from="{opened_ms}" data-now-until="{deadline_ms}"'
    assert life.count(ends) == 2, "the ruler's now, and what hides the bar behind it"
