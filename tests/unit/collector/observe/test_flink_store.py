"""Flink's high-availability store in ConfigMaps, from a real HTTP server that answers as Kubernetes' API does."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from indoubt.collector.config.flink_store import ConfigMapsAddress
from indoubt.collector.observe.flink_store import FlinkHighAvailability, in_config_maps
from indoubt.collector.views.current_state import CurrentState
from tests.integration.kafka_fixtures import wait_until
from tests.unit.collector.kubernetes_answers import TOKEN, Kubernetes
from tests.unit.collector.records.test_flink_config_maps import JOB, lease, of_job

ADDRESS = ConfigMapsAddress(namespace="shop", cluster_id="orders")
LABELS = {"app": "orders", "type": "flink-native-kubernetes", "configmap-type": "high-availability"}


def test_what_the_config_maps_of_a_cluster_point_to_is_known_while_they_can_be_listed(
    current: CurrentState, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    kubernetes = Kubernetes()

    def store(number: int) -> None:
        others = [lease(), of_job(7)]
        maps = [lease(), of_job(number - 1, number)]
        for each in maps:
            each["metadata"]["labels"] = LABELS
        kubernetes.resources["configmaps"] = [*others, *maps]

    def newest() -> int | None:
        with current.reading() as state:
            found = state.flink.stores.newest("shop", JOB)
        return found.number if found is not None else None

    with kubernetes.serving() as url:
        opened = partial(in_config_maps, ADDRESS, url, str(tmp_path))
        observer = FlinkHighAvailability(current, "shop", ADDRESS.where, opened, interval_ms=20)
        observer.start()
        try:
            wait_until("it says that nothing is there", lambda: "shop/orders is not there" in observer.status.error)
            store(3)
            wait_until("it is seen", lambda: newest() == 3)
            assert observer.status.error == ""
            store(4)
            wait_until("so is the next one", lambda: newest() == 4)
            assert set(kubernetes.asked) == {
                "/api/v1/namespaces/shop/configmaps?limit=100&labelSelector=app%3Dorders%2Cconfigmap-type%3Dhigh-availability"
            }
            kubernetes.forbidden = {"configmaps"}
            wait_until("it is not taken for known any more", lambda: newest() is None)
            needs = "it needs a Role with the verb list on configmaps"
            wait_until("it says why", lambda: needs in observer.status.error)
            kubernetes.forbidden = set()
            wait_until("it is known again", lambda: newest() == 4)
        finally:
            observer.stop()
    assert newest() is None
