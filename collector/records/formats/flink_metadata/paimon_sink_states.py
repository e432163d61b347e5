"""What Paimon's sink for Flink keeps: the commits to its table that a checkpoint announces.

Source: CommitterOperator, RestoreCommittableStateManager (paimon-flink), ManifestCommittableSerializer, CommitMessageSerializer,
DataFileMetaSerializer, BinaryRow (paimon-core 1.3 to 2.0), StringValue (Flink). The sink is none of Flink's own (SinkV2), and its
committer keeps its commits under the same name; that of its commit user stands beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.commit_requests import require_version, versioned
from indoubt.collector.records.formats.pending_files import PaimonCommit, PendingFile

USER_STATE = "commit_user_state"
"""The operator state with the commit user; its element has no length before it."""
_COMMITTABLE_VERSIONS, _MESSAGE_VERSIONS = (4, 5), (10, 11, 12)
_WITHOUT_LOG_OFFSETS = 5
_LISTS = 10
"""Of a message: files that are new, deleted, changelogs, indexes; the same of compaction. New files are the first."""
_ROW_HEAD, _NAME, _ROWS = 8, 0, 2
"""Bytes before the fields of a row of at most 56 fields; places of two fields of DataFileMeta."""


def read_paimon_committer(
    users: Iterable[BigEndianReader], pending: Iterable[BigEndianReader], checkpoint_id: int
) -> Iterator[PendingFile]:
    """Yield what a committer is to add, by the elements of USER_STATE and of its own state; nothing of a commit without new files.

    ``checkpoint_id``: of the checkpoint that lists it. Raises UnknownVersion, MalformedRecord.
    """
    names = [_user(element) for element in users]
    for element in pending:
        if len(names) != 1:
            raise element.error(f"there are {len(names)} commit users, not one", element.at)
        commit = _commit(names[0], element)
        if commit is not None:
            first = min(commit.identifier, checkpoint_id)
            yield PendingFile(target=commit.target, size=None, commit=commit, checkpoint_id=first)


def _user(element: BigEndianReader) -> str:
    """Read a string as Flink writes it: one more than its length, then its characters, of ASCII one byte each."""
    size = element.int8("the length of a commit user") - 1
    at = element.at
    raw = element.raw(max(size, 0), "a commit user")
    if not raw or not raw.isascii() or size >= 0x7F:
        raise element.error("this is no commit user of 1 to 126 ASCII characters", at)
    return raw.decode()


def _commit(user: str, element: BigEndianReader) -> PaimonCommit | None:
    """Read ManifestCommittable; None: it adds no file."""
    version, committable = versioned(element, "a committable of Paimon", _COMMITTABLE_VERSIONS)
    identifier = committable.int64("a commit's identifier")
    if identifier < 1:
        raise committable.error(f"a commit's identifier is {identifier}", committable.at - 8)
    if not committable.int8("whether there is no watermark"):
        committable.skip(8, "a watermark")
    if version < _WITHOUT_LOG_OFFSETS:
        committable.skip(12 * committable.count("the number of log offsets", 12), "log offsets")
    for _ in range(2 * committable.count("the number of properties", 4)):
        committable.utf("a property")
    message_version = committable.int32("the version of messages")
    messages = committable.count("the number of messages", 4)
    require_version(message_version, committable, "a message of Paimon", _MESSAGE_VERSIONS)
    added = [file for _ in range(messages) for file in _added(committable)]
    committable.ends("a committable of Paimon")
    if not added:
        return None
    rows = sum(of_file for _, of_file in added)
    return PaimonCommit(
        user=user, identifier=identifier, first_file=added[0][0], messages=messages, files=len(added), rows=rows
    )


def _added(message: BigEndianReader) -> list[tuple[str, int]]:
    """Return path (PaimonCommit.first_file) and rows of each file that a message adds."""
    partition = message.sized("a partition")
    has_partition = partition.int32("how many fields a partition has") > 0
    bucket = message.int32("a bucket's number")
    if message.int8("whether the number of buckets is told"):
        message.skip(4, "the number of buckets")
    lists = [[message.sized("a file") for _ in range(message.count("the number of files", 4))] for _ in range(_LISTS)]
    directory = "" if has_partition or bucket < 0 else f"bucket-{bucket}/"
    return [(f"{directory}{_name(row)}", _field(row, _ROWS)) for row in lists[0]]


def _field(row: BigEndianReader, place: int) -> int:
    """Return a number in a row: its 8 bytes are the machine's own, little-endian on each that Flink runs on."""
    at = _ROW_HEAD + 8 * place
    if at + 8 > row.left:
        raise row.error(f"a file's description has {row.left} bytes", row.at)
    value = BigEndianReader(row.data, row.source, row.at + at, row.end).little_int64("a field")
    if value < 0:
        raise row.error(f"field {place} of a file's description is {value}", row.at + at)
    return value


def _name(row: BigEndianReader) -> str:
    """Return a file's name: its place in the row and its length are in one number."""
    place, size = divmod(_field(row, _NAME), 1 << 32)
    at = row.at + place
    raw = row.data[at : at + size]
    if not size or at + size > row.end or not raw.isascii() or b"/" in raw or b"@" in raw:
        raise row.error("this is no name of a file", row.at)
    return raw.decode()
