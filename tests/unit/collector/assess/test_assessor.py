"""When an assessment is made, who is given it, and what is announced."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from indoubt.collector.assess import assessor
from indoubt.collector.assess.assessment import Assessment
from indoubt.collector.history.store import Store
from indoubt.collector.observe.source import ObserverStatus
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BrokerRecord, Observed, Position
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.partition_state import Blocked, Holder, PartitionFindings
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits
from indoubt.collector.views import current_transactions
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.verdicts import Verdict
from tests.unit.collector.assessments import assessor_of
from tests.unit.collector.notify.http_receiver import wait_until
from tests.unit.collector.partition_sightings import partition, producer


@pytest.fixture
def current(tmp_path: Path) -> Iterator[CurrentState]:
    with closing(Store(tmp_path / "history.duckdb")) as store:
        made = CurrentState(store, settled_kept=10, checkpoints_kept=10, limits=Limits())
        made.see_decision_log(DecisionLogStatus.ABSENT)
        yield made


def opened(current: CurrentState, transaction: str, age_ms: int = 60_000) -> None:
    """Fold a foreign transaction that is open for so long."""
    began_ms = now_ms() - age_ms
    seen = BrokerRecord(
        transaction=transaction, producer_id=1, producer_epoch=0, status=BrokerStatus.ONGOING, start_ms=began_ms,
        update_ms=began_ms, timeout_ms=900_000, partitions=("sink-0",), client_transaction_version=2, source="s",
    )  # fmt: skip
    current.observe([Observed(position=Position(source="s", partition=0, offset=0), observation=seen)])


def test_whoever_asks_after_a_change_sees_it_and_others_share_one(current: CurrentState) -> None:
    assessing = assessor_of(current)
    first = assessing.now()
    assert (first.judged, assessing.now()) == ([], first)
    opened(current, "shop-1")
    found = assessing.now()
    assert [(each.view.transaction, each.judgement.verdict) for each in found.judged] == [("shop-1", Verdict.FOREIGN)]
    assert [case.transaction.key for case in found.cases] == [each.view.key for each in found.judged]
    assert found.version == current.version
    assert assessing.now() is found


def test_without_a_change_it_is_made_again_after_a_second(current: CurrentState) -> None:
    assessing = assessor_of(current, 0.05)
    first = assessing.now()
    wait_until("another one is made", lambda: assessing.now() is not first)
    assert assessing.now().version == first.version


def busy(seconds: float) -> Callable[[], list[ObserverStatus]]:
    """Return what keeps a processor busy for so long in each assessment."""

    def observers() -> list[ObserverStatus]:
        began_s = time.thread_time()
        while time.thread_time() - began_s < seconds:
            pass
        return []

    return observers


def test_one_that_takes_a_while_stands_four_times_as_long_whatever_changes(current: CurrentState) -> None:
    assessing = assessor_of(current, observers=busy(0.03))
    first, made_s = assessing.now(), time.monotonic()
    opened(current, "shop-1")
    assert assessing.now() is first
    wait_until("the change is seen", lambda: assessing.now() is not first)
    assert time.monotonic() - made_s >= assessor.REST_TIMES * 0.03
    assert [each.view.transaction for each in assessing.now().judged] == ["shop-1"]


def test_a_request_does_not_wait_for_one_that_takes_long(current: CurrentState) -> None:
    assessing = assessor_of(current, 0.02, observers=busy(assessor.LONG_S))
    first = assessing.now()
    opened(current, "shop-1")
    with assessing._assessing:
        assert assessing.now() is first, "another one is being made"
    assessing.start()
    wait_until("the thread made it", lambda: assessing.now() is not first)
    assessing.stop()
    assert [each.view.transaction for each in assessing.now().judged] == ["shop-1"]


def test_one_that_the_thread_makes_no_more_is_made_for_who_asks(current: CurrentState) -> None:
    assessing = assessor_of(current, 0.1, observers=busy(assessor.LONG_S))
    first = assessing.now()
    opened(current, "shop-1")
    assert assessing.now() is first
    wait_until("it is old", lambda: assessing.now() is not first)
    assert [each.view.transaction for each in assessing.now().judged] == ["shop-1"]


def test_many_are_judged_while_others_fold(current: CurrentState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_transactions, "CASES_AT_ONCE", 7)
    ids = [f"shop-{number}" for number in range(50)]
    for id_ in ids:
        opened(current, id_)
    stopping = threading.Event()

    def fold() -> None:
        while not stopping.is_set():
            opened(current, "late")

    folding = threading.Thread(target=fold, daemon=True)
    folding.start()
    found = [case.transaction.transaction for case in current.transactions.cases()]
    stopping.set()
    folding.join(10.0)
    assert sorted(id_ for id_ in found if id_ != "late") == sorted(ids)


def test_it_is_made_again_once_the_clock_was_stepped_back(
    current: CurrentState, monkeypatch: pytest.MonkeyPatch
) -> None:
    assessing, at_ms = assessor_of(current), now_ms()
    first = assessing.now()
    monkeypatch.setattr(assessor, "now_ms", lambda: at_ms - 60_000)
    assert assessing.now().now_ms == at_ms - 60_000 < first.now_ms


def test_each_who_follows_is_given_every_assessment_of_the_clock_until_stopped(current: CurrentState) -> None:
    assessing, stopping = assessor_of(current, 0.02), threading.Event()
    seen: list[list[Assessment]] = [[], []]

    def follow(into: list[Assessment]) -> None:
        into.extend(assessing.follow(stopping))

    threads = [threading.Thread(target=follow, args=(into,), daemon=True) for into in seen]
    for thread in threads:
        thread.start()
    assessing.start()
    wait_until("both have three", lambda: all(len(into) >= 3 for into in seen))
    stopping.set()
    for thread in threads:
        thread.join(10.0)
        assert not thread.is_alive()
    assessing.stop()
    for into in seen:
        assert len({id(each) for each in into}) == len(into)


def test_an_incident_that_age_alone_brings_is_announced(current: CurrentState) -> None:
    opened(current, "shop-1", age_ms=29_500)
    versions: list[int] = []
    current.listen(versions.append)
    assessing = assessor_of(current, 0.05)
    assessing.start()
    wait_until("the first one is announced", lambda: versions)
    assert assessing.now().incidents == ()
    told = len(versions)
    wait_until("the incident is announced", lambda: len(versions) > told)
    assert [one.verdict for one in assessing.now().incidents] == [Verdict.FOREIGN]
    assessing.stop()


def test_it_goes_on_after_one_that_failed(current: CurrentState, caplog: pytest.LogCaptureFixture) -> None:
    faults, stopping = [RuntimeError("a fault")], threading.Event()

    def observers() -> list[ObserverStatus]:
        if faults:
            raise faults.pop()
        return []

    assessing = assessor_of(current, 0.02, observers=observers)
    assessing.start()
    assert next(assessing.follow(stopping)).judged == []
    assessing.stop()
    assert "what is open could not be judged" in caplog.text


def test_a_transaction_that_has_ended_holds_no_partition_though_brokers_were_not_asked_since(
    current: CurrentState,
) -> None:
    opened(current, "shop-1")
    (found,) = assessor_of(current).now().judged
    keys = (found.view.key, "kafka:hangs", "")
    holders = [Holder(producer=producer(), key=key, transaction="", opened_ms=None) for key in keys]
    blocked = tuple(Blocked(snapshot=partition(), holder=holder, readers=()) for holder in (*holders, None))
    seen = PartitionFindings(at_ms=now_ms(), blocked=blocked)
    assessing = assessor_of(current, partitions=lambda: seen)
    assert assessing.now().situation.partitions.blocked == blocked
    ended = BrokerRecord(
        transaction="shop-1", producer_id=1, producer_epoch=1, status=BrokerStatus.COMPLETE_ABORT,
        start_ms=found.view.opened_ms, update_ms=now_ms(), timeout_ms=900_000, partitions=(), client_transaction_version=2,
        source="s",
    )  # fmt: skip
    current.observe([Observed(position=Position(source="s", partition=0, offset=1), observation=ended)])
    assert assessing.now().situation.partitions.blocked == blocked[1:]
