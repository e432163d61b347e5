"""The directory of a run whose sink is files, read by a client that is independent of the pipeline."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyarrow import fs

from demo.object_store import BUCKET, ObjectStore
from tests.crash.tables import HEAD_BYTES
from tests.integration.files_fixtures import client

HIDDEN = ("_", ".")
"""What names begin with that readers skip."""


class Files:
    """Takes the place of a Table: rows of records, in whatever files a reader of the directory would take."""

    counts = False

    def __init__(self, directory: Path, store: ObjectStore | None) -> None:
        """With a store the files are there, and ``directory`` only names them."""
        self._store = store
        self._path = f"{BUCKET}/{directory.name}" if store is not None else str(directory)
        self.name = f"s3://{self._path}" if store is not None else self._path
        self._heads: dict[str, list[tuple[Any, Any]]] = {}

    def open(self) -> fs.FileSystem:
        """Return a client."""
        return self._store.filesystem if self._store is not None else fs.LocalFileSystem()

    def read(self, opened: fs.FileSystem, *, whole: bool) -> list[tuple[Any, Any]]:
        """Return (key, value) of every row that readers see, values cut to their head unless ``whole``. Raises OSError."""
        names = [name for name in self._names(opened) if not any(part.startswith(HIDDEN) for part in name.split("/"))]
        if whole:
            return [row for name in names for row in self._rows(opened, name, lambda value: value)]
        # A file does not change: what was read of it once need not be read again.
        for name in names:
            if name not in self._heads:
                self._heads[name] = self._rows(opened, name, lambda value: value[:HEAD_BYTES])
        return [row for name in names for row in self._heads[name]]

    def final(self) -> list[tuple[Any, Any]]:
        """Return every row, whole, by a new client."""
        return self.read(self.open(), whole=True)

    def in_doubt(self) -> list[str]:
        """Return what lies there of transactions, prepared or open, and uploads that were begun."""
        ends = ("_indoubt/id", "_indoubt/markers/")
        left = [name for name in self._names(self.open()) if name.startswith(HIDDEN) and not name.startswith(ends)]
        return [f"files {name}" for name in [*left, *self._uploads()]]

    def _uploads(self) -> list[str]:
        """Return what was begun and neither completed nor aborted: no listing of files shows it."""
        if self._store is None:
            return []
        answer = client(self._store).list_multipart_uploads(Bucket=BUCKET, Prefix=self._path.partition("/")[2])
        return [f"upload of {upload['Key']}" for upload in answer.get("Uploads", ())]

    def _names(self, opened: fs.FileSystem) -> list[str]:
        found = opened.get_file_info(fs.FileSelector(self._path, recursive=True, allow_not_found=True))
        return [info.path.removeprefix(f"{self._path}/") for info in found if info.type is fs.FileType.File]

    def _rows(self, opened: fs.FileSystem, name: str, cut: Callable[[bytes], bytes]) -> list[tuple[Any, Any]]:
        with opened.open_input_stream(f"{self._path}/{name}", compression=None) as stream:
            table = pq.read_table(io.BytesIO(stream.read()))
        return [
            (key, cut(value)) for key, value in zip(*(table[of].to_pylist() for of in ("key", "value")), strict=True)
        ]
