"""Observes what the settings name, and follows them while it runs: at SIGHUP they are read again.

An observer whose source is the same goes on. What was seen of one that is not watched any more stays as it is known; only what
was said of the present moment is forgotten, as by a restart.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue

from indoubt.collector.config import databases
from indoubt.collector.config.settings import Settings, taken_over
from indoubt.collector.history.store import Store, StoreFailed
from indoubt.collector.observe.source import Observer
from indoubt.collector.observe.watched_sources import FlinkCluster, Found, Wanted, WatchedSources, flink_clusters
from indoubt.collector.records.formats.pending_files import instance_of
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.hangup import READ_AGAIN
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import SettingsError
from indoubt.resource_managers.database.watched import WatchedResourceManager
from indoubt.resource_managers.registry import make_database_resource_manager

STOP_LIMIT_S = 10.0
TRY_AGAIN_S = 1.0
log = logging.getLogger(__name__)
_STOP = object()


class Watching:
    """``news``: what it is told, READ_AGAIN or a Found; one thread does all of it, in order.

    ``read_again`` returns the settings as they are now, or raises SettingsError. ``databases`` is told which there are at each
    change.
    """

    def __init__(
        self,
        settings: Settings,
        current: CurrentState,
        store: Store,
        news: SimpleQueue[object],
        read_again: Callable[[], Settings],
        databases: Callable[[Mapping[str, WatchedResourceManager]], None],
    ) -> None:
        self._settings, self._current, self._store = settings, current, store
        self._news, self._read_again, self._tell_databases = news, read_again, databases
        self._sources = WatchedSources(current, store, news)
        self._managers: dict[str, WatchedResourceManager] = {}
        self._watched: dict[str, tuple[Wanted, Observer]] = {}
        self._ending: dict[str, Observer] = {}
        """Those that are to end, by their key: the next of that key waits for it."""
        self._wanted: dict[str, Wanted] = {}
        self._found: dict[str, Mapping[str, FlinkCluster]] = {}
        """What Kubernetes told of, by namespace."""
        self._told: list[Found] = []
        """What is not watched yet of it."""
        self.flink: Mapping[str, FlinkCluster] = {}
        """The Flink clusters that are watched now, by name."""
        self._thread = threading.Thread(target=self._follow, name="settings", daemon=True)
        self._take(settings)

    @property
    def observers(self) -> list[Observer]:
        """Return those that run."""
        return [observer for _, observer in list(self._watched.values())]

    def start(self) -> None:
        """Start them all; from now on changes are followed."""
        self._change()
        self._thread.start()

    def stop(self) -> None:
        """Stop them all; returns when their threads have ended, or after 10 s."""
        self._news.put(_STOP)
        if self._thread.is_alive():
            self._thread.join(STOP_LIMIT_S)
        observers = self.observers
        for observer in observers:
            observer.stopping.set()
        for observer in observers:
            observer.stop()

    def _follow(self) -> None:
        while True:
            try:
                heard = self._news.get(timeout=TRY_AGAIN_S if self._is_behind else None)
            except Empty:
                heard = None
            if heard is _STOP:
                return
            try:
                if heard is READ_AGAIN:
                    self._read_settings()
                elif isinstance(heard, Found) and heard.namespace in self._found:
                    self._found[heard.namespace] = heard.clusters
                    self._take(self._settings)
                    self._told.append(heard)
                self._change()
                if not self._is_behind:
                    for found in self._told:
                        found.is_watched.set()
                    self._told.clear()
            except Exception:
                log.exception("a change of what is watched failed")

    def _read_settings(self) -> None:
        try:
            after = self._read_again()
        except SettingsError as error:
            log.error("SIGHUP: nothing was changed: %s", error)
            return
        settings, others = taken_over(self._settings, after)
        if others:
            log.warning("SIGHUP: a change of %s takes a restart", ", ".join(others))
        self._take(settings)
        log.info("SIGHUP: the settings were read again")

    def _take(self, settings: Settings) -> None:
        """Note what is to be watched from now on; the managers of databases that did not change stay."""
        before, self._settings = self._settings, settings
        made: dict[str, WatchedResourceManager] = {
            instance: make_database_resource_manager(connection)
            for instance, connection in settings.databases.items()
            if not (instance in self._managers and before.databases.get(instance) == connection)
        }
        new_files = {
            name: where
            for name, where in settings.files.items()
            if name not in self._managers or before.files.get(name) != where
        }
        made |= databases.file_managers(new_files)
        self._managers = {
            name: made.get(name) or self._managers[name] for name in (*settings.databases, *settings.files)
        }
        self._tell_databases(self._managers)
        self._found = {each: self._found.get(each, {}) for each in settings.flink_kubernetes}
        self.flink = flink_clusters(settings, self._found.values())
        self._current.flink.see_settings(settings.flink_writes_here)
        self._wanted = self._sources.wanted(settings, self.flink, self._managers)

    @property
    def _is_behind(self) -> bool:
        return bool(self._ending) or self._wanted.keys() != self._watched.keys()

    def _change(self) -> None:
        """End what is not wanted, and start what is not there; what cannot be yet is tried again."""
        wanted = self._wanted
        over = {key: observer for key, (known, observer) in self._watched.items() if known != wanted.get(key)}
        for observer in over.values():
            observer.stopping.set()
        for key, observer in over.items():
            observer.stop()
            self._ending[key] = observer
            del self._watched[key]
            self._forget_the_present(observer)
        ended = [key for key, observer in self._ending.items() if observer.has_ended]
        if self._ending and not self._is_written():
            return
        for key in ended:
            # It may have said something of the present while it ended.
            self._forget_the_present(self._ending.pop(key))
        for key, each in wanted.items():
            if key not in self._watched and key not in self._ending:
                observer = each.make()
                self._watched[key] = (each, observer)
                observer.start()
        if over or ended:
            self._current.changed()

    def _is_written(self) -> bool:
        """Say whether all that was seen is in history: whoever follows goes on from there."""
        try:
            self._store.flushed()
        except StoreFailed as error:
            log.warning("what is watched cannot be changed yet: %s", error)
            return False
        return True

    def _forget_the_present(self, observer: Observer) -> None:
        match observer.kind:
            case ObserverKind.FLINK:
                self._current.flink.forget_polls(observer.instance)
            case ObserverKind.FLINK_CHECKPOINTS:
                self._current.flink.see_out_of_reach(observer.instance, {})
            case ObserverKind.FLINK_FILES:
                self._current.flink.see_unnamed_files(observer.instance, {})
                self._current.forget_branches_of(instance_of(observer.instance))
            case ObserverKind.DATABASE:
                self._current.forget_branches_of(observer.instance)
