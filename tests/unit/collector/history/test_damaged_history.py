"""Damaged history files: set aside, never deleted, said, and begun anew with every audit row."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.history import database_file, sidecar_table, sql
from indoubt.collector.history.sidecar_table import TableFile
from indoubt.collector.history.store import Store, StoreFailed
from indoubt.collector.notify.evaluator import AlertEvaluator
from indoubt.collector.notify.silences import Silence
from indoubt.collector.notify.store import AlertStore
from indoubt.collector.views.current_state import CurrentState
from tests.unit.collector.observations import told

pytestmark = pytest.mark.slow

AUDIT = (1, "anna", "abort", '["kafka:a:1:2"]', "it hangs", "accepted", "[]", "[]")
EVENTS = 40_000


@pytest.fixture(scope="module")
def undamaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory of a history that ended in order: its events fill more than a block of its file."""
    directory = tmp_path_factory.mktemp("undamaged")
    store = Store(directory / "history.duckdb")
    store.append([told(number) for number in range(EVENTS)])
    assert store.append_audit(AUDIT) == 1
    store.close()
    return directory


@pytest.fixture
def history(undamaged: Path, tmp_path: Path) -> Path:
    """Return the test's own copy of a history with events, their offset and an audit row, all of it in the file itself."""
    shutil.copytree(undamaged, tmp_path, dirs_exist_ok=True)
    return tmp_path / "history.duckdb"


def state_of(store: Store) -> CurrentState:
    return CurrentState(store)


def garbage(content: bytes) -> bytes:
    return os.urandom(len(content))


def broken_block(content: bytes) -> bytes:
    """Spoil the first block of data: the file opens, and reading fails."""
    return content[:13_000] + os.urandom(4_096) + content[17_096:]


DAMAGES: list[Callable[[bytes], bytes]] = [
    garbage,
    broken_block,
    lambda content: b"",
    lambda content: content[:100],
    lambda content: content[:200_000],
    lambda content: os.urandom(12_288) + content[12_288:],
]


@pytest.mark.parametrize("damage", range(len(DAMAGES)))
def test_a_damaged_file_is_set_aside_and_the_audit_comes_back(damage: int, history: Path, tmp_path: Path) -> None:
    path = history
    spoiled = DAMAGES[damage](path.read_bytes())
    path.write_bytes(spoiled)
    store = Store(path)
    current = state_of(store)
    current.load()
    (aside,) = store.set_aside
    assert aside.parent == tmp_path
    assert aside.name.startswith("history.duckdb.damaged-")
    assert aside.read_bytes()[:100] == spoiled[:100], "it is kept as it was found"
    assert store.next_offsets("topic") == {}, "the topics are read from their start again"
    assert current.counts() == (0, 0)
    assert store.rows(sql.AUDIT, "", [], *sql.AUDIT_FROM_NEWEST, 10) == [(1, *AUDIT, None, None)]
    assert store.append_audit(AUDIT) == 2, "numbers go on"
    store.append([told(0)])
    store.flushed()
    store.close()
    assert list(TableFile(tmp_path, sidecar_table.AUDIT).read()) == [1, 2]


def test_silences_are_rebuilt_from_the_audit(tmp_path: Path) -> None:
    store = Store(tmp_path / "history.duckdb")
    evaluator = evaluator_of(store)
    for author in ("anna", "ben", "carla"):
        asked = Silence(
            number=0, matchers={"pipeline": author}, reason="maintenance", author=author, starts_ms=10, ends_ms=9_000
        )
        evaluator.silence(asked)
    evaluator.refuse("dora", "silence", "no", "a viewer silences nothing")
    evaluator.end_silence(2, "anna", "done")
    before = {one.number: one for one in AlertStore(store).silences()}
    store.close()
    store.path.write_bytes(garbage(store.path.read_bytes()))
    store = Store(store.path)
    after = {one.number: one for one in AlertStore(store).silences()}
    assert len(store.set_aside) == 1
    assert after.keys() == before.keys() == {1, 2, 3}
    for number, one in after.items():
        # It began when it was written down.
        assert replace(one, starts_ms=10) == before[number]
    assert evaluator_of(store).silence(before[1]).number == 4, "numbers go on"
    store.close()


def evaluator_of(store: Store) -> AlertEvaluator:
    return AlertEvaluator(
        AlertStore(store),
        lambda stopping: iter(()),
        settings=AlertSettings(),
        receivers=[],
        changed=lambda: None,
        notified=lambda: None,
    )


def test_an_audit_row_that_tells_no_silence_is_passed_over(history: Path, tmp_path: Path) -> None:
    path = history
    file = TableFile(tmp_path, sidecar_table.AUDIT)
    file.append([[2, 1, "anna", "silence", "[]", "r", "accepted", "", "[]"]])
    file.append(
        [[3, 1, "anna", "silence", '["silence:7"]', "r", "accepted", "", '[{"matchers": {}, "ends_at_ms": 5}]']]
    )
    store = Store(path)
    assert [one.number for one in AlertStore(store).silences()] == [7]
    store.close()


def test_a_damaged_write_ahead_log_is_set_aside_alone(history: Path, tmp_path: Path) -> None:
    path = history
    with duckdb.connect(str(path)) as file:
        file.execute("set checkpoint_threshold = '1GB'")
        file.execute("pragma disable_checkpoint_on_shutdown")
        for number in range(200):
            file.execute("insert or replace into source_offsets values ('topic', 0, ?)", [EVENTS + number])
    log = path.with_name(path.name + ".wal")
    content = bytearray(log.read_bytes())
    content[1_000:2_000] = os.urandom(1_000)
    log.write_bytes(content)
    store = Store(path)
    assert [aside.name.partition(".damaged-")[0] for aside in store.set_aside] == ["history.duckdb.wal"]
    assert store.next_offsets("topic") == {0: EVENTS}, "as at the last checkpoint, with the offset of that moment"
    assert store.rows(sql.AUDIT, "", [], *sql.AUDIT_FROM_NEWEST, 10) == [(1, *AUDIT, None, None)]
    store.close()


@pytest.mark.parametrize("part", range(1, 10))
def test_a_file_that_was_cut_off_where_a_start_reads_is_set_aside(part: int, history: Path) -> None:
    content = history.read_bytes()
    history.write_bytes(content[: len(content) * part // 12])
    assert set_aside_by_a_start(history) == ["history.duckdb"]


def test_whichever_block_is_spoiled_the_sources_can_be_read_after(history: Path) -> None:
    content = history.read_bytes()
    for begin in range(12_288, len(content), 262_144):
        for path in history.parent.iterdir():
            path.unlink()
        history.write_bytes(content[:begin] + os.urandom(262_144) + content[begin + 262_144 :])
        set_aside_by_a_start(history)


def set_aside_by_a_start(path: Path) -> list[str]:
    """Open a history and load what a start loads; return the names of what was set aside."""
    store = Store(path)
    state_of(store).load()
    store.source_of("topic")
    store.close()
    return [aside.name.partition(".damaged-")[0] for aside in store.set_aside]


OTHERS = {
    "SQLite": b"SQLite format 3\0" + bytes(4_096),
    "text": b"a,b\n1,2\n",
    "archive": b"PK\3\4" + bytes(5_000),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_another_programs_file_is_refused_and_stays(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "history.duckdb"
    path.write_bytes(OTHERS[kind])
    with pytest.raises(
        StoreFailed, match=r"is another program's file.*give another --directory, or move the file away"
    ):
        Store(path)
    assert [path.name for path in tmp_path.iterdir()] == ["history.duckdb"]
    assert path.read_bytes() == OTHERS[kind]


def test_another_programs_database_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "history.duckdb"
    with duckdb.connect(str(path)) as file:
        file.execute("create table customers (name text)")
    content = path.read_bytes()
    with pytest.raises(StoreFailed, match="another program's: it has the table customers"):
        Store(path)
    assert path.read_bytes() == content


def test_a_file_of_a_newer_duckdb_is_refused_and_stays(history: Path) -> None:
    content = bytearray(history.read_bytes())
    content[12:20] = (1_000).to_bytes(8, "little")
    for _ in range(2):  # DuckDB says which checksum it wants
        history.write_bytes(content)
        try:
            duckdb.connect(str(history), read_only=True).close()
        except duckdb.Error as error:
            if found := re.search(r"computed checksum (\d+) .* in block at location 0", str(error)):
                content[:8] = int(found[1]).to_bytes(8, "little")
    with pytest.raises(StoreFailed, match=r"(?s)newer version of DuckDB.*use the newer indoubt that wrote it"):
        Store(history)
    assert history.read_bytes() == content
    assert not list(history.parent.glob("*.damaged-*"))


def test_a_log_that_cannot_be_replayed_for_want_of_room_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history.duckdb"
    Store(path).close()
    # As a kill leaves it: a log that is not in the file yet.
    with duckdb.connect(str(path)) as file:
        file.execute("set checkpoint_threshold = '1GB'")
        file.execute("pragma disable_checkpoint_on_shutdown")
        file.execute("insert into source_offsets select md5(range::varchar), 0, range from range(200000)")
    log = path.with_name(path.name + ".wal")
    content = log.read_bytes()
    monkeypatch.setitem(database_file.SETTINGS, "memory_limit", "8MB")
    monkeypatch.setitem(database_file.SETTINGS, "max_temp_directory_size", "0MB")
    with pytest.raises(StoreFailed, match=r"(?s)replaying WAL.*look for room on its disk, and start again"):
        Store(path)
    assert log.read_bytes() == content
    monkeypatch.undo()
    store = Store(path)
    assert store.rows("select count(*) from source_offsets") == [(200_000,)]
    assert not store.set_aside
    store.close()


def test_a_file_that_cannot_be_reached_is_not_taken_for_damaged(tmp_path: Path) -> None:
    (tmp_path / "history.duckdb").mkdir()
    with pytest.raises(StoreFailed, match="cannot be opened"):
        Store(tmp_path / "history.duckdb")
    assert [path.name for path in tmp_path.iterdir()] == ["history.duckdb"]


def test_audit_rows_of_a_history_from_before_the_file_are_written_to_it(history: Path, tmp_path: Path) -> None:
    path = history
    (tmp_path / "audit.jsonl").unlink()
    Store(path).close()
    assert TableFile(tmp_path, sidecar_table.AUDIT).read() == {1: [1, *AUDIT]}


def test_an_audit_line_that_was_cut_short_spoils_no_other(tmp_path: Path) -> None:
    file = TableFile(tmp_path, sidecar_table.AUDIT)
    file.append([[1, *AUDIT]])
    with file.path.open("ab") as torn:
        torn.write(b'{"audit": 2, "at')
    file.append([[3, *AUDIT]])
    assert list(file.read()) == [1, 3]
    assert file.path.stat().st_mode & 0o777 == 0o600
