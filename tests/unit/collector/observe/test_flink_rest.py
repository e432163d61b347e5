"""Flink's jobs and checkpoints from its REST API: bounded requests, nothing forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from indoubt.collector.history import sql
from indoubt.collector.history.store import Store
from indoubt.collector.observe import bounded_http, flink_rest
from indoubt.collector.observe.flink_rest import FlinkRest
from indoubt.collector.records import flink_facts
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.formats.flink_records import (
    FlinkCheckpoint,
    FlinkCommittables,
    FlinkJob,
    FlinkKind,
    FlinkStatus,
)
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.pipeline_rows import checkpoint_row, job_row
from indoubt.lifecycle.errors import MalformedRecord, ResourceManagerError, Unreachable
from indoubt.lifecycle.rows.row_json import row_to_json
from tests.unit.collector.flink_recordings import CLUSTER, FIRST_JOB, RESTORED_JOB, recorded

PENDING, DONE = FlinkStatus.IN_PROGRESS, FlinkStatus.COMPLETED


def test_the_jobmanagers_clock_is_measured_at_each_poll(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    (row,) = watched.flink.answers["/jobs/overview"]["jobs"]
    row["duration"] = now_ms() - 120_000 - row["start-time"]
    watched.poll()
    (offset,) = watched.current.clocks.all()
    assert (offset.owner, round(offset.ahead_ms, -4)) == (f"flink {CLUSTER}", 120_000)
    assert offset.is_off
    watched.store.close()


def checkpoint(number: int, status: FlinkStatus = DONE, job: str = "j", **fields: Any) -> FlinkCheckpoint:
    ended = None if status is PENDING else 1000 * number + 100
    seen = FlinkCheckpoint(
        cluster=CLUSTER, job=job, job_name="orders", number=number, status=status, kind=FlinkKind.CHECKPOINT,
        triggered_ms=1000 * number, ended_ms=ended,
    )  # fmt: skip
    return replace(seen, **fields)


def job(id_: str = "j", state: str = "RUNNING", changed_ms: int = 1, **fields: Any) -> FlinkJob:
    seen = FlinkJob(cluster=CLUSTER, job=id_, name="orders", state=state, started_ms=0, changed_ms=changed_ms)
    return replace(seen, **fields)


def test_an_end_is_never_taken_back_whatever_the_order() -> None:
    for order in ([checkpoint(1, PENDING), checkpoint(1)], [checkpoint(1), checkpoint(1, PENDING)]):
        state = FlinkState()
        for seen in order:
            state.see_checkpoint(seen)
        assert state.jobs["j"].checkpoints[1].status is DONE
        assert state.knows(checkpoint(1, PENDING))


def test_an_unseen_checkpoint_failed_unless_a_job_was_restored_from_it() -> None:
    first, second = "a" * 32, "b" * 32
    state = FlinkState()
    state.see_checkpoint(checkpoint(17, PENDING, job=first))
    state.see_checkpoint(checkpoint(18, PENDING, job=first))
    state.see_job(job(first, "GONE", ended_ms=30_000))
    state.see_job(job(second, restored_number=17, restored_ms=40_000, restored_path=f"s3://bucket/{first}/chk-17"))
    rows = {facts.number: row_to_json(checkpoint_row(facts, None)) for facts in state.checkpoint_facts()}
    assert (rows[17]["state"], rows[17]["ended_at_ms"]) == ("completed", 40_000)
    assert "a job was restored from it" in rows[17]["reason"]
    assert (rows[18]["state"], rows[18]["ended_at_ms"]) == ("failed", 30_000)
    assert "its job is GONE" in rows[18]["reason"]


def test_memory_is_bounded_per_job_and_in_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_facts, "JOBS_KEPT", 200)
    state = FlinkState(checkpoints_kept=10)
    for number in range(100):
        state.see_checkpoint(checkpoint(number))
    assert max(state.jobs["j"].checkpoints) == 99
    assert len(state.jobs["j"].checkpoints) <= 20
    for number in range(1_000):
        state.see_job(job(f"job {number}", changed_ms=number))
    assert len(state.jobs) <= 400
    assert "job 999" in state.jobs


class Flink:
    """A REST API that answers what was recorded, or what a test puts there; it counts requests."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.requests: list[str] = []
        self.show("first", FIRST_JOB)

    def show(self, name: str, job_id: str, restarts: Any = ()) -> None:
        self.answers = {
            "/jobs/overview": recorded(f"{name}_jobs_overview"),
            f"/jobs/{job_id}/checkpoints": recorded(f"{name}_checkpoints"),
            f"/jobs/{job_id}/metrics": list(restarts),
        }

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request.url.path)
        found = self.answers.get(request.url.path)
        if isinstance(found, httpx.Response | Exception):
            if isinstance(found, Exception):
                raise found
            return found
        return httpx.Response(404, json={"errors": ["not found"]}) if found is None else httpx.Response(200, json=found)


class Watched:
    """A collector's state and history with an observer on such an API."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.flink = directory, Flink()
        self.open()

    def open(self) -> None:
        self.store = Store(self.directory / "history.duckdb")
        self.current = CurrentState(self.store, settled_kept=100, checkpoints_kept=100, limits=Limits())
        self.current.load()
        transport = httpx.MockTransport(self.flink)
        self.observer = FlinkRest(
            self.current, self.store, CLUSTER, "http://flink:8081/", interval_ms=1, transport=transport
        )

    def restart(self) -> None:
        self.store.close()
        self.open()

    def poll(self) -> int:
        """Look once; return how many observations that gave."""
        before = self.observer.status.records
        with self.observer.http() as http:
            self.observer.poll(http)
        return self.observer.status.records - before

    def numbers(self, state: str) -> list[int]:
        return sorted(c.number for c in self.current.checkpoints() if c.state.value == state)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.store.close()


def test_what_flink_forgets_is_kept_and_nothing_is_reported_twice(watched: Watched) -> None:
    assert watched.poll() == 12  # eleven checkpoints and the job
    assert watched.poll() == 0
    history = watched.flink.answers[f"/jobs/{FIRST_JOB}/checkpoints"]["history"]
    running = history[0]
    history[0] = {**running, "status": "COMPLETED", "end_to_end_duration": 300, "latest_ack_timestamp": 0}
    history.insert(0, {**running, "id": 17})
    del history[-1]
    assert watched.poll() == 2
    watched.restart()
    assert watched.poll() == 0
    assert watched.numbers("completed") == [7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
    assert (watched.numbers("failed"), watched.numbers("started")) == ([5], [17])


def test_rows_say_which_job_and_what_it_was_restored_from(watched: Watched) -> None:
    watched.poll()
    row = next(row_to_json(checkpoint_row(c, None)) for c in watched.current.checkpoints() if c.number == 15)
    assert (row["pipeline"], row["source"], row["kind"], row["job"]) == (
        "eu/orders",
        "flink REST",
        "checkpoint",
        FIRST_JOB,
    )
    assert (row["duration_ms"], row["state_bytes"], row["state"]) == (127, 2330, "completed")
    watched.flink.show("restored", RESTORED_JOB, recorded("restored_restarts"))
    watched.poll()
    assert [(r.number, r.at_ms) for r in watched.current.jobs()[1].restores] == [(4, 1795280330049)]
    now, before = [row_to_json(job_row(facts)) for facts in watched.current.jobs()]
    assert (now["job"], now["state"], now["restored_from"], now["restarts"]) == (RESTORED_JOB, "RUNNING", 17, 0)
    assert (before["job"], before["state"], before["restored_from"]) == (FIRST_JOB, "GONE", 4)


def test_a_job_that_comes_back_is_not_gone(watched: Watched) -> None:
    watched.poll()
    overview = watched.flink.answers["/jobs/overview"]
    watched.flink.answers["/jobs/overview"] = {"jobs": []}
    assert watched.poll() == 1
    assert watched.poll() == 0
    assert watched.current.jobs()[0].job.state == "GONE"
    watched.flink.answers["/jobs/overview"] = overview
    assert watched.poll() == 1
    assert watched.poll() == 0
    assert watched.current.jobs()[0].job.state == "RUNNING"
    watched.restart()
    assert watched.current.jobs()[0].job.state == "RUNNING"


def test_an_old_failure_is_not_reported_at_every_poll(watched: Watched) -> None:
    watched.poll()
    answer = watched.flink.answers[f"/jobs/{FIRST_JOB}/checkpoints"]
    row = answer["history"][1]
    for number in range(17, 17 + 300):
        answer["history"] = [{**row, "id": number}]
        answer["latest"]["completed"] = answer["history"][0]
        watched.poll()
    assert 5 not in watched.current.jobs()[0].checkpoints
    assert watched.poll() == 0


def test_a_number_that_is_taken_again_is_told_again(watched: Watched) -> None:
    watched.poll()
    history = watched.flink.answers[f"/jobs/{FIRST_JOB}/checkpoints"]["history"]
    taken = history[2]
    history[2] = {**taken, "trigger_timestamp": taken["trigger_timestamp"] + 600_000}
    assert watched.poll() == 1
    (facts,) = watched.current.jobs()
    assert facts.checkpoints[taken["id"]].triggered_ms == taken["trigger_timestamp"] + 600_000
    assert watched.poll() == 0


def test_the_checkpoints_of_a_job_that_memory_let_go_of_are_told_again(watched: Watched) -> None:
    watched.poll()
    (before,) = watched.current.jobs()
    with watched.current.reading() as state:
        del state.flink.jobs[FIRST_JOB]
    watched.poll()
    (again,) = watched.current.jobs()
    assert again.checkpoints == before.checkpoints


def test_what_cannot_be_understood_is_quarantined_once(watched: Watched) -> None:
    answer = watched.flink.answers[f"/jobs/{FIRST_JOB}/checkpoints"]
    answer["history"][0]["status"] = "PAUSED"
    watched.poll()
    watched.poll()
    watched.store.flushed()
    (quarantined,) = watched.store.named_rows(sql.QUARANTINED, *sql.QUARANTINED_FROM_NEWEST, 10)
    assert "job orders" in quarantined["error"]
    assert "PAUSED" in quarantined["error"]
    assert watched.numbers("completed")[-1] == 15
    del answer["history"]
    watched.poll()
    watched.store.flushed()
    assert len(watched.store.named_rows(sql.QUARANTINED, *sql.QUARANTINED_FROM_NEWEST, 10)) == 2


def test_checkpoints_forgotten_between_two_polls_are_counted(watched: Watched) -> None:
    watched.poll()
    assert watched.observer.note == ""
    answer = watched.flink.answers[f"/jobs/{FIRST_JOB}/checkpoints"]
    answer["history"] = [{**answer["history"][1], "id": number} for number in (30, 29, 28)]
    answer["latest"]["completed"] = None
    watched.poll()
    assert watched.observer.note.startswith("11 checkpoints ended between two polls")


def test_requests_of_a_poll_are_bounded_and_every_job_has_its_turn(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flink_rest, "MAX_REQUESTS", 2)
    monkeypatch.setattr(flink_rest, "FIRST_REQUESTS", 10)
    (row,) = recorded("first_jobs_overview")["jobs"]
    ids = [f"{number:032x}" for number in range(12)]
    watched.flink.answers = {"/jobs/overview": {"jobs": [{**row, "jid": id_} for id_ in ids]}}
    for id_ in ids:
        watched.flink.answers[f"/jobs/{id_}/checkpoints"] = recorded("first_checkpoints")
        watched.flink.answers[f"/jobs/{id_}/metrics"] = []
    for whole in (False, False, True):
        watched.flink.requests.clear()
        watched.poll()
        assert len(watched.flink.requests) <= 1 + 10
        assert {facts.job.job for facts in watched.current.jobs()} == set(ids), "all are known at once"
        assert watched.observer.has_asked_all is whole
    watched.flink.requests.clear()
    watched.poll()
    assert len(watched.flink.requests) <= 1 + 2


def test_restarts_are_asked_for_in_few_turns(watched: Watched) -> None:
    for _ in range(2 * flink_rest.RESTARTS_EVERY):
        watched.poll()
    assert watched.flink.requests.count(f"/jobs/{FIRST_JOB}/metrics") == 2
    assert watched.flink.requests.count(f"/jobs/{FIRST_JOB}/checkpoints") == 2 * flink_rest.RESTARTS_EVERY


def test_a_job_whose_checkpoints_are_on_disk_has_a_turn_less_often(watched: Watched) -> None:
    asked = f"/jobs/{FIRST_JOB}/checkpoints"
    watched.poll()
    read = FlinkCommittables(
        cluster=CLUSTER, job=FIRST_JOB, number=1, path="/c/chk-1", kind=FlinkKind.CHECKPOINT, written_ms=1, read_ms=now_ms()
    )  # fmt: skip
    watched.current.flink.see_committables([read])
    watched.poll()
    assert watched.flink.requests.count(asked) == 1
    watched.flink.answers["/jobs/overview"]["jobs"][0]["last-modification"] += 1
    watched.poll()
    assert watched.flink.requests.count(asked) == 2, "it changed"


def test_the_end_of_a_checkpoint_is_asked_for_once_its_metadata_is_there(watched: Watched) -> None:
    watched.poll()
    (facts,) = watched.current.jobs()
    newest = max(facts.checkpoints)

    def put(number: int, read_ms: int) -> None:
        listing = FlinkCommittables(
            cluster=CLUSTER, job=FIRST_JOB, number=number, path=f"/c/{FIRST_JOB}/chk-{number}",
            kind=FlinkKind.CHECKPOINT, written_ms=read_ms, read_ms=read_ms,
        )  # fmt: skip
        watched.current.flink.see_committables([listing])

    put(newest - 1, 2_000)
    assert watched.current.flink.awaiting_end(CLUSTER, 1_000) == [], "REST told of its end"
    put(newest + 5, 2_000)
    assert [job.job for job in watched.current.flink.awaiting_end(CLUSTER, 1_000)] == [FIRST_JOB]
    assert watched.current.flink.awaiting_end("another", 1_000) == []
    assert watched.current.flink.awaiting_end(CLUSTER, 3_000) == [], "it was read long ago"


def test_a_job_that_is_over_is_asked_once_more_and_then_left(watched: Watched) -> None:
    watched.flink.answers["/jobs/overview"]["jobs"][0].update({"state": "CANCELED", "end-time": 1795280350000})
    watched.poll()
    watched.flink.requests.clear()
    watched.poll()
    assert watched.flink.requests == ["/jobs/overview"]
    assert watched.current.jobs()[0].job.ended_ms == 1795280350000
    assert watched.numbers("failed") == [5, 16]


def test_a_job_without_checkpoints_is_known_all_the_same(watched: Watched) -> None:
    del watched.flink.answers[f"/jobs/{FIRST_JOB}/checkpoints"]
    assert watched.poll() == 1
    assert watched.current.jobs()[0].job.state == "RUNNING"


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (httpx.Response(503, json={"errors": ["Service temporarily unavailable due to an ongoing leader election.\n\tat x"]}),
         ResourceManagerError, "answered 503: Service temporarily unavailable due to an ongoing leader election.$"),
        (httpx.Response(502, text="<html>bad gateway</html>"), ResourceManagerError, "answered 502: <html>bad gateway"),
        (httpx.Response(200, text="<html>"), MalformedRecord, "answer at http://flink:8081/jobs/overview is not JSON"),
        (httpx.Response(307, headers={"Location": "http://elsewhere"}), ResourceManagerError, "answered 307"),
        (httpx.ConnectError("Connection refused"), Unreachable, "http://flink:8081 did not answer within 5 s: Connection refused"),
        (httpx.ReadTimeout(""), Unreachable, "ReadTimeout"),
        (httpx.Response(200, content=b" " * (bounded_http.MAX_ANSWER_BYTES + 1)), ResourceManagerError, "answered more than"),
    ],
    ids=["no leader", "a proxy", "no JSON", "a redirect", "nobody", "too slow", "too long"],
)  # fmt: skip
def test_an_api_that_does_not_answer_is_named(watched: Watched, answer: Any, error: type[Exception], says: str) -> None:
    watched.flink.answers["/jobs/overview"] = answer
    with pytest.raises(error, match=says):
        watched.poll()
