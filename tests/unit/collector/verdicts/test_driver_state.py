"""How a pipeline stands: alive, stopped, frozen, silent or failed, by what it reported and how long ago."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.records.facts import PipelineFacts
from indoubt.collector.records.pipeline_runs import RunFacts
from indoubt.collector.verdicts.driver_state import (
    RETIRED_MS,
    DriverCondition,
    driver_state,
    gives_signs,
    plain_state,
    state_of,
)
from indoubt.collector.verdicts.judging import PipelineNow
from indoubt.collector.verdicts.verdict_case import Limits
from tests.unit.collector.observations import CHECKPOINT_ID, PREFIX, T0, pipeline
from tests.unit.collector.verdicts.case_tables import table

ALIVE, STOPPED, FROZEN, STUCK, SILENT, FAILED = (
    DriverCondition.ALIVE,
    DriverCondition.STOPPED,
    DriverCondition.FROZEN,
    DriverCondition.STUCK,
    DriverCondition.SILENT,
    DriverCondition.FAILED,
)
SILENT_AFTER_MS = 30_000
RESTART_DELAY_MS = 10_000


def run_of(run: int = 0, **times: Any) -> PipelineNow:
    """Return what a pipeline reported; ``times``: fields of its facts, in ms after T0."""
    facts = PipelineFacts(
        pipeline=PREFIX,
        **{name: at if isinstance(at, tuple | dict) else T0 + at for name, at in times.items()},
    )
    facts = replace(facts, runs=facts.runs or {0: RunFacts(began_ms=T0 + run, first_commit_ms=T0 + run)})
    return PipelineNow(facts=facts, checkpoint_id=CHECKPOINT_ID, attempt=0, run_ms=T0 + run)


def state(now: int, *, unfinished: int | None = None, run: int = 0, **times: Any) -> Any:
    """Return how it stands ``now`` ms after T0; ``times``: fields of its facts, in ms after T0."""
    found = run_of(run, **times)
    history = pipeline(facts=found.facts, restart_delay_ms=RESTART_DELAY_MS, latest_run_ms=T0 + run)
    return driver_state(found, history, None if unfinished is None else T0 + unfinished, Limits(), T0 + now)


RUNNING = {"started_ms": 1_000, "last_seen_ms": 1_000}
SAYS_SO = {**RUNNING, "settings": {"alive_ms": 10_000}}
STOPPED_AT_5 = {**RUNNING, "stopped_ms": 5_000, "last_seen_ms": 5_000}


@table(
    "now, unfinished, times, condition",
    [
        ("as long as it may be silent", 31_000, 500, RUNNING, ALIVE),
        ("silent in a batch", 31_001, 500, RUNNING, FROZEN),
        ("no input and no batch", 240_000, None, RUNNING, ALIVE),
        ("recovers", 30_000, None, {}, ALIVE),
        ("never comes back from its recovery", 30_001, None, {}, SILENT),
        ("waits for its restart", 126_000, None, {**RUNNING, "restarting_ms": 6_000, "last_seen_ms": 6_000}, ALIVE),
        ("never comes back from its restart", 126_001, None, {**RUNNING, "restarting_ms": 6_000, "last_seen_ms": 6_000},
            SILENT),
        ("failed a moment ago", 20_000, None, STOPPED_AT_5, ALIVE),
        ("failed and nobody starts it again", 20_001, None, STOPPED_AT_5, FAILED),
        ("stopped on request in a batch", 20_001, 500, {**STOPPED_AT_5, "stopped_on_request_ms": 5_000}, STOPPED),
        ("stopped on request before it failed", 20_001, None, {**STOPPED_AT_5, "stopped_on_request_ms": 2_000}, FAILED),
        ("stopped by an order", 20_001, None, {**STOPPED_AT_5, "stop_answer": (T0 + 5_000, "order")}, STOPPED),
        ("stopped without an order", 20_001, None, {**STOPPED_AT_5, "stop_answer": (T0 + 5_000, "")}, FAILED),
        ("failed after an order that it answered", 20_001, None, {**STOPPED_AT_5, "stop_answer": (T0 + 4_000, "order")},
            FAILED),
        ("it says that it runs, but not how often", 240_000, 500, {**RUNNING, "alive_ms": 239_998}, FROZEN),
        ("nearly a week", RETIRED_MS + 999, 500, RUNNING, FROZEN),
        ("nobody missed it for a week", RETIRED_MS + 1_000, 500, RUNNING, STOPPED),
        ("a time that is still to come counts not, the log does", 40_000, 500,
            {**RUNNING, "last_seen_ms": 900_000, "logged_ms": 11_000}, ALIVE),
        ("silent since the log's record", 41_001, 500, {**RUNNING, "last_seen_ms": 900_000, "logged_ms": 11_000},
            FROZEN),
        ("no batch, and it says that it runs", 240_000, None, {**SAYS_SO, "alive_ms": 210_000}, ALIVE),
        ("no batch, and it says no more that it runs", 240_001, None, {**SAYS_SO, "alive_ms": 210_000}, SILENT),
        ("no batch, and it never said that it runs", 31_001, None, SAYS_SO, SILENT),
        ("no batch, and this version of it says nothing", 240_001, None, {**RUNNING, "alive_ms": 210_000}, ALIVE),
        ("it says that it runs, and its batch stands still", 240_000, 500, {**SAYS_SO, "alive_ms": 210_000}, STUCK),
        ("it says no more that it runs, and its batch stands still", 240_001, 500, {**SAYS_SO, "alive_ms": 210_000},
            FROZEN),
        ("it runs by a time that is still to come", 240_000, None, {**SAYS_SO, "alive_ms": 900_000}, SILENT),
        ("a batch since it said so last", 71_000, None, {**SAYS_SO, "last_seen_ms": 41_000, "alive_ms": 11_000}, ALIVE),
        ("a week without a batch", RETIRED_MS + 9_000, None, {**SAYS_SO, "alive_ms": RETIRED_MS}, ALIVE),
    ],
)  # fmt: skip
def test_a_driver_is_judged_by_its_last_sign(
    now: int, unfinished: int | None, times: dict[str, Any], condition: DriverCondition
) -> None:
    assert state(now, unfinished=unfinished, **times).condition is condition


def test_a_driver_that_says_seldom_that_it_runs_has_longer() -> None:
    seldom = {**RUNNING, "alive_ms": 210_000, "settings": {"alive_ms": 15_000}}
    assert state(255_000, **seldom).condition is ALIVE
    silent = state(255_001, **seldom)
    assert (silent.condition, silent.since_ms, silent.allowed_ms) == (SILENT, T0 + 210_000, 45_000)


def test_a_driver_is_silent_since_its_last_sign() -> None:
    frozen = state(240_000, unfinished=500, **RUNNING)
    assert (frozen.since_ms, frozen.allowed_ms) == (T0 + 1_000, SILENT_AFTER_MS)
    assert frozen.needs_attention
    assert not state(2_000, **RUNNING).needs_attention


@pytest.mark.parametrize(
    ("run", "times", "found"),
    [
        (0, {}, "recovering"),
        (2, {"started_ms": 1}, "recovering"),
        (0, {"started_ms": 1}, "running"),
        (0, {"started_ms": 1, "restarting_ms": 2}, "restarting"),
        (0, {"started_ms": 1, "restarting_ms": 2, "stopped_ms": 3}, "stopped"),
        (0, {"started_ms": 4, "restarting_ms": 2, "stopped_ms": 3}, "running"),
    ],
)
def test_what_it_reported_last_is_how_it_stands(run: int, times: dict[str, Any], found: str) -> None:
    assert state_of(run_of(run, **times)) == found


@table(
    "now, times, gives",
    [
        ("heard of lately", 31_000, RUNNING, True),
        ("silent", 31_001, RUNNING, False),
        ("it says that it runs", 61_000, {**RUNNING, "alive_ms": 31_000}, True),
        ("it said so long ago", 61_001, {**RUNNING, "alive_ms": 31_000}, False),
        ("it reported its end", 6_000, STOPPED_AT_5, False),
    ],
)
def test_a_pipeline_gives_signs_until_its_end_or_its_silence(now: int, times: dict[str, Any], gives: bool) -> None:
    assert gives_signs(run_of(**times), Limits(), T0 + now) is gives


@table(
    "now, times, condition, since",
    [
        ("heard of lately", 6_000, RUNNING, ALIVE, 1_000),
        ("silent", 6_001, RUNNING, None, None),
        ("it has not committed yet", 1_000, {**RUNNING, "runs": {0: RunFacts()}}, None, None),
        ("its restart was ordered", 1_000, {**RUNNING, "ordered_ms": 1}, None, None),
        ("failed", 6_000, STOPPED_AT_5, None, None),
        ("stopped on request", 6_000, {**STOPPED_AT_5, "stopped_on_request_ms": 5_000}, STOPPED, 5_000),
        ("started again since", 6_000, {**RUNNING, "stopped_on_request_ms": 500}, ALIVE, 1_000),
        ("nobody missed it", RETIRED_MS + 1_000, RUNNING, STOPPED, 1_000),
        ("it said that it runs", RETIRED_MS + 1_000, {**RUNNING, "alive_ms": 2_000}, None, None),
    ],
)
def test_its_last_sign_alone_tells_unless_it_is_silent_or_failed(
    now: int, times: dict[str, Any], condition: DriverCondition | None, since: int | None
) -> None:
    found = plain_state(run_of(**times), Limits(), T0 + now)
    assert (found.condition if found else None) is condition
    if found is not None:
        assert (found.since_ms, found.allowed_ms) == (T0 + (since or 0), 0)


@pytest.mark.parametrize("sign", ["last_seen_ms", "logged_ms", "alive_ms"])
@pytest.mark.parametrize(("ahead", "counts"), [(5_000, True), (5_001, False)])
def test_a_sign_counts_unless_its_time_is_still_to_come(sign: str, ahead: int, counts: bool) -> None:
    now = 100_000
    run = run_of(**{"started_ms": 0, sign: now + ahead})
    assert gives_signs(run, Limits(), T0 + now) is counts


def test_a_run_that_began_in_the_time_to_come_is_its_only_sign() -> None:
    found = plain_state(run_of(900_000, started_ms=900_001), Limits(), T0)
    assert found is not None
    assert (found.condition, found.since_ms) == (ALIVE, T0 + 900_000)


def test_the_begin_of_a_run_is_a_sign() -> None:
    found = plain_state(run_of(20_000, **{**RUNNING, "started_ms": 20_001}), Limits(), T0 + 25_000)
    assert found is not None
    assert (found.condition, found.since_ms) == (ALIVE, T0 + 20_000)


def test_it_counts_as_given_up_after_a_week() -> None:
    assert RETIRED_MS == 7 * 24 * 3_600_000


def test_it_says_how_long_it_was_allowed_to_be_silent() -> None:
    failed = state(20_001, **STOPPED_AT_5)
    assert (failed.since_ms, failed.allowed_ms) == (T0 + 5_000, RESTART_DELAY_MS + 5_000)
    restarting = state(126_001, **RUNNING | {"restarting_ms": 6_000, "last_seen_ms": 6_000})
    assert (restarting.since_ms, restarting.allowed_ms) == (T0 + 6_000, SILENT_AFTER_MS + RESTART_DELAY_MS)
    stopped = state(20_001, **STOPPED_AT_5, stopped_on_request_ms=5_000)
    assert not stopped.needs_attention
    assert all(state(240_000, unfinished=500, run=run, **RUNNING).needs_attention for run in (0, 2_000))


EVERY_5 = {**RUNNING, "settings": {"alive_ms": 5_000}}


@table(
    "now, unfinished, times, is_late, shows_life",
    [
        # Interval 5 s, checkpoints 1 s: in a batch two signs are expected within 10 s.
        ("in a batch, a moment ago", 11_000, 500, RUNNING, False, True),
        ("in a batch, and two signs did not come", 11_001, 500, RUNNING, True, False),
        ("in a batch, and it says that it runs", 30_000, 500, {**RUNNING, "alive_ms": 20_000}, False, True),
        ("in a batch, and it says no more that it runs", 30_001, 500, {**RUNNING, "alive_ms": 20_000}, True, False),
        ("counted as frozen by now", 31_001, 500, RUNNING, False, False),
        ("in a batch that takes long, and it did not say twice that it runs", 5_001 + 1_000, 500,
            {**RUNNING, "settings": {"alive_ms": 2_000}}, True, False),
        ("no batch, and it says that it runs", 11_000, None, EVERY_5, False, True),
        ("no batch, and it did not say twice that it runs", 11_001, None, EVERY_5, True, False),
        ("no batch, and this version of it says nothing", 240_000, None, RUNNING, False, True),
        ("failed a moment ago", 6_000, None, STOPPED_AT_5, True, False),
    ],
)  # fmt: skip
def test_one_that_left_out_two_expected_signs_shows_no_life(
    now: int, unfinished: int | None, times: dict[str, Any], is_late: bool, shows_life: bool
) -> None:
    found = state(now, unfinished=unfinished, **times)
    assert (found.is_late, found.shows_life) == (is_late, shows_life)


BEGUN = {"runs": {0: RunFacts(began_ms=T0 + 50_000)}}
RESTARTS = {**RUNNING, "restarting_ms": 40_000, "last_seen_ms": 40_000}


@table(
    "now, run, unfinished, times, restart",
    [
        ("ordered", 45_000, 0, 500, {**RUNNING, "ordered_ms": 40_000}, (40_000, None)),
        ("its supervisor reports it", 45_000, 0, 500, RESTARTS, (40_000, None)),
        ("its supervisor reports it, and waits for long", 45_000, 0, 500,
            {**RESTARTS, "settings": {"restart_delay_ms": 120_001}}, None),
        ("ordered, and its supervisor reports it", 45_000, 0, 500,
            {**RESTARTS, "ordered_ms": 39_000, "settings": {"restart_delay_ms": 120_001}}, (39_000, None)),
        ("the new run recovers", 60_000, 50_000, 500, {**RESTARTS, **BEGUN}, (40_000, 0)),
        ("the new query runs and has not committed", 60_000, 50_000, 500, {**RESTARTS, **BEGUN, "started_ms": 55_000},
            (40_000, 0)),
        ("the new query runs and has nothing to do", 60_000, 50_000, None,
            {**RESTARTS, **BEGUN, "started_ms": 55_000, "last_seen_ms": 55_000}, None),
        ("the new run has committed", 60_000, 50_000, 500, {**RESTARTS, "started_ms": 55_000}, None),
        ("for two minutes", 160_000, 50_000, 500, {**RESTARTS, **BEGUN}, (40_000, 0)),
        ("for too long", 160_001, 50_000, 500, {**RESTARTS, **BEGUN}, None),
        ("the new run failed", 60_000, 50_000, 500, {**RESTARTS, **BEGUN, "started_ms": 55_000, "stopped_ms": 59_000},
            None),
    ],
)  # fmt: skip
def test_a_restart_goes_on_until_the_new_run_commits(
    now: int, run: int, unfinished: int | None, times: dict[str, Any], restart: tuple[int, int | None] | None
) -> None:
    found = state(now, unfinished=unfinished, run=run, **times).restart
    assert (None if found is None else (found.since_ms - T0, found.run)) == restart


def test_a_pipeline_that_restarts_is_not_called_silent_for_that() -> None:
    begun = {**RESTARTS, **BEGUN, "started_ms": 55_000, "last_seen_ms": 55_000, "alive_ms": 99_000}
    starting = state(100_000, unfinished=500, run=50_000, **begun)
    assert (starting.condition, starting.shows_life) == (ALIVE, False)
    ordered = state(100_000, unfinished=500, **RUNNING, ordered_ms=99_000)
    assert (ordered.condition, ordered.restart is None) == (FROZEN, False)
