"""What operators did and what alerts became, written to a journal before it is written here: two collectors then have the same.

A change of these tables is tried and taken back, so that its statements are known; they go into the journal; and what is in the
journal is carried out here, by the same code whoever wrote it. A collector that ends in between finds it there again.

A statement stands in the journal by its name, with its values: what somebody else writes there cannot be any other SQL.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from indoubt.collector.history import alert_sql, sql
from indoubt.collector.history.database_file import StoreFailed
from indoubt.collector.history.sidecar_table import AUDIT, TABLES

T = TypeVar("T")
STATEMENTS: Mapping[str, str] = {
    "add audit": sql.ADD_AUDIT,
    "add intent": sql.ADD_INTENT,
    "add result": sql.ADD_ORDER_RESULT,
    "add answer": sql.ADD_ORDER_ANSWER,
    "end run": sql.END_ORDER_RUN,
    "keep silence": alert_sql.KEEP_SILENCE,
    "keep alerts": alert_sql.KEEP_ALERTS,
    "drop alerts": alert_sql.DROP_ALERTS,
    "keep groups": alert_sql.KEEP_GROUPS,
    "drop groups": alert_sql.DROP_GROUPS,
    "add notification": alert_sql.ADD_NOTIFICATION,
    "add delivery": alert_sql.ADD_DELIVERY,
    "note delivery": alert_sql.NOTE_DELIVERY,
    "forget deliveries": alert_sql.FORGET_DELIVERIES,
    "forget notifications": alert_sql.FORGET_NOTIFICATIONS,
}
_NAMES = {query: name for name, query in STATEMENTS.items()}
_NUMBERED = {"add audit": TABLES[0], "add intent": TABLES[1], "add result": TABLES[2]}
"""Statements that add a row of a table that is kept beside history too, and that may be there already."""
_OF_FIRST_ENTRIES: Mapping[str, str] = {
    "add audit": AUDIT.all,
    "add intent": TABLES[1].all,
    "add result": TABLES[2].all,
    "add answer": "select * from order_answers order by at_ms",
    "keep silence": "select * from silences order by silence",
    "keep alerts": "select list(alert), list(state), list(since_ms), list(found_ms), list(fired_ms), list(finding) from alerts",
    "keep groups": "select list(group_key), list(notified_ms), list(reported) from alert_groups",
    "add notification": "select * from notifications order by number",
    "add delivery": "select number, receiver, next_ms from deliveries where state = 'waiting' order by number",
}
"""What a history without a journal has filled goes into a new one."""
_LEAVE = [
    f"delete from {name}"  # noqa: S608
    for name in ("order_answers", "silences", "alerts", "alert_groups", "notifications", "deliveries")
]
"""Of a history that enters a journal: what it did alone; its audit must be the journal's."""
ROWS_AT_ONCE = 500
Statements = Sequence[tuple[str, Sequence[Any]]]
"""Names of statements, each with its values."""


class NotLeading(StoreFailed):
    """Another collector leads, or none does: nothing was written."""


class JournalUnanswered(StoreFailed):
    """It is not known whether something was written: whoever leads next finds out."""


class HistoriesDiffer(StoreFailed):
    """This history has something else than the journal."""


class Connection(Protocol):
    """The writer's connection inside one database transaction."""

    def execute(self, query: str, values: Sequence[Any] = ..., /) -> Any:
        """Carry out one statement."""


class Journal(Protocol):
    """Where entries are written first, by one collector at a time."""

    def require_lead(self) -> None:
        """Raise NotLeading where this collector does not lead at this moment."""

    def append(self, entries: Sequence[bytes]) -> list[int]:
        """Write entries, all or none; return the place behind each. Raises NotLeading, JournalUnanswered, StoreFailed."""


class LocalWrite(Protocol):
    """One database transaction of history."""

    def __call__(self, change: Callable[[Connection], T], *, keep: bool) -> T:
        """Carry out a change, or try it and take it back. Raises StoreFailed."""


@dataclass(slots=True)
class _Recorder:
    """Carries statements out and notes those that change something."""

    connection: Connection
    noted: list[tuple[str, Sequence[Any]]]

    def execute(self, query: str, values: Sequence[Any] = (), /) -> Any:
        if (name := _NAMES.get(query)) is not None:
            self.noted.append((name, list(values)))
        elif not query.lstrip().startswith(("select", "with")):
            raise ValueError(f"the journal has no name for {query!r}")
        return self.connection.execute(query, list(values))


class JournalledWrites:
    """Writes through a journal, and carries out what it has. Thread-safe; one entry at a time."""

    def __init__(self, write: LocalWrite, journal: Journal) -> None:
        self._write, self._journal = write, journal
        self._lock = threading.Lock()
        self._waiting: list[tuple[Statements, int]] = []
        """What is in the journal and could not be carried out here yet, with the place behind each."""
        self._source = ""
        self.end = 0
        """The place behind the last entry that was carried out; 0: there was none."""

    def follow(self, source: str) -> None:
        """Go on where this history is in the journal, which is called ``source`` among its sources. Raises StoreFailed."""
        with self._lock:
            if source != self._source:
                self._source, self._waiting = source, []
                self.end = self._write(self._position, keep=False)

    def require_lead(self) -> None:
        """Raise NotLeading where this collector does not lead at this moment."""
        self._journal.require_lead()

    def write(self, change: Callable[[Connection], T]) -> T:
        """Carry out a change by way of the journal; return what it returns. Raises as ``Journal.append``, and StoreFailed."""
        with self._lock:
            self._journal.require_lead()
            self._catch_up()
            noted: list[tuple[str, Sequence[Any]]] = []
            answer = self._write(lambda connection: change(_Recorder(connection, noted)), keep=False)
            if noted:
                (end,) = self._journal.append([encode(noted)])
                self._waiting.append((noted, end))
                self._catch_up()
            return answer

    def carry_out(self, entry: bytes, end: int) -> Statements:
        """Carry out an entry that was read in the journal; return its statements, none where that was done before.

        Raises StoreFailed: it is tried again with the next one. Raises HistoriesDiffer, and ValueError for what is no entry.
        """
        if end <= self.end:
            return ()
        statements = decode(entry)
        with self._lock:
            if end <= self.end:
                return ()
            self._waiting.append((statements, end))
            self._catch_up()
        return statements

    def catch_up(self) -> None:
        """Carry out what could not be before. Raises StoreFailed."""
        with self._lock:
            self._catch_up()

    def begin(self) -> None:
        """Write what this history has into a journal that has nothing. Raises as ``write``."""
        with self._lock:
            if self.end:
                return
            rows = self._write(_rows_of_history, keep=False)
            # At least one, so that this journal has begun.
            entries = [rows[at : at + ROWS_AT_ONCE] for at in range(0, len(rows), ROWS_AT_ONCE)] or [[]]
            end = self._journal.append([encode(entry) for entry in entries])[-1]
            self._write(lambda connection: self._move(connection, end), keep=True)
            self.end = end

    def check(self) -> None:
        """Raise HistoriesDiffer where this history has audit rows that the journal, read to its end, has not."""
        if not self.end:
            return
        last, journalled = self._write(self._last_audits, keep=False)
        if last > journalled:
            raise HistoriesDiffer(
                f"history has audit rows up to {last} and the journal of both collectors up to {journalled}: this one ran "
                "without the other. Keep its audit.jsonl elsewhere and give it an empty directory"
            )

    def _catch_up(self) -> None:
        while self._waiting:
            statements, end = self._waiting[0]
            self._write(partial(self._carry_out, statements=statements, end=end), keep=True)
            self.end = max(self.end, end)
            del self._waiting[0]

    def _carry_out(self, connection: Connection, statements: Statements, end: int) -> None:
        # A write that was given up on may have been carried out late.
        position = self._position(connection)
        if position >= end:
            return
        if not position:
            for query in _LEAVE:
                connection.execute(query)
        for name, values in statements:
            if not _is_there(connection, name, values):
                connection.execute(STATEMENTS[name], list(values))
        self._move(connection, end)

    def _move(self, connection: Connection, end: int) -> None:
        (last,) = connection.execute(sql.LAST_AUDIT).fetchone()
        connection.execute(sql.MOVE_OFFSETS, [[self._source, self._source], [0, 1], [end, last]])

    def _position(self, connection: Connection) -> int:
        return int(dict(connection.execute(sql.NEXT_OFFSETS, [self._source]).fetchall()).get(0, 0))

    def _last_audits(self, connection: Connection) -> tuple[int, int]:
        (last,) = connection.execute(sql.LAST_AUDIT).fetchone()
        return int(last), int(dict(connection.execute(sql.NEXT_OFFSETS, [self._source]).fetchall()).get(1, 0))


def encode(statements: Statements) -> bytes:
    """Return the entry of statements."""
    return json.dumps([[name, list(values)] for name, values in statements], separators=(",", ":")).encode()


def decode(entry: bytes) -> Statements:
    """Return the statements of an entry. Raises ValueError for a name that this program does not know."""
    statements = [(str(name), list(values)) for name, values in json.loads(entry)]
    if unknown := {name for name, _ in statements} - STATEMENTS.keys():
        raise ValueError(f"the journal has {sorted(unknown)}, which this version does not know: use the newer one")
    return statements


def _is_there(connection: Connection, name: str, values: Sequence[Any]) -> bool:
    """Say whether a numbered row is there already, as of a history that was rebuilt. Raises HistoriesDiffer for another one."""
    table = _NUMBERED.get(name)
    if table is None:
        return False
    found = connection.execute(table.one, [values[0]]).fetchone()
    if found is not None and list(found) != list(values):
        raise HistoriesDiffer(
            f"row {values[0]} of {table.name} is another one here than in the journal of both collectors: they ran without "
            "each other. Keep this one's audit.jsonl elsewhere and give it an empty directory"
        )
    return found is not None


def _rows_of_history(connection: Connection) -> list[tuple[str, Sequence[Any]]]:
    return [
        (name, list(row))
        for name, query in _OF_FIRST_ENTRIES.items()
        for row in connection.execute(query).fetchall()
        if row[0] is not None
    ]
