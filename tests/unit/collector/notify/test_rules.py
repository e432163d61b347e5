"""Alert rules on the cases where each must and must not find something: those without a file of their own, and all together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.collector.assess import rules as alert_rules
from indoubt.collector.assess.findings import SOURCES_GROUP, Severity
from indoubt.collector.assess.rule import Source
from indoubt.collector.assess.rules.applications import AbortSeen
from indoubt.collector.assess.rules.batches import OneSidedBatch
from indoubt.collector.assess.rules.hanging import HangingTransaction
from indoubt.collector.assess.rules.readers import BlockedPartition
from indoubt.collector.assess.situation import Situation
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.log_settings import LogSettings
from indoubt.collector.records.observations import Observation
from indoubt.collector.runtime.clock import ClockOffset
from indoubt.collector.verdicts.judging import Judged
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.verdicts import AbortCause, Evidence, Judgement, Verdict
from indoubt.resource_managers.topics.decision_log_topic import FORGETS_NOTHING
from tests.unit.collector.assessments import changed, leaking, look
from tests.unit.collector.notify.rule_findings import (
    ABORTED,
    COMMITTED,
    FOREIGN,
    LOST,
    OURS,
    PREPARED,
    found,
    of_transaction,
)
from tests.unit.collector.observations import (
    PREFIX,
    T0,
    broker_record,
    decided,
    handle,
    observer_of,
    only_view,
    transaction_event,
)


def test_a3_hanging() -> None:
    held = HangingTransaction(
        partition="sink-0", producer_id=7, producer_epoch=2, since_ms=T0, application="producer 7"
    )
    (finding,) = found("A3", look(now_ms=T0 + 1, hanging=(held,)))
    assert (finding.severity, finding.group) == (Severity.CRITICAL, "application producer 7")
    assert finding.for_ms == 10_000, "the coordinator may know of it a moment later"
    assert "pipeline" not in finding.labels, "nobody knows its transactional id"
    assert not found("A3", of_transaction(44_001, *FOREIGN)), "its coordinator knows it"


def test_a3_names_the_application_whose_id_is_known() -> None:
    held = HangingTransaction(
        partition="sink-0", producer_id=7, producer_epoch=2, since_ms=T0, application="shop", is_named=True
    )
    (finding,) = found("A3", look(now_ms=T0 + 1, hanging=(held,)))
    assert (finding.labels["pipeline"], finding.group) == ("shop", "application shop")


@pytest.mark.parametrize(
    ("waited", "groups", "is_found"),
    [(29_999, ("orders",), False), (30_000, ("orders",), True), (3_600_000, (), False)],
)
def test_a4_blocked_consumers(waited: int, groups: tuple[str, ...], is_found: bool) -> None:
    blocked = BlockedPartition(partition="my-topic-12", since_ms=T0, groups=groups, hidden=1200, transaction="t-1")
    findings = found("A4", look(now_ms=T0 + waited, blocked=(blocked,)))
    assert [f.group for f in findings] == (["topic my-topic"] if is_found else [])
    assert all("1,200 records are hidden" in f.evidence[1].fact and "t-1" in f.summary for f in findings)


@pytest.mark.parametrize(
    ("hidden", "said"),
    [(1, "1 record is hidden"), (2, "2 records are hidden"), (None, "records are hidden")],
)
def test_a4_counts_what_is_hidden_where_it_can(hidden: int | None, said: str) -> None:
    blocked = BlockedPartition(partition="sink-0", since_ms=T0, groups=("orders",), hidden=hidden, transaction="")
    (finding,) = found("A4", look(now_ms=T0 + 30_000, blocked=(blocked,)))
    assert finding.evidence[1].fact == f"{said} from: orders"


def aborts(*times: int, cause: AbortCause = AbortCause.TIMEOUT, application: str = PREFIX) -> tuple[AbortSeen, ...]:
    return tuple(
        AbortSeen(application=application, transaction=f"{application}-{n}-0", at_ms=T0 + at, cause=cause)
        for n, at in enumerate(times)
    )


@pytest.mark.parametrize(
    ("seen", "is_found"),
    [
        (aborts(1, 2, 3, 4, 5), True),
        (aborts(1, 2, 3, 4), False),
        # One of them is older than the window.
        (aborts(-1, 2, 3, 4, 5), False),
        (aborts(0, 2, 3, 4, 5), False),
        # Orders of an operator are no fault, and two applications are not one.
        (aborts(1, 2, 3, 4) + aborts(5, cause=AbortCause.OPERATOR), False),
        (aborts(1, 2, 3, 4) + aborts(5, application="other"), False),
    ],
)
def test_a5_repeated_aborts(seen: tuple[AbortSeen, ...], is_found: bool) -> None:
    findings = found("A5", look(now_ms=T0 + 600_000, aborts=seen))
    assert [f.subject for f in findings] == ([PREFIX] if is_found else [])
    assert all(f.evidence[0].fact == "aborted: 5 by timeout" for f in findings)


@pytest.mark.parametrize(
    ("at", "observations", "replayed", "is_found"),
    [
        # The replay gets the 16 s that recovery needs.
        (75_999, LOST, None, False),
        (76_000, LOST, None, True),
        (3_600_000, LOST, 70_000, False),
        (3_600_000, ABORTED, None, False),
        (3_600_000, COMMITTED, None, False),
    ],
)
def test_a7_lost(at: int, observations: tuple[Observation, ...], replayed: int | None, is_found: bool) -> None:
    findings = found("A7", of_transaction(at, *observations, replayed=replayed))
    assert [f.severity for f in findings] == ([Severity.CRITICAL] if is_found else [])
    assert all("with 100 rows" in f.summary for f in findings)


def test_a7_of_one_row_says_so_in_the_singular() -> None:
    small = replace(handle(), rows=1)
    prepared = transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=small.to_json())
    ended = broker_record(BrokerStatus.COMPLETE_ABORT, 60_000)
    (finding,) = found("A7", of_transaction(3_600_000, *OURS, prepared, decided(1, small), ended))
    assert " with 1 row was decided and then aborted" in finding.summary


def test_a7_of_a_pipeline_without_history_waits_for_what_others_need() -> None:
    view = only_view(*LOST)
    judgement = Judgement(verdict=Verdict.LOST, rule=3, rests_on=(Evidence(fact="lost", source="decision log"),))

    def at(waited: int, of: TransactionView = view) -> Situation:
        one = Judged(view=of, judgement=judgement, pipeline=None)
        return look(now_ms=T0 + 60_000 + waited, judged=(one,))

    assert not found("A7", at(19_999))
    assert found("A7", at(20_000))
    without_end = replace(view, broker=None)
    assert without_end.ended_ms is None
    assert found("A7", at(0, without_end)), "when it ended is not known"


def test_a8_id_leak() -> None:
    leak = leaking("orders", 120_000, "40 new ids a minute, each used once")
    (finding,) = found("A8", look(now_ms=T0, id_leaks=(leak,)))
    assert (finding.severity, finding.group) == (Severity.WARNING, "application orders")
    assert "120,000" in finding.summary
    assert not found("A8", look(now_ms=T0))


def observer(
    state: ObserverState, *, name: str = "lifecycle events", since: int = 0, delay: int | None = 0
) -> ObserverStatus:
    return ObserverStatus(**observer_of(name), state=state, delay_ms=delay, since_ms=T0 + since, error="", records=0)


@pytest.mark.parametrize(
    ("status", "severity"),
    [
        (observer(ObserverState.UP, since=-3_600_000), None),
        (observer(ObserverState.DOWN, since=1), None),
        (observer(ObserverState.DOWN), Severity.WARNING),
        (observer(ObserverState.STARTING), Severity.WARNING),
        (observer(ObserverState.UP, delay=14_999), None),
        (observer(ObserverState.UP, delay=15_000), Severity.WARNING),
        (replace(observer(ObserverState.UP, delay=39_999), rest_ms=20_000), None),
        (replace(observer(ObserverState.UP, delay=40_000), rest_ms=20_000), Severity.WARNING),
        (observer(ObserverState.UP, delay=None), None),
        (observer(ObserverState.DOWN, name="decision log"), Severity.CRITICAL),
        (observer(ObserverState.DOWN, name="transaction log"), Severity.CRITICAL),
    ],
)
def test_a9_observer_down(status: ObserverStatus, severity: Severity | None) -> None:
    findings = found("A9", look(now_ms=T0 + 15_000, observers=(status,)))
    assert [(f.severity, f.group) for f in findings] == ([(severity, SOURCES_GROUP)] if severity else [])


def test_a10_one_side_only() -> None:
    one = OneSidedBatch(pipeline=PREFIX, batch=41, done_in=("kafka",), missing_in=("mysql",), since_ms=T0)
    (finding,) = found("A10", look(now_ms=T0, one_sided=(one,)))
    assert finding.severity is Severity.CRITICAL
    assert "in kafka and not in mysql" in finding.summary
    assert not found("A10", look(now_ms=T0))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, ""),
        ({"retention.ms": "604800000"}, "retention.ms=604800000"),
        ({"retention.bytes": "1"}, "retention.bytes=1"),
        ({"cleanup.policy": "compact,delete", "retention.ms": "1"}, "cleanup.policy=compact,delete, retention.ms=1"),
    ],
)
def test_a11_finite_log(settings: dict[str, str], said: str) -> None:
    log_settings = LogSettings.of("transaction_decisions", FORGETS_NOTHING | settings, T0)
    # It is found also while the log itself cannot be read.
    snapshot = look(now_ms=T0, log_settings=log_settings, unavailable_sources=frozenset({Source.DECISIONS}))
    findings = found("A11", snapshot)
    assert [finding.severity for finding in findings] == ([Severity.CRITICAL] if said else [])
    for finding in findings:
        assert f"({said})" in finding.summary
        assert (
            f"--add-config {','.join(f'{name}={FORGETS_NOTHING[name]}' for name in sorted(settings))}"
            in finding.summary
        )
    assert not found("A11", look(now_ms=T0))


@pytest.mark.parametrize("ahead_ms", [120_000, -120_000])
def test_a16_clock_off(ahead_ms: int) -> None:
    clocks = [ClockOffset(owner=f"broker {n}", ahead_ms=ms, error_ms=100) for n, ms in ((1, ahead_ms), (2, 0))]
    (finding,) = found("A16", look(now_ms=T0, clocks=tuple(clocks)))
    assert (finding.severity, finding.subject, finding.for_ms) == (Severity.WARNING, "broker 1", 5_000)
    assert finding.evidence == (Evidence(fact=clocks[0].fact, source="clocks"),)
    assert not found("A16", look(now_ms=T0, clocks=tuple(clocks[1:])))


def test_one_rule_finds_a_thousand_at_most() -> None:
    held = tuple(
        HangingTransaction(partition=f"t-{n}", producer_id=n, producer_epoch=0, since_ms=T0, application="x")
        for n in range(1_200)
    )
    findings = found("A3", look(now_ms=T0, hanging=held))
    assert [finding.subject for finding in findings] == sorted(f"t-{n}|{n}|0" for n in range(1_200))[:1_000]


@pytest.mark.parametrize(
    ("unavailable_sources", "rules"),
    [
        ({Source.TRANSACTIONS}, {"A1", "A2", "A8", "A10"}),
        ({Source.DECISIONS}, {"A2", "A7", "A10"}),
        ({Source.PARTITIONS}, {"A3", "A4"}),
        ({Source.DATABASES}, {"A10"}),
        ({Source.PARTITIONS, Source.DATABASES}, {"A3", "A4", "A10"}),
        ({Source.CHECKPOINTS}, {"A6"}),
        ({Source.CONTROL_TOPICS}, {"A18"}),
        ({Source.OBSERVERS}, {"A9", "A14", "A15", "A17"}),
        (set(), set()),
    ],
)
def test_rules_whose_evidence_cannot_be_seen_are_held(unavailable_sources: set[Source], rules: set[str]) -> None:
    assert alert_rules.held(look(now_ms=T0, unavailable_sources=frozenset(unavailable_sources))) == rules


def test_a_rule_that_is_held_finds_nothing() -> None:
    near = of_transaction(44_001, *PREPARED)
    assert found("A1", near)
    assert not found("A1", changed(near, unavailable_sources=frozenset({Source.TRANSACTIONS})))


def test_rules_are_numbered_without_a_gap() -> None:
    assert [rule.number for rule in alert_rules.RULES.values()] == [
        f"A{n}" for n in range(1, len(alert_rules.RULES) + 1)
    ]
