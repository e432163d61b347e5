"""One application of Flink: its jobs, one after the other, their checkpoints, savepoints and restores. Times are ms after T0."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from indoubt.collector.records.flink_stores import FlinkStore, StoredCheckpoint
from indoubt.collector.records.formats.flink_records import FlinkCommittables, FlinkKind, FlinkStatus
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0
from tests.unit.collector.verdicts.flink_model.sinks import KafkaSink, Sink
from tests.unit.collector.verdicts.flink_model.world import Held, World

Checkpoint = tuple[str, int]
"""A job and a number."""
OUTCOMES = ("committed", "recorded", "written", "declined", "unsure", "savepoint", "stopped", "stopping")
"""How a checkpoint ends.

- Its transactions are committed; it is recorded, or its ``_metadata`` is only written, and its job dies before they are.
- It fails and the job goes on, also where Flink is unsure and has recorded it.
- It is a savepoint, which commits nothing while the job goes on, and which no restart by itself goes back to.
- It is the savepoint of stop-with-savepoint, and the job ends; or the job dies before it has committed.
"""
LISTS = ("read", "out of reach", "not found")
"""What a collector gets of a checkpoint's ``_metadata``."""
KINDS = {
    "savepoint": FlinkKind.SAVEPOINT,
    "stopped": FlinkKind.SYNC_SAVEPOINT,
    "stopping": FlinkKind.SYNC_SAVEPOINT,
}
STATUSES = {"declined": FlinkStatus.FAILED, "unsure": FlinkStatus.FAILED, "written": FlinkStatus.IN_PROGRESS}


@dataclass(kw_only=True)
class Application:
    """``key``: its own, whatever its jobs are called."""

    world: World
    key: str
    name: str
    sinks: list[Sink]
    clusters: tuple[str, ...] = (CLUSTER,)
    """The Flink cluster that it runs in, then the others whose collectors' directories hold its checkpoints, too."""
    job: str = ""
    newest: int = 0
    goes_on_from: int = 0
    """The number of the checkpoint that it was restored from, or that was taken last."""
    is_up: bool = True
    is_over: bool = False
    """Its job was stopped: it does not start again by itself."""
    is_moved: bool = False
    """It was once restored from a copy of a checkpoint, whose path does not say whose it is, or under another name."""
    renamed_by: list[str] = field(default_factory=list)
    """The jobs that went on with its work under another name."""
    has_writers: bool = False
    """They run: they have shut out what those before them left."""
    has_store: bool = False
    """Its cluster has a high-availability store: a JobManager that died is followed by one that goes on from the newest in it."""
    stored: tuple[Checkpoint, ...] = ()
    """What that store points to of the job."""
    started: int = 0
    line: tuple[Checkpoint, ...] = ()
    """The checkpoints that the job's work rests on, oldest first: a restart by itself goes back to the last of them."""
    lines: dict[Checkpoint, tuple[Checkpoint, ...]] = field(default_factory=dict)
    """Every checkpoint that a person may restore, each with the line that it stands at the end of."""
    holds: dict[Checkpoint, tuple[Held, ...]] = field(default_factory=dict)
    kinds: dict[Checkpoint, FlinkKind] = field(default_factory=dict)
    written: dict[Checkpoint, int] = field(default_factory=dict)
    restores: list[tuple[int, Checkpoint | None]] = field(default_factory=list)
    """When it went on, and from what."""
    _ended: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """The jobs before, with what REST told of each."""
    told: list[Any] = field(default_factory=list)
    """What REST says of the job that runs, when it is asked."""

    def __post_init__(self) -> None:
        self.job = self.world.new_job()
        self.jobs = [self.job]
        self._told_job: dict[str, Any] = {"started_ms": T0 + self.world.at}

    def counts(self, held: Held) -> bool:
        """Say whether the work rests on a transaction: its rows are not written again."""
        return any(held in self.holds[each] for each in self.line)

    def restored_since(self, held: Held) -> list[Checkpoint | None]:
        """Return what it went on from since a transaction began."""
        return [source for at, source in self.restores if at > held.opened]

    def is_set_back_by(self, held: Held, source: Checkpoint | None) -> bool:
        """Say whether a job that goes on from there writes again what a transaction holds."""
        return not any(held in self.holds[each] for each in (self.lines[source] if source else ()))

    def is_told(self) -> bool:
        """Say whether REST shows each start for what it is: a start from nothing has no path, and a copy's names no job."""
        return not self.is_moved and all(
            source is not None and not self.kinds[source].is_savepoint for _, source in self.restores
        )

    def is_begun_anew_unseen(self) -> bool:
        """Say whether it began from nothing after a job that REST never reported had renamed it: nothing tells whose work it is."""
        unseen = [self.jobs.index(each) for each in self.renamed_by if each not in self.world.flink.jobs]
        begun_by = self.jobs.index(self.line[0][0]) if self.line else len(self.jobs) - 1
        return bool(unseen) and begun_by > min(unseen)

    def name_of(self, taken: Checkpoint) -> str:
        """Return the last part of a checkpoint's path."""
        return self.path_of(taken).rpartition("/")[2]

    def path_of(self, taken: Checkpoint) -> str:
        id_, number = taken
        is_savepoint = self.kinds[taken].is_savepoint
        return f"file:///s/savepoint-{id_[:6]}-{number}" if is_savepoint else f"file:///c/{id_}/chk-{number}"

    def write(self, outcome: str, listing: str) -> None:
        """Take a checkpoint or savepoint."""
        world = self.world
        if self.has_writers and any(sink.is_fenced for sink in self.sinks):
            self.is_up = False
        if not self.is_up:
            self.fail_over()
        self.start_writers()
        world.at += 10_000
        self.newest += 1
        taken, triggered = (self.job, self.newest), world.at
        self.kinds[taken] = KINDS.get(outcome, FlinkKind.CHECKPOINT)
        for sink in self.sinks:
            sink.barrier(self.job, self.newest)
        self.goes_on_from = self.newest
        # Flink deletes the list of one that failed, if it gets to it.
        self.holds[taken] = tuple(held for sink in self.sinks for held in sink.pending)
        self._see_list(taken, listing)
        self.written[taken] = world.at
        world.at += 500
        self.told.append((taken, STATUSES.get(outcome, FlinkStatus.COMPLETED), triggered, world.at))
        if outcome != "declined":
            self.lines[taken] = (*self.line, taken)
        if outcome in ("committed", "recorded", "stopped"):
            self.line = self.lines[taken]
        if outcome in ("committed", "stopped"):
            for sink in self.sinks:
                sink.complete()
        if outcome in ("committed", "recorded", "stopped", "unsure"):
            self.stored = (*self.stored, taken)
        self.is_over = outcome == "stopped"
        self.is_up = outcome not in ("recorded", "written", "stopped", "stopping")
        if self.has_store and not (self.is_up or self.is_over):
            self.line = self.lines[self.stored[-1]] if self.stored else self.line
        if self.is_over:
            # Its writers close what they began behind the barrier.
            world.end([held for sink in self.sinks for held in sink.current], is_commit=False)

    def restore(self, steps_back: int, *, from_nothing: bool = False, copied: bool = False, name: str = "") -> None:
        """Start another job at a person's wish: from what was taken last, from what was before it, or from nothing.

        ``copied``: from a copy of it elsewhere; ``name``: of the new job, whose sinks then have new prefixes, too.
        """
        known = list(self.lines)
        source = None if from_nothing or not known else known[max(0, len(known) - 1 - steps_back)]
        self._ended.append((self.job, {"name": self.name, **self._told_job}))
        is_renamed = False
        if name:
            self.is_moved, is_renamed = True, name != self.name
            self.name = name
            self.sinks = [sink.renamed(name) for sink in self.sinks]
        self.job = self.world.new_job()
        self.jobs.append(self.job)
        if is_renamed:
            self.renamed_by.append(self.job)
        self.stored = ()
        self.newest = source[1] if source else 0
        self.started = self.world.at + 8_000
        self._told_job = {"started_ms": T0 + self.started}
        self._go_on_from(source, copied=copied)

    def copy(self, key: str, name: str, steps_back: int, *, copied: bool, elsewhere: bool) -> Application | None:
        """Return a copy that a person starts beside it, for a test, with sinks of its own; None: there is nothing to restore."""
        if not self.lines:
            return None
        other = self.world.other_kafka() if elsewhere else self.world
        kafka = [sink for sink in self.sinks if isinstance(sink, KafkaSink)]
        sinks: list[Sink] = [
            replace(sink, world=other, owner=key, pending=[], writing=[], prefix=sink.prefix if elsewhere else name)
            for sink in kafka
        ]
        found = Application(
            world=self.world, key=key, name=name, sinks=sinks, clusters=self.clusters[::-1], has_store=self.has_store
        )
        found.lines, found.holds, found.kinds = dict(self.lines), dict(self.holds), dict(self.kinds)
        known = list(self.lines)
        source = known[max(0, len(known) - 1 - steps_back)]
        found.newest, found.is_moved = source[1], True
        found._go_on_from(source, copied=copied)
        return found

    def fail_over(self) -> None:
        """Restart the tasks of the same job from its newest checkpoint, or from nothing; the checkpoints' numbers go on."""
        if self.is_over:
            self.restore(0)
        else:
            self._go_on_from(self.line[-1] if self.line else None)

    def start_writers(self) -> None:
        """Have the writers commit what they were restored with, shut out what others left open, and begin."""
        if self.has_writers or not self.is_up:
            return
        self.world.at += 2_000
        self.has_writers = True
        restored = self.holds[self.line[-1]] if self.line else ()
        for sink in self.sinks:
            sink.start(self.job, restored, self.goes_on_from)

    def poll(self) -> None:
        """Have REST tell what it knows of the job that runs."""
        state = self.world.flink
        for taken, status, triggered, ended in self.told:
            if taken[0] == self.job:
                ended_ms = None if status is FlinkStatus.IN_PROGRESS else T0 + ended
                seen = {
                    "cluster": self.clusters[0],
                    "job": self.job,
                    "job_name": self.name,
                    "kind": self.kinds[taken],
                    "triggered_ms": T0 + triggered,
                    "ended_ms": ended_ms,
                    "path": self.path_of(taken),
                }
                state.see_checkpoint(checkpoint(taken[1], status, **seen))
        at_ms, cluster = T0 + self.world.at, self.clusters[0]
        for number, (id_, before) in enumerate(self._ended):
            # It was cancelled, or its cluster was: then it is not told of any more.
            over = {"cluster": cluster, "state": ("CANCELED", "GONE")[number % 2], "changed_ms": at_ms, **before}
            if id_ in state.jobs:
                state.see_job(job(id_, **over))
        told = "FINISHED" if self.is_over else "RUNNING" if self.is_up else "FAILED"
        state.see_job(job(self.job, state=told, name=self.name, cluster=cluster, **self._told_job))
        state.see_polled(cluster, at_ms, answered=True)

    def show_store(self) -> None:
        """Have a collector read the high-availability store."""
        state, cluster = self.world.flink, self.clusters[0]
        seen = state.stores.read.get(cluster) or FlinkStore(jobs=frozenset(), newest={})
        newest = dict(seen.newest)
        if self.stored and not self.is_over:
            _, number = taken = self.stored[-1]
            newest[self.job] = StoredCheckpoint(
                number=number,
                added_ms=T0 + self.written[taken],
                is_held=self.is_up,
                where="ZooKeeper, /x",
                since_ms=T0 + self.world.at,
            )
        state.stores.see(cluster, FlinkStore(jobs=seen.jobs | {self.job}, newest=newest))

    def _go_on_from(self, source: Checkpoint | None, *, copied: bool = False) -> None:
        self.world.at += 10_000
        self.line = self.lines[source] if source else ()
        self.goes_on_from = source[1] if source else 0
        for sink in self.sinks:
            sink.crash()
        self.is_up, self.is_over, self.has_writers = True, False, False
        self.restores.append((self.world.at, source))
        if source:
            path = f"file:///copies/{source[1]}" if copied else self.path_of(source)
            self.is_moved = self.is_moved or copied
            restored = {"restored": source[1], "restored_path": path, "restored_at": self.world.at}
            self._told_job |= restored

    def _see_list(self, taken: Checkpoint, listing: str) -> None:
        state = self.world.flink
        if listing == "out of reach":
            for cluster in self.clusters:
                state.out_of_reach.setdefault(cluster, {})[taken] = "permission denied"
        if listing != "read":
            return
        kafka = [sink for sink in self.sinks if isinstance(sink, KafkaSink)]
        for cluster in self.clusters:
            state.see_committables(
                FlinkCommittables(
                    cluster=cluster,
                    job=taken[0],
                    number=taken[1],
                    path=self.path_of(taken),
                    kind=self.kinds[taken],
                    written_ms=T0 + self.world.at,
                    read_ms=T0 + self.world.at,
                    committables=frozenset(held.as_listed for held in self.holds[taken]),
                    prefixes=frozenset(sink.prefix for sink in kafka),
                    pooled=frozenset(sink.prefix for sink in kafka if sink.is_pooled),
                )
            )
