"""What the rules of Flink's transactions are given, in short: an open one, jobs, checkpoints, and lists. Times are ms after T0.

The transaction begins at 22 s. Checkpoint 3 is the first that may hold it: triggered at 30 s, its list written at 30.1 s, completed
at 31 s (flink_observations). Unless something else is given, REST answers, and nothing is known of another job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_stores import FlinkStore, StoredCheckpoint
from indoubt.collector.records.formats.flink_records import (
    Committable,
    FlinkCheckpoint,
    FlinkCommittables,
    FlinkJob,
    FlinkKind,
    FlinkStatus,
)
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.verdicts import flink_commits
from indoubt.collector.verdicts.flink_cases import flink_case
from indoubt.collector.verdicts.flink_known import FlinkCase
from indoubt.lifecycle.verdicts import Certainty, Judgement, Verdict
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0, broker_record, only_view
from tests.unit.collector.verdicts.case_tables import told

JOB, OTHER, THIRD, STRANGER_ID = ("a" * 32, "b" * 32, "c" * 32, "d" * 32)
PRODUCER, EPOCH = 7, 0
OPENED, WRITTEN = 22_000, 30_100
OVERDUE_MS, SILENT_MS = 2_000, 30_000
ITSELF, NOT_LISTED = Committable("orders-0-3", PRODUCER, EPOCH), Committable("orders-0-2", 5, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestAway:
    """REST does not answer: ``since`` when, None: it was not asked; ``is_new``: it has not answered since the collector's start."""

    since: int | None = None
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class At:
    """When it is judged; at 90 s unless given."""

    ms: int


@dataclass(frozen=True, slots=True)
class Stated:
    """The settings say whether the jobs of the Flink cluster write to this Kafka cluster only."""

    writes_here: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InStore:
    """The high-availability store points to the checkpoint of that number, of the first job; ``others``: jobs in it beside."""

    number: int = 3
    held: bool = False
    added: int | None = WRITTEN + 100
    since: int = 61_000
    others: tuple[str, ...] = ()

    def see(self, state: FlinkState) -> None:
        """Have a collector read it."""
        added_ms = None if self.added is None else T0 + self.added
        newest = StoredCheckpoint(
            number=self.number, added_ms=added_ms, is_held=self.held, where="ZooKeeper, /x", since_ms=T0 + self.since
        )
        state.stores.see(CLUSTER, FlinkStore(jobs=frozenset({JOB, *self.others}), newest={JOB: newest}))


def begun(at: int = OPENED, of: Committable = ITSELF) -> TransactionView:
    """Return what the coordinator has: an open transaction that began then."""
    named: dict[str, Any] = {"transaction": of.transaction, "producer_id": of.producer_id, "epoch": of.producer_epoch}
    return only_view(broker_record(BrokerStatus.ONGOING, at, start=at, **named))


def chk(number: int, id_: str = JOB) -> str:
    """Return the path of a checkpoint."""
    return f"file:///checkpoints/{id_}/chk-{number}"


def listing(
    number: int = 3, *ids: Committable, written: int = WRITTEN, job: str = JOB, **fields: Any
) -> FlinkCommittables:
    """Return what the ``_metadata`` of checkpoint ``number`` lists: the transaction, or others."""
    seen = FlinkCommittables(
        cluster=CLUSTER, job=job, number=number, path=chk(number, job), kind=FlinkKind.CHECKPOINT, written_ms=T0 + written,
        read_ms=T0 + written, committables=frozenset(ids or (ITSELF,)), prefixes=frozenset({"orders"}),
    )  # fmt: skip
    return replace(seen, **fields)


def completed(number: int, **fields: Any) -> FlinkCheckpoint:
    """Return that REST reported a checkpoint of the first job as completed, and where it is."""
    return checkpoint(number, path=chk(number), **fields)


def heir(number: int, at: int = 60_000, path: str | None = None, **fields: Any) -> FlinkJob:
    """Return another job, restored from a checkpoint of the first one, unless the path says otherwise; empty: from nothing."""
    of = chk(number) if path is None else path
    told = {"started_ms": T0 + at - 1_000, "restored_path": of, **fields}
    return job(told.pop("id_", OTHER), restored=number if of else None, restored_at=at, **told)


def itself(number: int, at: int = 60_000, path: str | None = None, state: str = "FAILED") -> FlinkJob:
    """Return the first job, restored from a checkpoint of its own, unless the path says otherwise, and over since."""
    return job(state=state, restored=number, restored_at=at, restored_path=chk(number) if path is None else path)


RUNS, FAILED, FINISHED = job(), job(state="FAILED"), job(state="FINISHED")
COMPLETED_2, COMPLETED_3, COMPLETED_4 = completed(2), completed(3), completed(4)
NOT_OVER_3, FAILED_3 = checkpoint(3, FlinkStatus.IN_PROGRESS), checkpoint(3, FlinkStatus.FAILED)
LISTED_3, LISTED_4, NONE_IN_2 = listing(), listing(4, written=40_100), listing(2, NOT_LISTED, written=20_000)
OTHERS_2 = listing(2, NOT_LISTED, job=OTHER, written=65_000)
DAMAGED_3 = replace(LISTED_3, committables=frozenset(), prefixes=frozenset(), error="byte 17: damaged")
GONE_3 = replace(LISTED_3, is_gone=True)
OUT_OF_REACH: dict[tuple[str, int | None], str] = {(JOB, 3): "permission denied"}
FROM_2, FROM_3, STARTED_ANEW = heir(2), heir(3), heir(0, path="")
AWAY, NEVER_ANSWERED = RestAway(), RestAway(is_new=True)
SOLE = [FAILED, COMPLETED_3, LISTED_3]
"""A job that died once REST had reported its checkpoint 3 as completed."""
NUMBERED = [FAILED, COMPLETED_2, COMPLETED_3]
HELD = [*NUMBERED, NONE_IN_2]
"""One that REST told as much of: checkpoint 3 must hold what began before, and of checkpoint 2 alone a list was read."""

COMMIT, LIKELY_COMMIT = "commit it, certain: commit", "commit it, likely: typed commit chk-3, typed abort"
ABORT, LIKELY_ABORT = "abort it, certain: abort", "abort it, likely: typed abort"
DOUBT, GOES_ON = "unknown, guess: typed abort", "in progress, likely: no offer"
COMMIT_OF_4, COMMIT_OF_SAVEPOINT = (
    LIKELY_COMMIT.replace("chk-3", "chk-4"),
    LIKELY_COMMIT.replace("chk-3", "savepoint-aaaaaa-0123"),
)
"""What is said and offered, as case_tables.told says it."""


def flink_state(given: Iterable[Any]) -> FlinkState:
    """Return what a collector knows of Flink."""
    state = FlinkState(answered={CLUSTER}, polled_ms={CLUSTER: T0})
    for each in given:
        match each:
            case FlinkCommittables():
                state.see_committables(each)
            case FlinkCheckpoint():
                state.see_checkpoint(each)
            case FlinkJob():
                state.see_job(each)
            case dict():
                state.out_of_reach[CLUSTER] = each
            case InStore():
                each.see(state)
            case Stated():
                state.writes_here = {CLUSTER: each.writes_here}
            case RestAway():
                state.answered -= {CLUSTER} if each.is_new else set()
                if each.since is None:
                    state.polled_ms.clear()
                else:
                    state.see_polled(CLUSTER, T0 + each.since, answered=False)
                    state.see_polled(CLUSTER, T0 + each.since + 1_000, answered=False)
    return state


def case_of(
    state: FlinkState, given: Iterable[Any], overdue_ms: int = OVERDUE_MS, silent_ms: int = SILENT_MS
) -> FlinkCase | None:
    """Return the case of the open transaction that is given, else of the one that began at 22 s, at the time that is given."""
    view, at = BEGUN, At(90_000)
    for each in given:
        view, at = (each if isinstance(each, TransactionView) else view, each if isinstance(each, At) else at)
    return flink_case(state, view, commit_overdue_ms=overdue_ms, driver_silent_ms=silent_ms, now_ms=T0 + at.ms)


def sure_case(given: Iterable[Any]) -> FlinkCase:
    found = case_of(flink_state(given), given)
    assert found is not None
    return found


def judged(given: Iterable[Any], state: FlinkState | None = None) -> Judgement | None:
    """Return what is said of the open transaction, from what is given of Flink, or from that state."""
    found = case_of(flink_state(given) if state is None else state, given)
    return flink_commits.judge(found) if found is not None else None


def check(found: Judgement | None, rule: int, then: str) -> None:
    """Hold what is said against what must be."""
    assert told(found) == (rule, then)
    if found is not None:
        assert found.rests_on, "a verdict shows what it rests on"
        is_harmless = found.verdict is Verdict.ABORT_IT and found.certainty is Certainty.CERTAIN
        assert found.loses_data is not is_harmless, "any other abort takes a typed confirmation"


BEGUN = begun()
