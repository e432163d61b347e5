"""Situations for tests of the list of what needs attention. Times are ms after T0."""

from __future__ import annotations

from typing import Any

from indoubt.collector.assess.attention.listing import parts
from indoubt.collector.assess.situation import Situation
from indoubt.collector.assess.transaction_groups import required
from indoubt.collector.facts.state import State
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.facts import PipelineFacts
from indoubt.collector.records.flink_job_facts import FlinkJobFacts
from indoubt.collector.records.formats.flink_records import FlinkJob
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import Observation
from indoubt.collector.verdicts.driver_state import DriverCondition, DriverState
from indoubt.collector.verdicts.judging import Judged, PipelineNow, judged
from indoubt.collector.verdicts.partition_state import NOTHING_SEEN, PartitionFindings
from indoubt.collector.views.application_names import applications_of_hanging
from indoubt.lifecycle.rows.alerts import AlertRow
from indoubt.lifecycle.rows.attention import Attention
from tests.unit.collector.assessments import look
from tests.unit.collector.observations import (
    CHECKPOINT_ID,
    PREFIX,
    T0,
    broker_record,
    case,
    decided,
    handle,
    observer_of,
    only_view,
    run_started,
)

FOREIGN_OLD_MS = 30_000


def opened() -> list[Observation]:
    """Return a transaction of ours that was just opened."""
    return [run_started(0), broker_record(BrokerStatus.ONGOING, 0)]


def decided_and_open() -> list[Observation]:
    """Return one that a commit decision lists."""
    return [*opened(), decided(1, handle())]


def lost() -> list[Observation]:
    """Return one that was decided, and aborted by the broker."""
    aborted = broker_record(BrokerStatus.COMPLETE_ABORT, 60_000, epoch=5)
    return [*decided_and_open(), broker_record(BrokerStatus.PREPARE_ABORT, 60_000, epoch=5), aborted]


def foreign() -> list[Observation]:
    """Return one of an application that no decision log knows."""
    return [broker_record(BrokerStatus.ONGOING, 0, transaction="billing", producer_id=7)]


def one(now: int, observations: list[Observation], **changes: Any) -> Judged:
    """Return the only transaction of these, judged ``now`` ms after T0."""
    (found,) = judged([case(only_view(*observations), now, **changes)])
    return found


def situation(now: int, *transactions: Judged, findings: PartitionFindings = NOTHING_SEEN, **changes: Any) -> Situation:
    """Return what is known ``now`` ms after T0."""
    applications = applications_of_hanging(State(), findings.hanging)
    groups = required(transactions, findings, applications, T0 + now, FOREIGN_OLD_MS)
    fields = {
        "judged": transactions,
        "required": groups,
        "partitions": findings,
        "applications": applications,
        **changes,
    }
    return look(T0 + now, **fields)


def cards(now: int, *transactions: Judged, **changes: Any) -> list[Attention]:
    """Return the parts of incidents of a situation."""
    return parts(situation(now, *transactions, **changes))


def driver(condition: DriverCondition, since: int = 0) -> DriverState:
    facts = PipelineFacts(pipeline=PREFIX, started_ms=T0)
    run = PipelineNow(facts=facts, checkpoint_id=CHECKPOINT_ID, attempt=0, run_ms=T0 - 1_000)
    return DriverState(run=run, condition=condition, since_ms=T0 + since)


def job(state: str, id_: str = "j1", started: int = 0) -> FlinkJobFacts:
    times = {"started_ms": T0 + started, "changed_ms": T0 + started}
    return FlinkJobFacts(job=FlinkJob(cluster="flink", job=id_, name="billing", state=state, **times))


def alert(rule: str, subject: str, severity: str = "critical", since: int = 0, **labels: str) -> AlertRow:
    """Return a firing alert."""
    return AlertRow(
        key=f"{rule}|{subject}",
        rule=rule,
        state="firing",
        severity=severity,
        summary=f"{rule} of {subject}",
        evidence=(),
        labels={"rule": rule, "severity": severity, **labels},
        since_ms=T0 + since,
        found_at_ms=T0 + since,
        fired_at_ms=T0 + since,
        absent_at_ms=None,
        name=rule,
        group=f"application {labels.get('pipeline', '')}",
        remedy="open",
        path="/alerts",
        silenced_by=None,
    )


def observer(name: str, state: str, *, delay: int | None = 0, since: int = 0, error: str = "") -> ObserverStatus:
    times = {"delay_ms": delay, "since_ms": T0 + since}
    return ObserverStatus(**observer_of(name), state=ObserverState(state), error=error, records=0, **times)
