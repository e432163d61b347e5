"""The audit beside history: one JSON object a line, only ever appended to, on the disk before an order's answer is given.

History can be rebuilt from the topics; what operators did stands nowhere else, so it is kept twice.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb

COLUMNS = ("audit", "at_ms", "who", "action", "keys", "reason", "outcome", "detail", "evidence")
_ROWS = "select * from audit order by audit"
_ROWS_AFTER = "select * from audit where audit > ? order by audit"
_INSERT = "insert into audit values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
log = logging.getLogger(__name__)


class AuditFile:
    """The file ``audit.jsonl``; for one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last = 0

    def read(self) -> dict[int, list[Any]]:
        """Return the rows by their number, columns as in history; a line that cannot be read is told and passed over."""
        try:
            lines = self.path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return {}
        found: dict[int, list[Any]] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                fields = json.loads(line)
                found[int(fields["audit"])] = [fields[name] for name in COLUMNS]
            except (ValueError, KeyError, TypeError):
                log.warning("audit file %s, line %d cannot be read: %.80r", self.path, number, line)
        return found

    def append(self, rows: Iterable[Sequence[Any]]) -> None:
        """Append rows and return once they are on the disk. Raises OSError."""
        text = "".join(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in rows)
        if not text:
            return
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                text = "\n" + text  # a write that was cut short stays a line of its own
            stored = text.encode()
            while stored:
                stored = stored[os.write(descriptor, stored) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def reconcile(self, connection: duckdb.DuckDBPyConnection) -> list[list[Any]]:
        """Give history the rows that only the file has, and the file those that only history has.

        Returns those that history was given, oldest first. Raises duckdb.Error, OSError.
        """
        in_file = self.read()
        in_history = {int(row[0]): row for row in connection.execute(_ROWS).fetchall()}
        missing = [in_file[number] for number in sorted(in_file.keys() - in_history.keys())]
        if missing:
            connection.begin()
            for row in missing:
                connection.execute(_INSERT, row)
            connection.commit()
            log.warning("%d audit rows were taken from %s", len(missing), self.path)
        self.append(in_history[number] for number in sorted(in_history.keys() - in_file.keys()))
        self._last = max((*in_history, *in_file), default=0)
        return missing

    def follow(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Append the rows that history was given since the last call. Raises duckdb.Error, OSError."""
        rows = connection.execute(_ROWS_AFTER, [self._last]).fetchall()
        self.append(rows)
        self._last = max((int(row[0]) for row in rows), default=self._last)
