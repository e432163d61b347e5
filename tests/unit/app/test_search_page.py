"""The search over all history, by Streamlit's own test driver over a server that answers by docs/api.md."""

from __future__ import annotations

import csv
import io

import pytest

from indoubt.app.components.list_menu import csv_text
from indoubt.app.components.time_text import exact_time
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.rows.row_json import read_row
from indoubt.lifecycle.rows.search import FoundTransactionRow
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_rows import ended_transaction, now_ms
from tests.unit.app.page_driver import HOSTILE, knowing, opened, said

pytestmark = pytest.mark.slow


def found(transaction: str = "billing-1", **changes: object) -> dict[str, object]:
    return ended_transaction(transaction, **{"pipeline": "billing", "cause": None, "certainty": None, **changes})


@knowing
def answers():
    rows = [found(), found("billing-2", state="aborted", cause="timeout", certainty="certain", open_ms=61_000)]
    return Answers(found=rows)


def test_what_is_found_says_how_it_ended_and_links_to_its_page(answers):
    page = opened("search")
    for text in ("2 transactions, newest opening first, and no older one", "timeout", "certain", "1 min 01 s"):
        assert text in said(page), text
    assert page_paths.transaction(answers.found[1]["key"]) in said(page)
    assert page_paths.pipeline("billing") in said(page)


def test_a_branch_of_a_database_is_shown_like_the_others(answers):
    answers.found += [
        found("xid-7", key="mysql:xid-7", pipeline="xid-7", batch=None, slot=None, partitions=[], rows=None)
    ]
    page = opened("search")
    assert "3 transactions, newest opening first" in said(page)
    assert page_paths.transaction("mysql:xid-7") in said(page)


def test_without_a_choice_the_last_day_is_searched(answers):
    opened("search")
    (wanted,) = answers.searches
    assert set(wanted) == {"limit", "since_ms"}
    assert now_ms() - 86_400_000 - 120_000 < int(wanted["since_ms"]) <= now_ms() - 86_400_000


def test_every_filter_is_the_collectors_and_stands_in_the_address(answers):
    page = opened("search")
    for name, text in (("transaction", "bill"), ("pipeline", "billing"), ("topic", "invoices"), ("group", "dashboard")):
        page.text_input(key=f"search-{name}").set_value(text)
    page.selectbox(key="search-outcome").set_value("aborted")
    page.selectbox(key="search-cause").set_value("timeout")
    page.segmented_control(key="search-span").set_value("all").run()
    assert answers.searches[-1] == {
        "transaction": "bill", "pipeline": "billing", "topic": "invoices", "group": "dashboard", "outcome": "aborted",
        "cause": "timeout", "limit": "20",
    }  # fmt: skip
    again = opened("search", **{"search-transaction": "bill", "search-span": "all"})
    assert not again.exception
    assert answers.searches[-1] == {"transaction": "bill", "limit": "20"}


def test_a_search_ends_at_a_moment_in_the_readers_zone(answers):
    page = opened("search", **{"search-until": "2026-11-21 14:00"})
    assert answers.searches[-1] == {"limit": "20", "until_ms": "1795269600000", "since_ms": "1795183200000"}
    page.segmented_control(key="search-span").set_value("all").run()
    assert answers.searches[-1] == {"limit": "20", "until_ms": "1795269600000"}
    page = page.text_input(key="search-until").set_value("yesterday").run()
    assert "&#x27;yesterday&#x27; is no time" in said(page)


def test_older_ones_are_a_page_further_and_the_way_back_is_there(answers):
    answers.found = [found(f"billing-{number}") for number in range(120)]
    page = opened("search")
    assert "billing-19" in said(page)
    assert "billing-20" not in said(page)
    page = page.button(key="search-older").click().run()
    assert "billing-20" in said(page)
    assert answers.searches[-1]["after"] == "20"
    page = page.button(key="search-newest").click().run()
    assert "after" not in answers.searches[-1]


def test_another_filter_begins_again_with_the_newest(answers):
    answers.found = [found(f"billing-{number}") for number in range(120)]
    page = opened("search").button(key="search-older").click().run()
    page.text_input(key="search-topic").set_value("invoices").run()
    assert "after" not in answers.searches[-1]


def test_nothing_found_yet_is_not_nothing_there(answers, monkeypatch):
    answers.raw["search"] = b'{"rows": [], "more": 1, "next": "abc"}'
    page = opened("search")
    assert "press Older to look further back" in said(page)
    answers.raw["search"] = b'{"rows": [], "more": 0, "next": null}'
    page = said(opened("search", **{"search-transaction": "bill"}))
    assert 'Nothing that was opened since <time data-exact="' in page
    assert 'href="/history?search-transaction=bill&amp;show=search&amp;search-span=all"' in page
    assert "Nothing in history fits." in said(opened("search", **{"search-span": "all"}))


def test_hostile_ids_are_shown_as_text(answers):
    answers.found = [found(HOSTILE, partitions=[HOSTILE])]
    assert "<img" not in said(opened("search"))


def test_a_csv_has_every_column_and_no_formula() -> None:
    rows = [read_row(FoundTransactionRow, found("=cmd()", partitions=["a-0", "b-1"]))]
    (row,) = csv.DictReader(io.StringIO(csv_text(rows, "")))
    assert row["transaction"] == "'=cmd()"
    assert row["partitions"] == "a-0 b-1"
    assert (row["state"], row["open_ms"], row["cause"]) == ("committed", "900", "")
    assert (row["opened_at_ms"], row["opened_at"]) == (str(rows[0].opened_at_ms), exact_time(rows[0].opened_at_ms))
    assert "open" not in row, "a length is no time"
    assert csv_text([], "").startswith("key")
