"""Who may ask the app's server: real requests with the headers that a browser would send, also from a page elsewhere."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.app_process import HANDSHAKE, STREAM, asked, running_app

pytestmark = pytest.mark.integration
PUBLIC = "ops.example"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Return the port of a running app that has one public name; its collector is nowhere."""
    with running_app(Path(tmp_path_factory.mktemp("app")), "--allowed-host", PUBLIC) as running:
        yield running


def opened(port: int, host: str, origin: str) -> bool:
    """Say whether Streamlit's websocket opens to a page of this origin."""
    status = asked(port, STREAM, host, Origin=origin, **HANDSHAKE)
    assert status in (101, 403), status
    return status == 101


def test_pages_are_served_for_loopback_names_and_allowed_ones(port):
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", f"LOCALHOST:{port}", PUBLIC):
        assert asked(port, "/", host) == 200, host
        assert opened(port, host, f"http://{host}"), host
    assert opened(port, PUBLIC, f"https://{PUBLIC}"), "a proxy does TLS"


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "localhost@evil.example", "127.0.0.1.evil", ""]
)
def test_a_name_that_was_made_to_point_here_gets_nothing(port, host):
    """DNS rebinding: the page's own name is Host and Origin, so for the browser it asks its own server."""
    for given in (host, f"{host}:{port}"):
        assert asked(port, "/", given) == 400
        assert asked(port, "/", given, Origin=f"http://{given}") == 400
        assert not opened(port, given, f"http://{given}")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://localhost:1", f"https://{PUBLIC}", "null", "http://[", ""]
)
def test_a_page_from_elsewhere_gets_nothing_by_the_right_name(port, origin):
    """Streamlit alone would let in a page of any other port of localhost."""
    host = f"localhost:{port}"
    assert asked(port, "/", host, Origin=origin) == 403
    assert not opened(port, host, origin)


def test_on_every_address_the_one_that_was_called_is_served_and_no_other(tmp_path):
    with running_app(tmp_path, "--host", "0.0.0.0", "--look-only") as running:
        for called, name, status in (
            ("127.0.0.1", "127.0.0.1", 200),
            ("127.0.0.2", "127.0.0.2", 200),
            ("127.0.0.1", "127.0.0.2", 400),
            ("127.0.0.2", "evil.example", 400),
        ):
            assert asked(running, "/", f"{name}:{running}", called=called) == status, (called, name)
        assert not opened(running, "evil.example", "http://evil.example")


@pytest.mark.long
def test_the_public_address_is_served_also_by_a_proxy_that_drops_its_port(tmp_path):
    """No sign-in is needed for that; another port of the same host, or a foreign page, is refused, which the log says."""
    with running_app(tmp_path, "--public-url", "https://Indoubt.example:8443") as running:
        for host in ("indoubt.example:8443", "indoubt.example", "INDOUBT.example", "indoubt.example."):
            assert asked(running, "/", host) == 200, host
            assert opened(running, host, "https://indoubt.example:8443"), host
        assert "refused" not in (tmp_path / "app.log").read_text()
        for origin in ("https://indoubt.example:9443", "https://elsewhere.example"):
            assert not opened(running, "indoubt.example", origin)
            log = (tmp_path / "app.log").read_text()
            assert f"a websocket was refused: Host 'indoubt.example', Origin '{origin}': indoubt refuses" in log
        assert asked(running, "/", "other.example") == 400


def test_a_health_check_needs_no_name(port):
    assert asked(port, "/_stcore/health", "10.0.0.7") == 200
    assert asked(port, "/_stcore/health/../stream", "10.0.0.7") != 200


@pytest.mark.long
def test_nothing_is_asked_of_the_outside(tmp_path):
    """Streamlit would look its outside address up, for its welcome message and for a websocket of a foreign origin."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.setblocking(False)
        address = "http://{}:{}".format(*proxy.getsockname())
        proxies = {"HTTP_PROXY": address, "HTTPS_PROXY": address, "http_proxy": address, "https_proxy": address}
        with running_app(tmp_path, "--host", "0.0.0.0", "--sign-in-by-proxy", **proxies) as running:
            assert not opened(running, f"127.0.0.1:{running}", "http://elsewhere.example")
            assert opened(running, f"127.0.0.1:{running}", f"http://127.0.0.1:{running}")
            with pytest.raises(BlockingIOError):
                proxy.accept()


def test_the_server_runs_on_the_faster_event_loop(port):
    """Streamlit takes whichever uvicorn finds installed: a page takes a fifth longer without."""
    listening = [one.pid for one in psutil.net_connections("tcp4") if one.status == "LISTEN" and one.laddr.port == port]
    assert len(listening) == 1
    assert any("uvloop" in one.path for one in psutil.Process(listening[0]).memory_maps())
