"""Backups: whole while history is written, for operators alone, and good to be restored."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from indoubt.collector.history.store import Store, StoreFailed
from indoubt.collector.serve.api.app import BACKUPS
from tests.unit.collector.history.test_damaged_history import AUDIT, told
from tests.unit.collector.serve.api.served_api import OPERATOR, VIEWER
from tests.unit.collector.serve.api.test_alert_routes import AlertApi

MOMENT = datetime(2026, 11, 21, 18, 0, tzinfo=UTC)


def test_a_backup_taken_while_history_is_written_can_be_restored(tmp_path: Path) -> None:
    store = Store(tmp_path / "live" / "history.duckdb")
    store.append_audit(AUDIT)
    stopping = threading.Event()

    def write() -> None:
        number = 0
        while not stopping.is_set():
            store.append([told(n) for n in range(number, number + 50)])
            number += 50

    writing = threading.Thread(target=write)
    writing.start()
    made = store.back_up(tmp_path / "backups", MOMENT)
    stopping.set()
    writing.join()
    store.append_audit(AUDIT)
    store.close()
    assert made.name == "history-20261121T180000.000000Z.duckdb"
    assert [path.name for path in made.parent.iterdir()] == [made.name], "nothing unfinished is left"
    # Restore: in the place of the file, with the audit file as it is now.
    restored = tmp_path / "restored"
    restored.mkdir()
    made.rename(restored / "history.duckdb")
    (restored / "audit.jsonl").write_bytes((tmp_path / "live" / "audit.jsonl").read_bytes())
    again = Store(restored / "history.duckdb")
    ((rows, last),) = again.rows('select count(*), coalesce(max("offset"), -1) from lifecycle_events')
    assert again.next_offsets("topic") == ({0: rows} if rows else {})
    assert last == rows - 1, "rows and offset are of one moment"
    assert again.rows("select audit from audit order by audit") == [(1,), (2,)]
    again.append([told(rows)])
    again.flushed()
    again.close()


def test_a_backup_that_fails_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "history.duckdb")
    (tmp_path / "backups").write_text("in the way")
    with pytest.raises(StoreFailed, match="could not be backed up"):
        store.back_up(tmp_path / "backups", MOMENT)
    (tmp_path / "backups").unlink()
    assert store.back_up(tmp_path / "backups", MOMENT).stat().st_size > 0
    store.close()


def test_operators_alone_have_backups_made_and_each_is_audited(tmp_path: Path) -> None:
    api = AlertApi(tmp_path)
    refused = api.client.post("/api/v1/backup", headers=VIEWER)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    answer = api.client.post("/api/v1/backup", headers=OPERATOR)
    assert answer.status_code == 200, answer.text
    made = answer.json()
    with duckdb.connect(str(api.store.path.parent / made["file"]), read_only=True) as file:
        assert file.execute("select count(*) from schema_version").fetchall() == [(1,)]
    rows = api.store.rows("select who, action, outcome from audit order by audit desc limit 2")
    assert rows == [("anna", "backup", "accepted"), ("ben", "backup", "refused")]
    assert made["file"].startswith(BACKUPS + "/")
    api.store.close()
