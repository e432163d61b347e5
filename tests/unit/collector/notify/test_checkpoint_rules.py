"""Alert rules A6 and A15, each on the cases where it must and must not find something."""

from __future__ import annotations

from typing import Any

import pytest

from indoubt.collector.assess import rules as alert_rules
from indoubt.collector.assess.findings import Finding, Severity
from indoubt.collector.assess.rules.checkpoints import CheckpointHistory
from indoubt.collector.assess.rules.sources import UnreadCheckpoints
from indoubt.collector.assess.situation import Situation
from indoubt.collector.records.facts import CheckpointFacts, PipelineFacts
from indoubt.collector.records.formats.flink_records import UnreadCheckpoint
from indoubt.collector.verdicts.verdict_case import PipelineHistory
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.verdicts import Evidence
from tests.unit.collector.assessments import changed, look
from tests.unit.collector.notify.rule_findings import found
from tests.unit.collector.observations import PREFIX, T0, event, folded, pipeline


def checkpoint(number: int = 7, **times: int) -> CheckpointFacts:
    counts = {"failures": times.pop("failures")} if "failures" in times else {}
    at = {f"{name}_ms": T0 + value for name, value in times.items()}
    return CheckpointFacts(pipeline=PREFIX, number=number, **at, **counts)


def of_foreign_checkpoints(at: int, newest: CheckpointFacts) -> Situation:
    """Return a snapshot of the checkpoints of a pipeline that is not ours."""
    return changed(of_checkpoints(at, newest), pipelines={})


def of_checkpoints(
    at: int,
    newest: CheckpointFacts,
    failures: int = 0,
    stopped: int | None = None,
    again: int | None = None,
    p99: int = 0,
    gap: int = 0,
    **history: Any,
) -> Situation:
    """Return a snapshot of a pipeline's checkpoints; ``again``: when its query started again."""
    stopped_ms, started_ms = (None if at_ms is None else T0 + at_ms for at_ms in (stopped, again))
    facts = PipelineFacts(pipeline=PREFIX, stopped_on_request_ms=stopped_ms, started_ms=started_ms)
    history_of: dict[str, PipelineHistory] = {PREFIX: pipeline(facts=facts, **history)}
    one = CheckpointHistory(
        pipeline=PREFIX, newest=newest, completed_ms=T0 - 5_000, failures=failures, p99_ms=p99, gap_ms=gap
    )
    return look(now_ms=T0 + at, checkpoints=(one,), pipelines=history_of)


@pytest.mark.parametrize(
    ("snapshot", "is_found"),
    [
        # Stalled: running for longer than 60 s, 3 intervals and 3 of its longest checkpoints.
        (of_checkpoints(59_999, checkpoint(started=0)), False),
        (of_checkpoints(60_000, checkpoint(started=0)), True),
        (of_checkpoints(60_000, checkpoint(planned=0)), True),
        (of_checkpoints(60_000, checkpoint(started=0), interval_ms=60_000), False),
        (of_checkpoints(60_000, checkpoint(started=0), p99=30_000), False),
        (of_checkpoints(90_000, checkpoint(started=0), p99=30_000), True),
        # An idle query plans no batch: its last checkpoint is completed, however long ago.
        (of_checkpoints(3_600_000, checkpoint(started=0, completed=500)), False),
        # Failed and not tried again within what recovery needs, 16 s.
        (of_checkpoints(15_900, checkpoint(started=0, failed=0)), False),
        (of_checkpoints(16_000, checkpoint(started=-100, failed=0)), True),
        # Flink triggers the next one after its interval, which only the others tell.
        (of_checkpoints(179_000, checkpoint(started=-100, failed=0), gap=60_000), False),
        (of_checkpoints(180_000, checkpoint(started=-100, failed=0), gap=60_000), True),
        # Tried again, and completed.
        (of_checkpoints(16_000, checkpoint(started=12_000, failed=0), failures=1), False),
        (of_checkpoints(16_000, checkpoint(started=12_000, failed=0, completed=13_000), failures=3), False),
        # Fails again and again.
        (of_checkpoints(16_000, checkpoint(started=15_000, failed=14_000), failures=2), False),
        (of_checkpoints(16_000, checkpoint(started=15_000, failed=14_000), failures=3), True),
        # Stopped on purpose: its last batch waits for the next start.
        (of_checkpoints(3_600_000, checkpoint(started=0, failed=100), stopped=200), False),
        (of_checkpoints(3_600_000, checkpoint(started=300, failed=400), stopped=200), True),
        # Started again after that: it has as long as ever from then on.
        (of_checkpoints(915_900, checkpoint(started=0, failed=100), stopped=200, again=900_000), False),
        (of_checkpoints(916_000, checkpoint(started=0, failed=100), stopped=200, again=900_000), True),
        (of_checkpoints(959_900, checkpoint(started=0), stopped=200, again=900_000), False),
        (of_checkpoints(960_000, checkpoint(started=0), stopped=200, again=900_000), True),
        # A crash is no stop on request, nor is one that came after a stop and a start.
        (of_checkpoints(916_000, checkpoint(started=0, failed=100), again=910_000), True),
        (of_checkpoints(16_400, checkpoint(started=300, failed=400), stopped=200, again=10_000), True),
        (of_checkpoints(16_400, checkpoint(started=300, failed=400), stopped=400, again=10_000), False),
        # Stopped while it ran, when it failed, or before its failure was all that is known.
        (of_checkpoints(3_600_000, checkpoint(started=0), stopped=200), False),
        (of_checkpoints(3_600_000, checkpoint(started=200, failed=200), stopped=200), False),
        (of_checkpoints(3_600_000, checkpoint(failed=100), stopped=200), False),
        # Only that there is one is known.
        (of_checkpoints(3_600_000, checkpoint()), False),
        (of_checkpoints(3_600_000, checkpoint(), stopped=200), False),
        # Of a foreign one no history is known: 20 s are assumed.
        (of_foreign_checkpoints(19_999, checkpoint(started=-100, failed=0)), False),
        (of_foreign_checkpoints(20_000, checkpoint(started=-100, failed=0)), True),
        (of_foreign_checkpoints(59_999, checkpoint(started=0)), False),
        (of_foreign_checkpoints(60_000, checkpoint(started=0)), True),
    ],
)
def test_a6_failing_or_stalled_checkpoints(snapshot: Situation, is_found: bool) -> None:
    findings = found("A6", snapshot)
    assert [f.severity for f in findings] == ([Severity.CRITICAL] if is_found else [])


def test_a15_checkpoint_not_read() -> None:
    def not_read(*numbers: int, pipeline: str = "eu/orders") -> Finding:
        unread = tuple(UnreadCheckpoint(f"/s/job/chk-{n}", "job", n, f"denied {n}", T0 + n) for n in numbers)
        one = UnreadCheckpoints(observer="flink", directory="/s/job", pipeline=pipeline, unread=unread)
        (finding,) = found("A15", look(now_ms=T0, unread_checkpoints=(one,)))
        return finding

    of_one, of_many = not_read(7), not_read(*range(12), pipeline="")
    assert (of_one.severity, of_one.for_ms) == (Severity.WARNING, 15_000)
    assert "checkpoint 7 of eu/orders cannot be read" in of_one.summary
    assert of_one.evidence == (Evidence(fact="/s/job/chk-7: denied 7", source="flink", at_ms=T0 + 7),)
    assert "2 checkpoints of eu/orders cannot be read" in not_read(7, 8).summary
    assert "12 checkpoints of a job in /s/job" in of_many.summary
    assert [each.fact for each in of_many.evidence] == [f"/s/job/chk-{n}: denied {n}" for n in range(11, 1, -1)]
    assert of_one.key == of_many.key, "one alert lasts while other checkpoints of the directory cannot be read"
    assert not found("A15", look(now_ms=T0))


def test_one_pipeline_whose_checkpoints_cannot_be_seen_is_held_alone() -> None:
    stalled = of_checkpoints(60_000, checkpoint(started=0))
    assert found("A6", stalled)
    dark = changed(stalled, unobserved_pipelines=frozenset({PREFIX}))
    assert not found("A6", dark)
    assert alert_rules.held(dark) == {f"A6|{PREFIX}"}
    assert found("A6", changed(stalled, unobserved_pipelines=frozenset({"another"})))


def test_failures_are_counted_and_a_stop_on_request_is_known() -> None:
    failed = [event(EventType.CHECKPOINT_FAILED, at, batch=7, reason="r") for at in (100, 200)]
    stopped = event(EventType.PIPELINE_STOPPED, 300, reason="stopped on request")
    gave_up = event(EventType.PIPELINE_STOPPED, 400, reason="the query failed")
    state = folded(*failed, stopped, gave_up)
    assert state.checkpoints[PREFIX, 7].failures == 2
    assert (state.pipelines[PREFIX].stopped_ms, state.pipelines[PREFIX].stopped_on_request_ms) == (T0 + 400, T0 + 300)
