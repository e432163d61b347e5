"""Flink's high-availability store in Kubernetes, read: which completed checkpoint of each job its ConfigMaps point to.

A job has ``<cluster-id>-<job id>-config-map`` with a key for each completed checkpoint that is retained, named by its number; only
the leader may change it (KubernetesStateHandleStore). Who leads stands in an annotation of ``<cluster-id>-cluster-config-map``,
and holds every job of the cluster. What a key holds is serialized Java: all that is read of it is whether it is marked as about to
be deleted, which a recovery passes over.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from indoubt.collector.records.flink_stores import FlinkStore, StoredCheckpoint
from indoubt.lifecycle.errors import MalformedRecord

LEADER = "control-plane.alpha.kubernetes.io/leader"
SLACK_S = 1.0
"""A JobManager counts the time of its lease from before it wrote it."""
_KEY = re.compile(r"checkpointID-(?P<number>[0-9]{19})")
_JAVA, _MARKED_CLASS = b"\xac\xed\x00\x05", b"StateHandleWithDeleteMarker"
_MARKER = re.compile(rb"RetrievableStateHandle;xp(?P<is_deleted>[\x00\x01])", re.DOTALL)
"""The end of what describes the class, and the first of its fields."""


class ConfigMaps:
    """The ConfigMaps of one Flink cluster, look after look: a lease has ended once it stood unchanged for as long as it lasts.

    The time in it is by the leader's clock, and never compared with another.
    """

    def __init__(self, cluster_id: str) -> None:
        self._leaders = f"{cluster_id}-cluster-config-map"
        self._of_job = re.compile(rf"{re.escape(cluster_id)}-(?P<job>[0-9a-f]{{32}})-config-map")
        self._lease, self._lease_since_s = "", 0.0

    def store_in(self, answer: Any, at_ms: int, now_s: float) -> FlinkStore | None:
        """Return the store in a list of ConfigMaps; None: there is none. ``at_ms``: epoch ms; ``now_s``: by a monotonic clock.

        Raises MalformedRecord.
        """
        maps = {_name(each): each for each in _items(answer)}
        leaders = maps.get(self._leaders)
        if leaders is None:
            return None
        is_held = self._is_held(leaders, now_s)
        jobs = {found["job"]: each for name, each in maps.items() if (found := self._of_job.fullmatch(name))}
        newest = {job: _newest(each, at_ms, is_held=is_held) for job, each in jobs.items()}
        return FlinkStore(
            jobs=frozenset(jobs), newest={job: found for job, found in newest.items() if found is not None}
        )

    def _is_held(self, leaders: Mapping[str, Any], now_s: float) -> bool:
        """Say whether a JobManager may lead."""
        said = (leaders["metadata"].get("annotations") or {}).get(LEADER)
        if said is None:
            return True
        try:
            lease = json.loads(said)
            # Without renewTime it would never change, and look as if it had ended.
            holder, lasts_s, _ = lease["holderIdentity"], float(lease["leaseDuration"]), lease["renewTime"]
        except (ValueError, TypeError, KeyError):
            raise MalformedRecord(f"annotation {LEADER} of {_name(leaders)} is no leader's lease") from None
        if said != self._lease:
            self._lease, self._lease_since_s = said, now_s
        return bool(holder) and now_s < self._lease_since_s + lasts_s + SLACK_S


def _newest(config_map: Mapping[str, Any], at_ms: int, *, is_held: bool) -> StoredCheckpoint | None:
    data = config_map.get("data") or {}
    keys = sorted(key for key in data if _KEY.fullmatch(key))
    kept = [key for key in keys if not _is_deleted(key, data[key])]
    if not kept:
        return None
    namespace = config_map["metadata"].get("namespace", "")
    return StoredCheckpoint(
        number=int(kept[-1].partition("-")[2]),
        added_ms=None,
        is_held=is_held,
        where=f"ConfigMap {namespace}/{_name(config_map)}, {kept[-1]}",
        since_ms=at_ms,
    )


def _is_deleted(key: str, value: Any) -> bool:
    """Say whether a checkpoint is marked as about to be deleted: older releases mark none."""
    try:
        data = base64.b64decode(value, validate=True)
    except (ValueError, TypeError):
        raise MalformedRecord(f"{key} of a ConfigMap is not base64") from None
    if not data.startswith(_JAVA):
        raise MalformedRecord(f"{key} of a ConfigMap is no serialized Java object")
    if _MARKED_CLASS not in data:
        return False
    marker = _MARKER.search(data)
    if marker is None:
        raise MalformedRecord(f"{key} of a ConfigMap does not say whether it is about to be deleted")
    return marker["is_deleted"] == b"\x01"


def _items(answer: Any) -> list[Mapping[str, Any]]:
    items = answer.get("items") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
        raise MalformedRecord("Kubernetes' answer has no list of ConfigMaps")
    return items


def _name(config_map: Mapping[str, Any]) -> str:
    metadata = config_map.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not isinstance(config_map.get("data") or {}, dict):
        raise MalformedRecord("Kubernetes' answer has a ConfigMap without a name, or with data of another kind")
    return name
