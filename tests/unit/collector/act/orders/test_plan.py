"""Plans that are carried out together: each act has its own end, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from indoubt.collector.act.orders.plan import (
    ActionResult,
    Plan,
    PlannedAction,
    execute,
    handle_of,
    joined,
    ready_text,
    result_of,
    target_of,
)
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import Observation
from indoubt.collector.records.orders import Step, StepOutcome
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.verdicts.verdict_rules import judge
from indoubt.lifecycle.errors import OrderRefused, Unreachable
from indoubt.lifecycle.outcomes import (
    AlreadyCommitted,
    CommitOutcome,
    Committed,
    Lost,
    RetryLater,
    RollbackOutcome,
    RolledBack,
    Unknown,
)
from indoubt.resource_managers.protocol import Readiness
from tests.unit.collector.observations import (
    CHECKPOINT_ID,
    PREFIX,
    T0,
    batch_attempt,
    branch_listed,
    broker_record,
    case,
    database_handle,
    decided,
    handle,
    only_view,
    run_started,
)


def plan(keys: str, deed: Callable[[], Sequence[ActionResult]]) -> Plan:
    return Plan(actions=tuple(PlannedAction(key=key, description="", target={}) for key in keys), execute=deed)


def done(keys: str) -> Plan:
    return plan(keys, lambda: [(StepOutcome.ABORTED, key) for key in keys])


def failing(keys: str, error: Exception) -> Plan:
    def deed() -> Sequence[ActionResult]:
        raise error

    return plan(keys, deed)


def test_what_fails_in_the_middle_has_unknown_ends() -> None:
    ends = execute(failing("ab", Unreachable("no broker")))
    assert ends == [(StepOutcome.UNKNOWN, "Unreachable: no broker")] * 2


def test_what_is_refused_before_its_first_act_was_not_done() -> None:
    with pytest.raises(OrderRefused, match="somebody was first"):
        execute(failing("ab", OrderRefused("somebody was first")))


def test_joined_plans_answer_in_the_order_of_the_keys() -> None:
    together = joined([done("ca"), done("b")], "abc")
    assert [planned.key for planned in together.actions] == ["a", "b", "c"]
    assert [detail for _, detail in execute(together)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (OrderRefused("no"), (StepOutcome.REFUSED, "no")),
        (Unreachable("gone"), (StepOutcome.UNKNOWN, "Unreachable: gone")),
    ],
)
def test_one_plan_that_does_not_go_through_stops_no_other(error: Exception, end: ActionResult) -> None:
    for plans in ([failing("a", error), done("b")], [done("b"), failing("a", error)]):
        assert execute(joined(plans, "ab")) == [end, (StepOutcome.ABORTED, "b")]


def test_only_where_every_plan_is_refused_nothing_was_done() -> None:
    with pytest.raises(OrderRefused, match="first"):
        execute(joined([failing("a", OrderRefused("first")), failing("b", OrderRefused("second"))], "ab"))


HANDLE = handle()


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (Committed(handle=HANDLE), (StepOutcome.COMMITTED, "")),
        (AlreadyCommitted(handle=HANDLE), (StepOutcome.ALREADY_COMMITTED, "its marker proves it")),
        (Lost(handle=HANDLE, reason="timed out"), (StepOutcome.LOST, "timed out")),
        (RetryLater(handle=HANDLE, reason="moving"), (StepOutcome.RETRY_LATER, "moving")),
        (Unknown(handle=HANDLE, reason="gone"), (StepOutcome.UNKNOWN, "gone")),
        (RolledBack(handle=HANDLE), (StepOutcome.ABORTED, "")),
    ],
)
def test_each_answer_of_a_resource_manager_is_one_end(
    answer: CommitOutcome | RollbackOutcome, end: ActionResult
) -> None:
    assert result_of(answer) == end


@pytest.mark.parametrize(
    ("readiness", "said"),
    [
        (Readiness(handle=HANDLE, ready=False, time_left_ms=5_000, reason="it has ended"), "not ready: it has ended"),
        (Readiness(handle=HANDLE, ready=True, time_left_ms=5_000), "prepared, 5.0 s left"),
        (Readiness(handle=database_handle(), ready=True, time_left_ms=5_000), "prepared"),
    ],
)
def test_a_dry_run_says_what_is_ready_to_be_committed(readiness: Readiness, said: str) -> None:
    assert ready_text(readiness) == said


def judged(*seen: Observation) -> Judged:
    view = only_view(*seen)
    return Judged(view=view, judgement=judge(case(view, 9_000)), pipeline=None)


def test_a_handle_is_the_decisions_or_what_the_coordinator_shows() -> None:
    opened = broker_record(BrokerStatus.ONGOING, 0, start=300)
    assert handle_of(judged(run_started(), opened, decided(1, HANDLE))) == HANDLE
    found = handle_of(judged(run_started(), opened))
    assert (found.key, found.slot, found.timeout_ms) == (HANDLE.key, 0, HANDLE.timeout_ms)
    assert (found.rows, found.bytes, found.fingerprint) == (0, 0, "")
    assert (found.opened_at_ms, found.prepared_at_ms) == (T0 + 300, T0 + 300)
    third = replace(database_handle(slot=3), transaction=f"{PREFIX}:41:0:3:0a1b2c3d")
    assert handle_of(judged(run_started(), branch_listed(third, at=700))) == replace(
        third, rows=0, bytes=0, fingerprint="", opened_at_ms=T0 + 700, prepared_at_ms=T0 + 700
    )
    nameless = replace(judged(opened).view, broker=None, slot=None)
    bare = handle_of(Judged(view=nameless, judgement=judge(case(nameless, 9_000)), pipeline=None))
    assert (bare.slot, bare.opened_at_ms, bare.timeout_ms) == (0, 0, 0)


def test_an_act_is_kept_with_what_a_later_probe_needs() -> None:
    target = target_of("abort", HANDLE, PREFIX, batch_attempt(41, 7))
    named = {"checkpoint_id": CHECKPOINT_ID, "batch": 41, "attempt": 7}
    assert target == {"kind": "abort", "handle": HANDLE.to_json(), "prefix": PREFIX, "batch_attempt": named}
    assert target_of("abort", HANDLE, PREFIX, None)["batch_attempt"] is None
    planned = PlannedAction(key="k", description="EndTxn", target=target, checked="open now")
    assert PlannedAction.from_json(planned.to_json()) == replace(planned, checked="")
    assert planned.dry() == Step(key="k", description="EndTxn", outcome=StepOutcome.DRY_RUN, detail="open now")


def test_one_plan_alone_stays_as_it_is() -> None:
    alone = done("a")
    assert joined([alone], "a") is alone
