"""Several resource managers under one decision: everybody is asked, in order, and a failure of one undoes all.

The doubles here keep prepared branches in memory and behave as the Protocol says; the real ones are in the integration tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from indoubt.lifecycle.errors import ResourceManagerError, SettingsError, Unreachable, ZombieWriter
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.lifecycle.identity import Fingerprint, Handle, Marker
from indoubt.lifecycle.outcomes import Committed, Lost, RetryLater, RolledBack
from indoubt.resource_managers.global_transaction import ResourceManagers
from indoubt.resource_managers.protocol import OpenTransactionView, Readiness, SlotAttempt, nothing
from tests.unit.lifecycle.test_identity import HANDLE

MARKER = Marker(batch=7, attempt=3, checkpoint_id="l")
SLOT = SlotAttempt(prefix="p", slot=0, marker=MARKER)
FINGERPRINT = Fingerprint(rows=1, hash=9)
ROWS = pa.record_batch({"value": pa.array([b"a"])})


class Branch:
    """An open branch in memory."""

    def __init__(self, manager: InMemory) -> None:
        self.manager, self.rows, self.aborted = manager, 0, 0

    def write(self, rows: pa.RecordBatch) -> None:
        self.rows += rows.num_rows

    @property
    def provisional_handle(self) -> Handle:
        return handle(self.manager.name, "", self.rows)

    def prepare(self, fingerprint: Fingerprint, *, flushed: Callable[[], None] = nothing) -> Handle:
        flushed()
        self.manager.fail_at("prepare")
        prepared = handle(self.manager.name, str(fingerprint), self.rows)
        self.manager.prepared.append(prepared)
        return prepared

    def abort(self) -> None:
        self.aborted += 1
        self.manager.fail_at("abort")


class InMemory:
    """A resource manager in memory, itself a plain writer; ``failing`` names the step that fails, with its error."""

    def __init__(self, name: str, takes: Sequence[str] = ("value",), **failing: Exception) -> None:
        self.name, self.takes, self.failing = name, takes, failing
        self.prepared: list[Handle] = []
        self.settled: list[Handle] = []
        self.begun: list[Branch] = []
        self.finished = False
        self.rows, self.bytes = 2, 10

    def fail_at(self, step: str) -> None:
        if step in self.failing:
            raise self.failing[step]

    def verify(self, columns: Sequence[tuple[str, pa.DataType]]) -> frozenset[str]:
        return frozenset(self.takes) & {name for name, _ in columns}

    def begin(self, slot: SlotAttempt) -> Branch:
        self.fail_at("begin")
        self.begun.append(Branch(self))
        return self.begun[-1]

    def begin_without_transaction(self, guarantee: DeliveryGuarantee) -> InMemory:
        self.fail_at("begin")
        return self

    def finish(self) -> None:
        self.finished = True
        self.fail_at("finish")

    def abort(self) -> None:
        self.begun.clear()

    def check(self, handles: Sequence[Handle]) -> list[Readiness]:
        self.fail_at("check")
        return [Readiness(handle=h, ready=h in self.prepared, time_left_ms=0) for h in handles]

    def commit(self, handles: Sequence[Handle], markers: Sequence[Marker], limit_s: float) -> list[Committed | Lost]:
        self.fail_at("commit")
        assert list(markers) == [MARKER] * len(handles)
        self.settled += handles
        return [Committed(handle=h) if h.slot == 0 else Lost(handle=h, reason="gone") for h in handles]

    def rollback(self, handles: Sequence[Handle], limit_s: float) -> list[RolledBack]:
        self.prepared = [h for h in self.prepared if h not in handles]
        return [RolledBack(handle=h) for h in handles]

    def recover(self, prefix: str) -> list[OpenTransactionView]:
        self.fail_at("recover")
        return [view(self.name)]

    def fence(self, transactions: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        self.fail_at("fence")
        return [""] * len(transactions)

    def list_transactions(self) -> list[OpenTransactionView]:
        return [view(self.name)]


def handle(name: str, fingerprint: str = "1:0", rows: int = 1, slot: int = 0) -> Handle:
    of = {"producer_id": None, "producer_epoch": None, "timeout_ms": 0, "fingerprint": fingerprint, "rows": rows}
    return replace(HANDLE, resource_manager=name, transaction=f"{name}-{slot}", slot=slot, **of)


def view(name: str) -> OpenTransactionView:
    return OpenTransactionView(
        resource_manager=name,
        transaction=f"{name}-0",
        producer_id=None,
        producer_epoch=None,
        state="Prepared",
        started_at_ms=None,
        timeout_ms=None,
    )


def several(*managers: InMemory) -> ResourceManagers:
    return ResourceManagers({manager.name: manager for manager in managers})


def test_a_slot_has_a_branch_in_each_with_one_fingerprint():
    kafka, mysql = InMemory("kafka"), InMemory("mysql")
    flushed = []
    open_ = several(kafka, mysql).begin(SLOT)
    open_.write(ROWS)
    assert [(h.resource_manager, h.rows) for h in open_.provisional_handle] == [("kafka", 1), ("mysql", 1)]
    handles = open_.prepare(FINGERPRINT, flushed=lambda: flushed.append(1))
    assert [(h.resource_manager, h.fingerprint) for h in handles] == [
        ("kafka", str(FINGERPRINT)),
        ("mysql", str(FINGERPRINT)),
    ]
    assert len(flushed) == 2


def test_when_one_refuses_to_begin_the_others_are_aborted():
    kafka, mysql = InMemory("kafka"), InMemory("mysql", begin=ZombieWriter("superseded"))
    with pytest.raises(ZombieWriter, match="superseded"):
        several(kafka, mysql).begin(SLOT)
    assert [branch.aborted for branch in kafka.begun] == [1]


def test_when_one_cannot_prepare_what_the_others_prepared_is_rolled_back():
    kafka, mysql = InMemory("kafka"), InMemory("mysql", prepare=Unreachable("no answer"))
    open_ = several(kafka, mysql).begin(SLOT)
    with pytest.raises(Unreachable, match="no answer"):
        open_.prepare(FINGERPRINT)
    assert kafka.prepared == mysql.prepared == []
    assert [branch.aborted for branch in mysql.begun] == [1]


def test_an_abort_that_fails_does_not_keep_the_others_from_theirs():
    kafka, mysql = InMemory("kafka", abort=Unreachable("no answer")), InMemory("mysql")
    several(kafka, mysql).begin(SLOT).abort()
    assert [branch.aborted for branch in (*kafka.begun, *mysql.begun)] == [1, 1]


def test_a_replay_begins_and_prepares_only_where_something_is_missing():
    kafka, mysql, postgres = InMemory("kafka"), InMemory("mysql"), InMemory("postgres")
    open_ = several(kafka, mysql, postgres).begin(SLOT, ("kafka", "mysql"))
    open_.write(ROWS)
    open_.skip(("mysql", "postgres"))
    assert [h.resource_manager for h in open_.prepare(FINGERPRINT)] == ["kafka"]
    assert [branch.aborted for branch in mysql.begun] == [1]
    assert postgres.begun == []


def test_outcomes_come_in_the_order_of_the_handles():
    kafka, mysql = InMemory("kafka"), InMemory("mysql")
    handles = [handle("mysql"), handle("kafka", slot=1), handle("mysql", slot=1), handle("kafka")]
    outcomes = several(kafka, mysql).commit(handles, [MARKER] * 4, 1.0)
    assert [outcome.handle for outcome in outcomes] == handles
    assert [type(outcome) for outcome in outcomes] == [Committed, Lost, Lost, Committed]
    assert kafka.settled == [handles[1], handles[3]]


def test_others_commit_while_one_resource_manager_is_down():
    kafka, mysql = InMemory("kafka", commit=Unreachable("broker is down")), InMemory("mysql")
    outcomes = several(kafka, mysql).commit([handle("kafka"), handle("mysql")], [MARKER] * 2, 1.0)
    assert outcomes == [
        RetryLater(handle=handle("kafka"), reason="broker is down"),
        Committed(handle=handle("mysql")),
    ]


def test_a_handle_that_no_sink_holds_is_not_lost_and_is_named():
    outcome = several(InMemory("kafka")).commit([handle("mysql")], [MARKER], 1.0)[0]
    assert isinstance(outcome, RetryLater)
    assert "'mysql'" in outcome.reason


def test_check_says_not_ready_where_nobody_answers():
    kafka, mysql = InMemory("kafka"), InMemory("mysql", check=Unreachable("no answer"))
    kafka.prepared.append(handle("kafka"))
    answers = several(kafka, mysql).check([handle("mysql"), handle("kafka")])
    assert [(answer.ready, answer.reason) for answer in answers] == [(False, "no answer"), (True, "")]


def test_a_mistake_of_the_program_is_not_taken_for_an_answer():
    with pytest.raises(TypeError):
        several(InMemory("kafka", commit=TypeError())).commit([handle("kafka")], [MARKER], 1.0)


def test_recovery_sees_all_or_fails_and_a_fence_names_what_is_left():
    kafka, mysql = InMemory("kafka"), InMemory("mysql", fence=Unreachable("no answer"))
    managers = several(kafka, mysql)
    found = managers.recover("p")
    assert [one.resource_manager for one in found] == ["kafka", "mysql"]
    assert managers.fence(found, 1.0) == ["", "mysql-0: no answer"]
    with pytest.raises(Unreachable):
        several(kafka, InMemory("mysql", recover=Unreachable("no answer"))).recover("p")
    assert [one.key for one in found] == ["kafka:kafka-0", "mysql:mysql-0"]


def test_a_column_that_nobody_takes_is_named():
    columns = [("value", pa.binary()), ("word", pa.string()), ("count", pa.int64())]
    managers = several(InMemory("kafka"), InMemory("mysql", takes=("word",)))
    with pytest.raises(SettingsError, match=r"no sink \(kafka, mysql\) takes the job's column 'count'"):
        managers.verify(columns)
    assert managers.verify(columns[:2]) == {"value", "word"}


def test_plain_writers_are_all_waited_for_and_count_each_row_once():
    kafka, mysql = InMemory("kafka", finish=ResourceManagerError("not delivered")), InMemory("mysql")
    writers = several(kafka, mysql).begin_without_transaction(DeliveryGuarantee.AT_LEAST_ONCE)
    assert (writers.rows, writers.bytes) == (2, 20)
    with pytest.raises(ResourceManagerError, match="not delivered"):
        writers.finish()
    assert mysql.finished
