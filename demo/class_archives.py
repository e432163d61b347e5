"""Class data archives: the JVMs of Spark and the broker start with classes that are already loaded and verified.

``python -m demo.class_archives`` runs a broker and the pipeline ``ip_count`` for a few batches, and each JVM writes its
loaded classes to ``.run/classes`` when it ends (JEP 350). A start then takes half the processor time. An archive fits one
Java and one set of jars; with another set, or without an archive, a JVM starts more slowly. Nothing waits for archives: the
first demo makes them in the background once it is up, and the tests' set-up makes them before the tests.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from demo import topics
from demo.broker import Broker
from demo.prerequisites import ARCHIVE_LOG_OFF, BROKER_CLASSES, JARS, java_home, say
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.pipeline.config.settings import SPARK_CLASSES, PipelineSettings
from indoubt.pipeline.run import spark_home
from indoubt.pipeline.source.committed_topic import CommittedTopic

BATCHES = 3
"""This many batches load every class that a pipeline needs from start to commit."""
LIMIT_S = 180.0
RECORDS_PER_S = 500


class NotMade(Exception):
    """An archive was not made; the message says why. Everything works without it."""


def main() -> int:
    """Make both archives unless they are up to date; return 0 in any case, because nothing depends on them."""
    stamp = BROKER_CLASSES.parent / ".fits"
    digest = _digest()
    if stamp.exists() and stamp.read_text() == digest:
        return 0
    say("archiving the classes of Spark and the broker for faster starts (a minute, only once) …")
    BROKER_CLASSES.parent.mkdir(parents=True, exist_ok=True)
    # On SIGTERM, ends its child processes and removes its files.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        make(BROKER_CLASSES, SPARK_CLASSES)
    except Exception as error:
        say(f"the classes were not archived, so Spark and the broker start more slowly: {error}")
        return 0
    except KeyboardInterrupt:
        return 0
    stamp.write_text(digest)
    say("archived the classes")
    return 0


def _digest() -> str:
    """Return a digest of all that an archive depends on: this Java, Spark's and the broker's jars, what loads the classes."""
    release = Path(java_home()) / "release"
    parts = [java_home(), release.read_text() if release.exists() else "", sys.executable, str(spark_home.HOME)]
    parts += [(JARS / ".locked").read_text(), version("pyspark"), CommittedTopic.name()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def make(broker_classes: Path, spark_classes: Path) -> None:
    """Run broker and pipeline, and keep the archive that each JVM wrote at its end. Raises NotMade."""
    with tempfile.TemporaryDirectory(prefix="indoubt-classes-", dir=broker_classes.parent) as directory:
        work = Path(directory)
        broker = Broker(work / "broker", classes=_written_at_exit(work / "broker.jsa"))
        with broker:
            topics.create_topics(broker.bootstrap_servers)
            with _records(broker.bootstrap_servers):
                _run_pipeline(broker.bootstrap_servers, work)
        for made, kept in ((work / "broker.jsa", broker_classes), (work / "spark.jsa", spark_classes)):
            if not made.exists():
                raise NotMade(f"the {made.stem} JVM ended without an archive")
            made.rename(kept)


@contextlib.contextmanager
def _records(bootstrap_servers: str) -> Iterator[None]:
    command = [sys.executable, "-m", "demo.generator", "--bootstrap-servers", bootstrap_servers]
    command += ["--topic", topics.SOURCE, "--rate", str(RECORDS_PER_S)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent
    ) as generator:
        try:
            yield
        finally:
            generator.terminate()


def _run_pipeline(bootstrap_servers: str, work: Path) -> None:
    settings = PipelineSettings(
        job="ip_count",
        bootstrap_servers=bootstrap_servers,
        checkpoint=str(work / "checkpoint"),
        prefix="class-archive",
        source=topics.SOURCE,
        sink=topics.SINK,
        trigger_interval_ms=500,
        spark_properties=f"spark.driver.defaultJavaOptions={' '.join(_written_at_exit(work / 'spark.jsa'))}",
    )
    driver = subprocess.Popen(
        [sys.executable, "-m", "indoubt.pipeline", "driver"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "JAVA_HOME": java_home()},
        preexec_fn=die_with_parent,
    )
    assert driver.stdin is not None
    assert driver.stdout is not None
    with driver.stdin as settings_in:
        settings_in.write(settings.to_json())
    output: deque[str] = deque(maxlen=20)
    reading = threading.Thread(target=output.extend, args=[driver.stdout], daemon=True)
    reading.start()
    has_batches = _wait_for_batches(work / "checkpoint" / "commits", driver)
    driver.send_signal(signal.SIGTERM)
    # The JVM writes its archive after its parent, the driver, has ended; the output ends when both have ended.
    reading.join(LIMIT_S)
    if not has_batches or reading.is_alive() or driver.wait(LIMIT_S) != 0:
        raise NotMade(f"the pipeline did not make {BATCHES} batches and stop in order: {''.join(output)}")


def _wait_for_batches(commits: Path, driver: subprocess.Popen[str]) -> bool:
    deadline = time.monotonic() + LIMIT_S
    while driver.poll() is None and time.monotonic() < deadline:
        if len(list(commits.glob("[0-9]*"))) >= BATCHES:
            return True
        time.sleep(0.1)
    return False


def _written_at_exit(archive: Path) -> list[str]:
    return [f"-XX:ArchiveClassesAtExit={archive}", ARCHIVE_LOG_OFF]


if __name__ == "__main__":
    sys.exit(main())
