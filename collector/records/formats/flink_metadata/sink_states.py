"""Which sink wrote a state: each kind has a decoder of its own, and what none knows is counted and named as unread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.commit_requests import (
    CommitRequest,
    read_commit_requests,
    versioned,
)
from indoubt.collector.records.formats.flink_metadata.file_sink_states import is_file_committable, read_file
from indoubt.collector.records.formats.flink_metadata.iceberg_sink_states import iceberg_committable, read_commit
from indoubt.collector.records.formats.flink_metadata.jdbc_sink_states import (
    WRITER_VERSION,
    is_jdbc_committable,
    read_jdbc_writer_state,
)
from indoubt.collector.records.formats.flink_metadata.kafka_sink_states import read_kafka_committable
from indoubt.collector.records.formats.flink_records import Committable
from indoubt.collector.records.formats.pending_files import PendingFile
from indoubt.lifecycle.errors import MalformedRecord
from indoubt.resource_managers.mysql.xa_xid import XaXid

_JDBC_VERSION = 1


class SinkKind(Enum):
    """What a sink writes to, as far as its committables tell; the value is the API's word."""

    KAFKA = "kafka"
    JDBC = "jdbc"
    FILES = "files"
    ICEBERG = "iceberg"
    PAIMON = "paimon"
    UNKNOWN = "unknown"
    """No decoder knows its committables: only how many there are is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A commit request, of which kind of sink, and what it commits: None where it commits nothing, or its kind is not known.

    ``why``: why its committable was not understood.
    """

    request: CommitRequest
    kind: SinkKind
    found: Committable | PendingFile | None = None
    why: MalformedRecord | None = None


def read_requests(element: BigEndianReader) -> Iterator[ReadRequest]:
    """Yield the requests in one element of a committer's state. Raises UnknownVersion, MalformedRecord of its own form."""
    for request in read_commit_requests(element):
        if request.version == _JDBC_VERSION and is_jdbc_committable(request.committable):
            # JdbcSink's committer commits nothing: what counts is in the writer's state.
            yield ReadRequest(request=request, kind=SinkKind.JDBC)
            continue
        kind, why = SinkKind.UNKNOWN, None
        found: Committable | PendingFile | None = None
        try:
            if is_file_committable(request):
                kind = SinkKind.FILES
                found = read_file(request)
            elif (commit := iceberg_committable(request)) is not None:
                kind = SinkKind.ICEBERG
                found = read_commit(commit, request.checkpoint_id)
            else:
                found = read_kafka_committable(request)
                kind = SinkKind.KAFKA
        except MalformedRecord as error:
            why = error
        yield ReadRequest(request=request, kind=kind, found=found, why=why)


def read_branches(element: BigEndianReader) -> list[XaXid] | None:
    """Return what one element of the writer's state lists as prepared when it is JdbcSink's, else None."""
    try:
        _, part = versioned(element.again(), "the writer's state", (WRITER_VERSION,))
        return list(read_jdbc_writer_state(part))
    except MalformedRecord:
        return None
