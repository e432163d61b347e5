"""What the writers of Flink's sinks do at a barrier, at a checkpoint's end and at a start: KafkaSink and JdbcXaSinkFunction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.unit.collector.verdicts.flink_model.world import Branch, Held, KafkaTransaction, World


@dataclass(kw_only=True)
class Sink:
    """The writers of one sink. ``pending``: behind a barrier, and not committed: the next checkpoint lists it again."""

    world: World
    owner: str
    subtasks: int = 1
    pending: list[Held] = field(default_factory=list)

    @property
    def is_fenced(self) -> bool:
        """Say whether another producer took the id of what is being written."""
        return False

    @property
    def current(self) -> Sequence[Held]:
        """Return what is being written, as far as anybody sees it."""
        return ()

    def renamed(self, name: str) -> Sink:
        """Return the sink of an application that starts under another name: it has a new uid, and its state is dropped."""
        return replace(self, pending=[])

    @abstractmethod
    def barrier(self, job: str, number: int) -> None:
        """Prepare what was written, and begin what comes behind the barrier of checkpoint ``number``."""

    @abstractmethod
    def start(self, job: str, restored: Sequence[Held], number: int) -> None:
        """Commit what the restored checkpoint ``number`` holds, end what others left open, and begin."""

    def complete(self) -> None:
        """Commit what is prepared: its checkpoint was completed."""
        self.world.end(self.pending, is_commit=True)
        self.pending = []

    def crash(self) -> None:
        """Forget everything, as tasks that are killed do."""
        self.pending = []


@dataclass(kw_only=True)
class KafkaSink(Sink):
    """Its ids count up with the checkpoints (INCREMENTING), or are used again (POOLING)."""

    prefix: str
    is_pooled: bool = False
    writing: list[KafkaTransaction] = field(default_factory=list)

    @property
    def is_fenced(self) -> bool:
        return any(held.ended is not None for held in self.writing)

    @property
    def current(self) -> Sequence[Held]:
        return self.writing

    def renamed(self, name: str) -> Sink:
        return replace(self, pending=[], writing=[], prefix=name)

    def barrier(self, job: str, number: int) -> None:
        self.pending += self.writing
        self._begin(number + 1)

    def start(self, job: str, restored: Sequence[Held], number: int) -> None:
        own = [
            held for held in restored if isinstance(held, KafkaTransaction) and held.id.startswith(f"{self.prefix}-")
        ]
        # Another Kafka cluster does not know what a copy was restored with, and Flink goes on.
        own = [held for held in own if held in self.world.transactions]
        self.world.end(own, is_commit=True)
        if self.is_pooled:
            for held in self.world.transactions:
                if held.ended is None and held.id.startswith(f"{self.prefix}-"):
                    self.world.take(held.id)
        else:
            for subtask in range(self.subtasks):
                taken = number + 1
                while (id_ := f"{self.prefix}-{subtask}-{taken}") in self.world.epochs:
                    self.world.take(id_)
                    taken += 1
        self._begin(number + 1)

    def crash(self) -> None:
        super().crash()
        self.writing = []

    def _begin(self, number: int) -> None:
        self.world.at += 50
        self.writing = []
        for subtask in range(self.subtasks):
            n = number
            if self.is_pooled:
                taken = {held.id for held in (*self.pending, *self.writing) if isinstance(held, KafkaTransaction)}
                n = next(n for n in range(len(taken) + 1) if f"{self.prefix}-{subtask}-{n}" not in taken)
            self.writing.append(self.world.begin(self.owner, f"{self.prefix}-{subtask}-{n}"))


@dataclass(kw_only=True)
class JdbcSink(Sink):
    """JdbcXaSinkFunction. What it has not prepared is gone with its connection."""

    resource_manager: str
    number: int = 0
    """What its next xids have: the checkpoint to come, 0 after a start."""

    def barrier(self, job: str, number: int) -> None:
        for subtask in range(self.subtasks):
            gtrid = bytes.fromhex(job) + subtask.to_bytes(4, "little") + self.number.to_bytes(8, "little")
            self.pending.append(self.world.prepare(self.owner, self.resource_manager, gtrid))
        self.number = number + 1

    def start(self, job: str, restored: Sequence[Held], number: int) -> None:
        own = (held for held in restored if isinstance(held, Branch) and held.resource_manager == self.resource_manager)
        self.world.end(own, is_commit=True)
        # It rolls back what has the xid of its own job and subtask, once it has committed what its state lists.
        left = [held for held in self.world.branches if held.xid.gtrid.startswith(bytes.fromhex(job))]
        self.world.end((each for each in left if each.resource_manager == self.resource_manager), is_commit=False)
        self.number = 0
