"""The search over everything: what it finds, for whom, and that what it names comes from outside."""

from __future__ import annotations

import json

import pytest

from indoubt.app import palette
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components.links_and_buttons import AskOrder, OpenPage, read_click
from indoubt.app.settings import Settings
from indoubt.lifecycle.orders import Action
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_rows import batch, blocked
from tests.unit.app.page_driver import HOSTILE, knowing


@knowing
def answers():
    rows = [*batch(1044), *batch(1045)]
    return Answers(transactions=rows, blocked=[blocked()])


@pytest.fixture
def client(answers):
    asks = CollectorClient(Settings.from_environment())
    yield asks
    asks.close()


def found(client: CollectorClient, words: str) -> dict[str, palette.Found]:
    return {one.text: one for one in palette.find(client, words)}


def test_an_action_is_what_opens_the_dialog_of_its_card(client):
    one = found(client, "COMMIT 1044")["Commit batch 1044 of ip-count …"]
    asked = read_click(one.click)
    assert isinstance(asked, AskOrder)
    assert (asked.action, asked.subject) == (Action.COMMIT, "transactions")
    assert not [text for text in found(client, "commit 1044") if "1045" in text]


def test_who_may_not_order_is_offered_no_action(answers, client):
    answers.role = "viewer"
    assert {one.kind for one in palette.find(client, "")} == {"page"}


@pytest.mark.parametrize(("words", "text", "path"), [
    ("reade", "Readers", "/readers"),
    ("ip-cou", "ip-count", "/pipeline?name=ip-count"),
    ("orders-2", "orders-2", "/partition?"),
])  # fmt: skip
def test_a_name_leads_to_its_page(client, words, text, path):
    asked = read_click(found(client, words)[text].click)
    assert isinstance(asked, OpenPage)
    assert asked.path.startswith(path)


def test_what_fits_nothing_is_looked_for_in_all_of_history(client):
    (one,) = palette.find(client, HOSTILE)
    asked = read_click(one.click)
    assert isinstance(asked, OpenPage)
    assert asked.path.startswith("/history?show=search&search-transaction=")
    assert json.loads(palette.as_json([one]))["found"][0]["text"] == f"Search all of history for {HOSTILE!r}"
