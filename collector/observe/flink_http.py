"""Asks one Flink REST API: a connection that is kept, bounded answers, errors that say what was asked and what came."""

from __future__ import annotations

import json
import ssl
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import httpx

from indoubt.collector.config.flink_access import FlinkAccess
from indoubt.collector.observe import bounded_http
from indoubt.collector.observe.bounded_http import proxy_of
from indoubt.lifecycle.errors import ResourceManagerError
from indoubt.lifecycle.json_record import read_object


class NotThere(ResourceManagerError):
    """Flink does not know what was asked for: a job that has ended meanwhile, or one without checkpoints."""


class FlinkHttp(AbstractContextManager["FlinkHttp"]):
    """The REST API of ``cluster`` while the context is open, with its authority and login.

    Raises SettingsError where their files are gone meanwhile.
    """

    def __init__(
        self, cluster: str, url: str, access: FlinkAccess | None, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._cluster, self._url, self._access = cluster, url, access
        self._headers = access.headers if access is not None else {}
        self._transport = transport or httpx.HTTPTransport(
            verify=access.tls() if access is not None else _known_authorities(), proxy=proxy_of(url)
        )

    def __exit__(self, *_: object) -> None:
        self._transport.close()

    def get(self, path: str) -> Any:
        """Return what Flink answers at a path. Raises NotThere, Unreachable, ResourceManagerError, MalformedRecord."""
        status, body = bounded_http.get(self._transport, f"Flink at {self._url}", self._url + path, self._headers)
        if status == httpx.codes.NOT_FOUND:
            raise NotThere(f"Flink at {self._url} does not know {path}")
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            # Never the body: it may repeat what was sent.
            where = f"--flink-properties {self._cluster}=FILE" if self._access is None else self._access.file
            raise ResourceManagerError(f"Flink at {self._url}{path} answered {status}: check the login in {where}")
        if status != httpx.codes.OK:
            raise ResourceManagerError(f"Flink at {self._url}{path} answered {status}: {_first_error(body)}")
        what = f"Flink's answer at {self._url}{path}"
        return read_object(b'{"answer":' + body + b"}", what)["answer"]


@cache
def _known_authorities() -> ssl.SSLContext:
    """Return what verifies a server where nothing is said of it; one for all clusters, as it takes 1 MB."""
    return httpx.create_ssl_context()


def _first_error(body: bytes) -> str:
    """Return the first line of Flink's error; answers of other servers are shown as they are, in part."""
    text = body.decode(errors="replace")
    try:
        errors = json.loads(text)["errors"]
        return str(errors[0]).splitlines()[0][:200]
    except (ValueError, KeyError, TypeError, IndexError):
        return text[:200]
