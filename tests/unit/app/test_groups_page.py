"""Consumer groups on page Readers: all of them, also when all is well."""

from __future__ import annotations

import re

import pytest

from indoubt.app import live
from indoubt.app.screens import groups
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_pipeline_rows import consumer_group, series_of_groups
from tests.unit.app.contract_rows import blocked, now_ms
from tests.unit.app.page_driver import HOSTILE, knowing, opened, said

pytestmark = pytest.mark.slow


answers = knowing(lambda: Answers(groups=[consumer_group()]))


def drawn() -> str:
    return "".join(groups.render(live.collector(), {}).values())


def test_a_group_that_has_read_all_is_shown_too(answers):
    page = said(opened("readers"))
    assert "No reader waits" in page
    for text in ("billing", "Stable, 3 members; 8 partitions of 2 topics", "has read all", "orders", "payments"):
        assert text in page, text


def test_a_group_says_what_it_has_not_read_and_where(answers):
    most = [{"topic": "orders", "partition": 2, "lag": 1200, "hidden": 40}]
    answers.groups = [consumer_group("slow", kind="reading", lag=1200, hidden=40, most=most)]
    page = drawn()
    assert 'data-name="not read"><b>1,200</b>' in page
    assert 'data-name="hidden"><b>40</b>' in page
    assert 'href="/partition?topic=orders&amp;partition=2"' in page


def test_the_last_hour_shows_what_was_not_read_and_what_was_hidden(answers):
    answers.series_of_groups = series_of_groups(
        {"group": "billing", "lag": [10, 0, None, 5], "hidden": [0, 30, None, 0]}
    )
    page = drawn()
    assert "not read <b>up to 30</b>" in page
    assert re.findall(r'data-values="([^"]*)"', page) == ["10 not read|30 not read|no data|5 not read"]
    assert (page.count('class="bars light"'), page.count('class="bars warning"')) == (1, 0)
    answers.groups = [consumer_group(kind="waiting", since_ms=now_ms() - 60_000)]
    assert drawn().count('class="bars warning"') == 1, "it waits now"


def test_a_group_without_lag_has_a_plot_without_bars_that_is_hatched_where_nobody_looked(answers):
    page = drawn()
    assert 'class="bars' not in page
    assert '<i class="unseen" style="left:50.00%;width:25.00%">' in page


def test_who_waits_for_a_transaction_in_progress_reads(answers):
    now = now_ms()
    answers.groups = [
        consumer_group("short", kind="waiting", since_ms=now - 3_000),
        consumer_group("long", kind="waiting", since_ms=now - 30_000),
    ]
    answers.series_of_groups = series_of_groups(now_ms=now)
    page = drawn()
    assert page.count("waiting <time data-since=") == 1
    assert "reading" in page


def test_a_partition_that_is_held_back_for_a_moment_is_no_news(answers):
    now = now_ms()
    answers.blocked = [blocked(held_since_ms=now - 2_000, holder_transaction="", holder_key="", application=None)]
    page = said(opened("readers"))
    assert "No reader waits" in page
    assert "not known" not in page
    answers.blocked = [blocked(held_since_ms=now - 20_000)]
    page = said(opened("readers"))
    assert "Blocked partitions" in page
    assert "orders-2, the last 15 min" in page
    assert "last stable offset over time" in page, "its picture stands below"


def test_without_groups_a_sentence_says_so(answers):
    answers.groups = []
    assert "No consumer group has committed an offset on this cluster." in drawn()


def test_hostile_names_are_shown_as_text(answers):
    answers.groups = [consumer_group(HOSTILE, topics=[HOSTILE], state=HOSTILE)]
    assert "<img" not in drawn()
