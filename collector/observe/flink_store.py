"""Reads which completed checkpoint of each job a Flink cluster's high-availability store points to, wherever the store lies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from indoubt.collector.config.flink_store import ConfigMapsAddress
from indoubt.collector.observe.kubernetes_api import CORE, KubernetesAccess, KubernetesApi
from indoubt.collector.observe.source import Observer
from indoubt.collector.records.flink_stores import FlinkStore
from indoubt.collector.records.formats.flink_config_maps import ConfigMaps
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.views.current_state import CurrentState

Look = Callable[[], FlinkStore | None]
"""Returns what a store has now, None: there is none. Raises Unreachable, ResourceManagerError, MalformedRecord."""


class FlinkHighAvailability(Observer):
    """The store of one Flink cluster; ``cluster``: its name in the settings, ``where``: its place, ``opened``: gives looks."""

    kind = ObserverKind.FLINK_STORE

    def __init__(
        self,
        current: CurrentState,
        cluster: str,
        where: str,
        opened: Callable[[], AbstractContextManager[Look]],
        *,
        interval_ms: int,
    ) -> None:
        super().__init__(current, cluster)
        self._cluster, self._where, self._opened = cluster, where, opened
        self._interval_s = interval_ms / 1000

    def observe(self) -> None:
        """Look until stopped. Raises Unreachable, ResourceManagerError, SettingsError, MalformedRecord."""
        with self._opened() as look:
            try:
                self.repeat(lambda: self._see(look()), self._interval_s)
            finally:
                # At once: to close a session with a server that hangs takes seconds.
                self.current.flink.see_store(self._cluster, None)

    def _see(self, store: FlinkStore | None) -> None:
        missing = f"{self._where} is not there: no Flink has used it yet, or its place is another"
        self.limit = "" if store else missing
        self.current.flink.see_store(self._cluster, store)


@contextmanager
def in_config_maps(address: ConfigMapsAddress, url: str, credentials: str) -> Iterator[Look]:
    """Open a store in ConfigMaps of Kubernetes, which Flink marks by labels (KubernetesUtils.getConfigMapLabels).

    ``url``, ``credentials``: of Kubernetes' API. Raises SettingsError.
    """
    labels = f"app={address.cluster_id},configmap-type=high-availability"
    read = ConfigMaps(address.cluster_id)
    with KubernetesApi(KubernetesAccess.of(url, credentials)) as api:

        def look() -> FlinkStore | None:
            items = api.items("configmaps", address.namespace, group=CORE, labels=labels)
            return read.store_in({"items": items}, now_ms(), time.monotonic())

        yield look
