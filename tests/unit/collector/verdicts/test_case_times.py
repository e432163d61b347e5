"""The times that rules judge by: what recovery needs, since when a driver is silent or stopped, how long a decision waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.facts import PipelineFacts
from indoubt.collector.records.flink_job_facts import FlinkJobFacts
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.verdicts.flink_cases import FlinkCase
from indoubt.collector.verdicts.verdict_case import Limits, PipelineHistory
from indoubt.lifecycle.decisions import Ruling
from tests.unit.collector.flink_observations import job
from tests.unit.collector.observations import (
    PREFIX,
    T0,
    broker_record,
    case,
    decided,
    handle,
    only_view,
    pipeline,
    run_started,
)

OPEN = only_view(run_started(), broker_record(BrokerStatus.ONGOING, 0))
SILENT_AFTER_MS, NOW = 30_000, 100_000


def facts(**times: int | None) -> PipelineFacts:
    """Return what a pipeline reported; ``times``: fields, in ms after T0."""
    return PipelineFacts(pipeline=PREFIX, **{name: None if at is None else T0 + at for name, at in times.items()})  # type: ignore[arg-type]


def test_the_limits_are_those_of_the_settings() -> None:
    limits = Limits()
    assert (limits.commit_overdue_ms, limits.flink_commit_overdue_ms) == (2_000, 1_500)
    assert (limits.driver_silent_ms, limits.foreign_old_ms) == (30_000, 30_000)


def test_recovery_takes_an_interval_a_checkpoint_and_a_restart_delay() -> None:
    history = pipeline(interval_ms=5_000, checkpoint_p99_ms=1_000, restart_delay_ms=20_000)
    assert (history.recovery_ms, history.recovery_length) == (26_000, "at least 26 s")
    assert history.recovery_parts == "not measured: interval 5.0 s + checkpoint 1.0 s + restart delay 20 s"
    unknown = PipelineHistory(facts=facts())
    assert (unknown.interval_ms, unknown.checkpoint_p99_ms, unknown.restart_delay_ms) == (10_000, 0, 10_000)


@pytest.mark.parametrize(
    ("limit", "interval", "p99", "silent_after"),
    [
        (30_000, 10_000, 10_000, 30_000),
        (30_000, 10_001, 10_000, 30_003),
        (30_000, 10_000, 10_001, 30_003),
        (30_004, 10_001, 10_001, 30_004),
    ],
)
def test_a_driver_may_say_nothing_for_three_intervals_or_checkpoints(
    limit: int, interval: int, p99: int, silent_after: int
) -> None:
    history = pipeline(interval_ms=interval, checkpoint_p99_ms=p99)
    assert history.silent_after_ms(Limits(driver_silent_ms=limit)) == silent_after


def of_driver(*, opened: int | None = 0, heard: int | None = None, **signs: int | None) -> Any:
    """Return the case of a transaction whose driver's last sign came then, at NOW; ``signs``: times of its own clock."""
    view = only_view(run_started(), broker_record(BrokerStatus.ONGOING, opened or 0, start=opened or 0))
    if opened is None:
        view = replace(view, broker=None)
    heard_ms = None if heard is None else T0 + heard
    return case(view, NOW, pipeline=pipeline(heard_ms=heard_ms, facts=facts(**signs)))


@pytest.mark.parametrize(
    ("signs", "since"),
    [
        ({"heard": 20_000}, 20_000),
        ({"heard": 10_000, "opened": 20_000}, 20_000),
        ({"heard": 10_000, "opened": None}, 10_000),
        ({}, None),
        ({"heard": NOW - SILENT_AFTER_MS}, None),
        ({"heard": NOW - SILENT_AFTER_MS - 1}, NOW - SILENT_AFTER_MS - 1),
        ({"heard": 5, "opened": NOW - SILENT_AFTER_MS}, None),
        # Its own clock tells nothing, however late or early it is.
        ({"heard": 20_000, "last_seen_ms": NOW, "logged_ms": NOW}, 20_000),
        ({"heard": NOW, "last_seen_ms": -600_000, "logged_ms": -600_000}, None),
    ],
)
def test_since_when_a_driver_is_silent(signs: dict[str, int | None], since: int | None) -> None:
    found = of_driver(**signs)
    assert found.driver_silent_since_ms == (None if since is None else T0 + since)
    assert found.is_driver_gone is (since is not None)


def test_of_a_transaction_without_a_pipeline_no_driver_is_silent() -> None:
    found = case(OPEN, NOW, pipeline=None)
    assert found.driver_silent_since_ms is None
    assert found.is_driver_gone is False


@pytest.mark.parametrize(
    ("state", "polled", "is_gone"), [("FAILED", True, True), ("RUNNING", True, False), ("RUNNING", False, False)]
)
def test_of_a_flink_transaction_its_job_says_whether_its_driver_is_gone(
    state: str, polled: bool, is_gone: bool
) -> None:
    known = FlinkJobFacts(job=job(state=state))
    found = FlinkCase(start_ms=T0, listings=(), job=known, name="eu/orders", polled=polled, now_ms=T0 + NOW)
    for pipeline_ in (None, pipeline(facts=facts(last_seen_ms=0))):
        assert case(OPEN, NOW, pipeline=pipeline_, flink=found).is_driver_gone is is_gone


def ruled(ruling: Ruling) -> TransactionView:
    return only_view(run_started(), broker_record(BrokerStatus.ONGOING, 0), decided(1, handle(), ruling=ruling))


def test_a_decision_waits_since_it_was_made() -> None:
    assert case(OPEN, 9_000).overdue_ms == 0
    assert case(ruled(Ruling.ABORT), 9_000).overdue_ms == 8_000
    listed = ruled(Ruling.COMMIT)
    assert listed.listing is not None
    assert case(listed, 9_000).overdue_ms == 8_000
    assert case(replace(listed, first_decision=None), 9_000).overdue_ms == 8_000
    offset, decision, counts = listed.first_decision or (0, listed.listing[1], True)
    earlier = replace(listed, first_decision=(offset, replace(decision, at_ms=T0), counts))
    assert case(earlier, 9_000).overdue_ms == 8_000, "the decision that counts"
