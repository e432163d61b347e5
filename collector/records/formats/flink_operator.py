"""What resources of Flink's Kubernetes operator say (flink.apache.org/v1beta1): where a cluster answers and keeps its checkpoints.

After the operator's published definitions. A configuration may be flat (``state.checkpoints.dir``) or nested. It may hold
passwords: nothing of it is shown but what is read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from indoubt.lifecycle.errors import MalformedRecord

COLOURS = ("blue", "green")
"""A FlinkBlueGreenDeployment makes a FlinkDeployment of each, called NAME-blue and NAME-green, and at most two stand at a time."""
_CHECKPOINTS = ("execution.checkpointing.dir", "state.checkpoints.dir")
"""The newer key first."""
_TLS = ("security.ssl.rest.enabled", "security.ssl.enabled")
_PORT, _DEFAULT_PORT = "rest.port", "8081"
_NOT_STARTED, _OVER = ("CREATED",), ("SUSPENDED", "FAILED", "DELETED")
_ENDED = ("FINISHED", "CANCELED", "FAILED")
_MISSING = "MISSING"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorResource:
    """One resource. ``checkpoints``: the directory of its jobs' checkpoints; empty: it names none."""

    namespace: str
    name: str
    checkpoints: str = ""
    job: str = ""
    """Flink's id of its job, which the operator chose or was told; empty: none yet, or it is a session cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment(OperatorResource):
    """A FlinkDeployment: an application, or a session cluster. ``url``: of its REST API; empty: none is to answer now."""

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionJob(OperatorResource):
    """A FlinkSessionJob. ``deployment``: the name of the session cluster that runs it, in the same namespace."""

    deployment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlueGreen(OperatorResource):
    """A FlinkBlueGreenDeployment. ``state`` and ``error`` as its status has them."""

    state: str
    error: str

    @property
    def children(self) -> tuple[str, ...]:
        """Return the names of the FlinkDeployments that it may have now."""
        return tuple(f"{self.name}-{colour}" for colour in COLOURS)


def deployment(item: Any) -> Deployment:
    """Return what a FlinkDeployment says. Raises MalformedRecord."""
    namespace, name = _name(item, "FlinkDeployment")
    spec, status = _part(item, "spec"), _part(item, "status")
    settings = configuration(spec.get("flinkConfiguration"))
    scheme = "https" if any(settings.get(key, "").lower() == "true" for key in _TLS) else "http"
    port = settings.get(_PORT, _DEFAULT_PORT)
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise MalformedRecord(f"FlinkDeployment {namespace}/{name} has {_PORT} {port!r}")
    return Deployment(
        namespace=namespace,
        name=name,
        # As the operator itself asks it (ExternalServiceDecorator.getNamespacedExternalServiceName).
        url=f"{scheme}://{name}-rest.{namespace}:{port}" if _is_to_answer(status) else "",
        checkpoints=_checkpoints(settings),
        job=_job(status),
    )


def session_job(item: Any) -> SessionJob:
    """Return what a FlinkSessionJob says. Raises MalformedRecord."""
    namespace, name = _name(item, "FlinkSessionJob")
    spec = _part(item, "spec")
    of = spec.get("deploymentName")
    if not isinstance(of, str) or not of:
        raise MalformedRecord(f"FlinkSessionJob {namespace}/{name} names no deployment")
    return SessionJob(
        namespace=namespace,
        name=name,
        checkpoints=_checkpoints(configuration(spec.get("flinkConfiguration"))),
        job=_job(_part(item, "status")),
        deployment=of,
    )


def blue_green(item: Any) -> BlueGreen:
    """Return what a FlinkBlueGreenDeployment says. Raises MalformedRecord."""
    namespace, name = _name(item, "FlinkBlueGreenDeployment")
    of_both = _part(_part(_part(item, "spec"), "template"), "spec")
    status = _part(item, "status")
    return BlueGreen(
        namespace=namespace,
        name=name,
        checkpoints=_checkpoints(configuration(of_both.get("flinkConfiguration"))),
        state=str(status.get("blueGreenState") or ""),
        error=str(status.get("error") or ""),
    )


def configuration(given: Any) -> dict[str, str]:
    """Return Flink's configuration by full keys: ``{"state": {"checkpoints.dir": D}}`` has ``state.checkpoints.dir``."""
    return dict(_flat(given, "")) if isinstance(given, dict) else {}


def _flat(given: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in given.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", str(value)


def _is_to_answer(status: Mapping[str, Any]) -> bool:
    """Say whether a JobManager is to run: one that is away although it should run is asked, as its silence says something."""
    lifecycle, manager = status.get("lifecycleState"), status.get("jobManagerDeploymentStatus")
    if lifecycle in _NOT_STARTED:
        return False
    has_ended = lifecycle in _OVER or _part({"job": status.get("jobStatus")}, "job").get("state") in _ENDED
    return not (has_ended and manager in (_MISSING, None))


def _job(status: Mapping[str, Any]) -> str:
    job = _part(status, "jobStatus").get("jobId")
    return job if isinstance(job, str) else ""


def _checkpoints(settings: Mapping[str, str]) -> str:
    return next((settings[key] for key in _CHECKPOINTS if settings.get(key)), "")


def _name(item: Any, kind: str) -> tuple[str, str]:
    metadata = _part(item, "metadata")
    namespace, name = metadata.get("namespace"), metadata.get("name")
    if not isinstance(namespace, str) or not isinstance(name, str) or not namespace or not name:
        raise MalformedRecord(f"a {kind} has no name and namespace")
    return namespace, name


def _part(of: Any, key: str) -> Mapping[str, Any]:
    found = of.get(key) if isinstance(of, Mapping) else None
    return found if isinstance(found, Mapping) else {}
