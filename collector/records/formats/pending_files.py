"""A file that Flink's FileSink has written whole and not yet made visible, as a checkpoint lists it, and how the store has it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from indoubt.lifecycle.resource_manager_kinds import FILE_SINK


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingFile:
    """``target``: its name once it is visible, an absolute path or a URI. ``size``: its bytes; None where that is not told.

    A rename makes it visible (``temporary``: what it is called until then), or the end of an upload to S3 (``upload``: its id,
    ``parts``: number and entity tag of each). Neither: the file system is one whose way is not known here.
    """

    target: str
    size: int | None
    temporary: str = ""
    upload: str = ""
    parts: tuple[tuple[int, str], ...] = ()
    checkpoint_id: int = 0
    """The first checkpoint that lists it."""
    sink: str = ""
    """What its job calls the sink."""

    @property
    def is_understood(self) -> bool:
        """Say whether it is known what makes it visible."""
        return bool(self.temporary or self.upload)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSeen:
    """How a store had a file at the last look; ``why``: what was found, where it is UNCLEAR."""

    standing: Standing
    why: str = ""


def instance_of(cluster: str) -> str:
    """Return what the files of a Flink cluster's jobs are listed under: no database has that name."""
    return f"{cluster}-{FILE_SINK.name}"
