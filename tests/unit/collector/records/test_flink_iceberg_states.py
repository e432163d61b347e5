"""What Iceberg's sinks keep, in cases that recordings of real jobs do not have."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.commit_requests import CommitRequest, CommitState
from indoubt.collector.records.formats.flink_metadata.iceberg_sink_states import (
    iceberg_committable,
    joined,
    read_commit,
    read_files_committer,
)
from indoubt.collector.records.formats.flink_metadata.sink_states import ReadRequest, SinkKind, read_requests
from indoubt.collector.records.formats.pending_files import IcebergCommit, IcebergManifest
from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion
from tests.unit.collector.records.avro_records import fields, number, record, sized, text, utf

OPERATOR = "0" * 32
JOB, AGGREGATOR, NUMBER = "0123456789abcdef" * 2, "fedcba9876543210" * 2, 3
PATH = "file:/w/db/orders/metadata/m.avro"
MANIFEST = IcebergManifest("/w/db/orders/metadata/m.avro", 7015, 0, 2, 40, holds_deletes=False)
DELETES = MANIFEST._replace(holds_deletes=True)


def versioned(version: int, data: bytes) -> bytes:
    return struct.pack(">ii", version, len(data)) + data


OPTIONAL = ["null", "long"]
SCHEMA = fields((512, OPTIONAL), (500, "string"), (501, "long"), (502, "int"), (517, ["null", "int"]), (504, OPTIONAL))


def manifest(path: str = PATH, size: int = 7015, content: bytes = b"\0", files: bytes = b"\2" + number(2)) -> bytes:
    return record(SCHEMA, b"\2" + number(40) + text(path) + number(size) + number(0) + content + files)


HOLDS_DELETES = b"\2" + number(1)


def delta(data: bytes = b"", deletes: bytes = b"", *refers_to: str) -> bytes:
    """Return DeltaManifests in version 2."""
    referred = struct.pack(">i", len(refers_to)) + b"".join(map(utf, refers_to))
    return versioned(2, sized(data) + sized(deletes) + referred)


def whose(job: str = JOB, operator: str = AGGREGATOR, checkpoint_id: int = NUMBER) -> bytes:
    return utf(job) + utf(operator) + struct.pack(">q", checkpoint_id)


ADDS = whose() + sized(delta(manifest()))
TARGET = utf("db.orders") + utf("audit") + struct.pack(">iibiii", 1, 0, 1, 2, 1, 2)
TABLE = utf("db.orders") + utf("audit")


def request(data: bytes, version: int = 1) -> CommitRequest:
    return CommitRequest(
        checkpoint_id=NUMBER, state=CommitState.RECEIVED, version=version,
        committable=BigEndianReader(bytes(8) + data, "a state", 8),
    )  # fmt: skip


def commit_of(data: bytes, version: int = 1) -> IcebergCommit | None:
    given = request(data, version)
    committable = iceberg_committable(given)
    assert committable is not None
    found = read_commit(committable, given.checkpoint_id)
    if found is None:
        return None
    assert found.checkpoint_id == NUMBER
    assert isinstance(found.commit, IcebergCommit)
    assert found.target == found.commit.target
    return found.commit


def commit(*manifests: IcebergManifest, table: str = "", branch: str = "") -> IcebergCommit:
    return IcebergCommit(
        job=JOB, operator=AGGREGATOR, checkpoint_id=NUMBER, manifests=manifests, table=table, branch=branch
    )


@pytest.mark.parametrize(
    ("data", "version", "found"),
    [
        (ADDS, 1, commit(MANIFEST)),
        (whose() + sized(versioned(1, manifest())), 1, commit(MANIFEST)),
        (whose() + sized(delta(manifest(), manifest(content=HOLDS_DELETES), "a", "b")), 1, commit(MANIFEST, DELETES)),
        (whose() + sized(delta(deletes=manifest(content=HOLDS_DELETES))), 1, commit(DELETES)),
        (whose() + sized(delta()), 1, None),
        (whose() + sized(b""), 1, None),
        (TARGET + ADDS, 1, commit(MANIFEST, table="db.orders", branch="audit")),
        (TABLE + whose() + struct.pack(">i", 2) + 2 * sized(delta(manifest())), 2,
         commit(MANIFEST, MANIFEST, table="db.orders", branch="audit")),
        (TABLE + whose() + struct.pack(">i", 0), 2, None),
        (whose() + sized(delta(manifest("s3a://lake/db/orders/metadata/m.avro"))), 1,
         commit(MANIFEST._replace(path="s3://lake/db/orders/metadata/m.avro"))),
    ],
    ids=["data", "manifests, version 1", "data and deletes", "deletes", "no row", "no writer", "dynamic 1", "dynamic 2",
         "dynamic, no row", "S3"],
)  # fmt: skip
def test_what_a_committable_adds(data: bytes, version: int, found: IcebergCommit | None) -> None:
    assert commit_of(data, version) == found


def test_the_table_of_a_commit_is_where_its_manifests_are() -> None:
    assert commit(MANIFEST).location == "/w/db/orders"
    assert commit(MANIFEST).target == f"iceberg:/w/db/orders@{JOB}/{AGGREGATOR}/3"
    branches = [commit(MANIFEST, table="db.orders", branch=branch).target for branch in ("main", "audit")]
    assert branches == [f"iceberg:db.orders{branch}@{JOB}/{AGGREGATOR}/3" for branch in ("", ":audit")]


def test_what_is_announced_in_parts_is_one_commit() -> None:
    given = request(TARGET + ADDS)
    committable = iceberg_committable(given)
    assert committable is not None
    first = read_commit(committable, given.checkpoint_id)
    assert first is not None
    other = replace(first, target="/files/part-1", commit=None)
    alone, whole = joined([first, other, first])
    assert alone == other
    assert whole == replace(first, commit=commit(MANIFEST, MANIFEST, table="db.orders", branch="audit"))


@pytest.mark.parametrize(
    ("data", "version"),
    [
        (ADDS + b"\0", 1),
        (ADDS[:-1], 1),
        (ADDS, 2),
        (ADDS, 3),
        (TABLE + whose() + struct.pack(">i", 0), 1),
        (TABLE + whose() + struct.pack(">i", 1), 2),
        (TARGET + ADDS + b"\0", 1),
        (TARGET + ADDS, 2),
        (whose(JOB.upper()) + sized(b""), 1),
        (whose(JOB[:-1]) + sized(b""), 1),
        (whose(operator=f"{AGGREGATOR}0") + sized(b""), 1),
        (whose(operator=f"{AGGREGATOR[:-1]}g") + sized(b""), 1),
        (whose(checkpoint_id=0) + sized(b""), 1),
        (whose() + struct.pack(">i", -1), 1),
        (utf("") + utf("main") + whose() + struct.pack(">i", 0), 2),
        (b"", 1),
        (b"", 2),
    ],
)
def test_what_another_sink_may_have_written_is_not_taken_for_a_commit(data: bytes, version: int) -> None:
    assert iceberg_committable(request(data, version)) is None


@pytest.mark.parametrize(
    ("manifests", "error"),
    [
        (delta(manifest()) + b"\0", "the manifests has 1 bytes too many"),
        (delta(manifest())[:-1], "the size of the manifests|the manifests has"),
        (versioned(2, sized(manifest()) + sized(b"") + struct.pack(">i", 2**30)), "how many files deletes refer to is"),
        (delta(manifest(size=-1)), "a manifest without a path, a size, or what it adds"),
        (delta(manifest("")), "a manifest without a path"),
        (delta(manifest(content=b"\2" + number(2))), "a manifest without a path"),
        (delta(manifest(files=b"\0")), "a manifest without a path"),
        (delta(manifest() + b"\0"), "a record of Iceberg has 1 bytes too many"),
        (delta(b"\0" + manifest()), "this is no record of Iceberg"),
    ],
)
def test_a_commit_whose_manifests_are_not_understood_is_refused(manifests: bytes, error: str) -> None:
    with pytest.raises(MalformedRecord, match=error):
        commit_of(whose() + sized(manifests))


def test_another_version_of_the_manifests_is_refused() -> None:
    with pytest.raises(UnknownVersion, match="the version of the manifests is 3; this program knows 1 and 2"):
        commit_of(whose() + sized(versioned(3, manifest())))


def job(id_: str = JOB) -> bytes:
    """Return a string as Flink writes it."""
    return bytes([len(id_) + 1]) + id_.encode()


def pending(*of: tuple[int, bytes | None]) -> bytes:
    """Return a map of what is to be committed for which checkpoints."""
    entries = [
        struct.pack(">q", number) + (b"\1" if manifests is None else b"\0" + sized(manifests))
        for number, manifests in of
    ]
    return struct.pack(">i", len(of)) + b"".join(entries)


def of_the_older_sink(jobs: list[bytes], maps: list[bytes]) -> list[tuple[int, IcebergCommit | None]]:
    elements = [[BigEndianReader(data, "a state") for data in given] for given in (jobs, maps)]
    found = list(read_files_committer(*elements, OPERATOR))
    return [(each.checkpoint_id, each.commit) for each in found]


def test_what_the_older_sink_is_to_commit() -> None:
    three = pending((2, delta(manifest())), (3, b""), (4, None), (5, delta()), (6, delta(manifest())))
    later = three + b"what another state has"
    alone = replace(commit(MANIFEST), operator=OPERATOR)
    found = [(2, replace(alone, checkpoint_id=2)), (6, replace(alone, checkpoint_id=6))]
    assert of_the_older_sink([job() + b"the next state"], [later]) == found
    assert of_the_older_sink([job()], [pending()]) == []
    assert of_the_older_sink([], []) == []


@pytest.mark.parametrize(
    ("jobs", "maps", "error"),
    [
        ([], [pending()], "there are 0 ids of a job"),
        ([job(), job()], [pending()], "there are 2 ids of a job"),
        ([job("x")], [pending()], "this is no id of a job"),
        ([b"\0"], [pending()], "this is no id of a job"),
        ([job()[:-1]], [pending()], "a job's id has 32 bytes, and 31 are left"),
        ([job()], [struct.pack(">i", 2**20)], "how many checkpoints are to be committed is 1048576"),
        ([job()], [pending((2, delta(manifest())))[:-1]], "manifests has"),
        ([job()], [pending((2, versioned(3, b"")))], "the version of the manifests is 3"),
    ],
)
def test_what_the_older_sink_did_not_write_is_refused(jobs: list[bytes], maps: list[bytes], error: str) -> None:
    with pytest.raises(MalformedRecord, match=error):
        of_the_older_sink(jobs, maps)


def requested(data: bytes, version: int = 1) -> ReadRequest:
    """Return what is read of a committer's state with one request."""
    asked = struct.pack(">i", version) + sized(data) + struct.pack(">ii", 0, CommitState.RECEIVED.value)
    writer = struct.pack(">i", 0) + struct.pack(">ii", 0, 1) + sized(asked) + bytes(8)
    checkpoint = struct.pack(">qi", NUMBER, 1) + struct.pack(">ii", 2, 1) + sized(writer)
    collector = struct.pack(">Iii", 0xB91F252C, 1, 1) + sized(checkpoint)
    (found,) = read_requests(BigEndianReader(versioned(2, collector), "a state"))
    return found


def test_the_kind_of_sink_of_what_is_understood_and_what_is_not() -> None:
    assert (requested(ADDS).kind, requested(ADDS).why) == (SinkKind.ICEBERG, None)
    nothing = requested(whose() + sized(b""))
    assert (nothing.kind, nothing.found, nothing.why) == (SinkKind.ICEBERG, None, None)
    damaged = requested(whose() + sized(versioned(3, b"")))
    assert (damaged.kind, damaged.found, isinstance(damaged.why, UnknownVersion)) == (SinkKind.ICEBERG, None, True)
    later = requested(ADDS, 3)
    assert (later.kind, later.found) == (SinkKind.UNKNOWN, None)
    assert "the version of a committable is 3; this program knows 1" in str(later.why)
