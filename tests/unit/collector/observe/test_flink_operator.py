"""Flink's clusters by the resources of its Kubernetes operator, from a real HTTP server that answers as its API does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from indoubt.collector.observe import flink_operator as observer
from indoubt.collector.observe.flink_operator import FlinkOperatorResources, clusters_of, without_cluster
from indoubt.collector.observe.kubernetes_api import KubernetesAccess, KubernetesApi
from indoubt.collector.observe.source import ObserverState
from indoubt.collector.observe.watched_sources import FlinkCluster, FlinkJobPlace, Found
from indoubt.collector.records.formats import flink_operator
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import MalformedRecord, ResourceManagerError, SettingsError
from tests.integration.kafka_fixtures import wait_until
from tests.unit.collector.kubernetes_answers import JOB, TOKEN, Kubernetes, blue_green, deployment, session_job

SESSION_JOB = "b2" * 16


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    directory = tmp_path / "serviceaccount"
    directory.mkdir()
    (directory / "token").write_text(f"{TOKEN}\n")
    return directory


@pytest.fixture
def kubernetes() -> Kubernetes:
    return Kubernetes()


@pytest.fixture
def api(kubernetes: Kubernetes, credentials: Path) -> Iterator[KubernetesApi]:
    with kubernetes.serving() as url, KubernetesApi(KubernetesAccess.of(url, str(credentials))) as opened:
        yield opened


def test_a_list_of_several_pages_and_a_namespace_of_its_own(kubernetes: Kubernetes, api: KubernetesApi) -> None:
    kubernetes.resources["flinkdeployments"] = [deployment(f"d{number}") for number in range(250)]
    kubernetes.resources["flinkdeployments"].append(deployment("elsewhere", namespace="other"))
    assert len(api.items("flinkdeployments", "streams")) == 250
    assert len(kubernetes.asked) == 3
    assert kubernetes.asked[0] == "/apis/flink.apache.org/v1beta1/namespaces/streams/flinkdeployments?limit=100"
    assert len(api.items("flinkdeployments", "*")) == 251
    assert kubernetes.asked[3].startswith("/apis/flink.apache.org/v1beta1/flinkdeployments?")


def test_a_list_that_expires_is_begun_again_once(kubernetes: Kubernetes, api: KubernetesApi) -> None:
    kubernetes.resources["flinkdeployments"] = [deployment(f"d{number}") for number in range(150)]
    kubernetes.expires = 1
    assert len(api.items("flinkdeployments", "streams")) == 150
    kubernetes.expires = 2
    with pytest.raises(ResourceManagerError, match="forgot the list of flinkdeployments"):
        api.items("flinkdeployments", "streams")


def test_a_token_that_expired_is_read_again(kubernetes: Kubernetes, api: KubernetesApi, credentials: Path) -> None:
    kubernetes.token = "second-token"
    with pytest.raises(ResourceManagerError, match=r"does not take the token in .*/token \(401\)") as error:
        api.items("flinkdeployments", "streams")
    assert TOKEN not in str(error.value)
    (credentials / "token").write_text("second-token")
    assert api.items("flinkdeployments", "streams") == []
    (credentials / "token").unlink()
    # As with kubectl proxy, which logs in itself.
    with pytest.raises(ResourceManagerError, match="401"):
        api.items("flinkdeployments", "streams")


def test_what_may_not_be_listed_is_named(kubernetes: Kubernetes, api: KubernetesApi) -> None:
    kubernetes.forbidden = {"flinksessionjobs"}
    needs = r"let this service account list flinksessionjobs of namespace streams \(403\): it needs a Role"
    with pytest.raises(ResourceManagerError, match=needs):
        api.items("flinksessionjobs", "streams")
    kubernetes.unknown = {"flinkdeployments"}
    with pytest.raises(ResourceManagerError, match="operator is not installed"):
        api.items("flinkdeployments", "streams")


def test_where_the_api_is(tmp_path: Path) -> None:
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert KubernetesAccess.of("", str(tmp_path), pod).url == "https://10.0.0.1:6443"
    assert KubernetesAccess.of("", str(tmp_path), {"KUBERNETES_SERVICE_HOST": "fd00::1"}).url == "https://[fd00::1]:443"
    with pytest.raises(SettingsError, match="INDOUBT_KUBERNETES_URL"):
        KubernetesAccess.of("", str(tmp_path), {})
    (tmp_path / "token").write_text("secret")
    clear = KubernetesAccess.of("http://api.example", str(tmp_path))
    with KubernetesApi(clear) as opened, pytest.raises(SettingsError, match="in clear"):
        opened.items("flinkdeployments", "streams")


def test_the_clusters_that_resources_name() -> None:
    tls = {"security": {"ssl": {"enabled": "true"}}, "rest.port": "8443", "execution.checkpointing.dir": "s3://new"}
    deployments = [
        deployment("orders", job=JOB),
        deployment("session"),
        deployment("secure", job=JOB, configuration=tls),
        deployment("paused", job=JOB, lifecycle="SUSPENDED", manager="MISSING"),
        deployment("dead", job=JOB, lifecycle="DEPLOYED", manager="MISSING"),
        deployment("new", lifecycle="CREATED", manager="MISSING"),
    ]
    jobs = [session_job("clicks", "session", job=SESSION_JOB), session_job("starting", "session")]
    found = clusters_of(map(flink_operator.deployment, deployments), map(flink_operator.session_job, jobs))
    own = FlinkJobPlace("s3://flink/checkpoints", JOB)
    assert found == {
        "streams.orders": FlinkCluster(url="http://orders-rest.streams:8081", jobs=(own,)),
        "streams.session": FlinkCluster(
            url="http://session-rest.streams:8081", jobs=(FlinkJobPlace("s3://flink/checkpoints", SESSION_JOB),)
        ),
        "streams.secure": FlinkCluster(url="https://secure-rest.streams:8443", jobs=(FlinkJobPlace("s3://new", JOB),)),
        "streams.paused": FlinkCluster(jobs=(own,)),
        "streams.dead": FlinkCluster(url="http://dead-rest.streams:8081", jobs=(own,)),
        "streams.new": FlinkCluster(),
    }


def test_both_colours_are_clusters_and_what_has_none_is_said() -> None:
    both = [blue_green("pay", "TRANSITIONING_TO_GREEN"), blue_green("ads", "INITIALIZING_BLUE", error="no image")]
    jobs = [flink_operator.session_job(session_job("lost", "nowhere"))]
    children = [deployment("pay-blue", job=JOB), deployment("pay-green", job=SESSION_JOB)]
    found = clusters_of(map(flink_operator.deployment, children), jobs)
    assert [each.url for each in found.values()] == [
        "http://pay-blue-rest.streams:8081",
        "http://pay-green-rest.streams:8081",
    ]
    assert without_cluster(found, jobs, map(flink_operator.blue_green, both)) == [
        "session job streams/lost names deployment nowhere, which is not there",
        "blue/green deployment streams/ads has no deployment (INITIALIZING_BLUE · no image)",
    ]


@pytest.mark.parametrize(
    ("read", "item", "says"),
    [
        (flink_operator.deployment, {}, "has no name"),
        (flink_operator.deployment, None, "has no name"),
        (flink_operator.deployment, deployment("d", configuration={"rest.port": "a-b"}), "rest.port"),
        (flink_operator.session_job, deployment("d"), "names no deployment"),
        (flink_operator.blue_green, {"metadata": {"name": 7}}, "has no name"),
    ],
)
def test_a_malformed_resource_is_named(read: Any, item: Any, says: str) -> None:
    with pytest.raises(MalformedRecord, match=says):
        read(item)


def test_a_change_is_told_and_a_failure_changes_nothing(
    kubernetes: Kubernetes, credentials: Path, current: CurrentState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer, "WAIT_S", 0.01)
    news: SimpleQueue[object] = SimpleQueue()
    kubernetes.resources["flinkdeployments"] = [deployment("orders", job=JOB), {"metadata": {"namespace": "streams"}}]
    kubernetes.unknown = {"flinkbluegreendeployments"}
    with kubernetes.serving() as url:
        watching = FlinkOperatorResources(
            current, "streams", news, url=url, credentials=str(credentials), interval_ms=20
        )
        watching.start()
        try:
            first = news.get(timeout=10.0)
            assert isinstance(first, Found)
            assert set(first.clusters) == {"streams.orders"}
            assert not watching.has_caught_up, "nobody watches them yet"
            first.is_watched.set()
            wait_until("it is up", lambda: watching.status.state is ObserverState.UP)
            assert watching.status.error == "a FlinkDeployment has no name and namespace"

            kubernetes.forbidden = {"flinkdeployments"}
            wait_until("it says so", lambda: "403" in watching.status.error)
            assert watching.status.state is ObserverState.DOWN
            assert news.empty()

            kubernetes.forbidden, kubernetes.resources["flinkdeployments"] = set(), []
            second = news.get(timeout=10.0)
            assert isinstance(second, Found)
            assert second.clusters == {}
        finally:
            watching.stop()
    assert watching.has_ended
