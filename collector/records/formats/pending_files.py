"""A file that Flink's FileSink has written whole and not yet made visible: what makes it visible, as a checkpoint lists it."""

from __future__ import annotations

from dataclasses import dataclass

FILE_SINK = "file_sink"
"""What stands for the resource manager of such a file."""


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

    @property
    def is_understood(self) -> bool:
        """Say whether it is known what makes it visible."""
        return bool(self.temporary or self.upload)
