"""A real OpenID provider on this machine, its users, and what the app sent it."""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import httpx
import oidc_provider_mock
from werkzeug.serving import make_server

LIMIT_S = 30.0
CARLA, DORA, EMIL, MALLORY, NORA = (f"{name}@example.org" for name in ("carla", "dora", "emil", "mallory", "nora"))
"""On call, a viewer, in no group, one whose address nobody has verified, and one of whose address nothing is said."""
USERS = {
    CARLA: {"email": CARLA, "email_verified": True, "groups": ["staff", "oncall"]},
    DORA: {"email": DORA, "email_verified": True, "groups": ["staff"]},
    EMIL: {"email": EMIL, "email_verified": True, "groups": ["guests"]},
    MALLORY: {"email": CARLA, "email_verified": False, "groups": ["oncall"]},
    NORA: {"email": CARLA, "groups": ["oncall"]},
}


@dataclass
class Provider:
    """``issuer``: its address. ``asked``: the parameters of each request, by the end of its path."""

    issuer: str = ""
    asked: dict[str, list[dict[str, list[str]]]] = field(default_factory=dict)

    def options(self) -> list[str]:
        """Return the app's options for a sign-in here."""
        client = ["--oidc-issuer", self.issuer, "--oidc-client-id", "indoubt"]
        return [*client, "--operator-group", "oncall", "--viewer-group", "staff"]

    def variables(self) -> dict[str, str]:
        """Return the app's variables for a sign-in here."""
        return {"INDOUBT_OIDC_CLIENT_SECRET": "a secret of the client"}

    def has_verified_the_code_challenge(self) -> bool:
        """Say whether the newest code was exchanged with the verifier whose hash the app had sent before."""
        challenge = self.asked["authorize"][-1]
        verifier = self.asked["token"][-1]["code_verifier"][0]
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        return challenge["code_challenge_method"] == ["S256"] and challenge["code_challenge"] == [digest]


@contextmanager
def running_provider() -> Iterator[Provider]:
    """Run a provider for the users above."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    users = [oidc_provider_mock.User(sub=name, claims=claims) for name, claims in USERS.items()]
    known = Provider()
    application = oidc_provider_mock.app(require_nonce=True, user_claims=users)
    application.wsgi_app = _recorded(application.wsgi_app, known)
    server = make_server("localhost", 0, application, threaded=True)
    known.issuer = f"http://localhost:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield known
    finally:
        server.shutdown()
        thread.join(LIMIT_S)
        server.server_close()


def agreed(browser: httpx.Client, at_provider: httpx.Response, person: str) -> str:
    """Return the address to which the provider sends a person who signed in there and was sent by this redirect."""
    address = at_provider.headers["location"]
    assert browser.get(address).status_code == 200
    answer = browser.post(address, data={"sub": person})
    assert answer.status_code == 302, answer.text
    return answer.headers["location"]


def _recorded(serve: Callable[..., Iterable[bytes]], known: Provider) -> Callable[..., Iterable[bytes]]:
    def recorded(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        sent: Mapping[str, list[str]] = parse_qs(environ.get("QUERY_STRING", "")) | parse_qs(body.decode())
        known.asked.setdefault(environ["PATH_INFO"].rpartition("/")[2], []).append(dict(sent))
        return serve(environ, start)

    return recorded
