"""A catalog of Iceberg tables that answers by Iceberg's REST protocol, in front of the database that keeps it."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demo.ports import free_port
from demo.prerequisites import ROOT
from indoubt.lifecycle.child_processes import die_with_parent
from tests.integration.flink_iceberg_job import CATALOG, sqlite
from tests.integration.flink_orders_job import LIMIT_S, JobSources
from tests.integration.kafka_fixtures import wait_until

SOURCES = JobSources(
    Path(__file__).with_name("iceberg_rest"),
    "org.apache.iceberg.rest.RestCatalog",
    ROOT / ".run" / "test-iceberg-rest",
    shared=(),
)


@contextmanager
def serving(database: Path, warehouse: Path, log: Path) -> Iterator[str]:
    """Yield the address at which the catalog in a database file is served."""
    SOURCES.compile_or_skip()
    port = free_port()
    given = [CATALOG, sqlite(database), f"file://{warehouse}", str(port)]
    with log.open("ab") as out:
        server = subprocess.Popen([*SOURCES.command, *given], stdout=out, stderr=out, preexec_fn=die_with_parent)
    try:

        def answers() -> bool:
            assert server.poll() is None, log.read_text()[-3000:]
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        wait_until("the REST catalog", answers, LIMIT_S)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait(LIMIT_S)
