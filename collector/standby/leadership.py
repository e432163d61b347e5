"""Follows the topic of both collectors, takes the lead when nobody has it, and starts and stops what only the leader does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from indoubt.collector.history.journal import (
    HistoriesDiffer,
    JournalledWrites,
    JournalUnanswered,
    NotLeading,
    Statements,
)
from indoubt.collector.history.row_coding import operator_orders
from indoubt.collector.history.store import Store, StoreFailed
from indoubt.collector.records.orders import OrderOutcome
from indoubt.collector.runtime.clock import now_ms, steady_ns
from indoubt.collector.standby.lease import Lease
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import Fenced, IndoubtError, MalformedRecord, ResourceManagerError, Unreachable
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.collector_topic import (
    CONFIG,
    PREFIX,
    CollectorTopicReader,
    CollectorTopicWriter,
    Kind,
    Lead,
    Record,
)

LEASE_MS, RENEW_MS = 6_000, 1_500
"""The other one takes over after a lease, and what the brokers take to fence: within 10 s."""
READ_LIMIT_S, RETRY_S, STOP_LIMIT_S, CLOSE_LIMIT_S = 0.1, 0.5, 60.0, 2.0
_SENT = {outcome.value for outcome in (OrderOutcome.ACCEPTED, OrderOutcome.FAILED, OrderOutcome.PENDING)}
log = logging.getLogger(__name__)


class Part(Protocol):
    """What only the leader does, in threads of its own; it can be started again."""

    def start(self) -> None:
        """Begin with what history has."""

    def stop(self) -> None:
        """Stop; returns when its threads have ended."""


class Leadership:
    """One thread follows the topic; the journal's writes come from every thread. ``peer``: the address of the other collector."""

    def __init__(
        self,
        connection: KafkaConnection,
        name: str,
        peer: str,
        store: Store,
        current: CurrentState,
        parts: Callable[[], Sequence[Part]],
        *,
        lease_ms: int = LEASE_MS,
        renew_ms: int = RENEW_MS,
    ) -> None:
        self.peer, self.error = peer, ""
        self._connection, self._name, self._store, self._current = connection, name, store, current
        self._parts, self._started = parts, list[Part]()
        self._lease = Lease(lasts_s=lease_ms / 1000, heard_s=_now_s())
        self._renew_s, self._renewed_s = renew_ms / 1000, 0.0
        self._writer = CollectorTopicWriter(connection, name)
        self._journal: JournalledWrites = store.write_by(self)
        self._next = 0
        self._may_write = self._leads = False
        self._lost = ""
        """Why the lead is lost, where a write found that out."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="standby", daemon=True)

    def start(self) -> None:
        """Begin as a standby, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop what the leader does, and let the lead go, so that the other one takes it at once."""
        self._stopping.set()
        self._thread.join(STOP_LIMIT_S)

    @property
    def leads(self) -> bool:
        """Say whether this collector leads at this moment."""
        return self._leads and not self._lost and self._lease.leads(_now_s())

    def require_lead(self) -> None:
        """Raise NotLeading where this collector does not lead at this moment."""
        if not self._may_write or self._lost or not self._lease.leads(_now_s()):
            raise NotLeading(f"this collector is the standby of {self.peer}: {self.error or 'orders go there'}")

    def append(self, entries: Sequence[bytes]) -> list[int]:
        """Write entries of the journal. Raises NotLeading, JournalUnanswered, StoreFailed."""
        self.require_lead()
        began_s = _now_s()
        try:
            ends = self._writer.append(entries, self._lease.until_s - began_s)
        except (Fenced, Unreachable) as error:
            self._lost = str(error)
            raise JournalUnanswered(
                f"this collector may lead no more, and the one that does finds out how this ended: {error}"
            ) from None
        except ResourceManagerError as error:
            raise StoreFailed(str(error)) from None
        self._lease.extend(began_s)
        return ends

    def _run(self) -> None:
        said = ""
        while not self._stopping.is_set():
            try:
                self._open()
                said = ""
            except (IndoubtError, ValueError) as error:
                if str(error) != said:
                    log.warning("the topic of both collectors cannot be followed: %s", error)
                said = str(error)
            except Exception:
                log.exception("the topic of both collectors cannot be followed")
            self._lease.could_not_see(_now_s())
            self._keep_or_lose()
            self._stopping.wait(RETRY_S)
        leads = self._lease.is_mine
        self._stop_parts()
        if leads:
            self._tell(Kind.RELEASE)
        self._writer.close(CLOSE_LIMIT_S)

    def _open(self) -> None:
        topic = PREFIX + self._name
        self._connection.ensure_topic(topic, CONFIG)
        self._journal.follow(f"{topic} {self._connection.topic_ids([topic])[topic]}")
        begin = max(self._next, self._journal.end)
        self._lease.is_new = begin == 0
        self._lease.could_not_see(_now_s())
        with CollectorTopicReader(self._connection, self._name, begin) as reader:
            while not self._stopping.is_set():
                try:
                    record = reader.read(READ_LIMIT_S)
                except MalformedRecord as error:
                    log.error("passed over: %s", error)
                    continue
                if record is not None:
                    self._take_in(record)
                self._keep_or_lose()
                if self._lease.is_mine:
                    self._go_on()
                elif record is None and not self.error and self._lease.is_free(_now_s()) and reader.is_at_end():
                    self._take()

    def _take_in(self, record: Record) -> None:
        self._lease.read(record, _now_s())
        self._next = record.end
        if record.kind is not Kind.ENTRY:
            return
        try:
            statements = self._journal.carry_out(record.entry, record.end)
        except StoreFailed as error:
            if isinstance(error, HistoriesDiffer):
                self._refuse(str(error))
            log.error("what the leader wrote down is not in history yet: %s", error)
            return
        except ValueError as error:
            self._refuse(str(error))
            return
        self._fold(statements)

    def _refuse(self, why: str) -> None:
        if not self.error:
            log.error("this collector cannot take the lead: %s", why)
        self.error = why

    def _fold(self, statements: Statements) -> None:
        for name, values in statements:
            if name == "add audit" and values[6] in _SENT:
                audit, at_ms, who, action, *_, detail, _ = values
                for order in operator_orders([(audit, at_ms, who, action, detail)]):
                    self._current.executed(order)
        if statements:
            self._current.changed()

    def _take(self) -> None:
        """Fence whoever led and begin a lead; this collector leads once it reads that itself."""
        try:
            self._journal.catch_up()
            self._journal.check()
        except HistoriesDiffer as error:
            self._refuse(str(error))
        if self.error:
            return
        limit_s = self._lease.lasts_s
        self._writer.take(limit_s)
        self._renewed_s = _now_s()
        self._writer.begin_lead(self._lead(term=0), limit_s)
        # Until it is read back: nobody else is to be fenced meanwhile by this collector.
        self._lease.could_not_see(_now_s())
        self._lost = ""

    def _go_on(self) -> None:
        """Renew the lead that is this collector's, and begin what only the leader does once it leads."""
        now_s = _now_s()
        if now_s - self._renewed_s >= self._renew_s:
            self._renewed_s = now_s
            self._tell(Kind.RENEWAL)
        if self._leads or not self._lease.leads(now_s):
            return
        self._may_write = True
        try:
            self._journal.catch_up()
            self._journal.begin()
            for part in self._parts():
                self._started.append(part)
                part.start()
        except StoreFailed as error:
            self._lost = str(error)
            return
        self._leads = True
        log.warning("this collector leads")
        self._current.changed()

    def _keep_or_lose(self) -> None:
        """Give the lead up where it was lost: to another one, by a write that was fenced, or since it was not renewed in time."""
        has_begun = self._may_write or self._lease.until_s > 0
        if not has_begun or (self._lease.is_mine and not self._lost and _now_s() < self._lease.until_s):
            return
        why = self._lost or ("its lease ran out" if self._lease.is_mine else "another one took the lead")
        log.warning("this collector leads no more: %s", why)
        self._lease.give_up()
        self._stop_parts()
        self._current.changed()

    def _stop_parts(self) -> None:
        self._leads = False
        while self._started:
            self._started.pop().stop()
        self._may_write = False
        self._lost = ""

    def _tell(self, kind: Kind) -> None:
        self._writer.tell(kind, self._lead(term=self._lease.newest.term if self._lease.newest else 0))

    def _lead(self, term: int) -> Lead:
        until_ms = now_ms() + round(self._lease.lasts_s * 1000)
        return Lead(holder=self._lease.me, term=term, until_ms=until_ms, sent_s=_now_s())


def _now_s() -> float:
    return steady_ns() / 1e9
