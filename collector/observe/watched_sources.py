"""What the settings name beside the Kafka cluster, an observer each: checkpoints, Flink's REST APIs and stores, databases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from queue import SimpleQueue
from typing import NamedTuple

from indoubt.collector.config.databases import listing_instances
from indoubt.collector.config.flink_access import FlinkAccess
from indoubt.collector.config.flink_store import ConfigMapsAddress
from indoubt.collector.config.settings import Settings
from indoubt.collector.history.store import Store
from indoubt.collector.observe.databases import Databases
from indoubt.collector.observe.pace import Pace
from indoubt.collector.observe.source import Observer
from indoubt.collector.views.current_state import CurrentState
from indoubt.resource_managers.database.watched import WatchedResourceManager

LOCAL_POLLING_MS = 500
"""Of a checkpoint directory on this machine, or mounted: a poll costs nothing."""

REST_SHARE, REST_COST_S = 0.25, 0.004
LOOKS_SHARE, LOOK_COST_S = 0.15, 0.001
"""Of a core, to ask all Flink clusters, and to look at their checkpoints and files; and the processor time of one at first."""


class FlinkJobPlace(NamedTuple):
    """The directory of checkpoints of a job, and Flink's id of the job: its own lie in the directory of this name there."""

    directory: str
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkCluster:
    """A JobManager or session cluster. ``url``: of its REST API, empty: it is not watched; ``directories``: of checkpoints."""

    url: str = ""
    access: FlinkAccess | None = None
    directories: tuple[str, ...] = ()
    jobs: tuple[FlinkJobPlace, ...] = ()
    """Where known jobs keep their checkpoints: other clusters may use the same directory."""


@dataclass(frozen=True, slots=True)
class Found:
    """The Flink clusters that a namespace has now; ``is_watched`` is set once what observes them is made."""

    namespace: str
    clusters: Mapping[str, FlinkCluster]
    is_watched: threading.Event = field(default_factory=threading.Event, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An observer to be. Of two with an equal ``spec`` the one that runs goes on."""

    spec: object
    make: Callable[[], Observer] = field(compare=False)


def flink_clusters(settings: Settings, found: Iterable[Mapping[str, FlinkCluster]] = ()) -> dict[str, FlinkCluster]:
    """Return the Flink clusters that the settings name, by name, and those that were ``found``.

    A REST API that the settings name, by name or address, is theirs: one cluster under two names would look like two.
    """
    own = {
        name: FlinkCluster(
            url=settings.flink.get(name, ""),
            access=settings.flink_access.get(name),
            directories=settings.flink_checkpoints.get(name, ()),
        )
        for name in dict.fromkeys((*settings.flink, *settings.flink_checkpoints))
    }
    urls = {url.rstrip("/") for url in settings.flink.values()}
    for name, each in ((name, each) for of_one in found for name, each in of_one.items()):
        if name not in settings.flink and (not each.url or each.url not in urls):
            directories, access = settings.flink_checkpoints.get(name, ()), settings.flink_access.get(name)
            own[name] = replace(each, access=access, directories=directories)
    return own


class WatchedSources:
    """Says which observers there are to be; ``news``: what they find goes there."""

    def __init__(self, current: CurrentState, store: Store, news: SimpleQueue[object]) -> None:
        self._current, self._store, self._news = current, store, news
        self._rest, self._directories = Pace(REST_SHARE, REST_COST_S), Pace(LOOKS_SHARE, LOOK_COST_S)
        self._files = Pace(LOOKS_SHARE, LOOK_COST_S)

    def wanted(
        self,
        settings: Settings,
        flink: Mapping[str, FlinkCluster],
        databases: Mapping[str, WatchedResourceManager],
    ) -> dict[str, Wanted]:
        """Return them by a key that stays the same while a source is the same."""
        found = [
            *self._spark(settings),
            *self._flink(settings, flink),
            *self._stores(settings),
            *self._kubernetes(settings),
            *self._databases(settings, databases),
        ]
        return dict(found)

    # What needs libraries of its own is imported where it is wanted.

    def _spark(self, settings: Settings) -> Iterator[tuple[str, Wanted]]:
        for name, location in settings.checkpoints.items():
            from indoubt.collector.observe.spark_checkpoint import SparkCheckpoint

            is_local = location.startswith("file://") or "://" not in location
            interval_ms = LOCAL_POLLING_MS if is_local else settings.tunable.remote_checkpoint_polling_ms
            make = partial(SparkCheckpoint, self._current, self._store, name, location, interval_ms=interval_ms)
            yield f"checkpoint {name}", Wanted(spec=location, make=make)

    def _flink(self, settings: Settings, clusters: Mapping[str, FlinkCluster]) -> Iterator[tuple[str, Wanted]]:
        tunable = settings.tunable
        remote_ms = tunable.remote_checkpoint_polling_ms
        self._rest.observers = sum(bool(cluster.url) for cluster in clusters.values())
        self._directories.observers = self._files.observers = len(clusters)
        for name, cluster in clusters.items():
            from indoubt.collector.observe.flink_committables import FlinkCommittablesReader
            from indoubt.collector.observe.flink_files import FlinkFiles
            from indoubt.collector.observe.flink_rest import FlinkRest

            url, access, directories, jobs = cluster.url, cluster.access, cluster.directories, cluster.jobs
            if url:
                rest = partial(
                    FlinkRest,
                    self._current,
                    self._store,
                    name,
                    url,
                    interval_ms=tunable.flink_polling_ms,
                    access=access,
                    pace=self._rest,
                )
                yield f"flink {name}", Wanted(spec=(url, access), make=rest)
            files = partial(
                FlinkFiles,
                self._current,
                self._store,
                name,
                interval_ms=LOCAL_POLLING_MS,
                remote_interval_ms=remote_ms,
                overdue_ms=tunable.flink_commit_overdue_ms,
                paimon_warehouses=tunable.warehouses_of_paimon,
                pace=self._files,
            )
            yield f"flink files {name}", Wanted(spec=name, make=files)
            checkpoints = partial(
                FlinkCommittablesReader,
                self._current,
                name,
                directories,
                jobs=jobs,
                interval_ms=LOCAL_POLLING_MS,
                remote_interval_ms=remote_ms,
                pace=self._directories,
            )
            yield f"flink checkpoints {name}", Wanted(spec=(directories, jobs), make=checkpoints)

    def _stores(self, settings: Settings) -> Iterator[tuple[str, Wanted]]:
        tunable = settings.tunable
        for name, address in settings.flink_stores.items():
            from indoubt.collector.observe.flink_store import FlinkHighAvailability, in_config_maps

            if isinstance(address, ConfigMapsAddress):
                opened = partial(in_config_maps, address, tunable.kubernetes_url, tunable.kubernetes_credentials)
            else:
                from indoubt.collector.observe.flink_store_in_zookeeper import in_zookeeper

                opened = partial(in_zookeeper, address)
            interval_ms = tunable.flink_polling_ms
            make = partial(FlinkHighAvailability, self._current, name, address.where, opened, interval_ms=interval_ms)
            yield f"flink store {name}", Wanted(spec=address, make=make)

    def _kubernetes(self, settings: Settings) -> Iterator[tuple[str, Wanted]]:
        tunable = settings.tunable
        for namespace in settings.flink_kubernetes:
            from indoubt.collector.observe.flink_operator import FlinkOperatorResources

            make = partial(
                FlinkOperatorResources,
                self._current,
                namespace,
                self._news,
                url=tunable.kubernetes_url,
                credentials=tunable.kubernetes_credentials,
                interval_ms=tunable.kubernetes_polling_ms,
            )
            yield f"kubernetes {namespace}", Wanted(spec=namespace, make=make)

    def _databases(
        self, settings: Settings, managers: Mapping[str, WatchedResourceManager]
    ) -> Iterator[tuple[str, Wanted]]:
        # Of several databases on one MySQL server the first reads its list.
        lists, tunable = listing_instances(settings.databases), settings.tunable
        for instance, manager in managers.items():
            is_database = instance in settings.databases
            is_listing = instance in lists or not is_database
            where = settings.databases[instance] if is_database else settings.files[instance]
            interval_ms = tunable.database_polling_ms if is_database else tunable.files_polling_ms
            make = partial(
                Databases, self._current, self._store, instance, manager, lists=is_listing, interval_ms=interval_ms
            )
            yield f"database {instance}", Wanted(spec=(where, is_listing), make=make)
