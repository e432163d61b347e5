"""Cards about pipelines: a driver that gives no sign, a query that failed and was not started again, a Flink job that failed."""

from __future__ import annotations

from collections.abc import Iterable

from indoubt.collector.assess.attention.cards import card
from indoubt.collector.assess.findings import Severity, application_group
from indoubt.collector.assess.remedies import remedy_of_driver
from indoubt.collector.assess.situation import Situation
from indoubt.collector.records.flink_job_facts import FlinkJobFacts
from indoubt.collector.verdicts.driver_state import DriverCondition, DriverState, state_of
from indoubt.lifecycle.durations import duration, steady_duration
from indoubt.lifecycle.orders import PIPELINE_KEY
from indoubt.lifecycle.rows.attention import Attention, AttentionKind, Remedy
from indoubt.lifecycle.rows.overview import AwaitedPipeline
from indoubt.lifecycle.rows.pipelines import RestartUnderWay

JOB_FAILED, JOB_RUNNING = "FAILED", "RUNNING"


def pipeline_cards(situation: Situation) -> list[Attention]:
    """Return a card for each pipeline that does not go on by itself."""
    managed = [_card(driver, situation) for driver in situation.drivers if driver.needs_attention]
    return [*managed, *(_job_card(facts) for facts in newest_jobs(situation.jobs) if facts.job.state == JOB_FAILED)]


def alive(situation: Situation) -> int:
    """Return how many pipelines run: ours, and Flink's jobs."""
    running = sum(1 for facts in situation.jobs if facts.job.state == JOB_RUNNING)
    return running + sum(1 for driver in situation.drivers if driver.shows_life)


def awaited(situation: Situation) -> tuple[AwaitedPipeline, ...]:
    """Return the pipelines that show no life now and are not counted as wrong yet, those that are silent first."""
    found = [
        AwaitedPipeline(
            pipeline=driver.run.facts.pipeline,
            silent_since_ms=driver.since_ms if driver.is_late else None,
            counted_after_ms=driver.allowed_ms if driver.is_late else None,
            restart=driver.restart,
        )
        for driver in situation.drivers
        if driver.condition is DriverCondition.ALIVE and not driver.shows_life
    ]
    return tuple(sorted(found, key=lambda each: (each.restart is not None, each.pipeline)))


def goes_on(restart: RestartUnderWay, now_ms: int) -> str:
    """Return what goes on while a pipeline restarts, in one sentence: there is nothing to do meanwhile."""
    took = steady_duration(max(0, now_ms - restart.since_ms))
    usually = f" of usually {duration(restart.usually_ms)}" if restart.usually_ms is not None else ""
    what = f"Run {restart.run} is starting" if restart.run is not None else "A restart is under way"
    return f"{what}, {took}{usually}."


def newest_jobs(jobs: Iterable[FlinkJobFacts]) -> list[FlinkJobFacts]:
    """Return of each cluster and name the job that started last: one that failed may have been submitted again."""
    newest: dict[str, FlinkJobFacts] = {}
    for facts in jobs:
        known = newest.get(facts.pipeline)
        if known is None or facts.job.started_ms >= known.job.started_ms:
            newest[facts.pipeline] = facts
    return list(newest.values())


def _card(driver: DriverState, situation: Situation) -> Attention:
    name, has_failed = driver.run.facts.pipeline, driver.condition is DriverCondition.FAILED
    remedy = remedy_of_driver(driver, situation.startable)
    where = "" if remedy is Remedy.START else " on its machine"
    return card(
        kind=AttentionKind.PIPELINE,
        key=f"pipeline:{name}",
        badge=driver.condition.value,
        group=application_group(name),
        severity=Severity.CRITICAL.value,
        pipeline=name,
        headline=_headline(driver, situation.now_ms),
        since_ms=driver.since_ms,
        consequence=(
            goes_on(driver.restart, situation.now_ms)
            if driver.restart is not None
            else f"Nothing new is written until it is started{where}: its checkpoint is kept."
            if has_failed
            else "Nothing new is written, and what it left open stays open until its timeout."
        ),
        remedy=remedy,
        target=PIPELINE_KEY + name,
    )


def _headline(driver: DriverState, now_ms: int) -> str:
    name = driver.run.facts.pipeline
    since = "" if driver.since_ms is None else f" for {steady_duration(max(0, now_ms - driver.since_ms))}"
    match driver.condition:
        case DriverCondition.FAILED:
            return f"{name} failed and was not started again{since}."
        case DriverCondition.FROZEN:
            return f"The driver of {name} has given no sign{since}, in the middle of a batch."
        case DriverCondition.STUCK:
            return f"The driver of {name} runs, but its batch has made no progress{since}."
        case _:
            return f"{name} has given no sign{since}; it was {state_of(driver.run)}."


def _job_card(facts: FlinkJobFacts) -> Attention:
    return card(
        kind=AttentionKind.PIPELINE,
        key=f"job:{facts.job.job}",
        badge="failed",
        group=application_group(facts.pipeline),
        severity=Severity.CRITICAL.value,
        pipeline=facts.pipeline,
        headline=f"Flink has given up the job {facts.job.name} of cluster {facts.job.cluster}.",
        since_ms=facts.job.ended_ms or facts.job.changed_ms,
        consequence="Nothing new is written until it is submitted again from its newest checkpoint.",
        target=facts.pipeline,
    )
