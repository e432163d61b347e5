"""A card of the overview whose lists are cut: it says how long they are, and its order is one by filter."""

from __future__ import annotations

from typing import Any

import pytest

from indoubt.app.components.attention_card import card
from indoubt.app.components.markup import Html
from indoubt.lifecycle.rows.attention import Attention, AttentionKind, Remedy, WaitingGroup
from indoubt.lifecycle.verdicts import Certainty, Verdict


def item(**changed: Any) -> Attention:
    about = {
        "key": "transactions:abort it|bank",
        "kind": AttentionKind.TRANSACTIONS,
        "badge": "abort it",
        "verdict": Verdict.ABORT_IT,
        "certainty": Certainty.CERTAIN,
        "severity": "warning",
        "pipeline": "bank",
        "batch": None,
        "keys": ("kafka:a", "kafka:b"),
        "headline": "2,000 transactions of bank are open.",
        "waits": tuple(WaitingGroup(group=f"g{n}", lag=None, since_ms=None, partitions=1) for n in range(4)),
        "since_ms": None,
        "deadline_ms": None,
        "consequence": "",
        "remedy": Remedy.ABORT,
        "target": "",
        "rows": None,
        "partitions": ("t-0", "t-1", "t-2", "t-3"),
        "alerts": ("A1|kafka:a",),
    }
    return Attention(**{**about, **changed})  # type: ignore[arg-type]


def text(markup: Html) -> str:
    return str(markup)


def test_a_cut_card_says_how_long_its_lists_are():
    shown = text(card(item(keys_total=2_000, waits_total=1_003, partitions_total=5_003, alerts_total=2_001)))
    assert "bank</a> · 2,000 transactions" in shown
    assert "and 1,000 more groups" in shown
    assert "and 5,000 more" in shown
    assert "2,001 alerts" in shown


def test_a_whole_card_counts_what_it_lists():
    shown = text(card(item()))
    assert "bank</a> · 2 transactions" in shown
    assert "and 1 more group<" in shown
    assert "and 1 more<" in shown
    assert "1 alert firing" in shown
    assert "Abort 2 …" in shown


@pytest.mark.parametrize(
    ("verdict", "certainty", "said"),
    [
        (Verdict.COMMIT_IT, Certainty.CERTAIN, " commit it · certain<"),
        (Verdict.COMMIT_IT, Certainty.LIKELY, " commit it · likely<"),
        (Verdict.HANGING, Certainty.LIKELY, " hanging · likely<"),
        # They ask for no order.
        (Verdict.UNKNOWN, Certainty.GUESS, " unknown<"),
        (Verdict.AT_RISK, Certainty.LIKELY, " at risk<"),
    ],
)
def test_a_card_says_how_sure_the_order_is_that_it_asks_for(verdict: Verdict, certainty: Certainty, said: str) -> None:
    assert said in text(card(item(verdict=verdict, certainty=certainty)))


def test_what_a_card_names_leads_to_its_page():
    shown = text(card(item(batch=7)))
    for path in ("/pipeline?name=bank", "/batch?pipeline=bank&amp;number=7", "/partition?topic=t&amp;partition=2"):
        assert f'href="{path}"' in shown, path


def test_an_alert_about_no_application_is_named_without_its_rule():
    about = {"kind": AttentionKind.ALERT, "verdict": None, "keys": (), "pipeline": ""}
    assert '<b class="name">orders-2</b>' in text(card(item(**about, target="A4|orders-2")))


def test_the_order_of_a_cut_card_is_one_by_filter():
    shown = text(card(item(keys_total=2_000)))
    assert "Abort all of bank …" in shown
    assert "verdict=abort it" in shown
    assert "pipeline=bank" in shown
    assert "kafka:b" not in shown
    commit = text(card(item(keys_total=2_000, verdict=Verdict.COMMIT_IT, remedy=Remedy.COMMIT)))
    assert "Commit all of bank …" in commit


@pytest.mark.parametrize("verdict", [Verdict.HANGING, None])
def test_no_filter_finds_what_hangs(verdict: Verdict | None):
    shown = text(card(item(keys_total=2_000, verdict=verdict)))
    assert "Abort" not in shown.replace("abort it", "")
    assert "Open" in shown
