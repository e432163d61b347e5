"""What Iceberg's sinks for Flink keep: the commits to tables that a checkpoint announces.

Source: IcebergCommittableSerializer, DynamicCommittableSerializer, TableKey, WriteTarget, DeltaManifestsSerializer,
IcebergFilesCommitter (iceberg-flink), ManifestFile (iceberg-api), SortedMapSerializer, StringValue (Flink). A committable has no
magic number: it is known by the ids of job and operator in it and by its end. FlinkSink, the older sink, has none: its committer
keeps all in two operator states of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from indoubt.collector.records.formats.avro import AvroRecord, read_avro_record
from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.commit_requests import CommitRequest, versioned
from indoubt.collector.records.formats.flink_metadata.file_sink_states import plain_name
from indoubt.collector.records.formats.pending_files import IcebergCommit, IcebergManifest, PendingFile
from indoubt.lifecycle.errors import MalformedRecord

FILES_STATE, JOB_STATE = "iceberg-files-committer-state", "iceberg-flink-job-id"
"""The operator states of FlinkSink's committer; their elements have no length before them."""
_MANIFESTS_VERSIONS = (1, 2)
_ID = re.compile("[0-9a-f]{32}")
_PATH, _LENGTH, _SPEC, _CONTENT, _ADDED_FILES, _ADDED_ROWS = 500, 501, 502, 517, 504, 512
"""Numbers of the fields of ManifestFile."""
_DATA, _DELETES = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergCommittable:
    """A committable of one of Iceberg's sinks, but for what its manifests say. ``table``: empty where the sink has only one."""

    job: str
    operator: str
    checkpoint_id: int
    manifests: tuple[BigEndianReader, ...]
    table: str = ""
    branch: str = ""


def iceberg_committable(request: CommitRequest) -> IcebergCommittable | None:
    """Return the committable of a request where one of Iceberg's sinks wrote it, in a version that is known, else None."""
    for read in _FORMS.get(request.version, ()):
        try:
            return read(request.committable.again())
        except MalformedRecord:
            continue
    return None


def read_files_committer(
    jobs: Iterable[BigEndianReader], pending: Iterable[BigEndianReader], operator: str
) -> Iterator[PendingFile]:
    """Yield what FlinkSink's committer is to add, by the elements of JOB_STATE and of FILES_STATE; ``operator``: its id.

    Raises UnknownVersion, MalformedRecord.
    """
    ids = [_job(element) for element in jobs]
    for element in pending:
        if len(ids) != 1:
            raise element.error(f"there are {len(ids)} ids of a job, not one", element.at)
        for _ in range(element.count("how many checkpoints are to be committed", 9)):
            checkpoint_id = element.int64("a checkpoint's id")
            if element.int8("whether there is nothing"):
                continue
            manifests = (element.sized("manifests"),)
            found = IcebergCommittable(job=ids[0], operator=operator, checkpoint_id=checkpoint_id, manifests=manifests)
            if (added := read_commit(found, checkpoint_id)) is not None:
                yield added


def _job(element: BigEndianReader) -> str:
    """Read the id of a job as Flink writes a string: one more than its length, then its characters."""
    size = element.int8("the length of a job's id") - 1
    at = element.at
    job = element.raw(max(size, 0), "a job's id").decode("latin-1")
    if not _ID.fullmatch(job):
        raise element.error("this is no id of a job", at)
    return job


def read_commit(found: IcebergCommittable, checkpoint_id: int) -> PendingFile | None:
    """Return what a committable adds to its table; None: nothing was written. Raises UnknownVersion, MalformedRecord.

    ``checkpoint_id``: of the checkpoint that announces it.
    """
    manifests = tuple(manifest for part in found.manifests if part.left for manifest in _manifests(part))
    if not manifests:
        return None
    commit = IcebergCommit(
        job=found.job,
        operator=found.operator,
        checkpoint_id=found.checkpoint_id,
        manifests=manifests,
        table=found.table,
        branch=found.branch,
    )
    return PendingFile(target=commit.target, size=None, commit=commit, checkpoint_id=checkpoint_id)


def joined(files: Iterable[PendingFile]) -> tuple[PendingFile, ...]:
    """Return the files, with one commit of all that Iceberg commits as one: its dynamic sink announced several up to 1.10."""
    alone: list[PendingFile] = []
    commits: dict[str, PendingFile] = {}
    for each in files:
        known = commits.get(each.target)
        if not isinstance(each.commit, IcebergCommit):
            alone.append(each)
        elif known is None or not isinstance(known.commit, IcebergCommit):
            commits[each.target] = each
        else:
            commit = replace(known.commit, manifests=known.commit.manifests + each.commit.manifests)
            commits[each.target] = replace(known, commit=commit)
    return (*alone, *commits.values())


def _of_one_table(committable: BigEndianReader, table: str = "", branch: str = "") -> IcebergCommittable:
    """Read IcebergCommittable, or the rest of DynamicCommittable's version 1, which is the same."""
    job, operator, checkpoint_id = _whose(committable)
    manifests = (committable.sized("manifests"),)
    committable.ends("a committable")
    return IcebergCommittable(
        job=job, operator=operator, checkpoint_id=checkpoint_id, manifests=manifests, table=table, branch=branch
    )


def _of_a_target(committable: BigEndianReader) -> IcebergCommittable:
    """Read version 1 of DynamicCommittable."""
    table, branch = _table(committable)
    committable.skip(8, "the ids of schema and partition spec")
    committable.skip(1, "whether rows are replaced")
    committable.skip(4 * committable.count("the number of equality fields", 4), "the equality fields")
    return _of_one_table(committable, table, branch)


def _of_a_table(committable: BigEndianReader) -> IcebergCommittable:
    """Read version 2 of DynamicCommittable."""
    table, branch = _table(committable)
    job, operator, checkpoint_id = _whose(committable)
    manifests = tuple(
        committable.sized("manifests") for _ in range(committable.count("how many manifests there are", 4))
    )
    committable.ends("a committable")
    return IcebergCommittable(
        job=job, operator=operator, checkpoint_id=checkpoint_id, manifests=manifests, table=table, branch=branch
    )


_FORMS: dict[int, tuple[Callable[[BigEndianReader], IcebergCommittable], ...]] = {
    1: (_of_one_table, _of_a_target),
    2: (_of_a_table,),
}
"""Both sinks number their versions from 1 on."""


def _table(committable: BigEndianReader) -> tuple[str, str]:
    table, branch = committable.utf("a table's name"), committable.utf("a branch's name")
    if not table or not branch:
        raise committable.error("a table or a branch without a name", committable.at)
    return table, branch


def _whose(committable: BigEndianReader) -> tuple[str, str, int]:
    job, operator = committable.utf("a job's id"), committable.utf("an operator's id")
    checkpoint_id = committable.int64("a checkpoint's id")
    if not _ID.fullmatch(job) or not _ID.fullmatch(operator) or checkpoint_id < 1:
        raise committable.error("this is no committable of Iceberg", committable.at)
    return job, operator, checkpoint_id


def _manifests(part: BigEndianReader) -> list[IcebergManifest]:
    """Return the manifests that DeltaManifests names: one of data, one of deletes, either of them or none."""
    version, delta = versioned(part, "the manifests", _MANIFESTS_VERSIONS)
    if version == 1:
        return [_manifest(delta)]
    found = [_manifest(encoded) for encoded in (delta.sized("manifests"), delta.sized("manifests")) if encoded.left]
    for _ in range(delta.count("how many files deletes refer to", 2)):
        delta.utf("a file that deletes refer to")
    delta.ends("the manifests")
    return found


def _manifest(encoded: BigEndianReader) -> IcebergManifest:
    record = read_avro_record(encoded)
    path, content = record.get(_PATH), record.get(_CONTENT)
    size, spec, files, rows = (_count(record, number) for number in (_LENGTH, _SPEC, _ADDED_FILES, _ADDED_ROWS))
    if (
        not isinstance(path, str)
        or not path
        or content not in (None, _DATA, _DELETES)
        or min(size, spec, files, rows) < 0
    ):
        raise encoded.error("a manifest without a path, a size, or what it adds", encoded.at)
    return IcebergManifest(
        path=plain_name(path), size=size, spec=spec, files=files, rows=rows, holds_deletes=content == _DELETES
    )


def _count(record: AvroRecord, number: int) -> int:
    value = record.get(number)
    return value if isinstance(value, int) else -1
