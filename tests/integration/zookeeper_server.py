"""A real ZooKeeper from its Maven jars, on loopback, in a directory of its own; it can stand still for a while."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from kazoo.client import KazooClient

from demo.jars import fetch_jars
from demo.ports import free_port, listens
from demo.prerequisites import ROOT, java_home
from indoubt.lifecycle.child_processes import die_with_parent
from tests.integration.kafka_fixtures import wait_until

VERSION = "3.9.5"
JARS = ROOT / ".run" / "zookeeper"
START_LIMIT_S = 60.0
TICK_MS = 500
"""A session lasts twice as long at least, and twenty times at most."""
# Metrics and compression it needs, and does not name.
MODULE = f"""\
<ivy-module version="2.0">
  <info organisation="indoubt" module="zookeeper"/>
  <configurations><conf name="{VERSION}"/></configurations>
  <dependencies>
    <dependency org="org.apache.zookeeper" name="zookeeper" rev="{VERSION}" conf="{VERSION}->runtime(*),master(*)"/>
    <dependency org="io.dropwizard.metrics" name="metrics-core" rev="4.1.12.1" conf="{VERSION}->runtime(*),master(*)"/>
    <dependency org="org.xerial.snappy" name="snappy-java" rev="1.1.10.7" conf="{VERSION}->runtime(*),master(*)"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="2.0.13" conf="{VERSION}->runtime(*),master(*)"/>
  </dependencies>
</ivy-module>
"""


class ZooKeeperServer:
    """One server, while the context is open."""

    def __init__(self, directory: Path) -> None:
        self._directory, self.port = directory, free_port()

    @property
    def address(self) -> str:
        """Return ``127.0.0.1:<port>``."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> ZooKeeperServer:
        jars = _jars()
        configuration = self._directory / "zoo.cfg"
        lines = [f"dataDir={self._directory / 'data'}", f"clientPort={self.port}", "clientPortAddress=127.0.0.1"]
        configuration.write_text("\n".join([*lines, f"tickTime={TICK_MS}", "admin.enableServer=false"]))
        java = [f"{java_home()}/bin/java", "-Xmx128m", "-cp", f"{jars}/*"]
        with (self._directory / "zookeeper.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*java, "org.apache.zookeeper.server.ZooKeeperServerMain", str(configuration)],
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
        wait_until("ZooKeeper listens", lambda: listens(self.port), START_LIMIT_S)
        self.client().stop()
        return self

    def client(self) -> KazooClient:
        """Return a session with it."""
        found = KazooClient(self.address)
        found.start(START_LIMIT_S)
        return found

    def stand_still(self) -> None:
        """Answer nobody from now on."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Answer again."""
        self._process.send_signal(signal.SIGCONT)

    def __exit__(self, *raised: object) -> None:
        self._process.kill()
        self._process.wait()


def _jars() -> Path:
    """Return the directory of the jars, fetched if they are not there."""
    directory = JARS / VERSION
    if not (directory / f"zookeeper-{VERSION}.jar").exists():
        JARS.mkdir(parents=True, exist_ok=True)
        module = JARS / f"ivy-{VERSION}.xml"
        module.write_text(MODULE)
        fetch_jars(f"{java_home()}/bin/java", module, JARS, [VERSION])
    return directory
