"""Transactions in each state, and what one alert rule finds of a situation."""

from __future__ import annotations

from typing import Any

from indoubt.collector.assess import rules as alert_rules
from indoubt.collector.assess.findings import LABELS, Finding
from indoubt.collector.assess.situation import Situation
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import Observation
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.verdicts.verdict_rules import judge
from indoubt.lifecycle.events import EventType
from tests.unit.collector.assessments import changed, look
from tests.unit.collector.observations import (
    T0,
    broker_record,
    case,
    decided,
    handle,
    only_view,
    pipeline,
    run_started,
    transaction_event,
)

LIMITS = AlertSettings()
OURS = (run_started(), broker_record(BrokerStatus.ONGOING, 0))
PREPARED = (*OURS, transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=handle().to_json()))
DECIDED = (*PREPARED, decided(1, handle()))
COMMITTED = (*DECIDED, broker_record(BrokerStatus.COMPLETE_COMMIT, 2000))
ABORTED = (*PREPARED, broker_record(BrokerStatus.COMPLETE_ABORT, 60_000))
LOST = (*DECIDED, broker_record(BrokerStatus.COMPLETE_ABORT, 60_000))
FOREIGN = (broker_record(BrokerStatus.ONGOING, 0, transaction="flink-orders-3"),)


def found(number: str, snapshot: Situation, limits: AlertSettings = LIMITS) -> list[Finding]:
    """Return what one rule finds; every finding of it must be whole."""
    findings = [finding for finding in alert_rules.findings(changed(snapshot, limits=limits)) if finding.rule == number]
    for finding in findings:
        assert finding.evidence
        assert finding.summary
        assert finding.path.startswith("/")
        assert list(finding.labels) == [name for name in LABELS if name in finding.labels]
    return findings


def of_transaction(at: int, *observations: Observation, replayed: int | None = None, **history: Any) -> Situation:
    """Return a snapshot with one transaction, ``at`` ms after T0; its pipeline needs 16 s unless changed."""
    view = only_view(*observations)
    known = pipeline(**history) if view.managed else None
    of_view = case(view, at, pipeline=known, replayed_ms=None if replayed is None else T0 + replayed)
    return look(now_ms=T0 + at, judged=(Judged(view=of_view.transaction, judgement=judge(of_view), pipeline=known),))
