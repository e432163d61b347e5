"""Hidden files of FileSinks that no checkpoint names: what a job wrote that was set back since, and writes again. Pure.

A checkpoint names every file that its writers have open or have written whole. So one that was begun before a checkpoint was taken,
and that is not named by it, belongs to no work that goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS, PATH_SKEW_MS
from indoubt.collector.records.formats.flink_records import FlinkCommittables, FlinkStatus
from indoubt.collector.records.formats.pending_files import UnnamedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class LastList:
    """The last completed checkpoint of a job that writes to a directory; ``taken_ms``: when it was triggered, Flink's epoch ms."""

    listing: FlinkCommittables
    name: str
    taken_ms: int


def last_lists(state: FlinkState, directory: str) -> tuple[LastList, ...]:
    """Return the last list of every job that writes to a directory; nothing where one of them has none that tells.

    A job that is over writes no more: what it had open behind its last checkpoint nobody goes on with. One that REST never
    reported counts as over if it took no checkpoint since another job was started that writes there.
    """
    found: list[LastList] = []
    unseen_ms, started_ms = list[int](), list[int]()
    for (_, job), lists in state.lists.of_directory(directory).items():
        facts = state.jobs.get(job)
        if facts is None:
            unseen_ms += [each.written_ms for each in lists]
            continue
        if facts.job.is_over:
            continue
        told = [
            LastList(listing=each, name=facts.pipeline, taken_ms=ended[0].triggered_ms)
            for each in lists
            if not each.error
            and each.in_progress is not None
            and (ended := facts.ended(each, FlinkStatus.COMPLETED)) is not None
            and facts.counts(ended[0])
        ]
        if not told:
            return ()
        found.append(max(told, key=lambda each: each.taken_ms))
        started_ms.append(facts.job.started_ms)
    if unseen_ms and started_ms and max(unseen_ms) > max(started_ms) + CLOCK_SKEW_MS:
        return ()
    return tuple(found)


def unnamed_by(state: FlinkState, target: str) -> tuple[UnnamedFile, LastList] | None:
    """Return a file that no list on disk names, and the last list that would; None: it is none, or the lists do not tell."""
    file = next((files[target] for files in state.unnamed_files.values() if target in files), None)
    if file is None or {file.file.temporary, file.file.upload} & state.lists.files_named():
        return None
    lists = last_lists(state, file.directory)
    first = min(lists, key=lambda each: each.taken_ms, default=None)
    return (file, first) if first is not None and file.opened_ms < first.taken_ms - PATH_SKEW_MS else None
