"""A small model of one Flink application: its checkpoints, restores, transactions, and what a collector sees of them.

It knows what is true: which transactions the work of the job that runs rests on. Times are ms after T0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from collector.records.flink_facts import FlinkState
from collector.records.formats.flink_records import Committable, FlinkCommittables, FlinkKind, FlinkStatus
from collector.records.formats.transaction_state import BrokerStatus
from collector.records.observations import Observation
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0, broker_record

Checkpoint = tuple[str, int]
"""A job and a number."""
OUTCOMES = ("committed", "recorded", "written", "declined", "unsure", "savepoint")
"""How a checkpoint ends: its transactions are committed; it is recorded, or its ``_metadata`` is only written, and its job dies
before they are; it fails and the job goes on, also where Flink is unsure and has recorded it; it is a savepoint, which commits
nothing while the job goes on."""
LISTS = ("read", "out of reach", "not found")
"""What a collector gets of a checkpoint's ``_metadata``."""


@dataclass(eq=False)
class Held:
    """One transaction. ``epoch``: moved with every transaction of its id, as under transaction version 2."""

    id: str
    epoch: int
    opened: int
    ended: int | None = None
    is_committed: bool = False

    @property
    def as_listed(self) -> Committable:
        return Committable(self.id, self.producer_id, self.epoch)

    @property
    def producer_id(self) -> int:
        _, subtask, number = self.id.rsplit("-", 2)
        return 1_000 * int(subtask) + int(number)

    def record(self, status: BrokerStatus, at: int) -> Observation:
        named: dict[str, Any] = {"transaction": self.id, "producer_id": self.producer_id, "start": self.opened}
        epoch = self.epoch if status is BrokerStatus.ONGOING else self.epoch + 1
        return broker_record(status, at, epoch=epoch, version=2, **named)


@dataclass
class ModelOfFlink:
    """``subtasks`` writers with ids that count up with the checkpoints, or are ``pooled``."""

    pooled: bool = False
    subtasks: int = 1
    at: int = 0
    job: str = f"{0:032x}"
    jobs: int = 1
    newest: int = 0
    last_number: int = 0
    """The number that the ids of the next transactions go on from."""
    is_up: bool = True
    has_sinks: bool = False
    """Its writers run: they have shut out what those before them left."""
    current: list[Held] = field(default_factory=list)
    pending: list[Held] = field(default_factory=list)
    """Behind a barrier, and of no checkpoint that was completed: the next one lists it."""
    line: tuple[Checkpoint, ...] = ()
    """The recorded checkpoints that the job's work rests on, oldest first."""
    recorded: dict[Checkpoint, tuple[Checkpoint, ...]] = field(default_factory=dict)
    """Each with the line that it stands at the end of."""
    holds: dict[Checkpoint, tuple[Held, ...]] = field(default_factory=dict)
    transactions: list[Held] = field(default_factory=list)
    records: list[Observation] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)
    told: list[Any] = field(default_factory=list)
    """What REST says of the job that runs, when it is asked."""
    state: FlinkState = field(default_factory=FlinkState)

    def __post_init__(self) -> None:
        self._told_job: dict[str, Any] = {"started_ms": T0}

    def counts(self, held: Held) -> bool:
        """Say whether the work rests on a transaction: its rows are not written again."""
        return any(held in self.holds[each] for each in self.line)

    def write(self, outcome: str, listing: str) -> None:
        """Take a checkpoint."""
        if not self.is_up:
            self.fail_over()
        self.start_sinks()
        self.at += 10_000
        self.newest += 1
        taken, triggered = (self.job, self.newest), self.at
        self.pending += self.current
        self.last_number = self.newest
        is_recorded = outcome in ("committed", "recorded", "unsure", "savepoint")
        kind = FlinkKind.SAVEPOINT if outcome == "savepoint" else FlinkKind.CHECKPOINT
        # Flink deletes the list of one that failed, if it gets to it.
        self.holds[taken] = tuple(self.pending)
        self._see_list(taken, kind, listing)
        self.at += 500
        status = FlinkStatus.FAILED if outcome in ("declined", "unsure") else FlinkStatus.COMPLETED
        status = FlinkStatus.IN_PROGRESS if outcome == "written" else status
        self.told.append((taken, status, kind, triggered, self.at))
        if is_recorded:
            self.recorded[taken] = (*self.line, taken)
        self.current = []
        if outcome in ("committed", "recorded"):
            self.line = self.recorded[taken]
            if outcome == "committed":
                self._end(self.pending, is_commit=True)
            self.pending = []
        self.is_up = outcome not in ("recorded", "written")
        if self.is_up:
            self._begin()

    def restore(self, steps_back: int, from_nothing: bool = False) -> None:
        """Start another job from a recorded checkpoint: the newest one, or an older one at a person's wish; or without any."""
        known = list(self.recorded)
        source = None if from_nothing or not known else known[max(0, len(known) - 1 - steps_back)]
        self.job = f"{self.jobs:032x}"
        self.jobs += 1
        self.newest = source[1] if source else 0
        self._told_job = {"started_ms": T0 + self.at + 8_000}
        self._go_on_from(source)

    def fail_over(self) -> None:
        """Restart the tasks of the same job from its newest checkpoint, or from nothing; the checkpoints' numbers go on."""
        self._go_on_from(self.line[-1] if self.line else None)

    def _go_on_from(self, source: Checkpoint | None) -> None:
        self.at += 10_000
        self.line = self.recorded[source] if source else ()
        self.last_number = source[1] if source else 0
        self.pending, self.current, self.is_up, self.has_sinks = [], [], True, False
        if source:
            is_savepoint = any(source == each[0] and each[2] is FlinkKind.SAVEPOINT for each in self.told)
            path = f"file:///c/{'savepoint-' if is_savepoint else source[0] + '/chk-'}{source[1]}"
            self._told_job |= {"restored": source[1], "restored_path": path, "restored_at": self.at}

    def start_sinks(self) -> None:
        """Have the writers commit what they were restored with, shut out what others left open, and begin."""
        if self.has_sinks or not self.is_up:
            return
        self.at += 2_000
        self.has_sinks = True
        restored = self.holds[self.line[-1]] if self.line else ()
        self._end(restored, is_commit=True)
        if self.pooled:
            for held in self.transactions:
                if held.ended is None:
                    self._take(held.id)
        else:
            for subtask in range(self.subtasks):
                number = self.last_number + 1
                while f"orders-{subtask}-{number}" in self.epochs:
                    self._take(f"orders-{subtask}-{number}")
                    number += 1
        self._begin()

    def time_out(self) -> None:
        """Let the broker abort whatever is open but what the writers that run have just begun."""
        self.at += 60_000
        self._end([held for held in self.transactions if held not in self.current], is_commit=False)

    def poll(self) -> None:
        """Have REST tell what it knows of the job that runs."""
        self.at += 3_000
        for (id_, number), status, kind, triggered, ended in self.told:
            if id_ == self.job:
                ended_ms = None if status is FlinkStatus.IN_PROGRESS else T0 + ended
                path = f"file:///c/{id_}/chk-{number}"
                seen = {"job": id_, "kind": kind, "triggered_ms": T0 + triggered, "ended_ms": ended_ms, "path": path}
                self.state.see_checkpoint(checkpoint(number, status, **seen))
        self.state.see_job(job(self.job, state="RUNNING" if self.is_up else "FAILED", **self._told_job))
        self.state.polled_ms[CLUSTER] = T0 + self.at

    def left(self) -> Iterator[tuple[Held, Observation]]:
        """Yield each transaction that is not committed, with the record of its begin."""
        for held in self.transactions:
            if not held.is_committed:
                yield held, held.record(BrokerStatus.ONGOING, held.opened)

    def _begin(self) -> None:
        self.at += 50
        for subtask in range(self.subtasks):
            number = self.last_number + 1
            if self.pooled:
                taken = {held.id for held in (*self.pending, *self.current)}
                number = next(n for n in range(len(taken) + 1) if f"orders-{subtask}-{n}" not in taken)
            id_ = f"orders-{subtask}-{number}"
            self._take(id_)
            held = Held(id_, self.epochs[id_], self.at)
            self.current.append(held)
            self.transactions.append(held)
            self.records.append(held.record(BrokerStatus.ONGOING, self.at))

    def _take(self, id_: str) -> None:
        """Take an id: what is open under it is aborted."""
        self._end([held for held in self.transactions if held.id == id_], is_commit=False)
        self.at += 5
        self.epochs[id_] = self.epochs.get(id_, 0) + 2
        producer_id = Held(id_, 0, 0).producer_id
        named: dict[str, Any] = {"transaction": id_, "producer_id": producer_id, "epoch": self.epochs[id_]}
        self.records.append(broker_record(BrokerStatus.EMPTY, self.at, start=None, version=2, partitions=(), **named))

    def _end(self, transactions: Any, *, is_commit: bool) -> None:
        self.at += 5
        ends = (
            (BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
            if is_commit
            else (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)
        )
        for held in transactions:
            if held.ended is None:
                held.ended, held.is_committed = self.at, is_commit
                self.records += [held.record(status, self.at) for status in ends]

    def _see_list(self, taken: Checkpoint, kind: FlinkKind, listing: str) -> None:
        if listing == "out of reach":
            self.state.out_of_reach.setdefault(CLUSTER, {})[taken] = "permission denied"
        # A savepoint is outside the directories that are watched.
        if listing != "read" or kind.is_savepoint:
            return
        id_, number = taken
        self.state.see_committables(
            FlinkCommittables(
                cluster=CLUSTER,
                job=id_,
                number=number,
                path=f"file:///c/{id_}/chk-{number}",
                kind=kind,
                written_ms=T0 + self.at,
                read_ms=T0 + self.at,
                committables=frozenset(held.as_listed for held in self.holds[taken]),
                prefixes=frozenset({"orders"}),
                pooled=frozenset({"orders"} if self.pooled else ()),
            )
        )
