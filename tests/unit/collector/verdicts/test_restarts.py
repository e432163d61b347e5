"""How long restarts took: from the last sign of one run to the first commit of the next, as the decision log and events tell."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from indoubt.collector.facts.fold import apply
from indoubt.collector.facts.state import State
from indoubt.collector.records.facts import PipelineFacts
from indoubt.collector.records.observations import EventSeen, Observation
from indoubt.collector.records.pipeline_runs import RUNS_KEPT, RunFacts
from indoubt.collector.verdicts.judging import pipeline_histories
from indoubt.collector.verdicts.restarts import MeasuredRestarts, each_restart, measured_restarts
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.lifecycle.decisions import Ruling
from indoubt.lifecycle.events import STOPPED_ON_REQUEST, EventType, LifecycleEvent
from tests.unit.collector.observations import PREFIX, T0, decided, handle, run_started

SILENT_AFTER_MS = 30_000
FIRST, SECOND = 0, 5


def event(type_: EventType, at: int, attempt: int = -1, **data: Any) -> EventSeen:
    """Return a pipeline's event, ``at`` ms after T0; attempt -1: its supervisor does not know the run."""
    fields = {"pipeline": PREFIX, "checkpoint_id": "checkpoint-1", "attempt": attempt, **data}
    return EventSeen(
        event=LifecycleEvent(type=type_, source=f"/pipeline/{PREFIX}", subject="", at_ms=T0 + at, data=fields)
    )


def committed(offset: int, at: int, attempt: int, opened: int, batch: int = 41) -> Observation:
    opened_then = handle().__class__(**{**_fields(), "opened_at_ms": T0 + opened})
    return decided(offset, opened_then, at=at, attempt=attempt, batch=batch, who=f"run {attempt}")


def _fields() -> dict[str, Any]:
    of = handle()
    return {name: getattr(of, name) for name in of.__slots__}


BEFORE = (run_started(FIRST, at=-60_000), committed(1, 0, FIRST, -1_000), event(EventType.PIPELINE_ALIVE, 4_000, FIRST))
CRASHED = (*BEFORE, event(EventType.PIPELINE_RESTARTING, 4_100))
RUN = run_started(SECOND, at=40_000)
STARTED = event(EventType.PIPELINE_STARTED, 45_000, SECOND)
COMMITS = committed(6, 50_000, SECOND, 46_000, batch=42)
AFTER = (RUN, STARTED, COMMITS)


def measured(*seen: Observation) -> MeasuredRestarts | None:
    state = State(settled_kept=100, checkpoints_kept=100)
    for observation in seen:
        apply(state, observation)
    return pipeline_histories(state, [PREFIX], Limits())[PREFIX].restarts


def took(*seen: Observation) -> int | None:
    found = measured(*seen)
    return None if found is None else found.longest_ms


def test_a_crash_counts_from_its_last_sign_to_the_next_runs_commit() -> None:
    assert measured(*CRASHED, *AFTER) == MeasuredRestarts(count=1, longest_ms=46_000, median_ms=46_000)


def test_the_order_in_which_the_sources_tell_of_it_does_not_matter() -> None:
    # Within one source the order stays: the decision log's records, and the events.
    log = [one for one in (*CRASHED, *AFTER) if not isinstance(one, EventSeen)]
    events = [one for one in (*CRASHED, *AFTER) if isinstance(one, EventSeen)]
    assert took(*log, *events) == took(*events, *log) == 46_000
    assert all(took(*log, *order) == 46_000 for order in permutations(events))


@pytest.mark.parametrize(
    ("case", "seen", "ms"),
    [
        ("no commit yet", (*CRASHED, RUN, STARTED), None),
        ("one run only", BEFORE, None),
        (
            "its first batch was committed before: it ends",
            (*CRASHED, *AFTER, event(EventType.CHECKPOINT_COMPLETED, 49_000, SECOND, batch=41, duration_ms=3_000)),
            45_000,
        ),
        (
            "and began after an hour without input",
            (
                *CRASHED,
                RUN,
                STARTED,
                event(EventType.CHECKPOINT_COMPLETED, 3_649_000, SECOND, batch=41, duration_ms=4_000),
            ),
            45_000,
        ),
        (
            "the end of its first batch comes after the commit",
            (*CRASHED, *AFTER, event(EventType.CHECKPOINT_COMPLETED, 51_000, SECOND, batch=42, duration_ms=5_000)),
            46_000,
        ),
        ("its first commit counts", (*CRASHED, *AFTER, committed(7, 90_000, SECOND, 80_000, batch=43)), 46_000),
        (
            "a frozen driver waited for a person",
            (*BEFORE, event(EventType.PIPELINE_RESTARTING, 34_001, FIRST, order="order"), *AFTER),
            15_999,
        ),
        (
            "a driver that a person restarts at once",
            (*BEFORE, event(EventType.PIPELINE_RESTARTING, 34_000, FIRST, order="order"), *AFTER),
            46_000,
        ),
        (
            "stopped on request",
            (*BEFORE, event(EventType.PIPELINE_STOPPED, 5_000, FIRST, reason=STOPPED_ON_REQUEST), *AFTER),
            None,
        ),
        ("nobody reported it, and it took long", (*BEFORE, *AFTER), None),
        ("nobody reported it", (*BEFORE, run_started(SECOND, at=34_000), COMMITS), 46_000),
        ("no input for an hour", (*CRASHED, RUN, STARTED, committed(6, 3_649_000, SECOND, 3_645_000, 42)), 45_000),
        ("a first batch that takes long", (*CRASHED, RUN, STARTED, committed(6, 140_000, SECOND, 46_000, 42)), 136_000),
        (
            "a sign that is claimed of a run that is over",
            (*CRASHED, event(EventType.PIPELINE_ALIVE, 900_000, FIRST), *AFTER),
            10_000,
        ),
        (
            "an abort of the sweep is no sign of the run",
            (*CRASHED, decided(2, at=30_000, ruling=Ruling.ABORT, batch=42, who="sweep after run 0"), *AFTER),
            46_000,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_restart_took(case: str, seen: tuple[Observation, ...], ms: int | None) -> None:
    assert took(*seen) == ms


def test_the_longest_and_the_median_of_several_are_told() -> None:
    times = ((0, 1_000, 5_000), (7_000, 10_000, 12_000), (20_000, 50_000, 90_000), (95_000, 100_000, 115_000))
    runs = {
        number: RunFacts(began_ms=began, first_commit_ms=commit, last_sign_ms=commit)
        for number, (began, _, commit) in enumerate(times)
    }
    facts = PipelineFacts(pipeline=PREFIX, runs=runs)
    assert measured_restarts(facts, SILENT_AFTER_MS) == MeasuredRestarts(count=3, longest_ms=78_000, median_ms=25_000)
    each = [(one.run, one.committed_at_ms, one.took_ms) for one in each_restart(facts, SILENT_AFTER_MS)]
    assert each == [(1, 12_000, 7_000), (2, 90_000, 78_000), (3, 115_000, 25_000)]


def test_the_newest_runs_are_kept() -> None:
    state = State(settled_kept=100, checkpoints_kept=100)
    for number in range(RUNS_KEPT + 5):
        apply(state, run_started(number, at=number))
    assert sorted(state.pipelines[PREFIX].runs) == list(range(5, RUNS_KEPT + 5))
