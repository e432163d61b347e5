"""Asks one Flink REST API: a connection that is kept, bounded answers, errors that say what was asked and what came."""

from __future__ import annotations

import contextlib
import json
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from indoubt.collector.config.flink_access import FlinkAccess
from indoubt.lifecycle.errors import ResourceManagerError, Unreachable
from indoubt.lifecycle.json_record import read_object

ANSWER_LIMIT_S = 5.0
MAX_ANSWER_BYTES = 16 << 20
HEADERS = {"Accept": "application/json", "User-Agent": "indoubt"}
LIMITS = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), ANSWER_LIMIT_S)}


class NotThere(ResourceManagerError):
    """Flink does not know what was asked for: a job that has ended meanwhile, or one without checkpoints."""


class FlinkHttp:
    """The REST API of ``cluster`` while the context is open, with its authority and login.

    Raises SettingsError where their files are gone meanwhile.
    """

    def __init__(
        self, cluster: str, url: str, access: FlinkAccess | None, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._cluster, self._url, self._access = cluster, url, access
        self._headers = {**HEADERS, **(access.headers if access is not None else {})}
        self._transport = transport or httpx.HTTPTransport(
            verify=access.tls() if access is not None else True, proxy=_proxy(url)
        )

    def __enter__(self) -> FlinkHttp:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transport.close()

    def get(self, path: str) -> Any:
        """Return what Flink answers at a path. Raises NotThere, Unreachable, ResourceManagerError, MalformedRecord."""
        try:
            # The transport is asked, not a client: cookies, redirects and logs take as long again, and none is wanted.
            request = httpx.Request("GET", self._url + path, headers=self._headers, extensions=LIMITS)
            answer = self._transport.handle_request(request)
            with contextlib.closing(answer):
                body = b""
                for part in answer.iter_bytes():
                    body += part
                    if len(body) > MAX_ANSWER_BYTES:
                        raise ResourceManagerError(
                            f"Flink at {self._url}{path} answered more than {MAX_ANSWER_BYTES} bytes"
                        )
        except httpx.HTTPError as error:
            what = str(error) or type(error).__name__
            raise Unreachable(f"Flink at {self._url} did not answer within {ANSWER_LIMIT_S:g} s: {what}") from None
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise NotThere(f"Flink at {self._url} does not know {path}")
        if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            # Never the body: it may repeat what was sent.
            where = f"--flink-properties {self._cluster}=FILE" if self._access is None else self._access.file
            raise ResourceManagerError(
                f"Flink at {self._url}{path} answered {answer.status_code}: check the login in {where}"
            )
        if answer.status_code != httpx.codes.OK:
            raise ResourceManagerError(
                f"Flink at {self._url}{path} answered {answer.status_code}: {_first_error(body)}"
            )
        what = f"Flink's answer at {self._url}{path}"
        return read_object(b'{"answer":' + body + b"}", what)["answer"]


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for an address (HTTP_PROXY, HTTPS_PROXY, NO_PROXY), or None."""
    address = urlsplit(url)
    if proxy_bypass(address.netloc):
        return None
    known = getproxies()
    return known.get(address.scheme) or known.get("all")


def _first_error(body: bytes) -> str:
    """Return the first line of Flink's error; answers of other servers are shown as they are, in part."""
    text = body.decode(errors="replace")
    try:
        errors = json.loads(text)["errors"]
        return str(errors[0]).splitlines()[0][:200]
    except (ValueError, KeyError, TypeError, IndexError):
        return text[:200]
