"""What a sink of Flink has written whole and not yet made visible, as a checkpoint lists it, and how its store has it.

A file of the FileSink, or the files of one commit to a table of Iceberg or Paimon.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, NamedTuple

from indoubt.lifecycle.resource_manager_kinds import FILE_SINK, ICEBERG, PAIMON

_ICEBERG_TARGET = re.compile(
    r"iceberg:(?P<place>.+?)(:(?P<branch>[^/:@]+))?@(?P<job>[^/@]+)/(?P<operator>[^/@]+)/(?P<number>\d+)"
)
_PAIMON_TARGET = re.compile(r"paimon:(?P<user>.+)@(?P<identifier>\d+)/(?P<file>[^@]+)")


class IcebergManifest(NamedTuple):
    """A manifest that Flink wrote for one commit: which files it adds. ``size``: bytes; ``rows``: of all its files."""

    path: str
    size: int
    spec: int
    files: int
    rows: int
    holds_deletes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergCommit:
    """What one checkpoint adds to an Iceberg table: by a snapshot whose summary bears these three (SinkUtil of Iceberg).

    ``job``: flink.job-id, ``operator``: flink.operator-id, ``checkpoint_id``: at most flink.max-committed-checkpoint-id. ``table``,
    ``branch``: as the dynamic sink tells them; empty where the sink's committables do not.
    """

    kind: ClassVar[str] = ICEBERG.name
    scheme: ClassVar[str] = "iceberg:"
    job: str
    operator: str
    checkpoint_id: int
    manifests: tuple[IcebergManifest, ...]
    table: str = ""
    branch: str = ""
    directory: str = ""
    """Where its table lies, if no manifest is known that says it."""

    @property
    def location(self) -> str:
        """Return the directory of the table, whose metadata the manifests are part of by default."""
        directory = self.manifests[0].path.rpartition("/")[0] if self.manifests else self.directory
        return directory.removesuffix("/metadata")

    @property
    def target(self) -> str:
        """Return a name that no other commit has."""
        branch = f":{self.branch}" if self.branch not in ("", "main") else ""
        return f"{self.scheme}{self.table or self.location}{branch}@{self.job}/{self.operator}/{self.checkpoint_id}"

    @classmethod
    def named(cls, target: str) -> IcebergCommit | None:
        """Return what a target tells: all but the manifests; None where it is not of this kind."""
        named = _ICEBERG_TARGET.fullmatch(target)
        if named is None:
            return None
        is_directory = "/" in named["place"]
        return cls(
            job=named["job"],
            operator=named["operator"],
            checkpoint_id=int(named["number"]),
            manifests=(),
            table="" if is_directory else named["place"],
            branch=named["branch"] or "",
            directory=named["place"] if is_directory else "",
        )

    def precedes(self, other: IcebergCommit) -> bool:
        """Say whether the same sink adds it to the same branch for an earlier checkpoint."""
        mine, theirs = (
            (each.job, each.operator, each.table or each.location, each.branch or "main") for each in (self, other)
        )
        return mine == theirs and self.checkpoint_id < other.checkpoint_id


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonCommit:
    """What one checkpoint adds to a Paimon table: by a snapshot that bears these two (FileStoreCommitImpl of Paimon).

    ``user``: commitUser, ``identifier``: commitIdentifier, the checkpoint's number; behind the end of the input 2**63 - 1. A job
    that was set back uses both again: ``first_file`` tells its commits apart.
    """

    kind: ClassVar[str] = PAIMON.name
    scheme: ClassVar[str] = "paimon:"
    user: str
    identifier: int
    first_file: str
    """One that it adds: below its table (``bucket-0/data-….parquet``), of a table with partitions only its name."""
    messages: int = 0
    """Of its writers."""
    files: int = 0
    rows: int = 0

    @property
    def target(self) -> str:
        """Return a name that no other commit has."""
        return f"{self.scheme}{self.user}@{self.identifier}/{self.first_file}"

    @classmethod
    def named(cls, target: str) -> PaimonCommit | None:
        """Return what a target tells; None where it is not of this kind."""
        named = _PAIMON_TARGET.fullmatch(target)
        return named and cls(user=named["user"], identifier=int(named["identifier"]), first_file=named["file"])


TableCommit = IcebergCommit | PaimonCommit
_OF_TABLES: tuple[type[TableCommit], ...] = (IcebergCommit, PaimonCommit)
COMMITS = tuple(each.scheme for each in _OF_TABLES)
"""What the targets of commits to tables begin with: no file system has that scheme."""


def named_commit(target: str) -> TableCommit | None:
    """Return what the target of a commit to a table tells; None for a file's."""
    return next((found for each in _OF_TABLES if (found := each.named(target)) is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingFile:
    """``target``: its name once it is visible, an absolute path or a URI. ``size``: its bytes; None where that is not told.

    A rename makes it visible (``temporary``: what it is called until then), or the end of an upload to S3 (``upload``: its id,
    ``parts``: number and entity tag of each), or a snapshot of a table (``commit``). None of these: the file system is one
    whose way is not known here.
    """

    target: str
    size: int | None
    temporary: str = ""
    upload: str = ""
    parts: tuple[tuple[int, str], ...] = ()
    commit: TableCommit | None = None
    checkpoint_id: int = 0
    """The first checkpoint that lists it."""
    sink: str = ""
    """What its job calls the sink."""

    @property
    def resource_manager(self) -> str:
        """Return the name of its kind."""
        return resource_manager_of(self.target)

    @property
    def is_understood(self) -> bool:
        """Say whether it is known what makes it visible."""
        return bool(self.temporary or self.upload or self.commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnnamedFile:
    """A hidden file that no checkpoint that was read names. ``opened_ms`` (epoch ms, our clock): it was begun by then."""

    file: PendingFile
    directory: str
    opened_ms: int


class Standing(Enum):
    """How a store has a file that a checkpoint lists; the value is the API's word."""

    HIDDEN = "hidden"
    """It is there whole, under its temporary name or as an upload that is not completed; nothing bears its own name."""
    VISIBLE = "visible"
    MISSING = "missing"
    """Neither is there: it was removed, or made visible and taken away since."""
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class FileSeen:
    """How a store had a file at the last look; ``why``: what was found, where it is UNCLEAR."""

    standing: Standing
    why: str = ""


LACKED = FileSeen(Standing.HIDDEN)
"""Its place has not got it, and nothing else is known of it."""


def resource_manager_of(target: str) -> str:
    """Return the name of the kind of what has this target."""
    return next((each.kind for each in _OF_TABLES if target.startswith(each.scheme)), FILE_SINK.name)


def instance_of(cluster: str) -> str:
    """Return what the files of a Flink cluster's jobs are listed under: no database has that name."""
    return f"{cluster}-{FILE_SINK.name}"
