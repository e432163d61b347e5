"""Bulk orders without a broker: what a filter means, its fingerprint, what must be typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from indoubt.collector.act.orders.bulk_selection import fingerprint, select
from indoubt.collector.act.orders.confirmation import confirmation_text, require_beginning, require_confirmation
from indoubt.collector.act.orders.plan import Plan, PlannedAction, plan_each
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.orders import StepOutcome
from indoubt.collector.verdicts.judging import Judged
from indoubt.lifecycle.errors import OrderRefused
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.order_request import Filter
from indoubt.lifecycle.verdicts import Assumption, Certainty, Judgement, Verdict
from tests.unit.collector.observations import T0, broker_record, only_view


def foreign(transaction: str, *, at: int = 0, may_abort: bool = True, loses_data: bool = True) -> Judged:
    """Return an open transaction that no pipeline of ours owns, opened ``at`` ms after T0."""
    view = only_view(broker_record(BrokerStatus.ONGOING, at, transaction=transaction, start=at))
    verdict = Judgement(
        verdict=Verdict.FOREIGN, rule=6, rests_on=(), may_abort=may_abort, loses_data=loses_data and may_abort
    )
    return Judged(view=view, judgement=verdict, pipeline=None)


FOUND = [
    foreign("flink-a-1"),
    foreign("flink-a-2", at=5_000),
    foreign("streams-1"),
    foreign("flink-b", may_abort=False),
]


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (Filter(transaction_prefix="flink-a"), {"flink-a-1", "flink-a-2"}),
        (Filter(transaction_prefix="flink"), {"flink-a-1", "flink-a-2"}),
        (Filter(pipeline="streams"), {"streams-1"}),
        (Filter(pipeline="flink-a"), {"flink-a-1", "flink-a-2"}),
        (Filter(verdict="foreign", transaction_prefix="s"), {"streams-1"}),
        (Filter(verdict="abort it"), set()),
        (Filter(resource_manager="mysql"), set()),
        (Filter(resource_manager="kafka"), {"flink-a-1", "flink-a-2", "streams-1"}),
        (Filter(open_for_ms=8_000), {"flink-a-1", "streams-1"}),
        (Filter(open_for_ms=10_000), {"flink-a-1", "streams-1"}),
        (Filter(open_for_ms=10_001), set()),
    ],
)
def test_a_filter_means_what_may_be_aborted_and_fits(wanted: Filter, ids: set[str]) -> None:
    assert {one.view.transaction for one in select(FOUND, wanted, T0 + 10_000).chosen} == ids


@pytest.mark.parametrize("verdict", [Verdict.SETTLED, Verdict.IN_PROGRESS, Verdict.AT_RISK])
def test_what_is_settled_is_never_meant(verdict: Verdict) -> None:
    one = foreign("flink-a-1")
    one = replace(one, judgement=replace(one.judgement, verdict=verdict))
    selection = select([one], Filter(), T0)
    assert (len(selection.chosen), len(selection.left_out)) == ((0, 0) if verdict is Verdict.SETTLED else (1, 0))


def test_one_whose_opening_is_not_known_was_not_open_for_so_long() -> None:
    one = foreign("flink-a-1")
    one = replace(one, view=replace(one.view, broker=None))
    assert one.view.opened_ms is None
    assert select([one], Filter(open_for_ms=1), T0 + 10_000).chosen == ()
    assert select([one], Filter(), T0 + 10_000).chosen == (one,)


def test_the_most_urgent_are_meant_first() -> None:
    late, early = foreign("flink-z", at=0), foreign("flink-a", at=5_000)
    assert select([early, late], Filter(), T0).chosen == (late, early)
    assert select([late, early], Filter(), T0).chosen == (late, early)


def test_what_fits_and_may_not_be_aborted_is_listed() -> None:
    selection = select(FOUND, Filter(transaction_prefix="flink"), T0)
    assert [one.view.transaction for one in selection.left_out] == ["flink-b"]
    preview = selection.preview(Filter(transaction_prefix="flink"))
    (left_out,) = preview.left_out
    assert (left_out.key, left_out.transaction) == (FOUND[3].view.key, "flink-b")
    assert (left_out.verdict, left_out.certainty) == (Verdict.FOREIGN, Certainty.GUESS)
    assert preview.keys == tuple(row.key for row in preview.rows)
    (condition,) = preview.conditions
    assert (condition.confirm, condition.keys, condition.summary) == ("flink-a-", preview.keys, preview.summary)
    assert (condition.fingerprint, condition.parts) == (fingerprint(selection.chosen), 1)
    assert select([], Filter(), T0).preview(Filter()).conditions == ()


def test_a_fingerprint_depends_on_keys_and_revisions_not_on_order() -> None:
    ending = only_view(broker_record(BrokerStatus.PREPARE_ABORT, 0, transaction="flink-a-1", start=0))
    changed = replace(FOUND[0], view=ending)
    assert (changed.view.key, changed.view.revision != FOUND[0].view.revision) == (FOUND[0].view.key, True)
    assert fingerprint(FOUND) == fingerprint(FOUND[::-1])
    assert len({fingerprint(some) for some in (FOUND, FOUND[:1], [], [changed, *FOUND[1:]], FOUND[1:2])}) == 5


def many(number: int) -> list[Judged]:
    return [foreign(f"flink-{n}") for n in range(number)]


def test_a_preview_names_all_and_shows_a_thousand() -> None:
    wanted = Filter(transaction_prefix="flink")
    preview = select(many(1_001), wanted, T0).preview(wanted)
    (condition,) = preview.conditions
    assert (len(preview.keys), len(preview.rows), condition.keys) == (1_001, 1_000, preview.keys)
    assert (condition.confirm, condition.parts) == ("flink-", 5)


def test_a_preview_sums_up_what_is_known_of_each_verdict() -> None:
    harmless = foreign("flink-c-1", at=9_000, loses_data=False)
    abort_it = replace(harmless, judgement=replace(harmless.judgement, verdict=Verdict.ABORT_IT, rule=2))
    rows = select([*FOUND, abort_it], Filter(transaction_prefix="flink"), T0).preview(Filter()).summary
    assert {row.verdict: (row.transactions, row.loses_data, row.pipelines) for row in rows} == {
        Verdict.ABORT_IT: (1, 0, 1),
        Verdict.FOREIGN: (2, 2, 1),
    }


def test_a_preview_of_a_commit_means_what_may_be_committed() -> None:
    listed = [
        replace(one, judgement=replace(one.judgement, may_commit=True, commit_confirmation="chk-3"))
        for one in FOUND[:2]
    ]
    selection = select([*listed, *FOUND[2:]], Filter(verdict="foreign"), T0, Action.COMMIT)
    assert {one.view.transaction for one in selection.chosen} == {"flink-a-1", "flink-a-2"}
    assert {one.view.transaction for one in selection.left_out} == {"streams-1", "flink-b"}
    preview = selection.preview(Filter(verdict="foreign"))
    (condition,) = preview.conditions
    assert (preview.action, condition.confirm) == (Action.COMMIT, "chk-3")
    assert (condition.keys, condition.summary) == (preview.keys, preview.summary)


def test_a_preview_of_commits_of_several_checkpoints_has_the_keys_of_each() -> None:
    listed = [
        replace(one, judgement=replace(one.judgement, may_commit=True, commit_confirmation=name))
        for one, name in zip(FOUND[:3], ("chk-3", "", "chk-4"), strict=True)
    ]
    preview = select(listed, Filter(verdict="foreign"), T0, Action.COMMIT).preview(Filter(verdict="foreign"))
    assert len({condition.fingerprint for condition in preview.conditions}) == 3
    keys = {condition.confirm: condition.keys for condition in preview.conditions}
    assert keys == {name: (one.view.key,) for name, one in zip(("chk-3", "", "chk-4"), listed, strict=True)}
    assert {condition.summary[0].transactions for condition in preview.conditions} == {1}


def test_a_filter_means_what_is_as_sure_as_it_says() -> None:
    one, other = FOUND[:2]
    sure = replace(one, judgement=replace(one.judgement, verdict=Verdict.COMMIT_IT, may_commit=True))
    likely = replace(other, judgement=replace(sure.judgement, assumes=(Assumption.JOB_GOES_ON_FROM_IT,)))
    for certainty, meant in (("certain", {sure.view.key}), ("likely", {likely.view.key}), ("guess", set())):
        selection = select([sure, likely], Filter(certainty=certainty), T0, Action.COMMIT)
        assert {each.view.key for each in selection.chosen} == meant
    rows = select([sure, likely], Filter(verdict="commit it"), T0, Action.COMMIT).preview(Filter()).summary
    assert {(row.certainty, row.transactions) for row in rows} == {(Certainty.CERTAIN, 1), (Certainty.LIKELY, 1)}


def test_a_plan_for_none_does_nothing() -> None:
    def plan(part: Sequence[Judged]) -> Plan:
        raise AssertionError(f"{len(part)} are planned")

    made, why = plan_each(plan, [])
    assert (made.actions, made.execute(), why) == ((), [], {})


@pytest.mark.parametrize("refused", [set(), {3}, {0, 9}, {4, 5, 6}, set(range(10))])
def test_each_that_is_refused_stops_no_other(refused: set[int]) -> None:
    found, tried = many(10), []

    def plan(part: Sequence[Judged]) -> Plan:
        tried.append(len(part))
        wrong = [judged.view.transaction for judged in part if int(judged.view.transaction[6:]) in refused]
        if wrong:
            raise OrderRefused(f"{wrong[0]} has ended")
        actions = tuple(PlannedAction(key=judged.view.key, description="abort", target={}) for judged in part)
        return Plan(actions=actions, execute=lambda: [(StepOutcome.ABORTED, "")] * len(part))

    made, why = plan_each(plan, found)
    assert why == {found[n].view.key: f"flink-{n} has ended" for n in refused}
    assert [act.key for act in made.actions] == [one.view.key for n, one in enumerate(found) if n not in refused]
    assert len(made.execute()) == 10 - len(refused)
    assert tried[0] == 10


@pytest.mark.parametrize(
    ("typed", "is_enough"),
    [("flink-", True), ("fli", True), ("fl", False), ("", False), ("flink-1", False), ("FLI", False), ("x", False)],
)
def test_what_was_typed_begins_every_id_of_a_part_of_an_order(typed: str, is_enough: bool) -> None:
    part = [foreign("flink-1"), foreign("flink-2"), foreign("other", loses_data=False)]
    if is_enough:
        require_beginning(typed, part)
        return
    with pytest.raises(OrderRefused, match="'confirm'"):
        require_beginning(typed, part)


@pytest.mark.parametrize(
    ("ids", "typed"),
    [
        ([], ""),
        (["flink-a-1"], "flink-a-1"),
        (["x"], "x"),
        (["x", "xy-1"], "x"),
        (["flink-a-1", "flink-a-2"], "flink-a-"),
        (["orders-1", "orders-12"], "orders-1"),
    ],
)
def test_what_must_be_typed(ids: list[str], typed: str) -> None:
    found = [foreign(id_) for id_ in ids]
    assert confirmation_text([*found, foreign("harmless", loses_data=False)]) == typed
    require_confirmation(typed, found)
    for wrong in {typed.upper(), f"{typed} ", typed[:-1], ""} - {typed} if typed else ():
        with pytest.raises(OrderRefused, match="'confirm'"):
            require_confirmation(wrong, found)


def test_what_loses_nothing_takes_any_confirmation() -> None:
    for confirm in ("", "flink-a-1"):
        require_confirmation(confirm, [foreign("flink-a-1", loses_data=False)])


@pytest.mark.parametrize("ids", [["flink-1", "streams-1"], ["a1", "b1"], ["ab-1", "ac-1"]])
def test_ids_that_begin_differently_take_several_orders(ids: list[str]) -> None:
    with pytest.raises(OrderRefused, match="several orders"):
        confirmation_text([foreign(id_) for id_ in ids])
