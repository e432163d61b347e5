"""Commit time from the decision log and the lifecycle events."""

from __future__ import annotations

from benchmarks.scale import CommitTime, commit_times, completed
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Ruling
from indoubt.lifecycle.events import EventType, LifecycleEvent
from indoubt.lifecycle.identity import Handle


def decision(batch: int, at_ms: int, prepared_ms: list[int]) -> Decision:
    handles = tuple(
        Handle(
            resource_manager="kafka",
            transaction=f"p-{slot}-{batch % 2}",
            producer_id=slot,
            producer_epoch=0,
            slot=slot,
            rows=1,
            bytes=1,
            fingerprint="1:0",
            opened_at_ms=0,
            prepared_at_ms=at,
            timeout_ms=60_000,
        )
        for slot, at in enumerate(prepared_ms)
    )
    batch_attempt = BatchAttempt(checkpoint_id="checkpoint_id", batch=batch, attempt=0)
    return Decision(
        prefix="p", batch_attempt=batch_attempt, ruling=Ruling.COMMIT, handles=handles, who="run 0", at_ms=at_ms
    )


def test_a_commit_begins_when_the_last_task_has_prepared():
    decisions = [decision(0, 500, [400]), decision(1, 1030, [900, 1000]), decision(2, 2050, [2000])]
    assert commit_times(decisions, {0: 900, 1: 1050, 2: 2080}) == [
        CommitTime(to_decision_ms=30, to_completed_ms=20),
        CommitTime(to_decision_ms=50, to_completed_ms=30),
    ]


def test_a_batch_whose_event_was_lost_is_left_out():
    decisions = [decision(0, 500, [400]), decision(1, 1030, [1000]), decision(2, 2050, [2000])]
    assert commit_times(decisions, {2: 2080}) == [CommitTime(to_decision_ms=50, to_completed_ms=30)]


def test_only_this_pipelines_checkpoints_count():
    def event(kind: EventType, pipeline: str, batch: int, at_ms: int) -> LifecycleEvent:
        data = {"pipeline": pipeline, "batch": batch}
        return LifecycleEvent(type=kind, source=f"/pipeline/{pipeline}", subject="s", at_ms=at_ms, data=data)

    events = [
        event(EventType.CHECKPOINT_STARTED, "p", 1, 10),
        event(EventType.CHECKPOINT_COMPLETED, "p", 1, 20),
        event(EventType.CHECKPOINT_COMPLETED, "other", 2, 30),
    ]
    assert completed(events, "p") == {1: 20}
