"""Class data archives: the JVMs of Spark and of the broker start with their classes loaded and verified already.

``python -m demo.class_archives`` is the last step of the set-up: it runs a broker and the pipeline ``ip_count`` for a few
batches, and each JVM writes what it has loaded to ``.run/classes`` when it ends (JEP 350). A start then takes half the
processor time. Archives fit one Java and one set of jars: with another one, or without any, a JVM starts as ever.
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
from pathlib import Path

from demo import topics
from demo.broker import Broker
from demo.children import die_with_parent
from demo.prerequisites import ARCHIVE_LOG_OFF, BROKER_CLASSES, JARS, ROOT, java_home, say
from pipeline import spark_home
from pipeline.settings import SPARK_CLASSES, PipelineSettings

BATCHES = 3
"""So many batches load what a pipeline needs from start to commit."""
LIMIT_S = 180.0
RECORDS_PER_S = 500


class NotMade(Exception):
    """An archive was not made; the message says what went wrong. Everything works without."""


def main() -> int:
    """Make both archives unless they fit already; return 0 in any case, because nothing depends on them."""
    stamp = BROKER_CLASSES.parent / ".made"
    wanted = _fits()
    if stamp.exists() and stamp.read_text() == wanted:
        return 0
    say("archiving the classes of Spark and of the broker, so that they start faster (a minute, once) …")
    BROKER_CLASSES.parent.mkdir(parents=True, exist_ok=True)
    try:
        make(BROKER_CLASSES, SPARK_CLASSES)
    except Exception as error:
        say(f"the classes were not archived, so the programs start as ever: {error}")
        return 0
    stamp.write_text(wanted)
    return 0


def _fits() -> str:
    """Return a digest of all that an archive depends on: this Java, Spark's and the broker's jars."""
    release = Path(java_home()) / "release"
    parts = [java_home(), release.read_text() if release.exists() else "", sys.executable, str(spark_home.HOME)]
    parts += [path.read_text() for path in (JARS / ".resolved", ROOT / "requirements.txt")]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def make(broker_classes: Path, spark_classes: Path) -> None:
    """Run broker and pipeline, and keep what each JVM wrote at its end. Raises NotMade."""
    with tempfile.TemporaryDirectory(prefix="indoubt-classes-", dir=broker_classes.parent) as directory:
        work = Path(directory)
        broker = Broker(work / "broker", classes=_written_at_exit(work / "broker.jsa"))
        with broker:
            topics.create_topics(broker.bootstrap_servers)
            with _records(broker.bootstrap_servers):
                _run_pipeline(broker.bootstrap_servers, work)
        for made, kept in ((work / "broker.jsa", broker_classes), (work / "spark.jsa", spark_classes)):
            if not made.exists():
                raise NotMade(f"{made.stem}'s JVM ended without an archive")
            made.rename(kept)


@contextlib.contextmanager
def _records(bootstrap_servers: str) -> Iterator[None]:
    command = [sys.executable, "-m", "demo.generator", "--bootstrap-servers", bootstrap_servers]
    command += ["--topic", topics.SOURCE, "--rate", str(RECORDS_PER_S)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent
    ) as it:
        try:
            yield
        finally:
            it.terminate()


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
        [sys.executable, "-m", "pipeline", "driver", "--settings", settings.to_json()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "JAVA_HOME": java_home()},
        preexec_fn=die_with_parent,
    )
    assert driver.stdout is not None
    said: deque[str] = deque(maxlen=20)
    reading = threading.Thread(target=said.extend, args=[driver.stdout], daemon=True)
    reading.start()
    came = _wait_for_batches(work / "checkpoint" / "commits", driver)
    driver.send_signal(signal.SIGTERM)
    # The JVM writes after the driver, its parent, has ended; with the last of them the output ends.
    reading.join(LIMIT_S)
    if not came or reading.is_alive() or driver.wait(LIMIT_S) != 0:
        raise NotMade(f"the pipeline did not make {BATCHES} batches and stop in order: {''.join(said)}")


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
