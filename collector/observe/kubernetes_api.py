"""Lists resources through the Kubernetes API as a pod does: with its service account's token and authority, page by page."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx

from indoubt.collector.config.flink_access import is_loopback
from indoubt.collector.config.named_locations import ALL_NAMESPACES
from indoubt.collector.observe import bounded_http
from indoubt.collector.observe.bounded_http import proxy_of
from indoubt.lifecycle.errors import MalformedRecord, ResourceManagerError, SettingsError

PER_PAGE = 100
OPERATOR, CORE = "/apis/flink.apache.org/v1beta1", "/api/v1"
"""Groups of resources: those of Flink's operator, and Kubernetes' own."""
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
_TRIES = 2
"""Of a list: one whose pages have expired (410) is begun again, once."""


class NoSuchResource(ResourceManagerError):
    """Kubernetes does not know this kind of resource: its definition is not installed."""


class _Expired(Exception):
    """The rest of a list cannot be had any more: what it was a list of is too old (410 Gone)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesAccess:
    """Where the API answers, and the directory with ``token`` and ``ca.crt``."""

    url: str
    credentials: Path

    @classmethod
    def of(cls, url: str, credentials: str, environment: Mapping[str, str] = os.environ) -> KubernetesAccess:
        """Return it; without a URL that of the cluster in whose pod this runs. Raises SettingsError."""
        if not url:
            host, port = environment.get(_HOST, ""), environment.get(_PORT, "443")
            if not host:
                raise SettingsError(
                    f"this is no pod of Kubernetes ({_HOST} is not set): give INDOUBT_KUBERNETES_URL, such as that of kubectl proxy"
                )
            url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        return cls(url=url.rstrip("/"), credentials=Path(credentials))


class KubernetesApi(AbstractContextManager["KubernetesApi"]):
    """The API while the context is open."""

    def __init__(self, access: KubernetesAccess) -> None:
        """Raises SettingsError where the authority cannot be read."""
        self._access = access
        authority, context = access.credentials / "ca.crt", ssl.create_default_context()
        if access.url.startswith("https://") and authority.exists():
            try:
                context = ssl.create_default_context(cafile=str(authority))
            except (OSError, ValueError) as error:
                raise SettingsError(f"{authority} cannot be used: {error}") from None
        self._transport = httpx.HTTPTransport(verify=context, proxy=proxy_of(access.url))

    def __exit__(self, *_: object) -> None:
        self._transport.close()

    def items(self, plural: str, namespace: str, *, group: str = OPERATOR, labels: str = "") -> list[Any]:
        """Return all resources of a kind, such as ``flinkdeployments``, of a namespace or of ALL_NAMESPACES, as of one moment.

        ``labels``: only those that a selector of labels matches.
        Raises NoSuchResource, Unreachable, ResourceManagerError, MalformedRecord, SettingsError.
        """
        for _ in range(_TRIES):
            try:
                return list(self._pages(plural, namespace, group, labels))
            except _Expired:
                continue
        raise ResourceManagerError(f"Kubernetes forgot the list of {plural} while it was read ({_TRIES} times)")

    def _pages(self, plural: str, namespace: str, group: str, labels: str) -> Iterator[Any]:
        within = "" if namespace == ALL_NAMESPACES else f"/namespaces/{quote(namespace, safe='')}"
        path, go_on = f"{group}{within}/{plural}", ""
        while True:
            asked = {"limit": PER_PAGE, "labelSelector": labels, "continue": go_on}
            query = urlencode({name: value for name, value in asked.items() if value})
            answer = self._get(f"{path}?{query}", plural, namespace)
            items, metadata = answer.get("items"), answer.get("metadata")
            if not isinstance(items, list) or not isinstance(metadata, dict):
                raise MalformedRecord(f"Kubernetes' list of {plural} has no items and metadata")
            yield from items
            go_on = str(metadata.get("continue") or "")
            if not go_on:
                return

    def _get(self, path: str, plural: str, namespace: str) -> dict[str, Any]:
        url = self._access.url
        status, body = bounded_http.get(self._transport, f"Kubernetes at {url}", url + path, self._login())
        where = "all namespaces" if namespace == ALL_NAMESPACES else f"namespace {namespace}"
        match status:
            case httpx.codes.OK:
                return _object(body, plural)
            case httpx.codes.NOT_FOUND:
                raise NoSuchResource(f"Kubernetes at {url} does not know {plural}: Flink's operator is not installed")
            case httpx.codes.GONE:
                raise _Expired
            case httpx.codes.UNAUTHORIZED:
                raise ResourceManagerError(
                    f"Kubernetes at {url} does not take the token in {self._access.credentials / 'token'} (401): has it expired?"
                )
            case httpx.codes.FORBIDDEN:
                raise ResourceManagerError(
                    f"Kubernetes at {url} does not let this service account list {plural} of {where} (403): it needs a Role with "
                    f"the verb list on {plural}"
                )
        # Never the body: it may repeat what was sent.
        raise ResourceManagerError(f"Kubernetes at {url} answered {status} when asked for {plural} of {where}")

    def _login(self) -> dict[str, str]:
        """Return the header with the token, read at each request: Kubernetes writes a new one before it expires."""
        file = self._access.credentials / "token"
        try:
            token = file.read_text().strip()
        except FileNotFoundError:
            if self._access.url.startswith("http://"):
                # Such as that of kubectl proxy, which logs in itself.
                return {}
            raise SettingsError(f"{file} is missing: it holds the service account's token") from None
        except (OSError, ValueError) as error:
            raise SettingsError(f"{file} cannot be read: {error}") from None
        if not token.isascii() or not token.isprintable():
            raise SettingsError(f"{file} holds no token")
        if self._access.url.startswith("http://") and not is_loopback(urlsplit(self._access.url).hostname or ""):
            raise SettingsError(
                f"INDOUBT_KUBERNETES_URL {self._access.url} would get the token in clear: give https://"
            )
        return {"Authorization": f"Bearer {token}"}


def _object(body: bytes, plural: str) -> dict[str, Any]:
    # Read whole by the library alone: a list has megabytes, of which a few fields are looked at.
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedRecord(f"Kubernetes' list of {plural} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise MalformedRecord(f"Kubernetes' list of {plural} is not a JSON object")
    return found
