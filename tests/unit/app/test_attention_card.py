"""A card of a part whose lists are cut: it says how long they are, and its order is one by filter."""

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
        "group": "application bank",
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
    }
    return Attention(**{**about, **changed})  # type: ignore[arg-type]


def text(markup: Html) -> str:
    return str(markup)


def test_a_cut_card_says_how_long_its_lists_are():
    shown = text(card(item(keys_total=2_000, waits_total=1_003, partitions_total=5_003)))
    assert "bank</a> · 2,000 transactions" in shown
    assert "and 1,000 more groups" in shown
    assert "and 5,000 more" in shown


def test_a_whole_card_counts_what_it_lists():
    shown = text(card(item()))
    assert "bank</a> · 2 transactions" in shown
    assert "and 1 more group<" in shown
    assert "and 1 more<" in shown
    assert "Abort 2 …" in shown


@pytest.mark.parametrize(
    ("verdict", "certainty", "said"),
    [
        (Verdict.COMMIT_IT, Certainty.CERTAIN, " commit · safe<"),
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


def test_a_foreign_transaction_that_is_stuck_can_be_aborted_from_its_card():
    foreign = {"verdict": Verdict.FOREIGN, "certainty": Certainty.GUESS, "remedy": Remedy.OPEN, "keys": ("kafka:a",)}
    assert "Abort …" in text(card(item(**foreign)))
    assert "Abort …" not in text(card(item(**foreign | {"keys": ("kafka:a", "kafka:b")}))), (
        "each is its owner's to answer for"
    )


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


@pytest.mark.parametrize(
    ("verdict", "is_red"), [(Verdict.ABORT_IT, False), (Verdict.FOREIGN, True), (Verdict.HANGING, True)]
)
def test_an_abort_is_red_where_it_loses_data(verdict: Verdict, is_red: bool):
    assert ("press destructive" in text(card(item(verdict=verdict)))) is is_red


@pytest.mark.parametrize(("deadline_ms", "tone"), [(1_000, "urgent"), (None, "warning")])
def test_a_commit_is_calm_and_its_time_makes_the_card_urgent(deadline_ms: int | None, tone: str):
    shown = text(card(item(verdict=Verdict.COMMIT_IT, remedy=Remedy.COMMIT, deadline_ms=deadline_ms)))
    assert f'<article class="card {tone}"' in shown
    assert 'class="badge calm"' in shown
    assert "press main" in shown
