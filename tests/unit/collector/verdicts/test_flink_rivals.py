"""Whether another Flink job may have written a transaction under the same prefix: which ran, and is of another line of work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS, FlinkJobFacts, Restore
from indoubt.collector.records.formats.flink_records import FlinkCheckpoint, FlinkCommittables, FlinkKind, FlinkStatus
from indoubt.collector.verdicts.flink_prefixes import known_by_lists, others_that_ran, ran_at, rival
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.verdicts.case_tables import table

JOB, OTHER, THIRD, LAST = "a" * 32, "b" * 32, "c" * 32, "d" * 32
AT = 100_000
PREFIX = "sink"
NAMES = {OTHER: "bills", THIRD: "refunds", LAST: "returns"}


def ran(
    id_: str = JOB, *checkpoints: FlinkCheckpoint, goes_on_from: tuple[str, ...] = (), **fields: Any
) -> FlinkJobFacts:
    """Return a job that ran at AT, restored before from checkpoints of these jobs; empty: it is not known of which."""
    told: dict[str, Any] = {
        "started_ms": AT - 50_000,
        "changed_ms": AT - 50_000,
        "name": NAMES.get(id_, "orders"),
        **fields,
    }
    restores = tuple(Restore(at_ms=AT - 40_000 + at, number=1, of_job=of_job) for at, of_job in enumerate(goes_on_from))
    return FlinkJobFacts(
        job=replace(job(id_), **told), checkpoints={one.number: one for one in checkpoints}, restores=restores
    )


def completed(ended_ms: int | None, status: FlinkStatus = FlinkStatus.COMPLETED) -> FlinkCheckpoint:
    return checkpoint(3, status, job=OTHER, triggered_ms=AT - 1_000, ended_ms=ended_ms)


def lists(id_: str, *prefixes: str, **fields: Any) -> FlinkCommittables:
    """Return a checkpoint of a job on disk that names these prefixes, written at AT."""
    seen = FlinkCommittables(
        cluster="eu", job=id_, number=3, path=f"/{id_}/chk-3", kind=FlinkKind.CHECKPOINT, written_ms=AT, read_ms=AT,
        prefixes=frozenset(prefixes),
    )  # fmt: skip
    return replace(seen, **fields)


def flink(*seen: FlinkJobFacts | FlinkCommittables) -> FlinkState:
    state = FlinkState()
    for one in seen:
        if isinstance(one, FlinkJobFacts):
            state.jobs[one.job.job] = one
        else:
            state.see_committables(one)
    return state


@pytest.mark.parametrize(
    ("fields", "at_ms", "did"),
    [
        ({"started_ms": AT}, AT - CLOCK_SKEW_MS, True),
        ({"started_ms": AT}, AT - CLOCK_SKEW_MS - 1, False),
        ({"started_ms": 0, "state": "FAILED", "ended_ms": AT}, AT + CLOCK_SKEW_MS, True),
        ({"started_ms": 0, "state": "FAILED", "ended_ms": AT}, AT + CLOCK_SKEW_MS + 1, False),
        # Without a time of its end it changed last then.
        ({"started_ms": 0, "state": "FAILED", "changed_ms": AT}, AT + CLOCK_SKEW_MS, True),
        ({"started_ms": 0, "state": "FAILED", "changed_ms": AT}, AT + CLOCK_SKEW_MS + 1, False),
        ({"started_ms": 0, "state": "FAILED", "ended_ms": AT, "changed_ms": 1}, AT, True),
        # One that is not over still runs, whatever it told before.
        ({"started_ms": 0, "state": "RUNNING", "changed_ms": 1}, AT, True),
        ({"started_ms": 0, "state": "RUNNING", "ended_ms": 1}, AT, True),
    ],
)
def test_a_job_ran_between_its_start_and_its_end(fields: dict[str, Any], at_ms: int, did: bool) -> None:
    assert ran_at(ran(**fields), at_ms) is did


NAMED, UNNAMED = lists(OTHER, PREFIX), lists(OTHER, "else")
DAMAGED = lists(OTHER, error="cut short")
OVER: dict[str, Any] = {"state": "FAILED", "ended_ms": AT - 20_000}
EDGE = AT - CLOCK_SKEW_MS

CASES = [
    ("it is alone", [ran()], ""),
    ("its own list names the prefix", [ran(), lists(JOB, PREFIX)], ""),
    ("another's list names it", [ran(), ran(OTHER), NAMED], "eu/bills"),
    ("another's list names others alone", [ran(), ran(OTHER), UNNAMED], ""),
    ("the other was over by then", [ran(), ran(OTHER, **OVER), NAMED], ""),
    ("the other started later", [ran(), ran(OTHER, started_ms=AT + 20_000), NAMED], ""),
    # Without a list that was read whole: whether it has completed a checkpoint since.
    ("no list of the other was read", [ran(), ran(OTHER)], ""),
    ("and it completed a checkpoint since", [ran(), ran(OTHER, completed(AT))], "eu/bills"),
    ("and it completed one before", [ran(), ran(OTHER, completed(AT - 1))], ""),
    ("and its checkpoint failed", [ran(), ran(OTHER, completed(AT, FlinkStatus.FAILED))], ""),
    ("and its checkpoint runs", [ran(), ran(OTHER, completed(None, FlinkStatus.IN_PROGRESS))], ""),
    ("and when it completed is not known", [ran(), ran(OTHER, completed(None))], ""),
    ("its list is damaged, it completed one since", [ran(), ran(OTHER, completed(AT)), DAMAGED], "eu/bills"),
    ("its list names others, it completed one since", [ran(), ran(OTHER, completed(AT)), UNNAMED], ""),
    # The same line of work.
    ("the other went on from it", [ran(), ran(OTHER, goes_on_from=(JOB,)), NAMED], ""),
    ("among others it did", [ran(), ran(OTHER, goes_on_from=(LAST, JOB)), NAMED], ""),
    ("it went on from the other", [ran(goes_on_from=(OTHER,)), ran(OTHER), NAMED], ""),
    ("it did by way of a third", [ran(goes_on_from=(THIRD,)), ran(THIRD, goes_on_from=(OTHER,)), ran(OTHER), NAMED], ""),
    ("the other did by way of a third", [ran(), ran(OTHER, goes_on_from=(THIRD,)), ran(THIRD, goes_on_from=(JOB,)), NAMED], ""),
    ("both went on from one that is not known", [ran(goes_on_from=(LAST,)), ran(OTHER, goes_on_from=(LAST,)), NAMED], ""),
    ("each went on from another one", [ran(goes_on_from=(THIRD,)), ran(OTHER, goes_on_from=(LAST,)), NAMED], "eu/bills"),
    ("from what both went on is not known", [ran(goes_on_from=("",)), ran(OTHER, goes_on_from=("",)), NAMED], "eu/bills"),
    # Of several the first that may have written it.
    ("one of two is related", [ran(), ran(OTHER, goes_on_from=(JOB,)), ran(THIRD), NAMED, lists(THIRD, PREFIX)], "eu/refunds"),
    ("of one of two nothing is known", [ran(), ran(OTHER), ran(THIRD), lists(THIRD, PREFIX)], "eu/refunds"),
    # A job that its lists alone tell of.
    ("REST never told of the other", [ran(), NAMED], f"eu/{OTHER}"),
    ("and it names others alone", [ran(), UNNAMED], ""),
    ("and its list was written just then", [ran(), lists(OTHER, PREFIX, written_ms=EDGE)], f"eu/{OTHER}"),
    ("and its list was written before", [ran(), lists(OTHER, PREFIX, written_ms=EDGE - 1)], ""),
    ("and one of its lists was written since", [ran(), NAMED, lists(OTHER, PREFIX, written_ms=1, path="/b/chk-1")], f"eu/{OTHER}"),
    ("and the later one names others alone", [ran(), UNNAMED, lists(OTHER, PREFIX, written_ms=1, path="/b/chk-1")], ""),
    ("and it went on from that job", [ran(goes_on_from=(OTHER,)), NAMED], ""),
    ("and so did a job that it went on from", [ran(goes_on_from=(THIRD,)), ran(THIRD, goes_on_from=(OTHER,)), NAMED], ""),
    ("and a third one went on from that", [ran(), ran(THIRD, goes_on_from=(OTHER,)), NAMED], f"eu/{OTHER}"),
    ("and a second one like it is related", [ran(goes_on_from=(OTHER,)), NAMED, lists(LAST, PREFIX)], f"eu/{LAST}"),
    ("a job that REST tells of, and one that it does not", [ran(), ran(OTHER), UNNAMED, lists(LAST, PREFIX)], f"eu/{LAST}"),
    ("a cluster beside read its own list", [ran(), lists(JOB, PREFIX, cluster="us")], ""),
]  # fmt: skip


@table("seen, name", CASES)
def test_another_job_may_have_written_it(seen: list[FlinkJobFacts | FlinkCommittables], name: str) -> None:
    state = flink(*seen)
    facts = state.jobs[JOB]
    assert rival(state, facts, PREFIX, AT) == name
    is_told = any(each.pipeline == name for each in state.jobs.values())
    assert known_by_lists(state, facts, PREFIX, AT) == ("" if is_told else name)


def test_the_jobs_that_ran_then_and_whether_their_lists_name_the_prefix() -> None:
    jobs = (ran(), ran(OTHER), ran(THIRD), ran(LAST), ran("e" * 32, **OVER), ran("f" * 32, goes_on_from=(JOB,)))
    of_last, of_related = lists(LAST, "else"), lists("f" * 32, PREFIX)
    state = flink(*jobs, lists(JOB, PREFIX), NAMED, of_last, of_related)
    found = [(facts.job.job, is_named) for facts, is_named in others_that_ran(state, state.jobs[JOB], PREFIX, AT)]
    assert found == [(OTHER, True), (THIRD, None)]
