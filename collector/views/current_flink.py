"""What is known of Flink's clusters now: its observers fold into it, orders and alerts read it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.flink_job_facts import PATH_SKEW_MS
from indoubt.collector.records.flink_stores import FlinkStore
from indoubt.collector.records.formats.flink_records import (
    Committable,
    FlinkCheckpoint,
    FlinkCommittables,
    FlinkJob,
    Listed,
    ListedFile,
    UnreadCheckpoint,
)
from indoubt.collector.records.formats.pending_files import FileSeen, IcebergCommit, PendingFile, UnnamedFile
from indoubt.collector.records.xids import listed_of
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.flink_announced import CommitsInDoubt, commits_in_doubt
from indoubt.collector.verdicts.flink_cases import flink_case
from indoubt.collector.verdicts.flink_unnamed_files import last_lists, unnamed_by
from indoubt.collector.views.pipeline_rows import sink_rows
from indoubt.lifecycle.rows.pipelines import SinkCommitsRow

IN_USE_S = 0.4


class CurrentFlink:
    """A part of the current state, behind its lock. ``reading`` gives the state, ``changed`` notifies listeners."""

    def __init__(self, reading: Callable[[], AbstractContextManager[State]], changed: Callable[[], None]) -> None:
        self._reading, self._changed = reading, changed
        self._in_use: tuple[float, frozenset[str]] = -math.inf, frozenset()

    def knows(self, seen: FlinkCheckpoint | FlinkJob) -> bool:
        """Say whether folding it would add nothing: Flink reports its last ten checkpoints at every poll."""
        with self._reading() as state:
            return state.flink.knows(seen)

    def see_committables(self, seen: Sequence[FlinkCommittables]) -> None:
        """Note what checkpoints on disk list; it is not history, the files are read again after a restart."""
        with self._reading() as state:
            for committables in seen:
                state.flink.see_committables(committables)
        self._changed()

    def see_gone(self, cluster: str, paths: Sequence[str]) -> None:
        """Note which checkpoints that were read are not there any more."""
        with self._reading() as state:
            for path in paths:
                state.flink.lists.see_gone(cluster, path)
        self._changed()

    def see_out_of_reach(
        self, cluster: str, why: dict[tuple[str, int | None], str], unread: Sequence[UnreadCheckpoint] = ()
    ) -> None:
        """Note which checkpoints' ``_metadata`` cannot be reached now, and why (FlinkState.out_of_reach, unread)."""
        with self._reading() as state:
            flink = state.flink
            is_same = (flink.out_of_reach.get(cluster, {}), flink.unread.get(cluster, ())) == (why, tuple(unread))
            flink.out_of_reach[cluster], flink.unread[cluster] = why, tuple(unread)
        if not is_same:
            self._changed()

    def unread_checkpoints(self, cluster: str) -> list[tuple[UnreadCheckpoint, str]]:
        """Return the checkpoints of a cluster that cannot be read and matter, each with its job's name, empty if not known."""
        with self._reading() as state:
            flink = state.flink
            return [(unread, flink.pipeline_of(unread.job) or "") for unread in flink.unread_that_matter(cluster)]

    def unread_list(self, view: TransactionView) -> FlinkCommittables | None:
        """Return the place of the completed checkpoint that must list an open transaction and whose list is not read."""
        with self._reading() as state:
            case = flink_case(state.flink, view, commit_overdue_ms=0, now_ms=now_ms())
        return case.unread.as_place() if case is not None and case.unread is not None else None

    def cluster_of(self, view: TransactionView) -> str | None:
        """Return the watched cluster of the job that an open transaction is of; None: it is of no job that is known."""
        with self._reading() as state:
            case = flink_case(state.flink, view, commit_overdue_ms=0, now_ms=now_ms())
        if case is None:
            return None
        return case.job.job.cluster if case.job is not None else case.name.partition("/")[0]

    def commits_in_doubt(self, at_once_ms: int) -> list[CommitsInDoubt]:
        """Return what jobs that are over have announced and may not have committed (flink_announced.commits_in_doubt)."""
        with self._reading() as state:
            return commits_in_doubt(state.flink, at_once_ms=at_once_ms)

    def see_polled(self, cluster: str, at_ms: int, *, answered: bool, is_whole: bool = True) -> None:
        """Note whether a cluster's REST API answered a poll; ``is_whole``: each of its jobs was asked about, now or before."""
        with self._reading() as state:
            is_new = state.flink.see_polled(cluster, at_ms, answered=answered, is_whole=is_whole)
        if is_new:
            self._changed()

    def see_store(self, cluster: str, store: FlinkStore | None) -> None:
        """Note what a cluster's high-availability store points to; None: it does not answer."""
        with self._reading() as state:
            is_new = state.flink.stores.see(cluster, store)
        if is_new:
            self._changed()

    def forget_polls(self, cluster: str) -> None:
        """Forget whether a cluster's REST API answers: it is not asked any more. What it told stays known."""
        with self._reading() as state:
            state.flink.forget_polls(cluster)

    def see_settings(self, writes_here: Mapping[str, bool]) -> None:
        """Note what the settings say of each cluster now (FlinkState.writes_here)."""
        with self._reading() as state:
            state.flink_writes_here = state.flink.writes_here = writes_here

    def jobs_of(self, cluster: str) -> list[FlinkJob]:
        """Return the jobs that a cluster told of last, as they are known."""
        with self._reading() as state:
            return [facts.job for facts in state.flink.jobs_of(cluster)]

    def awaiting_end(self, cluster: str, since_ms: int) -> list[FlinkJob]:
        """Return the jobs whose newest ``_metadata``, read since then (epoch ms), is of a checkpoint that has not ended yet."""
        with self._reading() as state:
            return state.flink.awaiting_end(cluster, since_ms)

    def newest_completed(self, cluster: str, most: int) -> list[tuple[str, list[FlinkCheckpoint]]]:
        """Return each job of a cluster with its last ``most`` completed checkpoints that have a path, the newest first."""
        with self._reading() as state:
            return state.flink.newest_completed(cluster, most)

    def read_on_disk(self, cluster: str, since_ms: int) -> set[str]:
        """Return the jobs of which a ``_metadata`` was read since then (epoch ms)."""
        with self._reading() as state:
            return state.flink.lists.read_on_disk(cluster, since_ms)

    def rests_on(self, view: TransactionView) -> tuple[FlinkCommittables, ...]:
        """Return the checkpoints that list an open transaction and that its verdict rests on: those of one job, by number."""
        with self._reading() as state:
            case = flink_case(state.flink, view, commit_overdue_ms=0, now_ms=now_ms())
            listings = case.listings if case is not None else ()
            # As they were read: the case has the time at which the JobManager says that they were written.
            return tuple(state.flink.lists.committables[each.cluster, each.job][each.path] for each in listings)

    def in_use(self) -> frozenset[str]:
        """Return the directories of the checkpoints that list what is open, or a branch that a database listed.

        Each reader of directories asks: they share what was found within IN_USE_S.
        """
        found_s, found = self._in_use
        if time.monotonic() - found_s > IN_USE_S:
            found = self._found_in_use()
            self._in_use = time.monotonic(), found
        return found

    def _found_in_use(self) -> frozenset[str]:
        with self._reading() as state:
            if not state.flink.lists.committables:
                return frozenset()
            of_branches = (listed_of(b.resource_manager, b.transaction) for b in state.branches.values())
            listed: list[Listed] = [each for each in of_branches if each is not None]
            for identity in state.open:
                id_, producer_id, epoch = state.broker[identity].handle_identity
                if producer_id is not None and epoch is not None:
                    listed.append(Committable(id_, producer_id, epoch))
            return frozenset(each.path for one in listed for each in state.flink.lists.listings(one))

    def transactions_of_checkpoints(self) -> dict[tuple[str, int], int]:
        """Return (Flink's job id, number) -> how many transactions the ``_metadata`` of that checkpoint lists."""
        with self._reading() as state:
            return state.flink.lists.listed_counts()

    def commits_of_sinks(self) -> dict[tuple[str, int], tuple[SinkCommitsRow, ...]]:
        """Return (Flink's job id, number) -> how many commits of each sink that checkpoint announces, and how its files stand."""
        with self._reading() as state:
            lists, seen = list(state.flink.lists.announcing()), dict(state.flink.files_seen)
        return {(each.job, each.number): sink_rows(each, seen.get(each.cluster, {})) for each in lists}

    def files_listed(self, cluster: str) -> dict[str, tuple[PendingFile, int]]:
        """Return each file that a cluster's checkpoints on disk list, by its name, and when its list was read (epoch ms)."""
        with self._reading() as state:
            return state.flink.lists.files(cluster)

    def file_listed(self, target: str) -> PendingFile | None:
        """Return a file as the newest checkpoint lists it that does."""
        with self._reading() as state:
            listings = state.flink.lists.listings(ListedFile(target))
        return next((file for each in reversed(listings) for file in each.files if file.target == target), None)

    def commits_before(self, commit: IcebergCommit) -> list[PendingFile]:
        """Return the commits of its sink for earlier checkpoints that checkpoints on disk list."""
        with self._reading() as state:
            lists = state.flink.lists
            listed = [file for cluster in lists.clusters() for file, _ in lists.files(cluster).values()]
        return [file for file in listed if isinstance(file.commit, IcebergCommit) and file.commit.precedes(commit)]

    def file_directories(self, cluster: str) -> dict[str, int | None]:
        """Return the directories that a cluster's file sinks write to, and until when (epoch ms) what was begun is named by now.

        None: the lists of the jobs that write there do not tell.
        """
        with self._reading() as state:
            flink = state.flink
            lists = {each: last_lists(flink, each) for each in flink.lists.file_directories(cluster)}
        return {
            each: min(one.taken_ms for one in found) - PATH_SKEW_MS if found else None for each, found in lists.items()
        }

    def files_named(self) -> set[str]:
        """Return the temporary names and uploads of all files that checkpoints on disk name."""
        with self._reading() as state:
            return state.flink.lists.files_named()

    def see_unnamed_files(self, cluster: str, seen: dict[str, UnnamedFile]) -> None:
        """Note which hidden files of a cluster no checkpoint on disk names; it is not history."""
        with self._reading() as state:
            is_same = state.flink.unnamed_files.get(cluster, {}) == seen
            state.flink.unnamed_files[cluster] = seen
        if not is_same:
            self._changed()

    def unnamed_file(self, target: str) -> PendingFile | None:
        """Return a hidden file that no checkpoint on disk names and the last ones would."""
        with self._reading() as state:
            found = unnamed_by(state.flink, target)
        return found[0].file if found is not None else None

    def see_files(self, cluster: str, seen: dict[str, FileSeen]) -> None:
        """Note how a cluster's files stand; it is not history."""
        with self._reading() as state:
            is_same = state.flink.files_seen.get(cluster, {}) == seen
            state.flink.files_seen[cluster] = seen
        if not is_same:
            self._changed()
