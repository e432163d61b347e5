"""Flink's high-availability store in Kubernetes.

The values of keys are what Flink 2.3's own class writes; the ConfigMaps around them are built as its documents and source have
them: no Kubernetes ran.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from indoubt.collector.records.flink_stores import FlinkStore, StoredCheckpoint
from indoubt.collector.records.formats.flink_config_maps import LEADER, ConfigMaps
from indoubt.lifecycle.errors import MalformedRecord
from tests.unit.collector.observations import T0

JOB, OTHER = "a" * 32, "b" * 32
_RECORDED = Path(__file__).parent / "flink_config_map_recorded"
STORED, DELETED = ((_RECORDED / name).read_text() for name in ("stored", "about_to_be_deleted"))
EARLIER = base64.b64encode(
    b"\xac\xed\x00\x05sr\x00;org.apache.flink.runtime.state.RetrievableStreamStateHandle"
).decode()
"""Without a marker, as older releases have it."""
NOW_S = 1_000.0


def store_in(answer: Any, cluster_id: str = "orders") -> FlinkStore | None:
    """Return what the first look finds."""
    return ConfigMaps(cluster_id).store_in(answer, T0, NOW_S)


def lease(renewed_ms: int = T0, holder: str = "4f1d") -> dict[str, Any]:
    """Return the ConfigMap that says who leads, with the annotation as fabric8's elector writes it."""
    at = datetime.fromtimestamp(renewed_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    said = {"holderIdentity": holder, "leaseDuration": 15.0, "acquireTime": at, "renewTime": at, "leaderTransitions": 2}
    return config_map("orders-cluster-config-map", annotations={LEADER: json.dumps(said)})


def config_map(name: str, data: Any = None, **metadata: Any) -> dict[str, Any]:
    """Return one ConfigMap as Kubernetes lists it."""
    return {"metadata": {"name": name, "namespace": "shop", **metadata}, "data": data}


def of_job(*numbers: int, job: str = JOB, value: str = STORED, **more: str) -> dict[str, Any]:
    """Return a job's, which points to these checkpoints."""
    keys = {f"checkpointID-{number:019d}": value for number in numbers}
    return config_map(f"orders-{job}-config-map", {"counter": "9", **keys, **more})


def listed(*maps: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "ConfigMapList", "items": list(maps)}


def test_the_newest_of_each_job_is_read() -> None:
    found = store_in(listed(lease(), of_job(2, 3), of_job(job=OTHER), config_map("else")))
    assert found is not None
    assert found.jobs == {JOB, OTHER}
    assert found.newest == {
        JOB: StoredCheckpoint(
            number=3,
            added_ms=None,
            is_held=True,
            where=f"ConfigMap shop/orders-{JOB}-config-map, checkpointID-0000000000000000003",
            since_ms=T0,
        )
    }


@pytest.mark.parametrize("cluster_id", ["order", "orders-eu", ".rders"])
def test_those_of_another_cluster_are_not_its_own(cluster_id: str) -> None:
    assert store_in(listed(lease(), of_job(3)), cluster_id) is None


def test_what_is_about_to_be_deleted_is_passed_over() -> None:
    going = {"checkpointID-0000000000000000004": DELETED}
    found = store_in(listed(lease(), of_job(3, **going), of_job(1, job=OTHER, value=DELETED)))
    assert found is not None
    assert {job: each.number for job, each in found.newest.items()} == {JOB: 3}


def test_an_earlier_release_marks_nothing() -> None:
    found = store_in(listed(lease(), of_job(3, value=EARLIER)))
    assert found is not None
    assert found.newest[JOB].number == 3


@pytest.mark.parametrize(
    ("leaders", "is_held"),
    [(lease(), True), (lease(holder=""), False), (config_map("orders-cluster-config-map"), True)],
    ids=["a leader", "let go of", "nobody says"],
)
def test_a_leader_has_every_job(leaders: dict[str, Any], is_held: bool) -> None:
    found = store_in(listed(leaders, of_job(3)))
    assert found is not None
    assert found.newest[JOB].is_held is is_held


def test_a_lease_ends_once_it_stood_unchanged_for_as_long_as_it_lasts() -> None:
    maps = ConfigMaps("orders")

    def is_held(renewed_ms: int, now_s: float) -> bool:
        found = maps.store_in(listed(lease(renewed_ms), of_job(3)), T0, now_s)
        assert found is not None
        return found.newest[JOB].is_held

    # By the leader's clock, which is far behind, each of these has ended.
    assert is_held(T0 - 900_000, 0.0)
    assert is_held(T0 - 900_000, 15.9)
    assert not is_held(T0 - 900_000, 16.0)
    assert is_held(T0 - 890_000, 17.0), "another one leads"
    assert is_held(T0 - 880_000, 32.0), "it was renewed"
    assert is_held(T0 - 880_000, 47.9)
    assert not is_held(T0 - 880_000, 48.0)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {"items": None},
        {"items": ["orders"]},
        listed({"metadata": {}}),
        listed({"metadata": {"name": "x"}, "data": "text"}),
        listed(lease(), of_job(3, value="%")),
        listed(lease(), of_job(3, value=base64.b64encode(b"text").decode())),
        listed(lease(), of_job(3, value=base64.b64encode(base64.b64decode(STORED)[:200]).decode())),
        listed(config_map("orders-cluster-config-map", annotations={LEADER: "{}"}), of_job(3)),
    ],
)
def test_what_is_malformed_is_said(answer: Any) -> None:
    with pytest.raises(MalformedRecord):
        store_in(answer)
