"""What history keeps of orders: intents before anything is sent, audit rows after, the first answer to each idempotency key.

And one lock per key, for as long as a thread holds it or waits for it.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from indoubt.collector.act.orders.plan import PlannedAction
from indoubt.collector.history import sql
from indoubt.collector.history.store import Connection, Store, insert_audit
from indoubt.collector.records.orders import STANDING_ORDER, Order, OrderOutcome, OrderResult
from indoubt.collector.runtime.clock import now_ms
from indoubt.lifecycle.errors import OrderRefused
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.row_json import read_row, row_to_json

OK, UNDER_WAY, REFUSED = 200, 202, 409


class KeyReused(OrderRefused):
    """An idempotency key came with another order before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One row of the audit, but its number and time."""

    who: str
    action: Action
    keys: Sequence[str]
    reason: str
    outcome: OrderOutcome
    detail: str
    evidence: Sequence[Any] = ()

    def values(self) -> tuple[Any, ...]:
        """Return its columns in the order of the table, from the time on."""
        keys, evidence = json.dumps(list(self.keys)), json.dumps(list(self.evidence))
        return (now_ms(), self.who, self.action.value, keys, self.reason, self.outcome.value, self.detail, evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """An order that was about to be carried out; ``first_audit`` is None where the collector ended in the middle of it."""

    intent: int
    at_ms: int
    who: str
    action: Action
    reason: str
    evidence: Sequence[Any]
    actions: tuple[PlannedAction, ...]
    idempotency_key: str
    digest: str
    first_audit: int | None = None
    unknown: frozenset[str] = frozenset()
    given_s: float = field(default_factory=time.monotonic, compare=False)
    """When it was given, by this process's monotonic clock: a stepped clock makes no order old."""

    @property
    def standing_order(self) -> str:
        """Return the name of the standing order that gave it; empty: a person did."""
        return next((str(fact[STANDING_ORDER]) for fact in self.evidence if STANDING_ORDER in fact), "")

    @property
    def age_ms(self) -> float:
        """Return how long ago it was given."""
        return (time.monotonic() - self.given_s) * 1000


class OrderHistory:
    """Reads and writes the orders' tables. Every method raises StoreFailed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def answer_to(self, order: Order, who: str) -> OrderResult | None:
        """Return the first answer to this order's idempotency key, None where there is none yet.

        Raises OrderRefused when that answer was a refusal, KeyReused when the key came with another body before.
        """
        if not order.idempotency_key:
            return None
        digest = self.digest_of(order.idempotency_key, who)
        if digest not in (None, order.digest):
            raise KeyReused(
                f"idempotency key {order.idempotency_key!r} came with another order before: give each order a key of "
                "its own. Nothing was done"
            )
        return self.first_answer(order.idempotency_key, who)

    def digest_of(self, idempotency_key: str, who: str) -> str | None:
        """Return the digest of the order that this caller's key came with first, None where it is new."""
        rows = self._store.rows(sql.ORDER_ANSWER, who, idempotency_key)
        return str(rows[0][0]) if rows else None

    def first_answer(self, idempotency_key: str, who: str) -> OrderResult | None:
        """Return the first answer to this caller's key, None where it is new. Raises OrderRefused when it was a refusal."""
        for _, status, answer in self._store.rows(sql.ORDER_ANSWER, who, idempotency_key):
            if status != OK:
                raise OrderRefused(answer)
            return read_row(OrderResult, json.loads(answer))
        return None

    def intend(self, order: Order, who: str, evidence: Sequence[Any], actions: Sequence[PlannedAction]) -> Intent:
        """Write down what is about to be sent."""
        at_ms = now_ms()
        kept = (at_ms, who, order.action.value, order.reason, json.dumps(list(evidence)))
        texts = (json.dumps([planned.to_json() for planned in actions]), order.idempotency_key, order.digest)

        def insert(connection: Connection) -> int:
            (last,) = connection.execute(sql.LAST_INTENT).fetchone()
            connection.execute(sql.ADD_INTENT, [last + 1, *kept, *texts])
            return int(last) + 1

        return Intent(
            intent=self._store.write(insert),
            at_ms=at_ms,
            who=who,
            action=order.action,
            reason=order.reason,
            evidence=evidence,
            actions=tuple(actions),
            idempotency_key=order.idempotency_key,
            digest=order.digest,
        )

    def refuse(self, order: Order, who: str, row: AuditRow, intent: Intent | None = None) -> int:
        """Write down a refusal, which is the answer to the order's idempotency key from now on; return the audit number."""

        def change(connection: Connection) -> int:
            audit = _add(connection, row, intent, ())
            _answer(connection, who, order.idempotency_key, order.digest, REFUSED, row.detail)
            return audit

        return self._store.write(change)

    def conclude(
        self, order: Order, row: AuditRow, result: OrderResult, intent: Intent | None, unknown: Sequence[str] = ()
    ) -> OrderResult:
        """Write down how an order ended (or its dry run) and the answer; return the answer with its audit number."""

        def change(connection: Connection) -> OrderResult:
            audit = _add(connection, row, intent, unknown)
            answer = _numbered(result, audit)
            text = json.dumps(row_to_json(answer))
            _answer(connection, row.who, order.idempotency_key, order.digest, OK, text)
            return answer

        return self._store.write(change)

    def interrupted(self, intent: Intent, row: AuditRow, result: OrderResult) -> Intent:
        """Write down an order that was cut short before its audit row, and return the intent with that row's number.

        A row that came late, after the writer had been given up on, is taken as it is.
        """

        def change(connection: Connection) -> tuple[int, frozenset[str]]:
            found = connection.execute(sql.RESULT_OF_INTENT, [intent.intent]).fetchone()
            if found is not None:
                return found[0], frozenset(json.loads(found[1]))
            unknown = [planned.key for planned in intent.actions]
            audit = _add(connection, row, intent, unknown)
            text = json.dumps(row_to_json(_numbered(result, audit)))
            _answer(connection, intent.who, intent.idempotency_key, intent.digest, OK, text)
            return audit, frozenset(unknown)

        audit, unknown = self._store.write(change)
        return replace(intent, first_audit=audit, unknown=unknown)

    def followed_up(self, intent: Intent, row: AuditRow, unknown: Sequence[str]) -> int:
        """Write down what became known later; ``unknown`` are the keys that still are not. Return the audit number."""
        return self._store.write(lambda connection: _add(connection, row, intent, unknown, intent.first_audit))

    def require_lead(self) -> None:
        """Raise NotLeading where another collector may be leading at this moment: it alone acts."""
        self._store.require_lead()

    def audit(self, row: AuditRow) -> int:
        """Write down what is neither the answer to an idempotency key nor about an intent; return the audit number."""
        return self._store.append_audit(row.values())

    def begin_run(self, order: Order, who: str, kept: str) -> None:
        """Write down a run before its first part: ``kept``, JSON, is all that a later start knows of it."""

        def change(connection: Connection) -> None:
            _answer(connection, who, run_key(order.idempotency_key), order.digest, UNDER_WAY, kept)

        self._store.write(change)

    def end_run(self, who: str, idempotency_key: str, kept: str, row: AuditRow | None) -> None:
        """Write down that a run is over, as ``kept``, and an audit row of what was not sent."""

        def change(connection: Connection) -> None:
            if row is not None:
                insert_audit(connection, row.values())
            connection.execute(sql.END_ORDER_RUN, [OK, kept, who, run_key(idempotency_key)])

        self._store.write(change)

    def run(self, who: str, idempotency_key: str) -> tuple[str, str] | None:
        """Return the digest and what is kept of this caller's run under this key, None where there is none."""
        rows = self._store.rows(sql.ORDER_ANSWER, who, run_key(idempotency_key))
        return (rows[0][0], rows[0][2]) if rows else None

    def runs_under_way(self) -> list[tuple[str, str, str]]:
        """Return who gave each run that is not over, its digest and what is kept of it, the oldest first."""
        return [(who, digest, kept) for who, digest, kept in self._store.rows(sql.ORDER_RUNS_UNDER_WAY, UNDER_WAY)]

    def unsettled(self) -> list[Intent]:
        """Return the intents of which something is not known, oldest first."""
        return [_intent(row) for row in self._store.named_rows(sql.UNSETTLED_INTENTS)]


class KeyLocks:
    """The same order sent twice at once is carried out once: the second waits for the first one's answer."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[Hashable, tuple[threading.Lock, int]] = {}

    @contextlib.contextmanager
    def held(self, key: Hashable | None) -> Iterator[None]:
        """Hold the lock of ``key``; None holds nothing."""
        if key is None:
            yield
            return
        with self._guard:
            lock, users = self._locks.get(key, (threading.Lock(), 0))
            self._locks[key] = (lock, users + 1)
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, users = self._locks.pop(key)
                if users > 1:
                    self._locks[key] = (lock, users - 1)


def run_key(idempotency_key: str) -> str:
    """Return the key under which a run is kept: no caller can send one with a blank."""
    return f"{idempotency_key} run"


def _add(
    connection: Connection, row: AuditRow, intent: Intent | None, unknown: Sequence[str], refers_to: int | None = None
) -> int:
    audit = insert_audit(connection, row.values())
    if intent is not None:
        connection.execute(sql.ADD_ORDER_RESULT, [audit, intent.intent, refers_to, json.dumps(list(unknown))])
    return audit


def _answer(connection: Connection, who: str, key: str, digest: str, status: int, answer: str) -> None:
    if key:
        connection.execute(sql.ADD_ORDER_ANSWER, [who, key, digest, now_ms(), status, answer])


def _numbered(result: OrderResult, audit: int) -> OrderResult:
    return replace(result, audit=audit)


def _intent(row: dict[str, Any]) -> Intent:
    actions = tuple(PlannedAction.from_json(planned) for planned in json.loads(row["acts"]))
    unknown = json.loads(row["unknown"]) if row["unknown"] is not None else [planned.key for planned in actions]
    return Intent(
        intent=row["intent"],
        at_ms=row["at_ms"],
        who=row["who"],
        action=Action(row["action"]),
        reason=row["reason"],
        evidence=json.loads(row["evidence"]),
        actions=actions,
        idempotency_key=row["idempotency_key"],
        digest=row["digest"],
        first_audit=row["first_audit"],
        unknown=frozenset(unknown),
        given_s=time.monotonic() - max(0, now_ms() - row["at_ms"]) / 1000,
    )
