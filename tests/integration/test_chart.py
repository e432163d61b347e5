"""The Helm chart: what it renders is valid for several releases of Kubernetes, and starts the very programs."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import kubernetes_validate
import pytest

from demo.broker import Broker
from demo.ports import free_port
from demo.prerequisites import ROOT
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.lifecycle.version import VERSION
from tests.integration.chart import CHART, HELM, NAMESPACE, ONE, RELEASE, VALUES, containers, helm, of_kind, rendered
from tests.integration.kafka_fixtures import wait_until
from tests.unit.collector.kubernetes_answers import PLURALS

pytestmark = pytest.mark.skipif(HELM is None, reason="Helm is not here: 'make helm' builds it, with Go")

KUBERNETES = ("1.29.0", "1.33.0", "1.37.0")
NO_SCHEMA = {"ServiceMonitor"}
"""Of the Prometheus operator, not of Kubernetes."""
ELSEWHERE = {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
"""They stand where Flink's clusters are looked for."""
LIMIT_S = 60.0
STOP_LIMIT_S = 30.0
TOKENS = {
    "orders": {"INDOUBT_OPERATOR_TOKEN": f"anna:{'a' * 32}", "INDOUBT_FOR_PERSONS_TOKEN": f"pages:{'b' * 32}"},
    "pages": {"INDOUBT_TOKEN": "b" * 32, "INDOUBT_OIDC_CLIENT_SECRET": "c" * 32},
}
"""What the Secrets hold that the values name."""


@pytest.mark.parametrize("name", VALUES)
def test_helm_finds_nothing_wrong(name: str) -> None:
    done = helm("lint", "--strict", CHART, values=VALUES[name])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kubernetes", KUBERNETES)
@pytest.mark.parametrize("name", VALUES)
def test_each_object_is_what_kubernetes_takes(name: str, kubernetes: str) -> None:
    objects = rendered(name, kubernetes)
    for each in objects:
        assert each["kind"] in ELSEWHERE or each["metadata"]["namespace"] == NAMESPACE
        if each["kind"] not in NO_SCHEMA:
            kubernetes_validate.validate(each, kubernetes, strict=True)
    names = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    assert len(set(names)) == len(names)
    assert len(of_kind(objects, "StatefulSet")) == len(VALUES[name].get("clusters", ()))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"clusters": [ONE], "replicas": 2}, "maximum: got 2, want 1"),
        ({"clusters": [ONE], "replica": 1}, "additional properties 'replica' not allowed"),
        ({"clusters": [{"name": "orders"}]}, "missing property 'bootstrapServers'"),
        ({"clusters": [ONE], "serviceMonitor": {"enabled": True}}, "give serviceMonitor.tokenSecret.name"),
        ({"clusters": [ONE], "app": {"settings": {"trusted_proxy": ["10.0.0.1"]}}}, "app.existingSecret is missing"),
        (
            {"clusters": [ONE], "app": {"settings": {"oidc_issuer": "https://a"}}},
            "needs its host and ingress.tlsSecret",
        ),
    ],
)
def test_values_that_cannot_work_are_refused(values: dict[str, Any], said: str) -> None:
    done = helm("template", RELEASE, CHART, values=values)
    assert done.returncode != 0
    assert said in done.stderr


@pytest.mark.parametrize("name", [name for name in VALUES if name != "nothing"])
def test_nobody_is_root_and_no_container_writes_elsewhere(name: str) -> None:
    for stateful_set in of_kind(rendered(name), "StatefulSet").values():
        pod = stateful_set["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        image = (ROOT / "Dockerfile").read_text()
        assert f"USER {pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" in image
        claimed = [claim["metadata"]["name"] for claim in stateful_set["spec"].get("volumeClaimTemplates", ())]
        volumes = {*claimed, *(volume["name"] for volume in pod["volumes"])}
        for container in containers(stateful_set).values():
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def test_the_settings_of_a_cluster_are_its_own() -> None:
    files = of_kind(rendered("two clusters"), "ConfigMap")
    tables = {name: tomllib.loads(each["data"]["indoubt.toml"]) for name, each in files.items()}
    of_orders = {
        "bootstrap_servers": ONE["bootstrapServers"],
        "read_only": True,
        "alert_aborts": 7,
        "flink": {"eu": "http://f"},
    }
    assert tables["watch-orders"] == {"collector": of_orders, "app": {}}
    assert tables["watch-pay"]["collector"] == {"bootstrap_servers": "pay:9092"}
    sets = of_kind(rendered("two clusters"), "StatefulSet")
    secrets = {name: containers(each)["collector"]["envFrom"] for name, each in sets.items()}
    assert secrets == {f"watch-{name}": [{"secretRef": {"name": name}}] for name in ("orders", "pay")}
    for name, each in sets.items():
        cluster = name.removeprefix("watch-")
        assert f"--cluster={cluster}" in containers(each)["collector"]["args"]
        assert f"--collector={cluster}=http://127.0.0.1:8650" in containers(each)["app"]["args"]
    hosts = {each["spec"]["rules"][0]["host"] for each in of_kind(rendered("two clusters"), "Ingress").values()}
    assert hosts == {"orders.example", "pay.example"}


def test_only_a_collector_that_looks_for_flink_gets_a_token_and_may_list_its_resources() -> None:
    objects = rendered("Flink's operator")
    rules = [{"apiGroups": ["flink.apache.org"], "resources": [*PLURALS], "verbs": ["list"]}]
    roles = [each for each in objects if each["kind"] in ("Role", "ClusterRole")]
    store = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    assert sorted(map(str, (each["rules"] for each in roles))) == sorted(map(str, (rules, rules, store, rules)))
    assert len({(each["metadata"]["name"], each["metadata"].get("namespace")) for each in roles}) == len(roles)
    assert [each["metadata"].get("namespace") for each in roles if each["rules"] == store] == ["streams"]
    bound = [each for each in objects if each["kind"] in ("RoleBinding", "ClusterRoleBinding")]
    assert {(each["kind"], each["metadata"].get("namespace")) for each in bound} == {
        ("RoleBinding", "streams"),
        ("RoleBinding", "more"),
        ("ClusterRoleBinding", None),
    }
    (account,) = of_kind(objects, "ServiceAccount")
    assert {subject["name"] for each in bound for subject in each["subjects"]} == {account}
    with_token = {
        (name, container)
        for name, each in of_kind(objects, "StatefulSet").items()
        for container, of_it in containers(each).items()
        if "kubernetes" in {mount["name"] for mount in of_it["volumeMounts"]}
    }
    assert with_token == {(f"watch-{name}", "collector") for name in ("orders", "eu", "pay")}
    assert not [each for each in rendered("two clusters") if each["kind"] in ELSEWHERE]


def test_prometheus_asks_where_the_collector_answers() -> None:
    objects = rendered("open to others")
    (monitor,) = of_kind(objects, "ServiceMonitor").values()
    (service,) = of_kind(objects, "Service").values()
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"] == {"name": "metrics", "key": "token"}
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    (alone,) = of_kind(rendered("least"), "Service").values()
    assert [port["name"] for port in alone["spec"]["ports"]] == ["pages"]


def test_the_chart_is_of_this_version() -> None:
    (stateful_set,) = of_kind(rendered("least"), "StatefulSet").values()
    assert {each["image"] for each in containers(stateful_set).values()} == {f"indoubt:{VERSION}"}


@pytest.mark.integration
@pytest.mark.long
@pytest.mark.parametrize("name", ["least", "open to others"])
def test_what_is_rendered_starts_the_programs(name: str, broker: Broker, tmp_path: Path) -> None:
    (stateful_set,) = of_kind(rendered(name), "StatefulSet").values()
    (settings,) = of_kind(rendered(name), "ConfigMap").values()
    # What differs on this machine: directories, ports, and where the broker is.
    here = {
        "/var/lib/indoubt": str(tmp_path),
        "/etc/indoubt": str(tmp_path),
        ONE["bootstrapServers"]: broker.bootstrap_servers,
    }
    here |= {port: str(free_port()) for port in ("8650", "8651")}
    (tmp_path / "indoubt.toml").write_text(replaced(settings["data"]["indoubt.toml"], here))
    parts = containers(stateful_set)
    with running(parts["collector"], here, tmp_path / "collector.log"):
        for probe in ("startupProbe", "livenessProbe"):
            command = [replaced(word, here) for word in parts["collector"][probe]["exec"]["command"]]
            wait_until(
                probe, lambda given=(sys.executable, *command[1:]): subprocess.run(given).returncode == 0, LIMIT_S
            )
        with running(parts["app"], here, tmp_path / "app.log"):
            path = parts["app"]["readinessProbe"]["httpGet"]["path"]
            wait_until("the pages", lambda: answers(f"http://127.0.0.1:{here['8651']}{path}"), LIMIT_S)


def replaced(text: str, here: dict[str, str]) -> str:
    """Return a text with what differs on this machine."""
    for there, in_its_place in here.items():
        text = text.replace(there, in_its_place)
    return text


@contextmanager
def running(container: dict[str, Any], here: dict[str, str], log: Path) -> Iterator[None]:
    """Run a container's program with its arguments and environment; it must end well at the end."""
    given = {each["name"]: replaced(each["value"], here) for each in container["env"]}
    for source in container.get("envFrom", ()):
        given |= TOKENS[source["secretRef"]["name"]]
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("INDOUBT_")}
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "indoubt", *(replaced(word, here) for word in container["args"])],
            cwd=ROOT,
            env=inherited | given,
            stdout=out,
            stderr=out,
            preexec_fn=die_with_parent,
        )
    try:
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        code = process.wait(STOP_LIMIT_S)
    assert code in (0, -15), log.read_text()


def answers(url: str) -> bool:
    """Say whether this address answers well."""
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False
