"""What is observed follows the settings: what is the same goes on, and nobody follows who has not ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from queue import SimpleQueue

import pytest

from indoubt.collector.config import settings as collector_settings
from indoubt.collector.config.settings import Settings, taken_over
from indoubt.collector.history.store import Store, StoreFailed
from indoubt.collector.observe.spark_checkpoint import SparkCheckpoint
from indoubt.collector.observe.watched_sources import FlinkCluster, Found
from indoubt.collector.observe.watching import Watching
from indoubt.collector.runtime.hangup import READ_AGAIN
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views.current_state import CurrentState
from indoubt.resource_managers.database.resource_manager import DatabaseResourceManager
from tests.integration.kafka_fixtures import wait_until


class Watched:
    """Settings that a test changes, and who follows them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = Store(directory / "history.duckdb")
        self.current = CurrentState(self.store, settled_kept=100, checkpoints_kept=100, limits=Limits())
        self.words: list[str] = []
        self.news: SimpleQueue[object] = SimpleQueue()
        self.databases: Mapping[str, DatabaseResourceManager] = {}
        self.watching: Watching

    def settings(self) -> Settings:
        words = ["--bootstrap-servers=b:1", f"--directory={self.directory}", *self.words]
        return collector_settings.read(words, {})

    def start(self, *words: str) -> None:
        self.words = list(words)
        self.watching = Watching(
            self.settings(),
            self.current,
            self.store,
            self.news,
            self.settings,
            lambda found: setattr(self, "databases", found),
        )
        self.watching.start()

    def change(self, *words: str) -> None:
        self.words = list(words)
        self.news.put(READ_AGAIN)

    def names(self) -> list[str]:
        return sorted(observer.name for observer in self.watching.observers)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    found = Watched(tmp_path)
    yield found
    found.watching.stop()
    found.store.close()


def test_what_is_the_same_goes_on(watched: Watched, tmp_path: Path) -> None:
    watched.start(f"--checkpoint=a={tmp_path}", f"--checkpoint=b={tmp_path}")
    (a, b) = sorted(watched.watching.observers, key=lambda observer: observer.name)
    watched.change(f"--checkpoint=a={tmp_path}", f"--checkpoint=b={tmp_path / 'other'}")
    wait_until("b is another one", lambda: b not in watched.watching.observers)
    assert a in watched.watching.observers
    assert b.has_ended
    assert not a.has_ended
    wait_until("both are watched", lambda: watched.names() == ["checkpoints of a", "checkpoints of b"])


def test_wrong_settings_change_nothing(watched: Watched, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watched.start(f"--checkpoint=a={tmp_path}")
    before = watched.watching.observers
    watched.change("--checkpoint=a=ftp://x")
    wait_until("it says so", lambda: "nothing was changed: --checkpoint a has scheme 'ftp'" in caplog.text)
    assert watched.watching.observers == before


def test_nobody_follows_who_has_not_ended(watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(SparkCheckpoint, "has_ended", property(lambda _: ended.is_set()))
    watched.start(f"--checkpoint=a={tmp_path}")
    watched.change(f"--checkpoint=a={tmp_path / 'other'}", f"--checkpoint=b={tmp_path}")
    wait_until("b is watched", lambda: watched.names() == ["checkpoints of b"])
    ended.set()
    wait_until("a is watched again", lambda: watched.names() == ["checkpoints of a", "checkpoints of b"])


def test_what_was_seen_is_in_history_before_the_next_begins(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.start(f"--checkpoint=a={tmp_path}")
    is_written = threading.Event()

    def flushed() -> None:
        if not is_written.is_set():
            raise StoreFailed("the disk is full")

    monkeypatch.setattr(watched.store, "flushed", flushed)
    watched.change(f"--checkpoint=a={tmp_path / 'other'}", "--flink-kubernetes=streams")
    wait_until("it is not watched", lambda: not watched.names())
    told = Found("streams", {"streams.a": FlinkCluster()})
    watched.news.put(told)
    assert not told.is_watched.wait(0.2), "nobody can follow yet"
    is_written.set()
    names = ["checkpoints of a", "flink checkpoints of streams.a", "flink files of streams.a", "kubernetes streams"]
    wait_until("it is watched again", lambda: watched.names() == names)
    assert told.is_watched.wait(10.0)


def test_what_kubernetes_tells_is_watched_but_not_what_the_settings_name(watched: Watched, tmp_path: Path) -> None:
    url = "http://127.0.0.1:9"
    watched.start("--flink-kubernetes=streams", f"--flink=own={url}/", f"--flink-checkpoints=streams.b={tmp_path}")
    told = Found(
        "streams",
        {"streams.a": FlinkCluster(url=url), "streams.b": FlinkCluster(), "streams.c": FlinkCluster(url=f"{url}9")},
    )
    watched.news.put(told)
    assert told.is_watched.wait(10.0)
    names = {"kubernetes streams", "flink own", "flink streams.c"}
    names |= {f"flink {what} of {of}" for what in ("checkpoints", "files") for of in ("own", "streams.b", "streams.c")}
    assert set(watched.names()) == names
    assert watched.watching.flink["streams.b"].directories == (str(tmp_path),)
    watched.change(f"--flink=own={url}/")
    left = ["flink checkpoints of own", "flink files of own", "flink own"]
    wait_until("they are gone with the namespace", lambda: watched.names() == left)


def test_databases_are_told_and_one_that_did_not_change_stays(watched: Watched, tmp_path: Path) -> None:
    file = tmp_path / "databases"

    def write(port: int, *lines: str) -> None:
        first = ("postgres.host=127.0.0.1", f"postgres.port={port}", "postgres.user=u", "postgres.database=d")
        file.write_text("\n".join((*first, *lines)))
        file.chmod(0o600)

    write(1)
    watched.start(f"--database-properties={file}")
    before = watched.databases["postgres"]
    watched.change(f"--database-properties={file}", f"--checkpoint=a={tmp_path}")
    wait_until("it was read", lambda: "checkpoints of a" in watched.names())
    assert watched.databases["postgres"] is before
    write(2)
    watched.change(f"--database-properties={file}")
    wait_until("it is another one", lambda: watched.databases["postgres"] is not before)
    wait_until("it is asked", lambda: watched.names() == ["database postgres"])


def test_what_takes_a_restart_is_named(watched: Watched, tmp_path: Path) -> None:
    watched.start()
    before = watched.settings()
    watched.words = ["--read-only", f"--checkpoint=a={tmp_path}"]
    after, others = taken_over(before, watched.settings())
    assert (after.read_only, after.checkpoints, others) == (False, {"a": str(tmp_path)}, ["read_only"])
    words = ["--bootstrap-servers=b:1", f"--directory={tmp_path}"]
    changed = collector_settings.read(words, {"INDOUBT_FLINK_POLLING_MS": "3"})
    assert taken_over(before, changed) == (before, ["INDOUBT_FLINK_POLLING_MS"])
