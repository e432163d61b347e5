"""The transactions that are known now, with their verdicts: pages, orders and alerts ask for them, observers for what is open."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager

from indoubt.collector.facts import transaction_join, transaction_pages, transactions_of_batches
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_pages import OpeningKey
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.facts import (
    BrokerIdentity,
    BrokerTransaction,
)
from indoubt.collector.verdicts import judging, known_ends, loss_cases
from indoubt.collector.verdicts.judging import EvaluationContext, Judged
from indoubt.collector.verdicts.known_ends import WrittenAt
from indoubt.collector.verdicts.verdict_case import Case
from indoubt.lifecycle.decisions import BatchAttempt
from indoubt.lifecycle.identity import TransactionalId

CASES_AT_ONCE = 1_000
"""So many are read at once while observers and answers wait: 30 ms."""


class CurrentTransactions:
    """A part of the current state, behind its lock. ``reading`` gives the state, ``moment`` what verdicts of now rest on."""

    def __init__(
        self,
        reading: Callable[[], AbstractContextManager[State]],
        moment: Callable[[int | None], EvaluationContext],
    ) -> None:
        self._reading, self._moment = reading, moment

    def judged(self, *, settled: bool = False, at_ms: int | None = None) -> list[Judged]:
        """Return in no order the transactions whose verdict may be another than settled; with ``settled`` all in memory."""
        return judging.judged(self.cases(settled=settled, at_ms=at_ms))

    def cases(self, *, settled: bool = False, at_ms: int | None = None) -> list[Case]:
        """Return what the rules read of the same transactions, in no order.

        With thousands of them observers fold on meanwhile: each transaction is as it was at one moment, not all at the same.
        """
        moment = self._moment(at_ms)
        with self._reading() as state:
            if settled:
                return moment.cases(state, transaction_join.views(state, settled=True))
            found = moment.cases(state, transaction_join.not_open(state))
            open_ = list(state.open)
        for first in range(0, len(open_), CASES_AT_ONCE):
            # Who waits for the lock takes it now: a thread that asks again at once would have it first.
            time.sleep(0)
            with self._reading() as state:
                broker = state.broker
                known = (identity for identity in open_[first : first + CASES_AT_ONCE] if identity in broker)
                found += moment.cases(state, (transaction_join.at_coordinator(state, i) for i in known))
        return found

    def settled(
        self,
        *,
        most: int,
        after: OpeningKey | None,
        pipeline: str | None,
        resource_manager: str | None,
        fits: Callable[[TransactionView], bool] | None = None,
    ) -> tuple[list[Judged], int]:
        """Return up to ``most`` of the transactions that ``judged`` leaves out, newest opening first, and how many more there are.

        ``after``: those behind that one; ``pipeline``, ``resource_manager``: of these only; ``fits``: those alone of
        which it says so.
        """
        moment = self._moment(None)
        with self._reading() as state:
            found = transaction_pages.settled(
                state,
                most=most,
                after=after,
                pipeline=pipeline,
                resource_manager=resource_manager,
                fits=fits,
            )
            cases = moment.cases(state, found.views)
        return judging.judged(cases), found.more

    def judged_of_batches(self, chosen: Callable[[BatchAttempt], bool]) -> list[Judged]:
        """Return in no order every transaction in memory, settled or not, whose batch is known and ``chosen``."""
        return self._judged(lambda state: transactions_of_batches.of_batches(state, chosen))

    def judged_of_checkpoint(self, number: int) -> list[Judged]:
        """Return in no order every transaction in memory, settled or not, that a checkpoint of this number holds."""

        def held(state: State) -> Iterator[TransactionView]:
            found = transactions_of_batches.of_checkpoint(state, number)
            return (view for view in found if view.checkpoint == number)

        return self._judged(held)

    def complete_attempts(self) -> dict[tuple[str, BatchAttempt], int]:
        """Return (pipeline, attempt) -> opening (epoch ms), of attempts at batches that are committed for sure, in no order."""
        with self._reading() as state:
            return transaction_pages.complete_attempts(state)

    def judged_of_shared(self, doubtful: Collection[tuple[str, int]], at_ms: int) -> list[Judged]:
        """Return every transaction in memory, settled or not, of batches that several resource managers hold, in no order.

        Of those of these (checkpoint id, batch), and of those of which a coordinator has undone a part.
        """

        def of_shared(state: State) -> Iterator[TransactionView]:
            shared = transactions_of_batches.shared_batches(state)
            handles = (state.broker[identity].handle_identity for identity in state.aborted if shared)
            reported = [state.reported[handle] for handle in handles if handle in state.reported]
            attempts = (transactions_of_batches.batch_attempt_of(state, each) for each in reported)
            undone = {(attempt.checkpoint_id, attempt.batch) for attempt in attempts if attempt is not None}
            chosen = shared & (undone | set(doubtful))
            return transactions_of_batches.of_batches(
                state, lambda attempt: (attempt.checkpoint_id, attempt.batch) in chosen
            )

        return self._judged(of_shared, at_ms)

    def find(self, key: str) -> Judged | None:
        """Return one transaction with its verdict now, or None when it is not in memory."""

        def found(state: State) -> list[TransactionView]:
            view = transaction_join.find(state, key)
            return [view] if view is not None else []

        return next(iter(self._judged(found)), None)

    def _judged(self, views: Callable[[State], Iterable[TransactionView]], at_ms: int | None = None) -> list[Judged]:
        moment = self._moment(at_ms)
        with self._reading() as state:
            cases = moment.cases(state, views(state))
        return judging.judged(cases)

    def judged_of_past(self, past: State, views: Callable[[State], Iterable[TransactionView]]) -> list[Judged]:
        """Return the transactions that ``views`` takes out of a past, judged with what only memory knows, in their order."""
        moment = self._moment(None)
        with self._reading() as state:
            loss_cases.share(past, state)
            past.last_decided, past.pipelines = state.last_decided, state.pipelines
            cases = moment.cases(past, views(past))
        return judging.judged(cases)

    def open_at_coordinators(self) -> list[BrokerTransaction]:
        """Return the transactions that are not known to have ended, each the newest of its id, in no order."""
        with self._reading() as state:
            newest = (i for i in state.open if state.latest_of_id.get(i.transaction) == i)
            found = [state.broker[identity] for identity in newest]
        return [transaction for transaction in found if transaction.gone_ms is None]

    def id_seen_last(self) -> str | None:
        """Return the transactional id that has appeared last of those in memory, or None where none is known."""
        with self._reading() as state:
            return next(reversed(state.latest_of_id), None)

    def without_log_end(self) -> list[BrokerIdentity]:
        """Return the open transactions of pipelines of ours of which it is not known where the decision log ended since."""
        with self._reading() as state:
            found = (identity for identity in state.open if identity not in state.log_end_of)
            return [identity for identity in found if TransactionalId.parse(identity.transaction) is not None]

    def see_log_end(self, seen: Collection[BrokerIdentity], end: int) -> None:
        """Note that the decision log ended at this offset when all of these were open already."""
        with self._reading() as state:
            state.log_end_of.update({each: end for each in seen if each in state.open})

    def known_ids(self, most: int) -> list[str]:
        """Return transactional ids whose transactions are in memory, at most so many: those with an open one first."""
        with self._reading() as state:
            open_ = (identity.transaction for identity in state.open)
            newest = reversed(state.latest_of_id)
            return list(itertools.islice(dict.fromkeys(itertools.chain(itertools.islice(open_, most), newest)), most))

    def ids_of_producers(self, producer_ids: Collection[int]) -> dict[int, frozenset[str]]:
        """Return the transactional ids that these producer ids were seen under, as far as they are in memory."""
        found: dict[int, set[str]] = {}
        with self._reading() as state:
            for identity in state.broker:
                if identity.producer_id in producer_ids:
                    found.setdefault(identity.producer_id, set()).add(identity.transaction)
        return {producer_id: frozenset(ids) for producer_id, ids in found.items()}

    def written_at(self, wanted: Collection[tuple[int, int]]) -> dict[tuple[int, int], WrittenAt]:
        """Return by (producer id, epoch) which transactions were written at it, as far as they are in memory."""
        with self._reading() as state:
            return known_ends.written_at(state, wanted)
