"""The section of timeouts, by Streamlit's own test driver over a server of docs/api.md."""

from __future__ import annotations

import pytest

from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_pipeline_rows import timeout
from tests.unit.app.page_driver import HOSTILE, knowing, labels, opened, said

pytestmark = pytest.mark.slow
NEVER_ENDED = dict.fromkeys(("p50_ms", "p95_ms", "p99_ms", "longest_ms", "longest_transaction"))
NOTHING_OPEN = dict.fromkeys(("oldest_key", "oldest_opened_at_ms", "oldest_deadline_ms")) | {"open": 0}


@knowing
def answers():
    rows = [timeout(), timeout("payments", risk="enough", advice="60 s leave 36 s.", **NOTHING_OPEN)]
    return Answers(timeouts=rows)


def test_each_timeout_stands_with_its_advice_and_what_it_is_set_against(answers):
    page = opened("timeouts")
    for text in (
        "1 too short, 1 enough, from the last 24 hours",
        "timeout 1 min 00 s · 1,204 transactions",
        "Set transaction.timeout.ms=90000 (90 s) or more.",
        "open for 12 s (p50), 40 s (p99)",
        "longest 48 s: <code>ip-count-0-1</code>",
        "a restart takes 23 s, the longest of its last 3, median 14 s",
        "4 open, the oldest",
    ):
        assert text in said(page), text
    assert labels(page).count("Oldest open") == 1


def test_each_measured_restart_stands_against_the_timeout(answers):
    drawn = said(opened("timeouts"))
    assert "3 measured restarts" in drawn
    assert "run 340, first commit" in drawn
    assert drawn.count('class="restart-bar urgent"') == 2, "23 s are more than the 20 s that usual transactions leave"
    assert drawn.count('class="restart-bar warning"') == 2
    answers.timeouts = [timeout(restarts=[])]
    assert "measured restart" not in said(opened("timeouts"))


def test_a_timeout_of_which_no_restart_was_measured_is_not_green(answers):
    recovery = "at least 6.0 s, not measured: interval 3.0 s + checkpoint 1.0 s + restart delay 2.0 s"
    answers.timeouts = [timeout(risk="not measured", recovery_ms=6_000, recovery=recovery, restarts=[])]
    page = said(opened("timeouts"))
    assumed = ("a restart, assumed: 6.0 s", f"a restart takes {recovery}")
    for text in ("1 not measured, from the last 24 hours", 'class="card calm"', *assumed):
        assert text in page, text
    assert "✔" not in page


def test_the_strip_is_drawn_from_opening_to_timeout(answers):
    answers.timeouts = [timeout(p99_ms=30_000, longest_ms=75_000)]
    drawn = said(opened("timeouts"))
    assert 'class="usual" style="width:50.00%"' in drawn
    assert 'class="restart" style="width:38.33%"' in drawn
    assert 'style="left:100.00%" title="longest: 1 min 15 s"' in drawn, "no mark stands outside"


def test_of_one_that_never_ended_in_time_no_duration_is_shown(answers):
    answers.timeouts = [timeout("orders", risk="timed out", timed_out=2, **NEVER_ENDED, **NOTHING_OPEN)]
    page = opened("timeouts")
    assert "none ended in time" in said(page)
    assert "(p50)" not in said(page)
    answers.timeouts = [timeout("orders", risk="enough", transactions=0, **NEVER_ENDED)]
    assert "none ended in the last 24 hours" in said(opened("timeouts"))


def test_of_very_many_a_page_is_shown_and_its_address_names_the_next(answers):
    answers.timeouts = [timeout(f"application-{number:03}") for number in range(45)]
    page = opened("timeouts")
    assert "application-019" in said(page)
    assert "application-020" not in said(page)
    assert 'href="/pipelines?rows=20&amp;page=2"' in said(page)
    page.query_params["page"] = "3"
    page = page.run()
    assert "page 3 of 3" in said(page)
    assert "application-040" in said(page)
    for wrong in ("0", "99999999", "-1", "x", "²"):
        page.query_params["page"] = wrong
        assert "of 3" in said(page.run()), wrong
        assert not page.exception, wrong


def test_without_a_transaction_the_page_says_so(answers):
    answers.timeouts = []
    assert "No transaction ended in the last 24 hours, and none is open." in said(opened("timeouts"))


def test_text_from_outside_stays_text(answers):
    answers.timeouts = [timeout(HOSTILE, risk=HOSTILE, advice=HOSTILE, recovery=HOSTILE, longest_transaction=HOSTILE)]
    page = opened("timeouts")
    assert "<img" not in said(page)
    assert "&lt;img" in said(page)
