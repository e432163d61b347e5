"""Finds Flink clusters by the resources of Flink's Kubernetes operator: FlinkDeployment, FlinkSessionJob, FlinkBlueGreenDeployment.

A cluster is called NAMESPACE.NAME. Both colours of a blue/green deployment are FlinkDeployments: each is a cluster while it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

from indoubt.collector.config.named_locations import ALL_NAMESPACES
from indoubt.collector.observe.kubernetes_api import KubernetesAccess, KubernetesApi, NoSuchResource
from indoubt.collector.observe.source import Observer
from indoubt.collector.observe.watched_sources import FlinkCluster, FlinkJobPlace, Found
from indoubt.collector.records.formats import flink_operator
from indoubt.collector.records.formats.flink_operator import BlueGreen, Deployment, SessionJob
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import MalformedRecord

T = TypeVar("T")
SAID = 3
WAIT_S = 0.2
_WHERE_ALL = "all namespaces"


class FlinkOperatorResources(Observer):
    """Polls one namespace, or all; what it finds goes to ``news`` as a Found, whenever it has changed."""

    kind = ObserverKind.KUBERNETES

    def __init__(
        self,
        current: CurrentState,
        namespace: str,
        news: SimpleQueue[object],
        *,
        url: str,
        credentials: str,
        interval_ms: int,
    ) -> None:
        super().__init__(current, _WHERE_ALL if namespace == ALL_NAMESPACES else namespace)
        self._namespace, self._news = namespace, news
        self._url, self._credentials, self._interval_s = url, credentials, interval_ms / 1000
        self._known: Mapping[str, FlinkCluster] | None = None
        self._notes: list[str] = []

    @property
    def note(self) -> str:
        """Return which resources name no cluster that can be watched, and why."""
        more = len(self._notes) - SAID
        return "; ".join([*self._notes[:SAID], *([f"and {more} more"] if more > 0 else [])])

    def observe(self) -> None:
        """Poll until stopped. Raises Unreachable, SettingsError, ResourceManagerError, MalformedRecord."""
        with KubernetesApi(KubernetesAccess.of(self._url, self._credentials)) as api:
            self.repeat(lambda: self._poll(api), self._interval_s)

    def _poll(self, api: KubernetesApi) -> None:
        """List all, and tell of a change. Where one list cannot be read, what was found before stays."""
        notes: list[str] = []
        deployments = _read(api.items("flinkdeployments", self._namespace), flink_operator.deployment, notes)
        # An older operator does not know these: then there are none.
        jobs = _read(_items_if_known(api, "flinksessionjobs", self._namespace), flink_operator.session_job, notes)
        both = _read(
            _items_if_known(api, "flinkbluegreendeployments", self._namespace), flink_operator.blue_green, notes
        )
        clusters = clusters_of(deployments, jobs)
        self._notes = [*notes, *without_cluster(clusters, jobs, both)]
        if clusters != self._known:
            found = Found(self._namespace, clusters)
            self._news.put(found)
            # Until its clusters are observed it has not seen what there is: no verdict may rest on their absence.
            while not found.is_watched.wait(WAIT_S):
                if self.stopping.is_set():
                    return
            self.count(len(clusters))
            self._known = clusters


def clusters_of(deployments: Iterable[Deployment], jobs: Iterable[SessionJob]) -> dict[str, FlinkCluster]:
    """Return the clusters by name, each with the places of the checkpoints of its jobs."""
    found: dict[str, Deployment] = {f"{each.namespace}.{each.name}": each for each in deployments}
    places: dict[str, list[FlinkJobPlace]] = {
        name: [FlinkJobPlace(each.checkpoints, each.job)] for name, each in found.items()
    }
    for job in jobs:
        name = f"{job.namespace}.{job.deployment}"
        if name in found:
            places[name].append(FlinkJobPlace(job.checkpoints or found[name].checkpoints, job.job))
    return {
        name: FlinkCluster(url=each.url, jobs=tuple(sorted({place for place in places[name] if all(place)})))
        for name, each in found.items()
    }


def without_cluster(
    clusters: Mapping[str, FlinkCluster], jobs: Iterable[SessionJob], both: Iterable[BlueGreen]
) -> list[str]:
    """Return a sentence about each session job without its session cluster, and each blue/green deployment without any."""
    said = [
        f"session job {job.namespace}/{job.name} names deployment {job.deployment}, which is not there"
        for job in jobs
        if f"{job.namespace}.{job.deployment}" not in clusters
    ]
    for each in both:
        if not any(f"{each.namespace}.{child}" in clusters for child in each.children):
            why = " · ".join(filter(None, (each.state, each.error[:200])))
            said.append(f"blue/green deployment {each.namespace}/{each.name} has no deployment ({why or 'no status'})")
    return said


def _items_if_known(api: KubernetesApi, plural: str, namespace: str) -> Sequence[Any]:
    try:
        return api.items(plural, namespace)
    except NoSuchResource:
        return ()


def _read(items: Iterable[Any], read: Callable[[Any], T], notes: list[str]) -> list[T]:
    """Return what each item says; one that is malformed is noted, and leaves the others as they are."""
    found = []
    for item in items:
        try:
            found.append(read(item))
        except MalformedRecord as error:
            notes.append(str(error))
    return found
