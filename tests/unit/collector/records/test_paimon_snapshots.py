"""What the snapshots of a Paimon table say of the commit of checkpoint 3 that its user is to add."""

from __future__ import annotations

import json

import pytest

from indoubt.collector.records.formats.pending_files import FileSeen, PaimonCommit, Standing
from indoubt.collector.records.paimon_snapshots import Snapshot, numbered, read_snapshot, seen_in
from indoubt.lifecycle.errors import MalformedRecord
from tests.unit.collector.verdicts.case_tables import table

COMMIT = PaimonCommit(user="u", identifier=3, first_file="bucket-0/data-1.parquet", messages=2, files=2, rows=60)
VISIBLE, MISSES = FileSeen(standing=Standing.VISIBLE), FileSeen(standing=Standing.HIDDEN)
EXPIRED = FileSeen(standing=Standing.UNCLEAR, why="no snapshot that is kept adds it, and older ones are not kept")


def left_out(snapshot: int, number: int) -> FileSeen:
    why = (
        f"snapshot {snapshot}, the newest of its commit user, bears number {number}, and none that is kept adds the 2 files with "
        "60 rows of number 3"
    )
    return FileSeen(standing=Standing.HIDDEN, why=why)


def of(*told: str) -> list[Snapshot]:
    """Return snapshots, each told as ``ID:USER NUMBER``."""
    parts = [each.replace(":", " ").split() for each in told]
    return [Snapshot(int(id_), user, int(number), "m") for id_, user, number in parts]


CASES = [
    # name; the snapshots that are kept; whether one adds its files; what that says
    ("the newest adds it", of("1:u 2", "2:u 3"), True, VISIBLE),
    ("one adds it, and later ones came", of("2:u 3", "3:u 4"), True, VISIBLE),
    ("the newest of its user has a lower number", of("1:u 1", "2:u 2"), False, MISSES),
    ("the same, and another user added since", of("1:u 2", "2:v 9"), False, MISSES),
    ("the same, and older ones are not kept", of("7:u 2"), False, MISSES),
    ("the same, listed in another order", of("3:u 2", "2:u 5"), False, MISSES),
    ("the table has no snapshot yet", [], False, MISSES),
    ("its user added nothing, all snapshots are kept", of("1:v 3"), False, MISSES),
    ("its user added nothing that is kept", of("2:v 3"), False, EXPIRED),
    ("only later numbers are kept", of("8:u 4", "9:u 5"), False, EXPIRED),
    ("only its own number, of other files, is kept", of("8:u 3"), False, EXPIRED),
    ("a later number, and all are kept", of("1:u 4"), False, left_out(1, 4)),
    ("a later number behind a lower one", of("7:u 2", "9:u 4"), False, left_out(9, 4)),
    ("its own number, of other files", of("7:u 2", "8:u 3"), False, left_out(8, 3)),
    ("later numbers of work that was set back", of("7:u 2", "8:u 3", "9:u 4"), False, left_out(9, 4)),
    ("the end of the input", of("1:u 2", "2:u 9223372036854775807"), False, left_out(2, 2**63 - 1)),
]  # fmt: skip


@table("snapshots, is_added, seen", CASES)
def test_where_a_commit_stands(snapshots: list[Snapshot], is_added: bool, seen: FileSeen) -> None:
    assert seen_in(snapshots, COMMIT, is_added=is_added) == seen


def test_only_snapshots_of_its_user_and_number_may_add_it() -> None:
    assert numbered(of("1:u 2", "2:u 3", "3:v 3", "4:u 3"), COMMIT) == of("2:u 3", "4:u 3")


WHOLE = {"id": 7, "commitUser": "u", "commitIdentifier": 3, "deltaManifestList": "manifest-list-1", "more": None}


def test_a_snapshot_is_read() -> None:
    assert read_snapshot(json.dumps(WHOLE).encode(), "s") == Snapshot(7, "u", 3, "manifest-list-1")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        *(json.dumps({**WHOLE, name: wrong}).encode() for name in list(WHOLE)[:4] for wrong in (None, True, [])),
        *(json.dumps({key: value for key, value in WHOLE.items() if key != name}).encode() for name in list(WHOLE)[:4]),
    ],
)
def test_what_is_no_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedRecord, match=r"^s is no snapshot of Paimon$"):
        read_snapshot(data, "s")
