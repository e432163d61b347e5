"""Reads which completed checkpoint of each job Flink's high-availability store in ZooKeeper points to. It never writes.

A job has ``jobs/<job id>/checkpoints`` below the cluster's path (ZooKeeperUtils, since Flink 1.14), with a node for each completed
checkpoint that is retained, named by its number. Who recovers the job goes on from the greatest. Its JobManager adds one in a
single transaction, before any task is told of the completion, and holds each by a node of its session's life: below ``locks``, in
older releases right below it (ZooKeeperStateHandleStore). What the nodes hold, serialized Java, is not read.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, KazooException, NoAuthError, NoNodeError

from indoubt.collector.config.flink_store import StoreAddress
from indoubt.collector.observe.flink_store import Look
from indoubt.collector.records.flink_stores import FlinkStore, StoredCheckpoint
from indoubt.collector.runtime.clock import now_ms
from indoubt.lifecycle.errors import ResourceManagerError, Unreachable

ANSWER_LIMIT_S = 5.0
SESSION_S = 10.0
_AT_ONCE = 200
"""So many questions are sent before the first answer is awaited."""
_quiet = logging.getLogger(f"{__name__}.client")
_quiet.setLevel(logging.CRITICAL)
"""The client's own lines about each lost connection: the observer says it once."""
LOCKS = "locks"
_JOB = re.compile(r"[0-9a-f]{32}")
_NUMBER = re.compile(r"[0-9]{19}")


class ZooKeeper:
    """A session with an ensemble while the context is open. Raises Unreachable, ResourceManagerError."""

    def __init__(self, address: StoreAddress) -> None:
        self._hosts, access = address.hosts, address.access
        self._client = KazooClient(
            hosts=self._hosts,
            timeout=SESSION_S,
            # A server that is cut off from the others must not answer: it may be behind.
            read_only=False,
            logger=_quiet,
            auth_data=[("digest", access.login)] if access is not None and access.login else None,
            **(access.tls() if access is not None else {}),
        )

    def __enter__(self) -> ZooKeeper:
        try:
            self._client.start(timeout=ANSWER_LIMIT_S)
        except Exception as error:
            self._close()
            raise self._failure(error) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def catch_up(self, path: str) -> None:
        """Have the server that answers know what its leader knows by now."""
        self._answer(self._client.sync_async(path))

    def children(self, paths: Sequence[str]) -> list[list[str] | None]:
        """Return the names below each path; None: it is not there."""
        return self._all(self._client.get_children_async, paths)

    def made_ms(self, paths: Sequence[str]) -> list[int | None]:
        """Return when each node was made (epoch ms, by the leader's clock); None: it is not there."""
        return [stat.ctime if stat is not None else None for stat in self._all(self._client.exists_async, paths)]

    def _all(self, ask: Callable[[str], Any], paths: Sequence[str]) -> list[Any]:
        found: list[Any] = []
        for begin in range(0, len(paths), _AT_ONCE):
            asked = [ask(path) for path in paths[begin : begin + _AT_ONCE]]
            found += [self._answer(each) for each in asked]
        return found

    def _answer(self, asked: Any) -> Any:
        try:
            return asked.get(timeout=ANSWER_LIMIT_S)
        except NoNodeError:
            return None
        except Exception as error:
            raise self._failure(error) from None

    def _failure(self, error: Exception) -> ResourceManagerError:
        if isinstance(error, NoAuthError | AuthFailedError):
            return ResourceManagerError(
                f"ZooKeeper at {self._hosts} refuses to answer: the nodes have an access list; give a login that may read "
                "them by --flink-store-properties"
            )
        what = str(error) or type(error).__name__
        if isinstance(error, KazooException | self._client.handler.timeout_exception):
            return Unreachable(f"ZooKeeper at {self._hosts} did not answer within {ANSWER_LIMIT_S:g} s: {what}")
        return ResourceManagerError(f"ZooKeeper at {self._hosts} cannot be asked: {what}")

    def _close(self) -> None:
        self._client.stop()
        self._client.close()


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
