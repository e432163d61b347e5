"""The chart of deploy/helm, rendered by Helm with several sets of values."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from demo.prerequisites import ROOT

CHART = ROOT / "deploy" / "helm" / "indoubt"
RELEASE, NAMESPACE = "watch", "streaming"
HELM = shutil.which("helm", path=f"{ROOT / '.run' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}")
ONE = {"name": "orders", "bootstrapServers": "kafka-1.kafka:9092,kafka-2.kafka:9092"}
STORES = {"flink": {"shop": "http://f"}, "flink_store": {"shop": "kubernetes://streams/shop"}}
VALUES: dict[str, dict[str, Any]] = {
    "least": {"clusters": [ONE]},
    "nothing": {},
    "two clusters": {
        "clusters": [
            ONE
            | {
                "host": "orders.example",
                "settings": {"read_only": True, "alert_aborts": 7, "flink": {"eu": "http://f"}},
            },
            {"name": "pay", "bootstrapServers": "pay:9092", "host": "pay.example", "existingSecret": "pay"},
        ],
        "existingSecret": "orders",
        "app": {"existingSecret": "pages"},
        "ingress": {"enabled": True, "className": "nginx", "annotations": {"a/b": "c"}},
    },
    "open to others": {
        "clusters": [ONE | {"host": "orders.example"}],
        "existingSecret": "orders",
        "app": {
            "existingSecret": "pages",
            "settings": {
                "oidc_issuer": "https://login.example",
                "oidc_client_id": "indoubt",
                "operator_group": ["oncall"],
            },
        },
        "ingress": {"enabled": True, "tlsSecret": "certificate"},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "tokenSecret": {"name": "metrics"}},
        "networkPolicy": {
            "enabled": True,
            "pages": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
            "api": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
        },
    },
    "Flink's operator": {
        "clusters": [
            ONE | {"settings": {"flink_kubernetes": ["streams", "more"]}},
            {"name": "eu", "bootstrapServers": "eu:9092", "settings": STORES},
            {"name": "pay", "bootstrapServers": "pay:9092", "settings": {"flink_kubernetes": ["*"]}},
            {"name": "none", "bootstrapServers": "none:9092"},
        ]
    },
    "everything else": {
        "clusters": [ONE],
        "replicas": 0,
        "image": {"repository": "registry.example/indoubt", "tag": "1"},
        "imagePullSecrets": [{"name": "pull"}],
        "extraEnv": [{"name": "INDOUBT_LOG_LEVEL", "value": "info"}],
        "extraVolumes": [{"name": "more", "secret": {"secretName": "more"}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/etc/more", "readOnly": True}],
        "persistence": {"enabled": False},
        "service": {"type": "LoadBalancer", "port": 8651},
        "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn"}},
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "streaming", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    },
    "open metrics": {
        "clusters": [ONE | {"settings": {"metrics_access": "anyone"}}],
        "serviceMonitor": {"enabled": True},
        "persistence": {"storageClass": "fast", "size": "5Gi", "accessModes": ["ReadWriteOncePod"]},
    },
}
"""Sets of values, by what they are for."""


def helm(*words: str | Path, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run a command of Helm with these values."""
    assert HELM is not None
    command = [HELM, *words, "--values", "-"]
    return subprocess.run(
        command, input=yaml.safe_dump(values), capture_output=True, text=True, timeout=60, check=False
    )


@functools.cache
def rendered(name: str, kubernetes: str = "1.35.0") -> list[dict[str, Any]]:
    """Return the objects that the chart renders for a set of values."""
    where = ["--namespace", NAMESPACE, "--kube-version", kubernetes]
    done = helm("template", RELEASE, CHART, *where, values=VALUES[name])
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def of_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a kind, by name."""
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


def containers(stateful_set: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the containers of a StatefulSet, by name."""
    pod = stateful_set["spec"]["template"]["spec"]
    return {each["name"]: each for each in (*pod["initContainers"], *pod["containers"])}
