"""The archive of history: Parquet files of what is over, on any of pyarrow's filesystems. Collectors write it, jobs read it.

    v1/<table>/cluster=<name>/day=<YYYY-MM-DD>/<number>.parquet    rows of one day (UTC)
    v1/_archived/cluster=<name>/<number>.json                      which of these files count; the highest number does
    v1/trends/cluster=<name>/day=<YYYY-MM-DD>/trends.parquet       what the job history_rollup made of them

A file has its name only once it is whole, and counts once a list has it: what a killed collector wrote besides is removed when
the next one begins. Columns: docs/history.md.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from indoubt.lifecycle.durations import DAY_MS
from indoubt.lifecycle.errors import IndoubtError, MalformedRecord, ResourceManagerError, SettingsError
from indoubt.lifecycle.json_record import read_object
from indoubt.resource_managers.checkpoint_location import CheckpointLocation
from indoubt.resource_managers.storage import LocalStorage, RemoteStorage, Storage

if TYPE_CHECKING:
    from pyarrow import fs

SCHEMA_VERSION = 1
"""Counted up when the columns of a table change, or hold something else; it stands in the path and in each file's metadata."""
ROOT = f"v{SCHEMA_VERSION}"
TRANSACTIONS, EVENTS, DECISIONS, BRANCHES = (
    "transaction_records",
    "lifecycle_events",
    "decision_records",
    "prepared_branches",
)
TABLES = (TRANSACTIONS, EVENTS, DECISIONS, BRANCHES)
TRENDS = "trends"
_LISTS = "_archived"
_LISTS_KEPT = 2
_PART = 1 << 22


class ArchiveFailed(IndoubtError):
    """The archive cannot be read or written; the message names it and the cause."""


class ArchiveTaken(ArchiveFailed):
    """Another collector archives the same cluster in the same place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFile:
    """A file that counts: its path below the archive, and the first and the last time of its rows (epoch ms)."""

    table: str
    path: str
    rows: int
    bytes: int
    first_ms: int
    last_ms: int

    @property
    def day(self) -> str:
        """Return the day of its rows."""
        return day_of(self.first_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEnd:
    """How far a source is archived in a table: up to this offset. ``is_topic``: its offsets are a topic's, not counted here."""

    table: str
    source: str
    partition: int
    next_offset: int
    is_topic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Which files of a cluster count. ``until_ms``: what is older was archived when this was written (epoch ms)."""

    cluster: str
    number: int = 0
    until_ms: int = 0
    files: tuple[ArchivedFile, ...] = ()
    ends: tuple[SourceEnd, ...] = ()

    def with_files(self, files: Iterable[ArchivedFile], ends: Iterable[SourceEnd]) -> Manifest:
        """Return the list with these files, of sources that now end so."""
        known = {(end.table, end.source, end.partition): end for end in (*self.ends, *ends)}
        return replace(self, files=(*self.files, *files), ends=tuple(known.values()))

    def ends_of(self, table: str) -> dict[tuple[str, int], SourceEnd]:
        """Return how far each source is archived in a table, by (source, partition)."""
        return {(end.source, end.partition): end for end in self.ends if end.table == table}

    def files_of(self, table: str) -> list[ArchivedFile]:
        """Return the files of a table, the newest first."""
        return sorted((file for file in self.files if file.table == table), key=lambda file: -file.last_ms)


class HistoryArchive:
    """One archive, of any number of clusters. Methods raise ArchiveFailed."""

    def __init__(self, location: CheckpointLocation, filesystem: fs.FileSystem, path: str) -> None:
        self.location, self.filesystem, self._path = location, filesystem, path
        self._storage: Storage = (
            LocalStorage(Path(path)) if location.path else RemoteStorage(filesystem, path, where=location.for_spark)
        )

    @classmethod
    def open(cls, text: str, spark_properties: Mapping[str, str] | None = None) -> HistoryArchive:
        """Return the archive at a path or URI, which need not be there yet. Raises ArchiveFailed, SettingsError."""
        location = read_location(text, spark_properties)
        try:
            return cls(location, *location.filesystem())
        except IndoubtError as error:
            raise ArchiveFailed(_named(error)) from None

    def path_of(self, file: ArchivedFile) -> str:
        """Return a file's path on the archive's filesystem."""
        return f"{self._path}/{file.path}"

    def for_spark(self, path: str) -> str:
        """Return the URI of a path below the archive, as Spark takes it."""
        return f"{self.location.for_spark}/{path}"

    def clusters(self) -> list[str]:
        """Return the clusters that have a list of files."""
        lists = self._names(f"{ROOT}/{_LISTS}", recursive=True)
        return sorted({unquote(Path(name).parent.name.partition("=")[2]) for name in lists})

    def manifest(self, cluster: str) -> Manifest | None:
        """Return the list of the files that count, None where there is none."""
        numbers = self._numbers(cluster)
        if not numbers:
            return None
        path = self._list_path(cluster, numbers[-1])
        try:
            with self._failing(path):
                content = self._storage.read(path)
            return _parsed(read_object(content, f"{self.for_spark(path)}"))
        except (MalformedRecord, KeyError, TypeError) as error:
            raise ArchiveFailed(f"{self.for_spark(path)} is no list of archived files: {error}") from None

    def publish(self, manifest: Manifest) -> Manifest:
        """Write the next list, from which on its files count; return it. Raises ArchiveTaken."""
        numbers = self._numbers(manifest.cluster)
        if numbers and numbers[-1] != manifest.number:
            raise ArchiveTaken(
                f"another collector archives cluster {manifest.cluster} in {self.location.for_spark}, too: give each of two "
                "collectors an INDOUBT_HISTORY_ARCHIVE of its own"
            )
        following = replace(manifest, number=manifest.number + 1)
        self.put_bytes(self._list_path(following.cluster, following.number), json.dumps(asdict(following)).encode())
        for number in numbers[: 1 - _LISTS_KEPT]:
            self.remove(self._list_path(following.cluster, number))
        return following

    def begin(self, cluster: str) -> Manifest:
        """Return the list of a cluster's files, an empty one made where there is none; what no list has is removed.

        A collector that was killed wrote it. Where files are there and no list at all, nothing is removed, and it raises.
        """
        found = [name for table in TABLES for name in self._names(_folder(table, cluster), recursive=True)]
        manifest = self.manifest(cluster)
        if manifest is None:
            if found:
                raise ArchiveFailed(
                    f"{self.for_spark(self._lists(cluster))} has no list, and there are files of that cluster, such as "
                    f"{found[0]}: put the list back, or move the files away"
                )
            return self.publish(Manifest(cluster=cluster))
        listed = {file.path for file in manifest.files}
        for name in found:
            if name not in listed:
                self.remove(name)
        return manifest

    def put(self, path: str, local: Path) -> None:
        """Put a local file in the archive: whole, and on the disk, or not at all."""
        with local.open("rb") as file, self._failing(path):
            self._storage.write(path, iter(lambda: file.read(_PART), b""))

    def put_bytes(self, path: str, content: bytes) -> None:
        """Put a small file in the archive, in the place of one that is there: whole, or not at all."""
        with self._failing(path):
            self._storage.write(path, content)

    def remove(self, path: str) -> None:
        """Remove a file."""
        with self._failing(path):
            self._storage.delete(path)

    def trend_files(self, cluster: str, first: str, last: str) -> list[str]:
        """Return the paths, on the archive's filesystem, of what the job made of a cluster's days between these (YYYY-MM-DD)."""
        folder = _folder(TRENDS, cluster)
        found = [name for name in self._names(folder, recursive=True) if name.endswith(f"/{TRENDS}.parquet")]
        return [f"{self._path}/{name}" for name in found if first <= name.split("/day=")[1][:10] <= last]

    def _lists(self, cluster: str) -> str:
        return f"{ROOT}/{_LISTS}/cluster={quote(cluster, safe='')}"

    def _list_path(self, cluster: str, number: int) -> str:
        return f"{self._lists(cluster)}/{number}.json"

    def _numbers(self, cluster: str) -> list[int]:
        names = self._names(self._lists(cluster), recursive=False)
        return sorted(int(Path(name).stem) for name in names if Path(name).stem.isdecimal())

    def _names(self, folder: str, *, recursive: bool) -> list[str]:
        """Return the paths of the files in a folder, below the archive."""
        from pyarrow import fs

        selector = fs.FileSelector(f"{self._path}/{folder}", allow_not_found=True, recursive=recursive)
        with self._failing(folder):
            infos = self.filesystem.get_file_info(selector)
        found = [info.path for info in infos if info.type is fs.FileType.File]
        return sorted(
            path[path.index(f"{self._path.strip('/')}/") + len(self._path.strip("/")) + 1 :] for path in found
        )

    @contextlib.contextmanager
    def _failing(self, path: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ResourceManagerError) as error:
            cause = error.__cause__ or error
            said = (str(cause).splitlines() or [repr(cause)])[0]
            raise ArchiveFailed(f"archive {self.for_spark(path)}: {said}") from None


def read_location(text: str, spark_properties: Mapping[str, str] | None = None) -> CheckpointLocation:
    """Return where an archive lies. Raises SettingsError."""
    try:
        return CheckpointLocation.read(text, spark_properties)
    except SettingsError as error:
        raise SettingsError(_named(error)) from None


def day_of(at_ms: int) -> str:
    """Return the day (UTC) of a moment (epoch ms), as partitions are named."""
    return datetime.fromtimestamp(at_ms // DAY_MS * DAY_MS / 1000, UTC).strftime("%Y-%m-%d")


def file_path(table: str, cluster: str, at_ms: int, number: int) -> str:
    """Return the path, below the archive, of a file of the day of a moment (epoch ms)."""
    return f"{_folder(table, cluster)}/day={day_of(at_ms)}/{number}.parquet"


def trend_path(cluster: str, day: str) -> str:
    """Return the path, below the archive, of what the job made of a cluster's day (YYYY-MM-DD)."""
    return f"{_folder(TRENDS, cluster)}/day={day}/{TRENDS}.parquet"


def metadata_of(table: str, cluster: str) -> dict[str, str]:
    """Return what stands in a file's metadata."""
    return {"indoubt.schema_version": str(SCHEMA_VERSION), "indoubt.table": table, "indoubt.cluster": cluster}


def _folder(table: str, cluster: str) -> str:
    return f"{ROOT}/{table}/cluster={quote(cluster, safe='')}"


def _named(error: IndoubtError) -> str:
    return str(error).replace("checkpoint directory", "history archive", 1)


def _parsed(value: Mapping[str, Any]) -> Manifest:
    return Manifest(
        cluster=value["cluster"],
        number=value["number"],
        until_ms=value["until_ms"],
        files=tuple(ArchivedFile(**_only(ArchivedFile.__dataclass_fields__, file)) for file in value["files"]),
        ends=tuple(SourceEnd(**_only(SourceEnd.__dataclass_fields__, end)) for end in value["ends"]),
    )


def _only(names: Collection[str], value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value[name] for name in names}
