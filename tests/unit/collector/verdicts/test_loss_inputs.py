"""Which transactions Flink's checkpoints are asked about, and which of an order's branches are asked about again."""

from __future__ import annotations

from typing import Any

import pytest

from indoubt.collector.facts.fold import apply
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_join import views
from indoubt.collector.records.formats.flink_records import FlinkCommittables
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import Observation, OffsetsSeen, OperatorOrder
from indoubt.collector.verdicts.data_loss import LossVerdict
from indoubt.collector.verdicts.loss_cases import TAKEN_BY_ORDER_MS, branches_written_again, loss_inputs
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.lifecycle.verdicts import Certainty
from tests.unit.collector.observations import (
    T0,
    branch_gone,
    branch_listed,
    broker_record,
    database_handle,
    decided,
    folded,
    handle,
    run_started,
)
from tests.unit.collector.verdicts.case_tables import table
from tests.unit.collector.verdicts.flink_given import FAILED, FROM_2
from tests.unit.collector.verdicts.loss_observations import (
    COMMITS,
    HARMLESS,
    LIKELY,
    LOST,
    THIS,
    check,
    folded_with_lists,
    judged,
    restored,
    taken,
    transaction,
)
from tests.unit.collector.verdicts.test_flink_branch_losses import ENDED, ended
from tests.unit.collector.verdicts.test_flink_branches import BANK, LISTS, PREPARED
from tests.unit.collector.verdicts.test_flink_set_backs import GONE, ordered

COMMITTED, ABORTED = transaction(3, 21_500, 40_000, committed=True), transaction(3, 21_500, 40_000)
RESTORED_MS = T0 + 60_000


def of_id(id_: str, *, committed: bool = False, at: int = 0) -> list[Observation]:
    """Return a transaction of another id, which has ended."""
    end = BrokerStatus.COMPLETE_COMMIT if committed else BrokerStatus.COMPLETE_ABORT
    times = ((BrokerStatus.ONGOING, at), (end, at + 900))
    return [broker_record(status, seen, transaction=id_, start=at) for status, seen in times]


def with_offsets(at: int, end: BrokerStatus = BrokerStatus.COMPLETE_ABORT) -> list[Observation]:
    """Return a transaction that holds the offsets of its own input, and has ended."""
    named = {"transaction": "shop-1", "start": at, "partitions": ("__consumer_offsets-7", "out-0")}
    return [broker_record(status, at, **named) for status in (BrokerStatus.ONGOING, end)]  # type: ignore[arg-type]


def asked(state: State) -> int:
    return len(loss_inputs(state, DecisionLogStatus.READABLE, views(state, settled=True)).asks_flink)


@table(
    "seen, is_asked",
    [
        ("aborted", ABORTED, True),
        ("committed", COMMITTED, False),
        ("by an order", [*COMMITTED, ordered("commit", 39_000)], True),
        ("ordered to abort", [*COMMITTED, ordered("abort", 39_000)], False),
        ("settled", [*COMMITTED, ordered("settle", 39_000)], False),
        ("other form", of_id("writer"), False),
        ("managed", [run_started(), *of_id("ip-count-0-1"), decided(1, handle())], False),
        ("branch", ended("abort"), True),
        ("other branch", ended("abort", BANK), False),
    ],
)
def test_flink_is_asked_about_its_own_that_may_be_lost_or_twice(seen: list[Observation], is_asked: bool) -> None:
    assert asked(folded(*seen)) == int(is_asked)


def test_a_committed_one_behind_a_restore_is_asked_about() -> None:
    assert asked(folded(*COMMITS, *COMMITTED, *GONE, restored(2, 90_000))) == 1


def test_what_is_open_is_not_judged() -> None:
    state = folded(broker_record(BrokerStatus.ONGOING, 0, transaction="sink-0-9"), *ABORTED)
    inputs = loss_inputs(state, DecisionLogStatus.READABLE, views(state, settled=True))
    assert [one.view.transaction for one in inputs.cases] == ["sink-0-3"]


@table(
    "seen, assumes",
    [
        ("no offsets", of_id("shop-1"), None),
        ("of Connect", of_id("connect-cluster-lake-orders-0"), 2),
        ("its own offsets", with_offsets(1_000), 0),
        ("those of an earlier one", [*with_offsets(0, BrokerStatus.COMPLETE_COMMIT), *of_id("shop-1", at=5_000)], None),
    ],
)
def test_what_an_aborted_one_reads_is_known_by_its_offsets(seen: list[Observation], assumes: int | None) -> None:
    state = folded(*seen)
    cases = loss_inputs(state, DecisionLogStatus.READABLE, views(state, settled=True)).cases
    (aborted,) = (case for case in cases if case.view.broker is not None and case.view.broker.is_aborting)
    assert (len(aborted.tie.assumes) if aborted.tie is not None else None) == assumes


STREAMS = "shop-6c7e1f0a-91b4-4a55-8f0e-0123456789ab-1"


@pytest.mark.parametrize(
    ("id_", "wrote"), [(STREAMS, "shop-counts-changelog-0"), (STREAMS, "out-0"), ("shop-writer", "out-0")]
)
def test_offsets_that_an_abort_undid_make_it_harmless_as_far_as_can_be_told(id_: str, wrote: str) -> None:
    named = {"transaction": id_, "start": 0, "partitions": ("__consumer_offsets-7", wrote)}
    times = ((BrokerStatus.ONGOING, 0), (BrokerStatus.COMPLETE_ABORT, 900))
    (loss,) = judged(folded(*(broker_record(status, at, **named) for status, at in times))).values()  # type: ignore[arg-type]
    assert (loss.verdict, loss.certainty) == (LossVerdict.HARMLESS, Certainty.LIKELY), loss.why


def test_where_its_records_are_is_told_in_the_order_of_partitions() -> None:
    state = folded(*ABORTED)
    (this,) = state.broker
    for partition in ("sink-2", "sink-0", "sink-1"):
        apply(
            state,
            OffsetsSeen(
                **this._asdict(), partition=partition, first=5, first_is_exact=True, next_offset=9, how="", at_ms=T0
            ),
        )
    (loss,) = judged(state).values()
    assert [each.partition for each in loss.offsets] == ["sink-0", "sink-1", "sink-2"]


@pytest.mark.parametrize(
    ("action", "at", "verdict"),
    [
        ("abort", 82_400 + TAKEN_BY_ORDER_MS, LOST),
        ("abort", 82_400 + TAKEN_BY_ORDER_MS + 1, HARMLESS),
        ("commit", 82_400 + TAKEN_BY_ORDER_MS, HARMLESS),
    ],
)
def test_a_take_within_two_seconds_of_an_order_to_abort_may_be_its_own(
    action: str, at: int, verdict: LossVerdict
) -> None:
    assert TAKEN_BY_ORDER_MS == 2_000
    given = folded_with_lists([*THIS, *COMMITS, *GONE, ordered(action, 82_400), taken(at)])
    check(judged(given)[("sink-0-3", T0 + 21_500)], verdict, LIKELY, "")


def ours_ended() -> list[Observation]:
    """Return a branch of a pipeline of ours, committed by an order."""
    of = database_handle("mysql")
    listed = branch_listed(of, at=PREPARED)
    key = next(iter(folded(listed).branches))
    order = OperatorOrder(key=key, action="commit", who="anna", at_ms=T0 + ENDED - 100, audit=1)
    return [run_started(), decided(1, of), listed, order, branch_gone(of, None, at=ENDED)]


UNKNOWN_KEY = OperatorOrder(key="mysql:never-seen", action="commit", who="anna", at_ms=T0, audit=2)
BACK = [FAILED, FROM_2]


@table(
    "seen, since_ms, found",
    [
        ("committed", [*ended("commit"), *BACK], 0, 1),
        ("restored just then", [*ended("commit"), *BACK], RESTORED_MS, 1),
        ("restored before", [*ended("commit"), *BACK], RESTORED_MS + 1, 0),
        ("and one not seen", [*ended("commit"), *BACK, UNKNOWN_KEY], 0, 1),
        ("not restored", [*ended("commit"), FAILED], 0, 0),
        ("not over", [*ended("commit")[:2], *BACK], 0, 0),
        ("aborted", [*ended("abort"), *BACK], 0, 0),
        ("another program's", [*ended("commit", BANK), *BACK], 0, 0),
        ("managed", [*ours_ended(), *BACK], 0, 0),
    ],
)
def test_branches_that_an_order_committed_are_asked_about_after_a_restore(
    seen: list[Any], since_ms: int, found: int
) -> None:
    state = folded(*(each for each in seen if not isinstance(each, FlinkCommittables)))
    state.flink.see_committables(LISTS)
    assert len(branches_written_again(state, since_ms)) == found
