"""Who may ask the app's server: real requests with the headers that a browser would send, also from a page elsewhere."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.broker import free_port
from demo.children import die_with_parent
from pipeline.config.settings import ROOT
from tests.integration.pipeline_process import wait_until

pytestmark = pytest.mark.integration
PUBLIC = "ops.example"
LIMIT_S = 60.0
STREAM = "/_stcore/stream"
HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw==",
}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Return the port of a running app that has one public name; its collector is nowhere."""
    port, log = free_port(), Path(tmp_path_factory.mktemp("app")) / "app.log"
    command = [sys.executable, "-m", "app", "--port", str(port), "--allowed-host", PUBLIC]
    environment = {**os.environ, "INDOUBT_TOKEN": "x" * 32, "INDOUBT_COLLECTOR_URL": "http://127.0.0.1:1"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=out, stderr=out, preexec_fn=die_with_parent
        )
    try:

        def ready() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                return asked(port, "/_stcore/health", f"127.0.0.1:{port}") == 200
            except OSError:
                return False

        wait_until("the app's server", ready, LIMIT_S)
        yield port
    finally:
        process.kill()
        process.wait(LIMIT_S)


def asked(port: int, path: str, host: str, **headers: str) -> int:
    """Return the status that a request with these headers is answered with."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.putrequest("GET", path, skip_host=True)
        for name, value in {"Host": host, **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


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


def test_a_health_check_needs_no_name(port):
    assert asked(port, "/_stcore/health", "10.0.0.7") == 200
    assert asked(port, "/_stcore/health/../stream", "10.0.0.7") != 200
