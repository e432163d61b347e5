"""Asks a Flink cluster's REST API whether it tells of anything that is not known yet: a job that began, ended, or was restored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from indoubt.collector.observe.flink_http import FlinkHttp, NotThere
from indoubt.collector.observe.watched_sources import FlinkCluster
from indoubt.collector.records.formats import flink_rest_answers
from indoubt.collector.records.formats.flink_records import FlinkJob
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.views.current_state import CurrentState

MOST_JOBS = 60
"""So many running jobs are asked for their restores, which takes a request each; of more it cannot be said in time."""


class FlinkNews:
    """One watched cluster; ``http`` opens a connection to it. It folds nothing: its observer does."""

    def __init__(self, current: CurrentState, cluster: str, http: Callable[[], FlinkHttp]) -> None:
        self._current, self._cluster, self._http = current, cluster, http

    def told(self) -> str:
        """Return what is told now and not known, in a few words; empty: nothing.

        Raises SettingsError, Unreachable, ResourceManagerError, MalformedRecord.
        """
        flink = self._current.flink
        with self._http() as http:
            jobs = flink_rest_answers.jobs(self._cluster, http.get("/jobs/overview"), now_ms())
            unknown = next((job for job in jobs if not flink.knows(job)), None)
            if unknown is not None:
                return f"job {unknown.name} ({unknown.job}) is {unknown.state} now, which was not judged yet"
            running = [job for job in jobs if not job.is_over]
            if len(running) > MOST_JOBS:
                return f"{len(running)} jobs run, and only {MOST_JOBS} can be asked for their restores"
            for job in running:
                if not flink.knows(restored := self._with_its_restore(http, job)):
                    number = restored.restored_number
                    return f"job {job.name} ({job.job}) was restored from checkpoint {number}, which was not judged yet"
        return ""

    def _with_its_restore(self, http: FlinkHttp, job: FlinkJob) -> FlinkJob:
        try:
            reported = flink_rest_answers.checkpoints(job, http.get(f"/jobs/{job.job}/checkpoints"))
        except NotThere:
            return job
        return replace(
            job,
            restored_number=reported.restored_number,
            restored_ms=reported.restored_ms,
            restored_path=reported.restored_path,
        )


def flink_news(current: CurrentState, clusters: Mapping[str, FlinkCluster]) -> dict[str, FlinkNews]:
    """Return each of these clusters that has a REST API, by its name."""

    def connect(name: str, cluster: FlinkCluster) -> Callable[[], FlinkHttp]:
        return lambda: FlinkHttp(name, cluster.url.rstrip("/"), cluster.access)

    return {name: FlinkNews(current, name, connect(name, one)) for name, one in clusters.items() if one.url}
