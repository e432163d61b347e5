"""Reads which completed checkpoint of each job Flink's high-availability store in ZooKeeper points to.

A job has ``jobs/<job id>/checkpoints`` below the cluster's path (ZooKeeperUtils, since Flink 1.14), with a node for each completed
checkpoint that is retained, named by its number. Who recovers the job goes on from the greatest. Its JobManager adds one in a
single transaction, before any task is told of the completion, and holds each by a node of its session's life: below ``locks``, in
older releases right below it (ZooKeeperStateHandleStore). What the nodes hold, serialized Java, is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from indoubt.collector.config.flink_store import StoreAddress
from indoubt.collector.observe.flink_store import Look
from indoubt.collector.observe.zookeeper import ZooKeeper
from indoubt.collector.records.flink_stores import FlinkStore, StoredCheckpoint
from indoubt.collector.runtime.clock import now_ms

LOCKS = "locks"
_JOB = re.compile(r"[0-9a-f]{32}")
_NUMBER = re.compile(r"[0-9]{19}")


@contextmanager
def in_zookeeper(address: StoreAddress) -> Iterator[Look]:
    """Open a store in ZooKeeper. Raises Unreachable, ResourceManagerError."""
    with ZooKeeper(address) as zookeeper:
        yield lambda: read_store(zookeeper, address.path)


def read_store(zookeeper: ZooKeeper, path: str) -> FlinkStore | None:
    """Return what the store at a path has now; None: there is none. Raises Unreachable, ResourceManagerError."""
    zookeeper.catch_up(path)
    below, jobs = zookeeper.children([path, f"{path}/jobs"])
    if below is None:
        return None
    known = [job for job in jobs or () if _JOB.fullmatch(job)]
    homes = [f"{path}/jobs/{job}/checkpoints" for job in known]
    numbers = _numbers(zookeeper, homes)
    nodes = [[f"{home}/{number}" for number in of_job] for home, of_job in zip(homes, numbers, strict=True)]
    held = _held(zookeeper, [node for of_job in nodes for node in of_job])
    # Last: a JobManager adds a node before it lets go of the one before. What changed meanwhile, one is at work on.
    is_same = [now == before for now, before in zip(_numbers(zookeeper, homes), numbers, strict=True)]
    newest = [of_job[-1] for of_job in nodes if of_job]
    made = dict(zip(newest, zookeeper.made_ms(newest), strict=True))
    found = {
        job: StoredCheckpoint(
            number=int(of_job[-1].rpartition("/")[2]),
            added_ms=added_ms,
            is_held=not same or not held.isdisjoint(of_job),
            where=f"ZooKeeper, {of_job[-1]}",
            since_ms=now_ms(),
        )
        for job, of_job, same in zip(known, nodes, is_same, strict=True)
        if of_job and (added_ms := made[of_job[-1]]) is not None
    }
    return FlinkStore(jobs=frozenset(known), newest=found)


def _numbers(zookeeper: ZooKeeper, homes: list[str]) -> list[list[str]]:
    """Return the names of the checkpoints of each job, the newest last."""
    return [sorted(filter(_NUMBER.fullmatch, names or ())) for names in zookeeper.children(homes)]


def _held(zookeeper: ZooKeeper, nodes: list[str]) -> set[str]:
    """Return those of these checkpoints that a JobManager holds."""
    direct = [set(names or ()) for names in zookeeper.children(nodes)]
    locks = zookeeper.children([f"{node}/{LOCKS}" for node in nodes])
    return {node for node, names, below in zip(nodes, direct, locks, strict=True) if below or names - {LOCKS}}
