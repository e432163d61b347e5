"""Tables kept beside history too: one JSON object a line, only ever appended to, on the disk before an order's answer is given.

History can be rebuilt from the topics; what operators did stands nowhere else, so it is kept twice.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table to which rows are only ever added, by growing numbers; the first of its columns is the number."""

    name: str
    columns: tuple[str, ...]
    all: str
    one: str
    newer: str
    insert: str


AUDIT = Table(
    name="audit",
    columns=("audit", "at_ms", "who", "action", "keys", "reason", "outcome", "detail", "evidence"),
    all="select * from audit order by audit",
    one="select * from audit where audit = ?",
    newer="select * from audit where audit > ? order by audit",
    insert="insert into audit values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
)
ORDER_INTENTS = Table(
    name="order_intents",
    columns=("intent", "at_ms", "who", "action", "reason", "evidence", "acts", "idempotency_key", "digest"),
    all="select * from order_intents order by intent",
    one="select * from order_intents where intent = ?",
    newer="select * from order_intents where intent > ? order by intent",
    insert="insert into order_intents values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
)
ORDER_RESULTS = Table(
    name="order_results",
    columns=("audit", "intent", "refers_to", "unknown"),
    all="select * from order_results order by audit",
    one="select * from order_results where audit = ?",
    newer="select * from order_results where audit > ? order by audit",
    insert="insert into order_results values (?, ?, ?, ?)",
)
TABLES = (AUDIT, ORDER_INTENTS, ORDER_RESULTS)
log = logging.getLogger(__name__)


class TableFile:
    """The file ``<table>.jsonl`` in a directory; for one thread at a time."""

    def __init__(self, directory: Path, table: Table) -> None:
        self.path = directory / f"{table.name}.jsonl"
        self._table = table
        self._last = 0

    def read(self) -> dict[int, list[Any]]:
        """Return the rows by their number, columns as in history; a line that cannot be read is reported and passed over."""
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
                found[int(fields[self._table.columns[0]])] = [fields[name] for name in self._table.columns]
            except (ValueError, KeyError, TypeError):
                log.warning("%s, line %d cannot be read: %.80r", self.path, number, line)
        return found

    def append(self, rows: Iterable[Sequence[Any]]) -> None:
        """Append rows and return once they are on the disk. Raises OSError."""
        text = "".join(json.dumps(dict(zip(self._table.columns, row, strict=True))) + "\n" for row in rows)
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
        in_history = {int(row[0]): row for row in connection.execute(self._table.all).fetchall()}
        missing = [in_file[number] for number in sorted(in_file.keys() - in_history.keys())]
        if missing:
            connection.begin()
            for row in missing:
                connection.execute(self._table.insert, row)
            connection.commit()
            log.warning("%d rows of %s were taken from %s", len(missing), self._table.name, self.path)
        self.append(in_history[number] for number in sorted(in_history.keys() - in_file.keys()))
        self._last = max((*in_history, *in_file), default=0)
        return missing

    def follow(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Append the rows that history was given since the last call. Raises duckdb.Error, OSError."""
        rows = connection.execute(self._table.newer, [self._last]).fetchall()
        self.append(rows)
        self._last = max((int(row[0]) for row in rows), default=self._last)
