"""The running collector's HTTP API as the command line asks it: address and token from the same variables as the page's."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from indoubt.lifecycle.errors import IndoubtError, SettingsError
from indoubt.lifecycle.page_paths import CLUSTER_HEADER
from indoubt.lifecycle.text_files import text_of

URL, TOKEN, TOKEN_FILE, CA = (
    "INDOUBT_COLLECTOR_URL",
    "INDOUBT_TOKEN",
    "INDOUBT_TOKEN_FILE",
    "INDOUBT_COLLECTOR_CA",
)
DEFAULT_URL = "http://127.0.0.1:8650"
READ_LIMIT_S = 15.0
ORDER_LIMIT_S = 120.0
TRIES = 3


class Unanswered(IndoubtError):
    """No collector answered; the message names the address."""


class Refused(IndoubtError):
    """The collector said no; the message is its own."""


class Client:
    """Asks one collector. Raises Unanswered, and Refused for every answer but 200."""

    def __init__(self, url: str, http: httpx.Client, cluster: str = "") -> None:
        self.url, self.cluster, self._http = url, cluster, http

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], cluster: str = "") -> Client:
        """Return the client; a collector of another ``cluster`` refuses what it asks. Raises SettingsError naming the variable."""
        url = (environment.get(URL) or DEFAULT_URL).rstrip("/")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise SettingsError(f"{URL} takes an address like {DEFAULT_URL}, without a name or password")
        headers = {"Authorization": f"Bearer {_token(environment)}"} | ({CLUSTER_HEADER: cluster} if cluster else {})
        verify = _verify(environment.get(CA, ""))
        # Proxies of the environment are left out: the token goes to the collector's address and nowhere else.
        return cls(url, httpx.Client(base_url=url, headers=headers, trust_env=False, verify=verify), cluster)

    def get(self, path: str, **parameters: str) -> Any:
        """Return the JSON answer."""
        return self._ask("GET", path, timeout=READ_LIMIT_S, params=parameters)

    def preview(self, action: str, wanted: Mapping[str, Any]) -> Any:
        """Return what an order by this filter would mean now."""
        body = {"action": action, "filter": dict(wanted)}
        return self._ask("POST", "/api/v1/orders/preview", timeout=READ_LIMIT_S, json=body)

    def answer(self, idempotency_key: str) -> Any:
        """Return what became of the order with this key: ``answer``, or why it was ``refused``; both null without one."""
        return self.get("/api/v1/orders", idempotency_key=idempotency_key)

    def order(self, body: Mapping[str, Any], path: str = "/api/v1/orders") -> Any:
        """Give an order that has an idempotency key; without an answer it is sent again, which does nothing twice."""
        for left in reversed(range(TRIES)):
            try:
                return self._ask("POST", path, timeout=ORDER_LIMIT_S, json=dict(body))
            except Unanswered:
                if not left:
                    raise
        return None

    def begin_run(self, body: Mapping[str, Any]) -> Any:
        """Begin an order by filter; under the same idempotency key again, return it as it is now."""
        return self.order(body, "/api/v1/orders/runs")

    def run(self, run: str, **parameters: str) -> Any:
        """Return how far an order by filter is."""
        return self.get(f"/api/v1/orders/runs/{run}", **parameters)

    def switch_standing_orders(self, *, stopped: bool, reason: str) -> Any:
        """Stop all standing orders, or let them go on; return the answer."""
        body = {"stopped": stopped, "reason": reason}
        return self._ask("POST", "/api/v1/standing-orders", timeout=READ_LIMIT_S, json=body)

    def _ask(self, method: str, path: str, **request: Any) -> Any:
        try:
            answer = self._http.request(method, path, follow_redirects=False, **request)
        except httpx.HTTPError as error:
            raise Unanswered(f"{self.url} does not answer ({error or type(error).__name__}); is {URL} right?") from None
        try:
            value = answer.json()
        except ValueError:
            value = None
        if answer.status_code == 200 and value is not None:
            return value
        detail = value.get("detail") if isinstance(value, dict) else None
        if answer.status_code == 504 and detail:
            raise Unanswered(detail)
        what = f"{self.url}{path} answered with HTTP {answer.status_code}: is it a collector?"
        raise Refused(detail or what)


def _token(environment: Mapping[str, str]) -> str:
    file = environment.get(TOKEN_FILE, "").strip()
    if not file:
        token = environment.get(TOKEN, "").strip()
        if not token:
            raise SettingsError(
                f"no token: run 'indoubt watch' as this user, or set {TOKEN}, or {TOKEN_FILE} to a file that holds it"
            )
        return token
    token = text_of(file, TOKEN_FILE).strip()
    if not token:
        raise SettingsError(f"{TOKEN_FILE} {file} is empty; it takes the token on one line")
    return token


def _verify(authority: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=authority or None)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(f"{CA} {authority} cannot be used ({error}); it takes a PEM file of certificates") from None
