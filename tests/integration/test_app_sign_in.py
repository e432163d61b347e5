"""Sign-in by a real OpenID provider: a real app process, and requests as a browser and as an attacker would send them."""

from __future__ import annotations

import string
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from indoubt.app.sign_in import settings
from indoubt.app.sign_in.by_oidc import ByOidc
from indoubt.app.sign_in.guard import SignedInOnly
from indoubt.app.sign_in.sessions import Sealed, Sessions
from indoubt.lifecycle.orders import Role
from indoubt.lifecycle.persons import Person
from tests.integration.app_process import HEALTH, LIMIT_S, STREAM, running_app
from tests.integration.openid_provider import CARLA, DORA, EMIL, MALLORY, NORA, Provider, agreed, running_provider

pytestmark = pytest.mark.integration
WEBSOCKETS = (STREAM, "/live/frame")
PAGE = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as running:
        yield running


@pytest.fixture(scope="module")
def app(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of an app that wants a sign-in; its collector is nowhere."""
    with running_app(Path(tmp_path_factory.mktemp("app")), *provider.options(), **provider.variables()) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def browser(app: str) -> Iterator[httpx.Client]:
    """Return something with cookies of its own, which follows no redirect by itself."""
    with httpx.Client(base_url=app, headers=PAGE, timeout=LIMIT_S, trust_env=False) as client:
        yield client


def sent_to_provider(client: httpx.Client, path: str = "/transactions") -> httpx.Response:
    """Ask for a page; return the redirect to the provider."""
    first = client.get(path)
    assert first.status_code == 303, first.text
    second = client.get(first.headers["location"])
    assert second.status_code == 303, second.text
    return second


def signed_in(client: httpx.Client, person: str = CARLA, path: str = "/transactions") -> httpx.Response:
    """Sign a person in at the provider; return what the app answers to the way back."""
    return client.get(agreed(client, sent_to_provider(client, path), person))


def opened(client: httpx.Client, path: str = STREAM) -> ClientConnection:
    """Return a websocket as a page of the app opens it, with the browser's cookies."""
    address = str(client.base_url).rstrip("/")
    cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    headers = {"Cookie": cookies} if cookies else {}
    return connect(address.replace("http", "ws", 1) + path, origin=address, additional_headers=headers, proxy=None)


def refused(client: httpx.Client, path: str = STREAM) -> int:
    """Return the status with which a websocket is refused."""
    with pytest.raises(InvalidStatus) as answer, opened(client, path):
        pass
    return answer.value.response.status_code


def ends(websocket: ClientConnection) -> bool:
    """Say whether the app closes a websocket that is open, because the session is over."""
    try:
        while True:
            websocket.recv(timeout=LIMIT_S)
    except ConnectionClosed:
        return websocket.close_code == 1008


def test_a_person_signs_in_and_comes_back_to_the_page(app, provider):
    with browser(app) as carla:
        back = signed_in(carla, path="/transactions?show=batches")
        assert (back.status_code, back.headers["location"]) == (303, "/transactions?show=batches")
        cookie = back.headers["set-cookie"]
        assert all(part in cookie for part in ("HttpOnly", "SameSite=lax", "Path=/", "Max-Age=43200"))
        assert carla.get("/transactions").status_code == 200
        for path in WEBSOCKETS:
            with opened(carla, path):
                pass
    assert provider.has_verified_the_code_challenge()
    assert provider.asked["authorize"][-1]["nonce"]


def test_without_a_session_nothing_but_the_health_check_is_served(app):
    with browser(app) as nobody:
        assert nobody.get(HEALTH).status_code == 200
        for path in ("/", "/overview?group=1", "/static/x", "/live/frame"):
            assert nobody.get(path).status_code == 303
        for path in (
            "/",
            "/_stcore/host-config",
            "/_stcore/health/",
            "/_stcore/upload_file",
            "/metrics",
            "/live/frame",
        ):
            assert nobody.get(path, headers={"Accept": "*/*"}).status_code == 401, path
        for path in WEBSOCKETS:
            assert refused(nobody, path) == 403


def test_a_person_named_by_the_browser_is_nobody(app):
    headers = {**Person(name=CARLA, role=Role.OPERATOR).headers(), "X-Forwarded-User": CARLA, "Remote-User": CARLA}
    with browser(app) as nobody:
        assert nobody.get("/transactions", headers=headers).status_code == 303


def test_a_forged_cookie_counts_for_nothing(app):
    with browser(app) as carla:
        signed_in(carla)
        genuine = carla.cookies["indoubt"]
    person = Person(name=CARLA, role=Role.OPERATOR)
    others = Sessions(Sealed(b"another key"), 3600)
    forged = others.text(others.begin(person))
    # Some of these decode to the same bytes, because base64 ignores the last character's unused bits.
    respelled = [genuine[:-1] + last for last in string.ascii_letters + string.digits + "-_" if last != genuine[-1]]
    for text in (forged, *respelled, genuine.split(".")[0], "", "."):
        with browser(app) as nobody:
            nobody.cookies.set("indoubt", text)
            assert nobody.get("/transactions").status_code == 303
            assert refused(nobody) == 403


@pytest.mark.long
def test_a_session_ends_in_time_and_its_websockets_with_it(provider, tmp_path):
    options = [*provider.options(), "--session-hours", "0.0008"]
    with running_app(tmp_path, *options, **provider.variables()) as port, browser(f"http://127.0.0.1:{port}") as carla:
        signed_in(carla)
        cookie = carla.cookies["indoubt"]
        with opened(carla) as pages, opened(carla, "/live/frame") as region:
            assert ends(pages)
            assert ends(region)
        carla.cookies.clear()
        carla.cookies.set("indoubt", cookie)
        assert carla.get("/transactions").status_code == 303
        assert refused(carla) == 403


def test_who_signs_out_is_out_also_with_a_copy_of_the_cookie(app):
    with browser(app) as carla:
        signed_in(carla)
        cookie = carla.cookies["indoubt"]
        asked = carla.get("/sign-out")
        assert CARLA in asked.text
        assert carla.get("/transactions").status_code == 200, "to look at that page signs nobody out"
        with opened(carla) as pages:
            assert carla.post("/sign-out", headers={"Origin": app}).status_code == 200
            assert ends(pages)
        assert "indoubt" not in carla.cookies
        carla.cookies.set("indoubt", cookie)
        assert carla.get("/transactions").status_code == 303


@pytest.mark.parametrize("person", [EMIL, MALLORY, NORA])
def test_who_is_in_no_group_or_not_verified_stays_out(app, person):
    with browser(app) as visitor:
        back = signed_in(visitor, person)
        assert back.status_code == 403
        assert "indoubt" not in visitor.cookies
        assert visitor.get("/transactions").status_code == 303


def test_an_answer_of_the_provider_counts_where_it_was_asked_for(app):
    """Otherwise a foreign page could sign somebody in under the attacker's name."""
    with browser(app) as attacker, browser(app) as victim:
        address = agreed(attacker, sent_to_provider(attacker), DORA)
        assert victim.get(address).status_code == 403
        sent_to_provider(victim)
        assert victim.get(address).status_code == 403
        assert "indoubt" not in victim.cookies


def test_a_code_of_another_sign_in_is_refused_by_its_nonce(app):
    with browser(app) as attacker, browser(app) as victim:
        stolen = httpx.URL(agreed(victim, sent_to_provider(victim), CARLA)).params["code"]
        own = httpx.URL(agreed(attacker, sent_to_provider(attacker), DORA))
        answer = attacker.get(own.copy_set_param("code", stolen))
        assert (answer.status_code, "not valid for this sign-in" in answer.text) == (403, True)
        assert "indoubt" not in attacker.cookies


def test_a_code_counts_once(app):
    with browser(app) as carla:
        address = agreed(carla, sent_to_provider(carla), CARLA)
        assert carla.get(address).status_code == 303
        assert carla.get(address).status_code == 403


@pytest.mark.parametrize("to", ["//evil.example", "/\\evil.example", "https://evil.example", "/a\nb", "/sign-in"])
def test_a_sign_in_leads_back_to_the_app_alone(app, to):
    with browser(app) as carla:
        started = carla.get("/sign-in", params={"to": to})
        back = carla.get(agreed(carla, started, CARLA))
        assert (back.status_code, back.headers["location"]) == (303, "/")


@contextmanager
def guarded(provider: Provider, *options: str) -> Iterator[TestClient]:
    """Return a browser before the guard with this sign-in; behind it is a page that says which headers reach it."""
    parser = ArgumentParser()
    settings.add_options(parser)
    sign_in = settings.read(parser.parse_args([*provider.options(), *options]), provider.variables())
    assert sign_in is not None
    assert isinstance(sign_in.way, settings.OidcSignIn)
    page = Starlette(routes=[Route("/", lambda request: JSONResponse(dict(request.headers)))])
    address = sign_in.public_url or "http://127.0.0.1"
    with TestClient(SignedInOnly(page, ByOidc(sign_in, sign_in.way)), address, follow_redirects=False) as client:
        client.headers["accept"] = "text/html"
        yield client


def at_home(client: TestClient, person: str) -> httpx.Response:
    """Sign a person in through the guard; return the answer to the way back."""
    started = client.get(client.get("/").headers["location"])
    with httpx.Client(timeout=LIMIT_S, trust_env=False) as elsewhere:
        return client.get(agreed(elsewhere, started, person))


@pytest.mark.parametrize(("person", "role"), [(CARLA, "operator"), (DORA, "viewer")])
def test_the_groups_give_the_role_and_no_header_another(provider, person, role):
    with guarded(provider) as client:
        at_home(client, person)
        claimed = Person(name="mallory", role=Role.OPERATOR).headers()
        headers = client.get("/", headers=claimed).json()
        assert (headers["x-indoubt-person"], headers["x-indoubt-role"]) == (person, role)


def test_behind_tls_the_cookies_go_by_tls_alone(provider):
    with guarded(provider, "--public-url", "https://ops.example") as client:
        started = client.get("/sign-in")
        assert "Secure" in started.headers["set-cookie"]
        address = httpx.URL(started.headers["location"])
        assert address.params["redirect_uri"] == "https://ops.example/sign-in/callback"
        back = at_home(client, CARLA)
        assert back.headers["set-cookie"].startswith("__Host-indoubt=")
        assert "Secure" in back.headers["set-cookie"]


def test_a_provider_that_is_away_is_named():
    with guarded(Provider(issuer="http://localhost:1")) as client:
        answer = client.get("/sign-in")
        assert (answer.status_code, "http://localhost:1 does not answer" in answer.text) == (502, True)
