"""What one task writes: hidden files with a manifest, or without two-phase commit files that readers see at once."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pyarrow as pa

from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.errors import IndoubtError, ResourceManagerError, SettingsError
from indoubt.lifecycle.identity import Fingerprint, Handle
from indoubt.lifecycle.resource_manager_kinds import FILES
from indoubt.resource_managers.files import formats, names
from indoubt.resource_managers.files.access import FilesAccess
from indoubt.resource_managers.files.directory import Manifest, RowFile, SinkDirectory
from indoubt.resource_managers.protocol import SlotAttempt, nothing
from indoubt.resource_managers.storage import patiently

log = logging.getLogger(__name__)

FILE_BYTES = 64 << 20
"""Rows (in Arrow's layout) that are kept for the next files: one of each partition is then written at once."""
PATIENCE_S = 30.0
"""How long a task tries again what the storage refuses for the moment."""
Content = bytes
"""Of a file; by this name where a class has ``bytes`` of its own."""


class FileMaker:
    """Makes files of rows as they come, under the names that a commit gives them; ``put`` takes each with its content."""

    def __init__(self, branch: BranchId, access: FilesAccess, put: Callable[[RowFile, bytes], None]) -> None:
        self._branch, self._access, self._put = branch, access, put
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self.rows = self.bytes = 0
        self.files: list[RowFile] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows; make files when enough have come. Raises Unreachable, ResourceManagerError."""
        if rows.num_rows == 0:
            return
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        self.rows += rows.num_rows
        self.bytes += rows.nbytes
        if self._waiting_bytes >= FILE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Make files of what has come, one for each partition. Raises Unreachable, ResourceManagerError."""
        if not self._waiting:
            return
        table, self._waiting, self._waiting_bytes = pa.Table.from_batches(self._waiting), [], 0
        suffix = formats.suffix_of(self._access.format)
        for partition, rows in formats.partitions(table, self._access.partition_by):
            number, content = len(self.files), formats.encode(rows, self._access.format)
            target = names.visible_file(self._branch, number, partition, suffix)
            file = RowFile(number=number, target=target, rows=rows.num_rows, size=len(content))
            self._put(file, content)
            self.files.append(file)


class FilesOpenTransaction:
    """Made by FilesResourceManager.begin, which has written the sign that the branch is open."""

    def __init__(self, directory: SinkDirectory, slot: SlotAttempt, branch: BranchId, access: FilesAccess) -> None:
        self._directory, self._slot, self._branch = directory, slot, branch
        self._made = FileMaker(branch, access, self._put)
        self._opened_at_ms = now_ms()
        self._ended = False

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows; write hidden files when enough have come. Raises Unreachable, ResourceManagerError."""
        self._made.write(rows)

    @property
    def provisional_handle(self) -> Handle:
        """Return the handle as it stands: not prepared yet, without a fingerprint."""
        return self._handle("")

    def prepare(self, fingerprint: Fingerprint, *, flushed: Callable[[], None] = nothing) -> Handle:
        """Write the rest and the manifest, and return the handle, unless another writer has taken the slot meanwhile.

        Raises Unreachable, ResourceManagerError.
        """
        self._made.flush()
        flushed()
        storage, branch = self._directory.storage, self._branch
        manifest = Manifest(checkpoint_id=self._slot.marker.checkpoint_id, files=tuple(self._made.files))
        patiently(lambda: storage.write(names.branch_file(branch, names.PREPARED), manifest.encode()), PATIENCE_S)
        # Who takes the slot removes this sign first and lists what is prepared then: one of the two sees the other.
        sign = names.branch_file(branch, names.OPEN)
        if not patiently(lambda: storage.exists(sign), PATIENCE_S):
            self._remove()
            raise ResourceManagerError(f"{branch}: a later attempt has taken its slot, so it was superseded")
        patiently(lambda: storage.delete(sign), PATIENCE_S)
        self._ended = True
        return self._handle(str(fingerprint))

    def abort(self) -> None:
        """Remove it; safe to call twice, and nothing after ``prepare``."""
        if not self._ended:
            self._ended = True
            self._remove()

    def _handle(self, fingerprint: str) -> Handle:
        return Handle(
            resource_manager=FILES.name,
            transaction=str(self._branch),
            slot=self._slot.slot,
            rows=self._made.rows,
            bytes=self._made.bytes,
            fingerprint=fingerprint,
            opened_at_ms=self._opened_at_ms,
            prepared_at_ms=now_ms(),
        )

    def _put(self, file: RowFile, content: bytes) -> None:
        name = names.branch_file(self._branch, file.number)
        patiently(lambda: self._directory.storage.write(name, content), PATIENCE_S)

    def _remove(self) -> None:
        try:
            found = self._directory.branches().get(str(self._branch))
            if found is not None:
                self._directory.remove(found.files)
        except IndoubtError as error:
            log.warning("%s stays for the next start or sweep to remove: %s", self._branch, error)


class PlainFiles:
    """at_least_once: files that readers see at once, each whole; all rows are in one when ``finish`` returns."""

    def __init__(self, open_directory: Callable[[], SinkDirectory], access: FilesAccess) -> None:
        self._open_directory = open_directory
        self._directory: SinkDirectory | None = None
        # No branch of a pipeline: it only makes the files' names unlike all others.
        self._made = FileMaker(BranchId.new(prefix="plain", batch=0, attempt=0, slot=0), access, self._put)

    @property
    def rows(self) -> int:
        """Return the rows written so far."""
        return self._made.rows

    @property
    def bytes(self) -> int:
        """Return the bytes written so far."""
        return self._made.bytes

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows; write files when enough have come. Raises Unreachable, ResourceManagerError, SettingsError."""
        self._made.write(rows)

    def finish(self) -> None:
        """Write the rest. Raises Unreachable, ResourceManagerError, SettingsError."""
        self._made.flush()

    def abort(self) -> None:
        """Do nothing: what is written stays."""

    def _put(self, file: RowFile, content: Content) -> None:
        directory = self._directory = self._directory or self._open_directory()
        patiently(lambda: directory.storage.write(file.target, content), PATIENCE_S)


class UncheckedFiles(PlainFiles):
    """none: what fails is logged and counted in ``failed_rows``, and never raised."""

    failed_rows = 0

    @property
    def rows(self) -> int:
        """Return the rows written so far."""
        return self._made.rows - self.failed_rows

    def _put(self, file: RowFile, content: Content) -> None:
        try:
            super()._put(file, content)
        except (ResourceManagerError, SettingsError) as error:
            self.failed_rows += file.rows
            log.warning("%d rows were not written, which the guarantee none allows: %s", file.rows, error)
