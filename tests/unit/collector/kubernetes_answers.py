"""Answers of a Kubernetes API about the resources of Flink's operator.

Written after the operator's published definitions (flink.apache.org/v1beta1, releases 1.12 to 1.15) and examples. No real cluster
gave them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.json_server import Answer, answering

TOKEN = "first-token"
PLURALS = ("flinkdeployments", "flinksessionjobs", "flinkbluegreendeployments")
JOB = "a1" * 16


def deployment(name: str, *, namespace: str = "streams", job: str = "", **changes: Any) -> dict[str, Any]:
    """Return a FlinkDeployment as the API has it; ``changes``: ``configuration``, ``lifecycle`` and ``manager``."""
    spec: dict[str, Any] = {
        "image": "flink:2.2",
        "flinkVersion": "v2_2",
        "serviceAccount": "flink",
        "flinkConfiguration": changes.get(
            "configuration",
            {
                "taskmanager.numberOfTaskSlots": 2,
                "state": {"savepoints.dir": "s3://flink/savepoints", "checkpoints.dir": "s3://flink/checkpoints"},
                "high-availability": {"type": "kubernetes", "storageDir": "s3://flink/ha"},
                "security.ssl.rest.keystore-password": "hunter2",
            },
        ),
        "jobManager": {"resource": {"memory": "2048m", "cpu": 1}, "replicas": 1},
        "taskManager": {"resource": {"memory": "2048m", "cpu": 1}},
    }
    status: dict[str, Any] = {
        "lifecycleState": changes.get("lifecycle", "STABLE"),
        "jobManagerDeploymentStatus": changes.get("manager", "READY"),
        "clusterInfo": {"flink-version": "2.2.0", "total-cpu": "2.0"},
        "reconciliationStatus": {"state": "DEPLOYED", "reconciliationTimestamp": 1785000000000},
    }
    if job:
        spec["job"] = {
            "jarURI": "local:///opt/job.jar",
            "parallelism": 2,
            "upgradeMode": "last-state",
            "state": "running",
        }
        status["jobStatus"] = {"jobId": job, "jobName": name, "state": "RUNNING", "startTime": "1785000000000"}
    return _resource("FlinkDeployment", namespace, name, spec, status)


def session_job(name: str, of: str, *, namespace: str = "streams", job: str = "") -> dict[str, Any]:
    """Return a FlinkSessionJob."""
    spec = {
        "deploymentName": of,
        "job": {"jarURI": "https://repo/job.jar", "parallelism": 4, "upgradeMode": "stateless"},
    }
    status = {"lifecycleState": "STABLE", "jobStatus": {"jobId": job, "state": "RUNNING"}}
    return _resource("FlinkSessionJob", namespace, name, spec, status)


def blue_green(name: str, state: str, *, namespace: str = "streams", error: str = "") -> dict[str, Any]:
    """Return a FlinkBlueGreenDeployment."""
    spec = {
        "configuration": {"kubernetes.operator.bluegreen.deployment-deletion.delay": "1s"},
        "template": {"spec": {"flinkConfiguration": {"state.checkpoints.dir": "s3://flink/checkpoints"}}},
    }
    status = {"blueGreenState": state, "jobStatus": {"state": "RUNNING"}, "error": error or None}
    return _resource("FlinkBlueGreenDeployment", namespace, name, spec, status)


def _resource(kind: str, namespace: str, name: str, spec: Any, status: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": "4711",
        "generation": 2,
        "creationTimestamp": "2026-07-20T12:00:00Z",
        "finalizers": ["flinkdeployments.flink.apache.org/finalizer"],
    }
    return {
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


@dataclass(slots=True)
class Kubernetes:
    """What the API has now: its resources by plural, and how it behaves."""

    resources: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {plural: [] for plural in (*PLURALS, "configmaps")}
    )
    token: str = TOKEN
    forbidden: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    expires: int = 0
    """So many times the rest of a list is gone."""
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str, headers: Mapping[str, str]) -> Answer:
        """Answer as the API server does."""
        self.asked.append(path)
        parts = urlsplit(path)
        plural, query = parts.path.rpartition("/")[2], parse_qs(parts.query)
        if headers.get("Authorization") != f"Bearer {self.token}":
            return _status(401, "Unauthorized", "Unauthorized")
        if plural in self.forbidden:
            who = '"system:serviceaccount:streams:indoubt"'
            text = f'{plural}.flink.apache.org is forbidden: User {who} cannot list resource "{plural}" in API group'
            return _status(403, "Forbidden", text)
        if plural in self.unknown:
            return _status(404, "NotFound", "the server could not find the requested resource")
        within = parts.path.split("/namespaces/")
        namespace = within[1].split("/")[0] if len(within) > 1 else None
        items = [each for each in self.resources[plural] if namespace in (None, each["metadata"]["namespace"])]
        wanted = dict(label.split("=") for label in query.get("labelSelector", [""])[0].split(",") if label)
        items = [each for each in items if wanted.items() <= each["metadata"].get("labels", {}).items()]
        start, limit = int(query.get("continue", ["0"])[0]), int(query["limit"][0])
        if start and self.expires:
            self.expires -= 1
            return _status(
                410, "Expired", "The provided continue parameter is too old to display a consistent list result"
            )
        metadata: dict[str, Any] = {"resourceVersion": "4711"}
        if start + limit < len(items):
            metadata |= {"continue": str(start + limit), "remainingItemCount": len(items) - start - limit}
        page = items[start : start + limit]
        return 200, {"apiVersion": "flink.apache.org/v1beta1", "kind": "List", "metadata": metadata, "items": page}

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve the API while the context is open; yield its address."""
        with answering(self.answer) as url:
            yield url


def _status(code: int, reason: str, message: str) -> Answer:
    return code, {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
