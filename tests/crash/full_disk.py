"""A full disk under the checkpoint directory: a tiny tmpfs if mounting is allowed, a file size limit otherwise.

The tmpfs gives the real error (ENOSPC). Mounting needs root's rights, which containers often lack. Without them the running
driver's RLIMIT_FSIZE is 0, so each write of its processes fails (EFBIG), and the next driver has room again.
"""

from __future__ import annotations

import contextlib
import errno
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from tests.crash.processes import CrashPipeline

DISK = "disk"
"""The directory of a run that holds its checkpoint directory."""
SIZE = "16m"
MOUNT_LIMIT_S = 30.0
_PAGE = b"\0" * 4096


@contextlib.contextmanager
def small_disk(directory: Path) -> Iterator[bool]:
    """Mount a tmpfs of 16 MB on the directory, which is made if missing; yield False if mounting is not allowed."""
    directory.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(directory)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=MOUNT_LIMIT_S)
    except FileNotFoundError:
        yield False
        return
    if done.returncode != 0:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True, capture_output=True, timeout=MOUNT_LIMIT_S)


class FullDisk:
    """While its context is open the pipeline's disk is full; ``how`` describes the method."""

    def __init__(self, directory: Path, pipeline: CrashPipeline) -> None:
        self._directory, self._pipeline = directory, pipeline
        self._is_tmpfs = directory.is_mount()
        self.how = f"a full tmpfs of {SIZE}" if self._is_tmpfs else "RLIMIT_FSIZE (no right to mount a tmpfs)"

    def __enter__(self) -> FullDisk:
        if self._is_tmpfs:
            self._fill()
        else:
            self._limit(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_tmpfs:
            self._ballast.unlink()
        else:
            self._limit(resource.RLIM_INFINITY)

    @property
    def _ballast(self) -> Path:
        return self._directory / "ballast"

    def _fill(self) -> None:
        with self._ballast.open("wb", buffering=0) as out:
            try:
                while True:
                    out.write(_PAGE)
            except OSError as full:
                if full.errno != errno.ENOSPC:
                    raise

    def _limit(self, size: int) -> None:
        supervisor = self._pipeline.process.pid
        for pid in self._pipeline.pids:
            # Only the soft limit, because raising the hard limit again needs root's rights.
            with contextlib.suppress(ProcessLookupError):
                if pid != supervisor:
                    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, (min(size, hard) if hard >= 0 else size, hard))
