"""Observes Flink's REST API: jobs, restarts, and the checkpoint history that Flink forgets after the last ten.

Bounded: one request for all jobs, and at most MAX_REQUESTS for the rest of a poll; jobs that had no turn come first in the next.
Of a cluster of very many jobs all are known at once, and their checkpoints and restores after some polls.
Between two polls it asks about the jobs with a new ``_metadata``: whether that checkpoint counts is what a verdict waits for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import httpx

from indoubt.collector.config.flink_access import FlinkAccess
from indoubt.collector.history.store import Store
from indoubt.collector.observe.flink_http import FlinkHttp, NotThere
from indoubt.collector.observe.pace import Pace
from indoubt.collector.observe.source import CountingObserver
from indoubt.collector.observe.watched_sources import FlinkCluster
from indoubt.collector.records.formats import flink_rest_answers
from indoubt.collector.records.formats.flink_records import GONE, FlinkCheckpoint, FlinkJob, FlinkStatus
from indoubt.collector.records.observations import Quarantined
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.clock import CLOCK, now_ms
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.errors import MalformedRecord

MAX_REQUESTS, FIRST_REQUESTS = 60, 250
"""The second while there is a job that was never asked about."""
RESTARTS_EVERY = 8
"""A job's restarts are asked for with every so many of its turns: they decide nothing."""
ON_DISK_EVERY_S = 10.0
"""A job whose checkpoints are read on disk has a turn so often: its ``_metadata`` says when there is something to ask."""
ON_DISK_WITHIN_MS = 120_000
AWAITED_EVERY_S, AWAITED_SHARE = 0.5, 0.2
"""The second of a long time between two polls."""
AWAITED_FOR_MS = 30_000
"""A checkpoint whose end was not seen so long after its ``_metadata`` is asked for in its job's turn alone."""
ERRORS_KEPT = 1_000
MOST_JOBS = 60
"""So many running jobs are asked for their restores, which takes a request each; of more it cannot be said in time."""


class FlinkRest(CountingObserver):
    """Polls one JobManager or session cluster; ``cluster`` is the name it was given at start."""

    kind = ObserverKind.FLINK

    def __init__(
        self,
        current: CurrentState,
        store: Store,
        cluster: str,
        url: str,
        *,
        interval_ms: int,
        access: FlinkAccess | None = None,
        pace: Pace | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(current, store, cluster)
        self._cluster, self._url, self._interval_s = cluster, url.rstrip("/"), interval_ms / 1000
        self._access, self._transport = access, transport
        self._pace = pace or Pace(share=1.0, cost_s=0.0)
        self._turn: list[str] = []
        """Jobs in the order in which they are asked about."""
        self._turns: dict[str, int] = {}
        """How many turns each job has had."""
        self._rows: dict[str, FlinkJob] = {}
        """Each job as it was in its last turn."""
        self._asked_s: dict[str, float] = {}
        """When each job was asked about last (monotonic s)."""
        self._over: dict[str, FlinkJob] = {}
        """Jobs that have ended and whose last checkpoints were read."""
        self._newest: dict[str, int] = {}
        self._reported: dict[str, dict[int, tuple[int, FlinkStatus]]] = {}
        """What the last poll of each job returned: memory may have let go of a failure that Flink still calls its latest.

        Number -> when it was triggered, and its status. Of a job that memory let go of whole, all of it is told again.
        """
        self._errors: set[str] = set()
        self._missed = 0
        self.has_asked_all = False
        """Every job was asked about since the collector's start: no restore before goes unseen."""

    @property
    def note(self) -> str:
        """Return what was not seen."""
        if not self._missed:
            return ""
        return (
            f"{counted(self._missed, 'checkpoint')} ended between two polls, and Flink forgot "
            f"{'it: it is' if self._missed == 1 else 'them: they are'} not in history"
        )

    @property
    def has_caught_up(self) -> bool:
        """Say whether each of its jobs was asked about once."""
        return super().has_caught_up and self.has_asked_all

    def http(self) -> FlinkHttp:
        """Return a connection to the REST API, for a ``with``. Raises SettingsError where its access's files are gone meanwhile."""
        return FlinkHttp(self._cluster, self._url, self._access, self._transport)

    def observe(self) -> None:
        """Poll until stopped. Raises SettingsError, Unreachable, ResourceManagerError, MalformedRecord."""
        self.stopping.wait(self._pace.begin_s())
        with self.http() as http:
            while not self.stopping.is_set():
                began_s = time.thread_time()
                self.poll(http)
                self.current.flink.see_polled(self._cluster, now_ms(), answered=True, is_whole=self.has_asked_all)
                self.polled()
                self._wait(http)
                self._pace.spent(time.thread_time() - began_s)

    def failed(self, error: Exception) -> None:
        """Note that REST does not answer: no job is known to run then, and none to be gone."""
        self.current.flink.see_polled(self._cluster, now_ms(), answered=False)

    def poll(self, http: FlinkHttp) -> None:
        """Poll once. Raises Unreachable, ResourceManagerError, MalformedRecord."""
        at_ms, asked_ms = now_ms(), CLOCK.steady_ms()
        answer = http.get("/jobs/overview")
        overview = flink_rest_answers.jobs(self._cluster, answer, at_ms)
        if (flinks_ms := flink_rest_answers.clock_ms(answer)) is not None:
            self.current.clocks.saw(self.name, flinks_ms, after_ms=asked_ms, before_ms=CLOCK.steady_ms())
        jobs = {job.job: job for job in overview}
        kept = {job.job for job in self.current.flink.jobs_of(self._cluster)}
        self._reported = {id_: reported for id_, reported in self._reported.items() if id_ in kept}
        for job in self._with_a_turn(jobs):
            turns = self._turns[job.job] = self._turns.get(job.job, 0) + 1
            self._ask(http, job, with_restarts=turns % RESTARTS_EVERY == 1)
            self._rows[job.job] = job
        # That they exist counts at once, whatever they were restored from.
        self._tell_new([job for id_, job in jobs.items() if id_ not in self._turns])
        self._turns = {job: turns for job, turns in self._turns.items() if job in jobs}
        self.has_asked_all = self.has_asked_all or len(self._turns) == len(jobs)
        self._tell_new([replace(job, state=GONE, ended_ms=at_ms, seen_ms=at_ms) for job in self._vanished(jobs)])

    def _wait(self, http: FlinkHttp) -> None:
        """Wait for the next poll, and ask meanwhile about jobs with a new ``_metadata``. Raises what ``poll`` raises."""
        rest_s = self.rest_s = self._pace.rest_s(self._interval_s)
        ends_s, every_s = time.monotonic() + rest_s, max(AWAITED_EVERY_S, rest_s * AWAITED_SHARE)
        while (left_s := ends_s - time.monotonic()) > 0 and not self.stopping.wait(min(left_s, every_s)):
            awaiting = self.current.flink.awaiting_end(self._cluster, now_ms() - AWAITED_FOR_MS)
            for job in awaiting[:MAX_REQUESTS]:
                self._ask(http, job, with_restarts=False)
                self._turn = [*(id_ for id_ in self._turn if id_ != job.job), job.job]

    def _ask(self, http: FlinkHttp, job: FlinkJob, *, with_restarts: bool) -> None:
        self._asked_s[job.job] = time.monotonic()
        try:
            self._tell_new(self._seen_of(http, job, with_restarts=with_restarts))
        except NotThere:
            self._tell_new([job])
        except MalformedRecord as error:
            self._tell_new([job, self._quarantined(job, str(error))])

    def _with_a_turn(self, jobs: dict[str, FlinkJob]) -> list[FlinkJob]:
        """Return the jobs to be asked about: those that changed, then those that waited longest."""
        waiting = [id_ for id_ in self._turn if id_ in jobs]
        waiting += [id_ for id_ in jobs if id_ not in self._turn]
        self._over = {id_: job for id_, job in self._over.items() if id_ in jobs}
        self._rows = {id_: row for id_, row in self._rows.items() if id_ in jobs}
        self._asked_s = {id_: asked_s for id_, asked_s in self._asked_s.items() if id_ in jobs}
        on_disk = self.current.flink.read_on_disk(self._cluster, now_ms() - ON_DISK_WITHIN_MS)
        early_s = time.monotonic() - ON_DISK_EVERY_S
        changed = [id_ for id_ in waiting if not _is_same(self._rows.get(id_), jobs[id_])]
        due = [
            id_
            for id_ in waiting
            if id_ not in changed and (id_ not in on_disk or self._asked_s.get(id_, early_s) <= early_s)
        ]
        wanted = [id_ for id_ in (*changed, *due) if not _is_same(self._over.get(id_), jobs[id_])]
        now: list[str] = []
        requests, most = 0, FIRST_REQUESTS if any(id_ not in self._turns for id_ in wanted) else MAX_REQUESTS
        for id_ in wanted:
            requests += 1 + (self._turns.get(id_, 0) % RESTARTS_EVERY == 0)
            if requests > most:
                break
            now.append(id_)
        self._turn = [id_ for id_ in waiting if id_ not in now] + now
        return [jobs[id_] for id_ in now]

    def _seen_of(
        self, http: FlinkHttp, job: FlinkJob, *, with_restarts: bool
    ) -> list[FlinkCheckpoint | FlinkJob | Quarantined]:
        """Return a job's checkpoints, then the job. Raises NotThere and what ``poll`` raises."""
        reported = flink_rest_answers.checkpoints(job, http.get(f"/jobs/{job.job}/checkpoints"))
        names = ",".join(flink_rest_answers.RESTART_METRICS)
        path = f"/jobs/{job.job}/metrics?get={names}"
        restarts = flink_rest_answers.restarts(http.get(path)) if with_restarts else job.restarts
        # From here on nothing can fail: what is noted as reported is reported.
        self._count_missed(job, reported)
        before = self._reported.get(job.job, {})
        self._reported[job.job] = {seen.number: (seen.triggered_ms, seen.status) for seen in reported.checkpoints}
        new = [seen for seen in reported.checkpoints if before.get(seen.number) != (seen.triggered_ms, seen.status)]
        known = replace(
            job,
            restarts=restarts,
            restored_number=reported.restored_number,
            restored_ms=reported.restored_ms,
            restored_path=reported.restored_path,
        )
        if job.is_over:
            self._over[job.job] = job
        return [*new, known, *(self._quarantined(job, error) for error in reported.quarantined)]

    def _quarantined(self, job: FlinkJob, error: str) -> Quarantined:
        return Quarantined(error=f"job {job.name} ({job.job}): {error}", value="", at_ms=now_ms())

    def _count_missed(self, job: FlinkJob, reported: flink_rest_answers.Checkpoints) -> None:
        """Count numbers between the last poll's newest and this one's history: they were triggered and are forgotten."""
        numbers = [seen.number for seen in reported.checkpoints]
        before = self._newest.get(job.job)
        if before is not None and numbers:
            between = set(range(before + 1, max(numbers))) - set(numbers)
            self._missed += len(between)
        if numbers:
            self._newest[job.job] = max(numbers[-1], before or 0)

    def _vanished(self, jobs: dict[str, FlinkJob]) -> list[FlinkJob]:
        known = self.current.flink.jobs_of(self._cluster)
        return [job for job in known if job.job not in jobs and not job.is_over]

    def _tell_new(self, seen: Sequence[FlinkCheckpoint | FlinkJob | Quarantined]) -> None:
        self.tell([observation for observation in seen if self._is_new(observation)])

    def _is_new(self, observation: FlinkCheckpoint | FlinkJob | Quarantined) -> bool:
        if not isinstance(observation, Quarantined):
            return not self.current.flink.knows(observation)
        if observation.error in self._errors:
            return False
        self._errors.add(observation.error)
        if len(self._errors) > ERRORS_KEPT:
            self._errors = {observation.error}
        return True


def _is_same(known: FlinkJob | None, job: FlinkJob) -> bool:
    return known is not None and replace(known, seen_ms=job.seen_ms) == job


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
