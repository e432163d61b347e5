"""What the page of checkpoints answers first, by Streamlit's own test driver over a server that answers by docs/api.md."""

from __future__ import annotations

import pytest

from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_pipeline_rows import checkpoint, checkpoint_gap, checkpoint_gaps
from tests.unit.app.page_driver import HOSTILE, knowing, opened, said

pytestmark = pytest.mark.slow
T0 = 1_795_000_000_000
FAILED = {"number": 41, "at_ms": T0 + 90_000, "failures": 2, "reason": "timed out"}


answers = knowing(lambda: Answers(checkpoints=[checkpoint()]))


def test_checkpoints_that_come_are_not_overdue(answers):
    answers.checkpoint_gaps = [checkpoint_gaps()]
    page = said(opened("checkpoints"))
    assert "No checkpoint is overdue." in page
    assert "gap" not in page.partition("Do checkpoints complete?")[2].partition("</h3>")[0]


def test_what_is_over_is_counted_with_its_newest(answers):
    gaps = [checkpoint_gap(T0, T0 + 60_000), checkpoint_gap(T0 + 70_000, T0 + 90_000)]
    answers.checkpoint_gaps = [checkpoint_gaps(gaps=gaps, failures=[FAILED])]
    head = said(opened("checkpoints")).partition("Do checkpoints complete?")[2].partition("</h3>")[0]
    assert "2 gaps, the last at " in head
    assert f'data-at="{T0 + 70_000}"' in head
    assert "; 2 failures, the last at " in head
    assert f'data-at="{T0 + 90_000}"' in head


def test_one_that_does_not_come_is_said_with_its_pipeline_and_why(answers):
    answers.checkpoint_gaps = [
        checkpoint_gaps(gaps=[checkpoint_gap(T0, T0 + 60_000, ongoing=True)]),
        checkpoint_gaps(HOSTILE, gaps=[checkpoint_gap(T0, T0 + 50_000, ongoing=True, why="")]),
    ]
    page = said(opened("checkpoints"))
    assert "ip-count: no checkpoint for 60 s (the driver was frozen)." in page
    assert "no checkpoint for 50 s." in page
    assert "overdue" not in page
    assert "<img" not in page


def test_without_any_the_page_says_so(answers):
    answers.checkpoints = []
    assert "The history has no checkpoint yet." in said(opened("checkpoints"))


def test_what_each_sink_announces_is_said_also_of_an_unknown_kind(answers):
    sinks = [
        {"sink": "orders_files", "kind": "files", "commits": 12, "visible": 9, "hidden": 2, "missing": 1},
        {"sink": HOSTILE, "kind": "unknown", "commits": 1, "visible": None, "hidden": None, "missing": None},
    ]
    answers.checkpoints = [checkpoint(sinks=sinks), checkpoint(40)]
    page = said(opened("checkpoints"))
    assert "orders_files: 12 commits (2 hidden, 1 missing); " in page
    assert "1 commit of an unknown kind" in page
    assert "<img" not in page
