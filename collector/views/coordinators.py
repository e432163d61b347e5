"""Asks the transaction coordinators what they know of producers that hold a partition open."""

from __future__ import annotations

from collections.abc import Collection

from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.hanging_transactions import CoordinatorView, Doubt, doubt, key_of
from indoubt.collector.verdicts.known_ends import KnownEnd, known_end
from indoubt.collector.views.current_state import CurrentState
from indoubt.resource_managers.kafka.answers import AnswerKind
from indoubt.resource_managers.kafka.partitions import KafkaPartitions, Layout, OpenProducer

NOBODYS_ID = "indoubt-may-i-describe"
"""Asked about beside others: whoever may not describe it may not see the ids of others either."""


class Coordinators:
    """Thread-safe; nothing rests on what was asked before."""

    def __init__(self, partitions: KafkaPartitions, current: CurrentState) -> None:
        self._partitions, self._current = partitions, current
        self.sees_all = True
        """False where the last look may have missed transactional ids."""

    def doubts(self, producers: Collection[OpenProducer], layout: Layout) -> dict[str, Doubt | None]:
        """Return by key what the coordinators hold against each of these, None where they explain it.

        There is no entry for one whose coordinator did not answer, nor, where the collector's user may not describe any id, for one
        that no id is known to have. Raises Unreachable when a coordinator is missing: nothing can be said of any producer id then.
        """
        if not producers:
            return {}
        wanted = {producer.producer_id for producer in producers}
        listed = self._partitions.transactional_ids(wanted, layout)
        remembered = self._current.transactions.ids_of_producers(wanted)
        ids = {number: listed.get(number, frozenset()) | remembered.get(number, frozenset()) for number in wanted}
        described = self._partitions.describe_transactions({NOBODYS_ID, *(id_ for own in ids.values() for id_ in own)})
        refused = described.failed.get(NOBODYS_ID)
        self.sees_all = sees_all = refused is None or refused.kind is not AnswerKind.NOT_AUTHORIZED
        ends = self._known_ends(producers, layout)
        asked_ms = now_ms()
        found: dict[str, Doubt | None] = {}
        for producer in producers:
            its_ids = sorted(ids[producer.producer_id])
            if any(id_ in described.failed for id_ in its_ids):
                continue
            rows = {id_: described.found[id_] for id_ in its_ids}
            having = tuple(t for t in rows.values() if t is not None and t.producer_id == producer.producer_id)
            moved = tuple(id_ for id_, t in rows.items() if t not in having)
            if not having and not sees_all:
                continue
            view = CoordinatorView(transactions=having, moved=moved, asked_ms=asked_ms, end=ends.get(producer))
            found[key_of(producer)] = doubt(producer, view, asked_ms)
        return found

    def _known_ends(self, producers: Collection[OpenProducer], layout: Layout) -> dict[OpenProducer, KnownEnd]:
        written = self._current.transactions.written_at(
            {(producer.producer_id, producer.producer_epoch) for producer in producers}
        )
        asked = [producer for producer in producers if (producer.producer_id, producer.producer_epoch) in written]
        first = self._partitions.first_epochs(asked, layout) if asked else {}
        ends = (
            (producer, known_end(producer, written[producer.producer_id, producer.producer_epoch], first.get(producer)))
            for producer in asked
        )
        return {producer: end for producer, end in ends if end is not None}
