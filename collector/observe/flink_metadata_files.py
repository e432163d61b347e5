"""One checkpoint of Flink on disk: its directory on whichever filesystem, and what the file ``_metadata`` in it lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import BinaryIO, NamedTuple

from pyarrow import fs

from indoubt.collector.records.formats.flink_metadata.checkpoint_metadata import (
    METADATA_LIMIT,
    read_checkpoint_metadata,
)
from indoubt.collector.records.formats.flink_metadata.file_sink_states import FlinkBucket
from indoubt.collector.records.formats.flink_records import FlinkCommittables, ListedFile, SinkCommits
from indoubt.collector.runtime.clock import now_ms
from indoubt.lifecycle.errors import MalformedRecord, ResourceManagerError, SettingsError
from indoubt.resource_managers.checkpoint_location import CheckpointLocation

FILE = "_metadata"
_LOCAL = fs.LocalFileSystem()
_PRESTO = "s3p://"
"""Flink's name for S3 by another client of its own."""


class Place(NamedTuple):
    """A checkpoint's directory: its URI as a person knows it, its path on the filesystem."""

    filesystem: fs.FileSystem
    uri: str
    path: str
    job: str
    number: int
    changed_ns: int | None = None
    """When the directory changed, where its filesystem tells."""


@lru_cache(maxsize=16_384)
def _location(location: str) -> CheckpointLocation:
    """Return the location of a path or URI of Flink's. Raises SettingsError."""
    text = f"s3://{location.removeprefix(_PRESTO)}" if location.startswith(_PRESTO) else location
    return CheckpointLocation.read(text)


def uri_of(location: str) -> str:
    """Return the URI of a path or URI, the same however it was spelled; one that is not understood stays as it is."""
    try:
        return _location(location).uri
    except SettingsError:
        return location.rstrip("/")


def filesystem_of(location: str, known: dict[str, fs.FileSystem] | None = None) -> tuple[fs.FileSystem, str]:
    """Return the filesystem of a path or URI, and the path on it; ``known`` keeps opened ones. Raises ResourceManagerError."""
    try:
        place = _location(location)
        if place.path:
            return _LOCAL, place.path
        root = "/".join(place.uri.split("/")[:3])
        if known is not None and root in known:
            return known[root], place.uri.partition("://")[2]
        filesystem, path = place.filesystem()
    except (SettingsError, OSError) as error:
        raise ResourceManagerError(str(error)) from None
    if known is not None and path == place.uri.partition("://")[2]:
        known[root] = filesystem
    return filesystem, path


def read_again(committables: FlinkCommittables) -> FlinkCommittables | None:
    """Return what the same checkpoint lists now, or None when its ``_metadata`` is not there any more.

    Raises ResourceManagerError when its directory cannot be reached.
    """
    filesystem, path = filesystem_of(committables.path)
    place = Place(filesystem, committables.path, path, committables.job, committables.number)
    try:
        info = filesystem.get_file_info(f"{path}/{FILE}")
        return read_place(committables.cluster, place, info) if info.type is fs.FileType.File else None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ResourceManagerError(f"{committables.path}/{FILE} cannot be read: {error}") from None


def read_place(cluster: str, place: Place, info: fs.FileInfo) -> FlinkCommittables:
    """Return what a checkpoint's ``_metadata`` lists; what is wrong with it is in ``error``. Raises OSError."""
    with place.filesystem.open_input_stream(info.path, compression=None) as stream:
        data = stream.read(METADATA_LIMIT + 1)
    read_ms = now_ms()
    written_ms = info.mtime_ns // 1_000_000 if info.mtime_ns else read_ms

    nothing = FlinkCommittables(
        cluster=cluster,
        job=place.job,
        number=place.number,
        path=place.uri,
        kind=None,
        written_ms=written_ms,
        read_ms=read_ms,
    )
    try:
        metadata = read_checkpoint_metadata(data, lambda path: _open_state(place, path))
    except MalformedRecord as error:
        return replace(nothing, error=str(error))
    unread = metadata.unread
    first = f"{unread[0].state}: {unread[0].reason}" if unread else ""
    return replace(
        nothing,
        number=metadata.checkpoint_id,
        kind=metadata.kind,
        committables=frozenset(
            (*metadata.committables, *metadata.branches, *(ListedFile(file.target) for file in metadata.files))
        ),
        files=metadata.files,
        buckets=frozenset(bucket.directory for bucket in metadata.buckets),
        in_progress=_in_progress(metadata.buckets),
        sinks=tuple(SinkCommits(each.operator.sink, each.kind.value, each.commits) for each in metadata.announced),
        prefixes=frozenset(state.transactional_id_prefix for state in metadata.writer_states),
        pooled=frozenset(state.transactional_id_prefix for state in metadata.writer_states if state.is_pooled),
        error=f"{len(unread)} states of sinks were not read, the first: {first}" if unread else "",
    )


def _in_progress(buckets: Iterable[FlinkBucket]) -> frozenset[str] | None:
    names = [bucket.in_progress for bucket in buckets]
    return None if None in names else frozenset(name for name in names if name)


def _open_state(place: Place, path: str) -> BinaryIO:
    """Open a state file: beside ``_metadata``, or under the job's own directory where the path is absolute. Raises OSError."""
    if "/" not in path:
        found: BinaryIO = place.filesystem.open_input_file(f"{place.path}/{path}")
        return found
    try:
        _, absolute = filesystem_of(path)
    except ResourceManagerError as error:
        raise OSError(str(error)) from None
    if not absolute.startswith(f"{place.path.rpartition('/')[0]}/"):
        raise OSError(f"{path} is outside the directory of the job's checkpoints: it is not opened")
    found = place.filesystem.open_input_file(absolute)
    return found
