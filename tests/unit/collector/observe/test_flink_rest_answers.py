"""What is read from answers of Flink's REST API, real ones (see flink_recordings) and damaged ones."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.history import row_coding
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.formats import flink_rest_answers
from indoubt.collector.records.formats.flink_records import FlinkJob, FlinkKind, FlinkStatus
from indoubt.collector.records.observations import Observed, Position
from indoubt.collector.views.pipeline_rows import checkpoint_row, job_row
from indoubt.lifecycle.errors import MalformedRecord
from indoubt.lifecycle.json_record import read_object
from indoubt.lifecycle.rows.row_json import row_to_json
from tests.fuzz.json_mutator import mutated
from tests.unit.collector.flink_recordings import CLUSTER, FIRST_JOB, recorded

PENDING, DONE, FAILED = FlinkStatus.IN_PROGRESS, FlinkStatus.COMPLETED, FlinkStatus.FAILED


def only_job(name: str = "first") -> FlinkJob:
    (job,) = flink_rest_answers.jobs(CLUSTER, recorded(f"{name}_jobs_overview"))
    return job


def test_jobs_of_a_real_answer() -> None:
    job = only_job()
    assert (job.job, job.name, job.state, job.ended_ms) == (FIRST_JOB, "orders", "RUNNING", None)
    assert (job.started_ms, job.changed_ms) == (1795280308336, 1795280332795)


def test_a_job_that_runs_tells_the_jobmanagers_clock() -> None:
    answer = recorded("first_jobs_overview")
    (row,) = answer["jobs"]
    assert flink_rest_answers.clock_ms(answer) == row["start-time"] + row["duration"] > row["last-modification"]
    over = {**row, "end-time": row["start-time"] + 1, "duration": 1}
    assert flink_rest_answers.clock_ms({"jobs": [over]}) is None
    assert flink_rest_answers.clock_ms({"jobs": []}) is None


def test_checkpoints_of_a_real_answer() -> None:
    told = flink_rest_answers.checkpoints(only_job(), recorded("first_checkpoints"))
    assert [c.number for c in told.checkpoints] == [5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
    by_number = {c.number: c for c in told.checkpoints}
    failed, completed, running = by_number[5], by_number[15], by_number[16]
    assert (failed.status, failed.ended_ms, failed.reason) == (FAILED, 1795280328256, "Task has failed.")
    assert (completed.status, completed.triggered_ms, completed.ended_ms) == (DONE, 1795280342629, 1795280342756)
    assert (completed.state_bytes, completed.kind) == (2330, FlinkKind.CHECKPOINT)
    assert completed.path.endswith(f"{FIRST_JOB}/chk-15")
    assert (running.status, running.ended_ms, running.state_bytes) == (PENDING, None, None)
    assert (told.restored_number, told.restored_ms) == (4, 1795280330049)


def test_a_savepoint_of_a_real_answer() -> None:
    told = flink_rest_answers.checkpoints(only_job("savepoint"), recorded("savepoint_checkpoints"))
    (savepoint,) = [c for c in told.checkpoints if c.kind.is_savepoint]
    assert (savepoint.number, savepoint.status, savepoint.kind.commits) == (7, DONE, False)
    assert savepoint.path.startswith("file:/savepoints/savepoint-")
    assert [c.number for c in told.checkpoints if c.status is FAILED] == [2]


def test_restarts_of_a_real_answer() -> None:
    assert flink_rest_answers.restarts(recorded("savepoint_restarts")) == 2
    assert flink_rest_answers.restarts(recorded("restored_restarts")) == 0
    assert flink_rest_answers.restarts([]) is None
    assert flink_rest_answers.restarts([{"id": "fullRestarts", "value": "3"}]) == 3


def changed(name: str, change: Callable[[Any], None]) -> Any:
    answer = copy.deepcopy(recorded(name))
    change(answer)
    return answer


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda a: a.pop("history"), "no list 'history'"),
        (lambda a: a["latest"]["restored"].update(id=True), "id True"),
    ],
)
def test_an_answer_that_cannot_be_understood_names_the_field(change: Callable[[Any], None], says: str) -> None:
    with pytest.raises(MalformedRecord, match=says):
        flink_rest_answers.checkpoints(only_job(), changed("first_checkpoints", change))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda a: a["history"][0].update(status="PAUSED"), "status 'PAUSED'"),
        (lambda a: a["history"][0].update(checkpoint_type="LATER"), "checkpoint_type 'LATER'"),
        (lambda a: a["history"][0].update(id="7"), "id '7', not a whole number"),
        (lambda a: a["history"][0].update(trigger_timestamp=None), "trigger_timestamp None"),
        (lambda a: a["history"].__setitem__(0, 7), "status None, not text"),
    ],
)
def test_one_row_that_cannot_be_understood_hides_no_other(change: Callable[[Any], None], says: str) -> None:
    told = flink_rest_answers.checkpoints(only_job(), changed("first_checkpoints", change))
    assert [c.number for c in told.checkpoints] == [5, 7, 8, 9, 10, 11, 12, 13, 14, 15]
    (error,) = told.quarantined
    assert says in error


@pytest.mark.parametrize("answer", [[], {"jobs": None}, {"jobs": [{"jid": 1}]}, {"errors": ["x"]}])
def test_an_overview_that_cannot_be_understood_is_malformed(answer: Any) -> None:
    with pytest.raises(MalformedRecord):
        flink_rest_answers.jobs(CLUSTER, answer)


def test_whatever_an_answer_holds_is_refused_or_can_be_kept_and_shown() -> None:
    rng, passed = random.Random(1), 0
    small = recorded("first_checkpoints")
    small["history"] = small["history"][:2]
    seed = json.dumps(small).encode()
    for _ in range(500):
        try:
            answer = read_object(b'{"answer":' + mutated(seed, rng) + b"}", "an answer")["answer"]
            told = flink_rest_answers.checkpoints(only_job(), answer)
        except MalformedRecord:
            continue
        passed += 1
        state = FlinkState()
        state.see_job(replace(only_job(), restored_number=told.restored_number, restored_ms=told.restored_ms))
        for seen in told.checkpoints:
            state.see_checkpoint(seen)
            position = Position(source="flink", partition=0, offset=0)
            name, row = row_coding.row(Observed(position=position, observation=seen))
            row_coding.arrow_table(name, [row])
        rows = [checkpoint_row(facts, None) for facts in state.checkpoint_facts()]
        json.dumps(
            [*map(row_to_json, rows), *(row_to_json(job_row(facts)) for facts in state.jobs.values())],
            ensure_ascii=False,
            allow_nan=False,
        ).encode()
    assert 50 < passed < 450


def test_before_1_15_a_savepoint_is_known_by_its_flag() -> None:
    def older(answer: Any) -> None:
        for row in answer["history"]:
            row.pop("checkpoint_type")
        answer["history"][1]["is_savepoint"] = True
        answer["latest"]["completed"] = None

    told = flink_rest_answers.checkpoints(only_job(), changed("first_checkpoints", older))
    assert [c.number for c in told.checkpoints if c.kind is FlinkKind.SAVEPOINT] == [15]
