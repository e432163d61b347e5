"""Transactions of history that have ended, kept for a minute: who looks at a page again asks for the same ones."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence

from collector.history import row_decoding, transaction_sql
from collector.history.store import Store
from collector.records.facts import BrokerIdentity, BrokerTransaction

KEPT, KEPT_S = 2_000, 60.0
"""So many for so long (s). What becomes known of one later, from a log that can be read at last, shows within this time."""


class EndedTransactions:
    """Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[BrokerIdentity, tuple[float, BrokerTransaction]] = {}
        """With when each was read, the earliest first."""

    def read(self, store: Store, identities: Sequence[BrokerIdentity]) -> list[BrokerTransaction]:
        """Return those of these transactions that history has, ended or not, in no order. Raises StoreFailed."""
        at_s = self._clock()
        with self._lock:
            for identity in list(itertools.takewhile(lambda each: self._kept[each][0] <= at_s - KEPT_S, self._kept)):
                del self._kept[identity]
            known = [self._kept[identity][1] for identity in identities if identity in self._kept]
        found = {transaction.identity for transaction in known}
        unknown = [identity for identity in identities if identity not in found]
        if not unknown:
            return known
        ids, producer_ids, starts = (list(column) for column in zip(*unknown, strict=True))
        period = min(starts), max(starts)
        rows = store.rows(transaction_sql.TRANSACTIONS_OF_IDENTITIES, ids, producer_ids, starts, *period)
        read = list(row_decoding.transactions(rows))
        with self._lock:
            for transaction in read:
                if transaction.is_final:
                    self._kept.pop(transaction.identity, None)
                    self._kept[transaction.identity] = at_s, transaction
            while len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
        return known + read
