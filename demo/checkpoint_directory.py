"""A checkpoint directory from outside: on this machine or in an object store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pyarrow import fs

from indoubt.resource_managers.checkpoint_location import CheckpointLocation


@dataclass(frozen=True)
class CheckpointDirectory:
    """A directory as the pipeline's setting names it; ``spark_properties`` say how to reach an object store."""

    setting: str
    spark_properties: Mapping[str, str] = field(default_factory=dict)

    def files(self, log: str) -> dict[int, int]:
        """Return the numbers of the batches in ``offsets`` or ``commits``, with when each was written (epoch ns)."""
        filesystem, folder = self._opened
        found = filesystem.get_file_info(fs.FileSelector(f"{folder}/{log}", allow_not_found=True))
        return {int(file.base_name): file.mtime_ns for file in found if file.base_name.isdigit()}

    def text(self, log: str, batch: int) -> str:
        """Return the file of a batch. Raises OSError."""
        filesystem, folder = self._opened
        with filesystem.open_input_file(f"{folder}/{log}/{batch}") as file:
            return bytes(file.read()).decode()

    def copy(self, name: str) -> CheckpointDirectory:
        """Return a copy beside it, with ``name`` behind its own."""
        to = CheckpointDirectory(f"{self.setting}-{name}", self.spark_properties)
        (filesystem, folder), (_, other) = self._opened, to._opened
        filesystem.create_dir(other)
        fs.copy_files(folder, other, source_filesystem=filesystem, destination_filesystem=filesystem)
        return to

    def delete(self) -> None:
        """Delete it and all that it holds."""
        filesystem, folder = self._opened
        filesystem.delete_dir(folder)

    @cached_property
    def _opened(self) -> tuple[fs.FileSystem, str]:
        return CheckpointLocation.read(self.setting, self.spark_properties).filesystem()
