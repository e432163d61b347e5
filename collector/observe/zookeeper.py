"""Asks a ZooKeeper ensemble: names of nodes and when they were made, as its leader has them now. It never writes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, KazooException, NoAuthError, NoNodeError

from indoubt.collector.config.flink_store import StoreAddress
from indoubt.lifecycle.errors import ResourceManagerError, Unreachable

ANSWER_LIMIT_S = 5.0
SESSION_S = 10.0
_AT_ONCE = 200
"""So many questions are sent before the first answer is awaited."""
_quiet = logging.getLogger(f"{__name__}.client")
_quiet.setLevel(logging.CRITICAL)
"""The client's own lines about each lost connection: the observer says it once."""


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
