"""Makes records of the decision log's values, in their order: parts put together, a head that is gone made up for by a snapshot.

No I/O. What cannot be made up for, or was written by a newer program, makes the log unreadable: nothing may be said of it then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from indoubt.collector.records.observations import FoldedRecord
from indoubt.lifecycle.decision_parts import PARTS_SPAN, RecordAssembly
from indoubt.lifecycle.decisions import Snapshot
from indoubt.lifecycle.errors import DecisionLogUnreadable, MalformedRecord, UnknownVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One record at its offset, or the ``error`` of a ``value`` that is none; ``counts`` is known of what a snapshot repeats."""

    offset: int
    value: bytes | None
    record: FoldedRecord | None = None
    counts: bool | None = None
    error: str = ""


class DecisionReading:
    """Feed it every value from ``start`` on. ``known``: the first offset that history does not have.

    It starts before ``known`` where parts stand there of records that are whole only behind it. Where it starts behind, records
    are gone: entries come once a snapshot stands for them.
    """

    def __init__(self, topic: str, *, known: int, start: int) -> None:
        self._topic, self._known, self._start, self._next = topic, known, start, start
        self._assembly = RecordAssembly()
        self._is_cut = start > known
        # A snapshot stands for all that was in the log when it was made; behind that come the few that were written meanwhile.
        self._held: deque[Entry] = deque(maxlen=PARTS_SPAN)
        self._failure: DecisionLogUnreadable | None = None

    @property
    def next_offset(self) -> int | None:
        """Return the first offset that is not in the entries so far, or None while a snapshot is waited for."""
        return None if self._is_cut else max(self._known, self._next)

    @property
    def begin(self) -> int:
        """Return where the next reader must start so that it has all parts of what will be whole behind ``next_offset``."""
        return self._assembly.begin(self._next)

    @property
    def lack(self) -> str:
        """Return what is missing, once the log was read to its end; empty when nothing is."""
        if not self._is_cut:
            return ""
        return (
            f"the records of {self._topic} from offset {self._known} to {self._start - 1} are gone, and no snapshot stands for "
            "them: it is unknown what they decided. Find out what deleted them (retention.ms, retention.bytes, DeleteRecords) "
            "and end it; a pipeline that still runs on this log writes a snapshot within the hour"
        )

    def read(self, offset: int, value: bytes | None) -> list[Entry]:
        """Return what is known with this value, in log order. Raises DecisionLogUnreadable, and again for all that follows."""
        if self._failure is None:
            try:
                return list(self._read(offset, value))
            except DecisionLogUnreadable as error:
                self._failure = error
        raise self._failure

    def _read(self, offset: int, value: bytes | None) -> Iterator[Entry]:
        if offset != self._next:
            raise DecisionLogUnreadable(
                f"{self._topic} has no record at offset {self._next}, the next one is at {offset}: records inside the log are "
                "gone (is the topic compacted?), so it is unknown what was decided"
            )
        found = self._found(offset, value)
        self._next = offset + 1
        if found is None or offset < self._known:
            return
        if isinstance(found, Snapshot):
            if self._is_cut and self._stands_for_what_is_gone(found):
                self._is_cut = False
                yield from self._made_up(found)
        elif self._is_cut:
            self._held.append(found)
        else:
            yield found

    def _found(self, offset: int, value: bytes | None) -> Entry | Snapshot | None:
        try:
            record = self._assembly.read(offset, value)
        except UnknownVersion as error:
            raise DecisionLogUnreadable(
                f"{self._topic} holds at offset {offset} what a newer program wrote ({error}): it may decide what this collector "
                "cannot see. Update the collector"
            ) from None
        except MalformedRecord as error:
            return Entry(offset=offset, value=value, error=str(error))
        if record is None or isinstance(record, Snapshot):
            return record
        return Entry(offset=offset, value=value, record=record)

    def _stands_for_what_is_gone(self, snapshot: Snapshot) -> bool:
        """Say whether all that it does not repeat is here, also the parts of what became whole behind it."""
        first_held = self._held[0].offset if len(self._held) == self._held.maxlen else self._start
        return snapshot.begin >= self._start and snapshot.covers >= first_held

    def _made_up(self, snapshot: Snapshot) -> Iterator[Entry]:
        for kept in snapshot.kept:
            if kept.offset >= self._known:
                yield Entry(offset=kept.offset, value=None, record=kept.record, counts=kept.counts)
        for entry in self._held:
            if entry.offset >= snapshot.covers:
                yield entry
        self._held.clear()
