"""Reads which transactions Flink's checkpoints on disk list.

Its places: the directory of each job of which REST reported a checkpoint, and those of ``--flink-checkpoints``. A thread of its own
per cluster: a slow store holds up nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from collector.records.observer_kind import ObserverKind
from collector.sources.flink_checkpoint_store import CHECKPOINT, CHECKPOINTS_OF_A_JOB, CheckpointStore, Reported
from collector.sources.source import Observer
from collector.views.current_state import CurrentState
from lifecycle.counted_nouns import counted
from lifecycle.errors import ResourceManagerError


class FlinkCommittablesReader(Observer):
    """``directories``: of ``--flink-checkpoints`` for this cluster; ``follows_rest``: REST tells of this cluster's checkpoints."""

    kind = ObserverKind.FLINK_CHECKPOINTS

    def __init__(
        self,
        current: CurrentState,
        cluster: str,
        directories: Iterable[str],
        *,
        interval_ms: int,
        remote_interval_ms: int,
        retry_max_ms: int,
    ) -> None:
        super().__init__(current, retry_max_ms, cluster)
        self._cluster, self._store = cluster, CheckpointStore(cluster, directories)
        self._interval_s, self._remote_interval_s = interval_ms / 1000, remote_interval_ms / 1000
        self._note = ""

    @property
    def note(self) -> str:
        """Return what could not be read."""
        return self._note

    def observe(self) -> None:
        """Read what is new until stopped. Raises ResourceManagerError when a directory of the settings cannot be listed."""
        while not self.stopping.is_set():
            self.read_new()
            self.polled()
            self.stopping.wait(self._remote_interval_s if self._store.is_remote else self._interval_s)

    def read_new(self) -> None:
        """Read every ``_metadata`` that is new or has changed. Raises ResourceManagerError."""
        try:
            new = self._store.read_new(self._reported())
        except ResourceManagerError as error:
            self.current.see_flink_out_of_reach(self._cluster, {("", None): str(error)})
            raise
        if self._store.gone:
            self.current.see_flink_gone(self._cluster, self._store.gone)
        if new:
            self.current.see_flink_committables(new)
            self.count(len(new))
        self.current.see_flink_out_of_reach(self._cluster, self._store.out_of_reach)
        said = [
            f"{counted(number, 'directory', 'directories')} of jobs below {directory} that changed longest ago "
            f"{'is' if number == 1 else 'are'} not read: delete those of jobs that are over"
            for directory, number in self._store.left_out.items()
        ]
        if unread := self._store.unread:
            uri, why = unread[-1]
            number = counted(len(unread), "checkpoint")
            said.insert(0, f"{number} cannot be read, the last of them {uri}: {why}")
        self._note = "; ".join(said)

    def _reported(self) -> list[Reported]:
        """Return each job's newest completed checkpoints and savepoints, as REST reported them."""
        reported: list[Reported] = []
        for job, newest in self.current.flink_newest_completed(self._cluster, CHECKPOINTS_OF_A_JOB):
            # One checkpoint leads to the directory that holds them all; savepoints lie each somewhere else.
            leads: dict[str, Reported] = {}
            for checkpoint in newest:
                parent, _, last = checkpoint.path.rstrip("/").rpartition("/")
                place = parent if CHECKPOINT.fullmatch(last) else checkpoint.path
                leads.setdefault(place, Reported(checkpoint.path, job, checkpoint.number))
            reported += leads.values()
        return reported
