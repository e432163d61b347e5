"""What the snapshots of an Iceberg table say of a commit: added, passed over, absent, not known, rolled back."""

from __future__ import annotations

import pytest

from indoubt.collector.records.formats.pending_files import IcebergCommit, IcebergManifest, named_commit
from indoubt.collector.records.iceberg_snapshots import MAIN, Place, Snapshot, TableHistory, place_of

JOB_ID, OTHER_JOB, SINK, OTHER_SINK = "a" * 32, "b" * 32, "c" * 32, "d" * 32
MANIFEST = IcebergManifest(path="/lake/db/orders/metadata/m.avro", size=1, spec=0, files=1, rows=1, holds_deletes=False)


def commit(number: int = 3, **more: str) -> IcebergCommit:
    return IcebergCommit(job=JOB_ID, operator=SINK, checkpoint_id=number, manifests=(MANIFEST,), **more)


def snapshot(id_: int, parent: int | None, number: int | None = None, job: str = JOB_ID, sink: str = SINK) -> Snapshot:
    told = {"flink.job-id": job, "flink.operator-id": sink, "flink.max-committed-checkpoint-id": str(number)}
    return Snapshot(id=id_, parent=parent, at_ms=id_, summary={} if number is None else told)


def table(*snapshots: Snapshot, **branches: int) -> TableHistory:
    return TableHistory(snapshots={each.id: each for each in snapshots}, branches=branches)


BY_FLINK_2 = snapshot(1, None, 2)


@pytest.mark.parametrize(
    ("why", "history", "place", "said_by", "branch"),
    [
        ("no snapshot at all", table(), Place.ABSENT, (), MAIN),
        ("checkpoints 2 and 3", table(BY_FLINK_2, snapshot(2, 1, 3), main=2), Place.ADDED, (2,), MAIN),
        ("checkpoint 2 alone", table(BY_FLINK_2, main=1), Place.ABSENT, (), MAIN),
        ("others wrote since", table(BY_FLINK_2, snapshot(2, 1), main=2), Place.ABSENT, (), MAIN),
        ("its older part is expired", table(snapshot(5, 4, 2), main=5), Place.ABSENT, (), MAIN),
        ("all of its sink is expired", table(snapshot(5, 4), main=5), Place.EXPIRED, (), MAIN),
        ("nothing of Flink, whole", table(snapshot(5, None), main=5), Place.ABSENT, (), MAIN),
        ("3 added twice", table(BY_FLINK_2, snapshot(2, 1, 3), snapshot(3, 2, 3), main=3), Place.ADDED, (3, 2), MAIN),
        ("4 without 3", table(BY_FLINK_2, snapshot(2, 1, 4), main=2), Place.PASSED, (2,), MAIN),
        ("4 and 5, the first counts", table(snapshot(1, None, 4), snapshot(2, 1, 5), main=2), Place.PASSED, (1,), MAIN),
        ("another job's 3", table(snapshot(1, None, 3, job=OTHER_JOB), main=1), Place.ABSENT, (), MAIN),
        ("another sink's 3", table(snapshot(1, None, 3, sink=OTHER_SINK), main=1), Place.ABSENT, (), MAIN),
        ("rolled back", table(BY_FLINK_2, snapshot(2, 1, 3), main=1), Place.ROLLED_BACK, (2,), MAIN),
        ("on a branch", table(BY_FLINK_2, snapshot(2, 1, 3), main=1, audit=2), Place.ADDED, (2,), "audit"),
        ("of two branches that of its sink", table(snapshot(7, None), snapshot(2, None, 2), main=7, audit=2),
         Place.ABSENT, (), "audit"),
        ("two branches, both of its sink", table(BY_FLINK_2, main=1, audit=1), Place.ABSENT, (), ""),
        ("two branches, none of its sink", table(snapshot(7, None), main=7, audit=7), Place.ABSENT, (), ""),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)  # fmt: skip
def test_where_a_commit_stands(
    why: str, history: TableHistory, place: Place, said_by: tuple[int, ...], branch: str
) -> None:
    found = place_of(commit(), history)
    assert (found.place, tuple(each.id for each in found.snapshots), found.branch) == (place, said_by, branch), why


def test_only_the_branch_that_the_sink_names_is_looked_at() -> None:
    history = table(BY_FLINK_2, snapshot(2, 1, 3), main=2, audit=1)
    assert place_of(commit(branch="audit"), history).place is Place.ROLLED_BACK
    assert place_of(commit(branch=MAIN), history).place is Place.ADDED


def test_a_sink_that_names_no_operator_is_known_by_its_job() -> None:
    summary = {"flink.job-id": JOB_ID, "flink.max-committed-checkpoint-id": "3"}
    history = table(Snapshot(id=1, parent=None, at_ms=1, summary=summary), main=1)
    assert place_of(commit(), history).place is Place.ADDED


def test_a_number_that_is_none_says_nothing() -> None:
    summary = {"flink.job-id": JOB_ID, "flink.operator-id": SINK, "flink.max-committed-checkpoint-id": "three"}
    history = table(Snapshot(id=1, parent=None, at_ms=1, summary=summary), main=1)
    assert place_of(commit(), history).place is Place.ABSENT


@pytest.mark.parametrize(
    "made",
    [
        commit(),
        commit(table="db.orders"),
        commit(table="db.orders", branch="audit"),
        commit(table="db.orders", branch=MAIN),
        IcebergCommit(
            job=JOB_ID,
            operator=SINK,
            checkpoint_id=12,
            manifests=(MANIFEST._replace(path="s3://lake/db/orders/metadata/m.avro"),),
        ),
    ],
)
def test_its_name_tells_all_but_its_files(made: IcebergCommit) -> None:
    named = named_commit(made.target)
    assert named is not None
    assert (named.job, named.operator, named.checkpoint_id) == (made.job, made.operator, made.checkpoint_id)
    assert (named.table or named.location, named.manifests) == (made.table or made.location, ())
    assert named.branch == ("" if made.branch == MAIN else made.branch)
    assert named.target == made.target


@pytest.mark.parametrize(
    "target", ["/orders/part-1-2", "s3://lake/part-1", "iceberg:/lake/db/orders", "iceberg:x@a/b/c"]
)
def test_no_file_has_the_name_of_a_commit(target: str) -> None:
    assert named_commit(target) is None


def test_commits_are_told_apart_by_table_job_sink_and_number() -> None:
    named = {commit().target, commit(4).target, commit(table="db.orders").target}
    assert named == {
        f"iceberg:/lake/db/orders@{JOB_ID}/{SINK}/3",
        f"iceberg:/lake/db/orders@{JOB_ID}/{SINK}/4",
        f"iceberg:db.orders@{JOB_ID}/{SINK}/3",
    }
