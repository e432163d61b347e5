"""A real process of the app's server, and requests to it with the headers that a browser or a proxy would send."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demo.ports import free_port
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.pipeline.config.settings import ROOT
from tests.integration.pipeline_process import wait_until

LIMIT_S = 60.0
STREAM = "/_stcore/stream"
HEALTH = "/_stcore/health"
HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw==",
}


@contextmanager
def running_app(directory: Path, *arguments: str, port: int = 0, **environment: str) -> Iterator[int]:
    """Run the app and return its port, a free one by default; without an address among the variables its collector is nowhere."""
    port, log = port or free_port(), directory / "app.log"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("INDOUBT_")}
    variables = {"INDOUBT_TOKEN": "x" * 32, "INDOUBT_COLLECTOR_URL": "http://127.0.0.1:1", **environment}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "indoubt.app", "--port", str(port), *arguments],
            cwd=ROOT,
            env=inherited | variables,
            stdout=out,
            stderr=out,
            preexec_fn=die_with_parent,
        )
    try:

        def ready() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                return asked(port, HEALTH, f"127.0.0.1:{port}") == 200
            except OSError:
                return False

        wait_until("the app's server", ready, LIMIT_S)
        yield port
    finally:
        process.kill()
        process.wait(LIMIT_S)


def asked(
    port: int,
    path: str,
    host: str,
    source: str = "127.0.0.1",
    called: str = "127.0.0.1",
    **headers: str | list[str],
) -> int:
    """Return the status that a request from ``source`` to the address ``called`` with these headers is answered with."""
    connection = http.client.HTTPConnection(called, port, timeout=LIMIT_S, source_address=(source, 0))
    try:
        connection.putrequest("GET", path, skip_host=True)
        for name, value in {"Host": host, **headers}.items():
            for each in value if isinstance(value, list) else [value]:
                connection.putheader(name.replace("_", "-"), each)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()
