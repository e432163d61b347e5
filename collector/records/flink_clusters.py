"""In which clusters a Flink job id was seen: two jobs may have one id, and then what one says proves nothing about the other.

Application mode with high availability makes the id from the cluster's id: equal deployments in two regions have equal job ids.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass(slots=True)
class JobClusters:
    """Job id -> the clusters whose REST API reported it, and the directories of its checkpoints by cluster."""

    told: dict[str, set[str]] = field(default_factory=dict)
    directories: dict[str, dict[str, set[str]]] = field(default_factory=dict)

    def see(self, cluster: str, job: str, path: str = "", *, by_rest: bool) -> None:
        """Note a job id, and where a checkpoint of it lies."""
        if by_rest:
            self.told.setdefault(job, set()).add(cluster)
        if path:
            self.directories.setdefault(job, {}).setdefault(cluster, set()).add(_directory(path))

    def several(self, job: str) -> list[str]:
        """Return the clusters that have a job of this id, where they are several; else nothing.

        Two clusters' readers may be given one directory: what they read there is one job's.
        """
        told, directories = self.told.get(job, set()), self.directories.get(job, {})
        every = told | directories.keys()
        if len(told) > 1:
            return sorted(every)
        if len(every) < 2:
            return []
        own = max(every, key=lambda cluster: (cluster in told, len(directories.get(cluster, ())), cluster))
        known = directories.get(own, set())
        others = [cluster for cluster in every if not directories.get(cluster, set()) <= known]
        return sorted({own, *others}) if others else []

    def keep(self, jobs: Collection[str]) -> None:
        """Forget all but these jobs."""
        self.told = {job: told for job, told in self.told.items() if job in jobs}
        self.directories = {job: known for job, known in self.directories.items() if job in jobs}

    def copy(self) -> JobClusters:
        """Return another one that does not change with this one."""
        return JobClusters(
            told={job: set(told) for job, told in self.told.items()},
            directories={
                job: {cluster: set(known) for cluster, known in by_cluster.items()}
                for job, by_cluster in self.directories.items()
            },
        )


def plain_path(path: str) -> str:
    """Return a path that is the same for all spellings of its scheme: s3, s3a and s3p; file:/, file:/// and none."""
    return path.rpartition(":")[2].strip("/")


def _directory(path: str) -> str:
    return plain_path(path).rpartition("/")[0]
