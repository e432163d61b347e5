"""Alert rules A13 and A14, each on the cases where it must and must not find something."""

from __future__ import annotations

from indoubt.collector.assess import rules as alert_rules
from indoubt.collector.assess.findings import LABELS, Finding, Severity
from indoubt.collector.assess.rule import Source
from indoubt.collector.records.standing_orders import HeldBack, OrderReport, StandingAct
from indoubt.lifecycle.orders import Action
from tests.unit.collector.assessments import look
from tests.unit.collector.observations import T0


def act(number: int, outcome: str = "accepted") -> StandingAct:
    return StandingAct(key=f"k{number}", application="orders", at_ms=T0 + number, audit=number, outcome=outcome)


def held(number: int, deadline_ms: int | None = T0 + 9_000) -> HeldBack:
    return HeldBack(key=f"k{number}", application="orders", deadline_ms=deadline_ms, why="a doubt")


def found(number: str, *orders: OrderReport, unavailable: frozenset[Source] = frozenset()) -> list[Finding]:
    snapshot = look(now_ms=T0, orders=orders, unavailable_sources=unavailable)
    findings = [finding for finding in alert_rules.findings(snapshot) if finding.rule == number]
    for finding in findings:
        assert finding.evidence
        assert list(finding.labels) == [name for name in LABELS if name in finding.labels]
    return findings


def report(name: str = "save", action: Action = Action.COMMIT, **fields: object) -> OrderReport:
    return OrderReport(name=name, act=action, **fields)  # type: ignore[arg-type]


def test_a13_says_what_was_done_without_a_person() -> None:
    assert found("A13", report(), report("other", dry_runs=(act(1, "dry_run"),), held=(held(1),))) == []
    (finding,) = found("A13", report(acts=tuple(act(n) for n in range(7))))
    assert (finding.severity, finding.labels["standing_order"]) == (Severity.WARNING, "save")
    assert "commit ordered 7 times in the last hour." in finding.summary
    assert [evidence.fact for evidence in finding.evidence][:2] == ["k6: accepted, audit 6", "k5: accepted, audit 5"]
    assert len(finding.evidence) == 5
    (finding,) = found("A13", report(acts=(act(1), act(2, "refused"), act(3, "failed"))))
    assert "; 2 of 3 attempts did nothing" in finding.summary


def test_a14_says_what_is_held_back_and_how_much_time_is_left() -> None:
    assert found("A14", report(acts=(act(1),))) == []
    (finding,) = found("A14", report(held=(held(1),)))
    assert finding.severity is Severity.CRITICAL
    assert "does not commit a transaction of orders, 9.0 s before the first timeout: a doubt" in finding.summary
    assert finding.evidence[0].fact == "k1: a doubt"
    (finding,) = found("A14", report(action=Action.ABORT, held=(held(1, None), held(2, None))))
    assert finding.severity is Severity.WARNING
    assert "does not abort 2 transactions: a doubt" in finding.summary


def test_a14_waits_for_observers_that_have_just_started() -> None:
    assert found("A14", report(held=(held(1),)), unavailable=frozenset({Source.OBSERVERS})) == []
