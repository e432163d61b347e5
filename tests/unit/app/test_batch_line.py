"""The time line of a batch: all attempts on one axis, each step of each transaction, and who ordered what."""

from __future__ import annotations

import re
from typing import Any

from indoubt.app.components.batch_line import MOST_LANES, batch_line
from indoubt.lifecycle.rows.batches import BatchRow
from indoubt.lifecycle.rows.records import AuditRow
from indoubt.lifecycle.rows.row_json import read_row
from tests.unit.app.contract_rows import given_order, shared_batch

T0 = 1_795_000_000_000


def part(slot: int, opened: int = 0, prepared: int | None = 900, ended: int | None = None, **changes: Any) -> dict:
    return {
        "key": f"kafka:ip-count-{slot}-0:{4000 + slot}:7@{T0 + opened}",
        "resource_manager": "kafka",
        "slot": slot,
        "state": "decided" if ended is None else "committed",
        "verdict": "commit it" if ended is None else "settled",
        "certainty": "certain",
        "committed": ended is not None,
        "rows": 20,
        "opened_at_ms": T0 + opened,
        "prepared_at_ms": None if prepared is None else T0 + prepared,
        "ended_at_ms": None if ended is None else T0 + ended,
        **changes,
    }


def attempt(number: int, *parts: dict, decided: int | None, **changes: Any) -> BatchRow:
    row = shared_batch(
        41, attempt=number, transactions=list(parts), deadline_ms=None, opened_at_ms=parts[0]["opened_at_ms"]
    )
    return read_row(BatchRow, row | {"decided_at_ms": None if decided is None else T0 + decided} | changes)


def order(at: int) -> AuditRow:
    given = given_order(given_at_ms=T0 + at, at_ms=T0 + at + 9_000, action="restart", reason="it is frozen")
    return read_row(AuditRow, given)


def lefts(markup: str, kind: str) -> list[float]:
    return [float(left) for left in re.findall(rf'class="{kind}" style="left:([\d.]+)%', markup)]


LOST = attempt(1, part(0, ended=60_000, state="lost"), decided=1_000, verdict="lost, then written again")
AGAIN = attempt(2, part(0, opened=90_000, prepared=90_500, ended=91_000), decided=90_800, verdict="complete")


def test_both_attempts_stand_on_one_axis_with_the_order_between_them() -> None:
    line = batch_line([AGAIN, LOST], [order(75_000)])
    assert line is not None
    assert line.index("run 1") < line.index("run 2"), "the oldest first"
    first, second = lefts(line, "open")
    assert first == 0
    assert 90 < second < 100
    assert 75 < lefts(line, "order-line")[0] < 85
    assert lefts(line, "end undone") < lefts(line, "order-line") < lefts(line, "end"), (
        "lost, then ordered, then committed"
    )
    assert "anna</b>: restart, done (it is frozen)" in line
    assert "data-now-from" not in line, "nothing is open"


def test_an_order_after_the_end_of_all_of_it_does_not_stretch_the_axis() -> None:
    assert batch_line([LOST, AGAIN], [order(9_000_000)]) == batch_line([LOST, AGAIN], [])
    lost = attempt(1, part(0, ended=60_000, state="lost"), decided=1_000, verdict="lost")
    assert "order-line" in str(batch_line([lost], [order(75_000)])), "it waits for its replay"


def test_each_step_is_drawn_until_the_next_and_said_with_its_length() -> None:
    line = batch_line([LOST], [])
    assert line is not None
    assert [len(lefts(line, kind)) for kind in ("open", "prepared", "decided")] == [1, 1, 1]
    assert "opened · prepared +900 ms · commit decided by run 3 +100 ms · 1 aborted +59 s" in line


def test_what_is_open_goes_on_until_now_and_shows_its_timeout() -> None:
    line = batch_line([attempt(1, part(0), decided=1_000, deadline_ms=T0 + 60_000)], [])
    assert line is not None
    assert line.count("data-now-from") == 2, "the line of now, and what hides the rest of the lane"
    (edge,) = lefts(line, "edge")
    assert edge > 95


def test_of_many_transactions_those_that_are_still_open_are_drawn() -> None:
    many = [part(slot, ended=2_000) for slot in range(30)] + [part(30)]
    line = batch_line([attempt(1, *many, decided=1_000)], [])
    assert line is not None
    assert line.count("lane-name") == MOST_LANES
    assert "ip-count-30-0" in line
    assert f"the last {MOST_LANES} of 31 transactions" in line


def test_without_any_time_there_is_no_line() -> None:
    unknown = part(0, opened_at_ms=None, prepared_at_ms=None)
    assert batch_line([attempt(1, unknown, decided=None)], []) is None
