"""How the collector starts and ends as a process, with a history that is not as it should be; no broker is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from indoubt.collector.history.store import Store
from tests.integration.collector_process import ROOT, CollectorProcess
from tests.integration.kafka_fixtures import wait_until
from tests.unit.collector.observations import told

NO_BROKER = "127.0.0.1:9"
LIMIT_S = 60.0
EVENTS = 40_000


def test_a_collector_that_cannot_load_history_ends_with_an_error(tmp_path: Path) -> None:
    Store(tmp_path / "history.duckdb").close()
    with duckdb.connect(str(tmp_path / "history.duckdb")) as file:
        file.execute("drop table flink_jobs")
    command = [
        sys.executable,
        "-m",
        "indoubt.collector",
        "--bootstrap-servers",
        NO_BROKER,
        "--directory",
        str(tmp_path),
    ]
    ended = subprocess.run(
        [*command, "--port", "0"], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert ended.returncode == 1, ended.stderr
    assert f"collector: history {tmp_path / 'history.duckdb'} could not be read" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.long
def test_what_a_collector_writes_is_its_owners_and_it_ends_in_silence(tmp_path: Path) -> None:
    collector = CollectorProcess(NO_BROKER, tmp_path)
    collector.start()
    try:
        # The start ends with a checkpoint, which takes the write-ahead log away until the next write.
        wait_until("history is written", (tmp_path / "history.duckdb.wal").exists)
        assert {path.name: oct(path.stat().st_mode & 0o077) for path in tmp_path.glob("history.*")} == {
            "history.duckdb": "0o0",
            "history.duckdb.wal": "0o0",
        }
    finally:
        assert collector.stop() == 0
    assert "leaked" not in collector.log.read_text()


@pytest.mark.long
def test_a_collector_serves_after_its_history_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "history.duckdb"
    store = Store(path)
    store.append([told(number) for number in range(EVENTS)])
    store.close()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    collector = CollectorProcess(NO_BROKER, tmp_path)
    collector.start()
    try:
        (aside,) = collector.get("status")["history"]["set_aside"]
        assert Path(aside).name.startswith("history.duckdb.damaged-")
    finally:
        assert collector.stop() == 0
