"""What a Flink job would lose or write twice if it were restored from one of its checkpoints. Pure.

A restored job commits what its checkpoint lists, rolls back what its sinks left open, and writes again all that it read behind
the checkpoint. So of each transaction three facts tell: whether the checkpoint lists it, whether it was written before or behind
it, and how it ended. Sources: CommitterOperator, KafkaCommitter, KafkaWriter (flink-connector-kafka 3.x to 5.x).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS
from indoubt.collector.records.formats.flink_metadata.sink_states import SinkKind
from indoubt.collector.records.formats.flink_records import FlinkCommittables, FlinkStatus, Listed
from indoubt.collector.runtime.time_format import utc
from indoubt.collector.verdicts.flink_line import Standing, rivals, several_clusters
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.restores import AfterRestore


class End(Enum):
    """How a transaction stands now."""

    OPEN = "open"
    COMMITTED = "committed"
    UNDONE = "undone"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One transaction of the job's sinks; ``listed``: as checkpoints name it. Times are epoch ms.

    ``deadline_ms`` None: it never times out. ``is_left_to_job``: no order commits it, and a restore need not wait for one.
    """

    key: str
    listed: Listed | None
    start_ms: int
    end: End
    deadline_ms: int | None = None
    is_left_to_job: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOutcome:
    """What a restore from one checkpoint would do; ``keys``: of the transactions that do not simply stay as they are.

    ``doubts``: why it may be otherwise, one sentence each. ``deadline_ms``: when the first of ``commits`` times out (epoch ms).
    """

    checkpoint: FlinkCommittables
    keys: Mapping[AfterRestore, Sequence[str]]
    deadline_ms: int | None
    doubts: tuple[str, ...]


def outcomes(
    flink: FlinkState, cluster: str, job: str, written: Sequence[Written], *, is_all: bool
) -> list[RestoreOutcome]:
    """Return what a restore from each retained checkpoint of a job would do, the newest first.

    ``written``: its sinks' transactions; ``is_all`` False: there are more than were read.
    """
    retained = [each for each in flink.lists.committables.get((cluster, job), {}).values() if not each.is_gone]
    retained.sort(key=lambda each: -each.written_ms)
    return [_outcome(flink, each, written, is_all=is_all) for each in retained]


def _outcome(
    flink: FlinkState, checkpoint: FlinkCommittables, written: Iterable[Written], *, is_all: bool
) -> RestoreOutcome:
    keys: defaultdict[AfterRestore, list[str]] = defaultdict(list)
    deadlines = []
    for one in written:
        after = _after(flink, checkpoint, one)
        if after is None:
            continue
        keys[after].append(one.key)
        if after is AfterRestore.COMMITTED_BY_IT and one.deadline_ms is not None:
            deadlines.append(one.deadline_ms)
    return RestoreOutcome(
        checkpoint=checkpoint,
        keys=dict(keys),
        deadline_ms=min(deadlines, default=None),
        doubts=tuple(_doubts(flink, checkpoint, is_all)),
    )


def _after(flink: FlinkState, checkpoint: FlinkCommittables, one: Written) -> AfterRestore | None:
    """Return what becomes of one transaction; None: it stays as it is, and nothing of it is written again."""
    if one.listed in checkpoint.committables:
        return {
            End.OPEN: None if one.is_left_to_job else AfterRestore.COMMITTED_BY_IT,
            End.COMMITTED: None,
            End.UNDONE: AfterRestore.LOST,
            End.UNSEEN: AfterRestore.UNKNOWN,
        }[one.end]
    is_behind = _is_behind(flink, checkpoint, one)
    # What was undone and is not listed is written again, if it was written behind the checkpoint.
    if is_behind is False or one.end is End.UNDONE:
        return None
    if is_behind is None:
        return AfterRestore.UNKNOWN
    return {End.OPEN: AfterRestore.ROLLED_BACK, End.COMMITTED: AfterRestore.TWICE}.get(one.end, AfterRestore.UNKNOWN)


def _is_behind(flink: FlinkState, checkpoint: FlinkCommittables, one: Written) -> bool | None:
    """Say whether a transaction that a checkpoint does not list was written behind it; None: that is not known.

    What other checkpoints list was written behind all that were taken before the first of these. Else its start tells: what
    began behind the checkpoint before this one, and in time for this one, would be in its list.
    """
    lists = flink.lists.committables[checkpoint.cluster, checkpoint.job].values()
    listings = [each.written_ms for each in lists if one.listed in each.committables]
    if listings:
        return min(listings) >= checkpoint.written_ms
    if one.start_ms >= checkpoint.written_ms:
        return True
    taken_ms = _taken_ms(flink, checkpoint)
    return None if taken_ms is None else one.start_ms >= taken_ms


def _taken_ms(flink: FlinkState, checkpoint: FlinkCommittables) -> int | None:
    """Return a time (epoch ms) behind the checkpoint before, and before this one had all of its list; None: none is known."""
    facts = flink.jobs.get(checkpoint.job)
    ended = facts.ended(checkpoint, FlinkStatus.COMPLETED) if facts is not None else None
    if ended is not None:
        return ended[0].triggered_ms - CLOCK_SKEW_MS
    of_job = flink.lists.committables[checkpoint.cluster, checkpoint.job].values()
    before = (each.written_ms for each in of_job if each.number == checkpoint.number - 1)
    return max((at_ms for at_ms in before if at_ms < checkpoint.written_ms), default=None)


def _doubts(flink: FlinkState, checkpoint: FlinkCommittables, is_all: bool) -> Iterable[str]:
    job = checkpoint.job
    if checkpoint.error:
        yield f"its list was not read whole: {checkpoint.error}"
    for sink in checkpoint.sinks:
        if sink.kind == SinkKind.UNKNOWN.value and sink.commits:
            yield f"it announces {counted(sink.commits, 'commit')} of sink {sink.sink}, whose kind is not known here: not counted"
    if not is_all:
        yield "the sinks wrote more transactions behind it than are looked at"
    if shared := several_clusters(flink, job):
        yield shared
    facts = flink.jobs.get(job)
    if facts is None:
        yield "Flink's REST API does not know the job: a restore that nothing told of may have come since"
        return
    back = [
        restore
        for restore in facts.restores
        if restore.number < checkpoint.number and restore.at_ms >= checkpoint.written_ms
    ]
    if back:
        yield (
            f"the job was set back to checkpoint {back[-1].number} at {utc(back[-1].at_ms)}, behind this one: what it wrote since "
            "is of another line, and would be written twice"
        )
    if facts.ended(checkpoint, FlinkStatus.COMPLETED) is None and not any(
        restore.number == checkpoint.number for restore in flink.restores_from(job)
    ):
        yield "nothing shows that it was completed: Flink itself may go on from an older one"
    for rival in rivals(flink, job, checkpoint.written_ms, lambda _: Standing.UNKNOWN):
        yield f"{rival.why}: what it wrote is not counted"
