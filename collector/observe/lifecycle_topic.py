"""Observes the lifecycle topic: what pipelines report of their transactions, checkpoints and themselves."""

from __future__ import annotations

from functools import partial

import numpy as np
from confluent_kafka import Message

from indoubt.collector.history.row_coding import events_table
from indoubt.collector.observe.decision_log import NO_PIPELINE
from indoubt.collector.observe.topic_reader import Records
from indoubt.collector.observe.topic_source import HandOver, RecordTopic
from indoubt.collector.records.formats import lifecycle_event_batch
from indoubt.collector.records.observations import EventSeen, Observation
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.lifecycle import events

COLUMNS_FROM = 100
"""Events at once from which columns pay: below, decoding one by one is faster."""


class LifecycleTopic(RecordTopic):
    """Lifecycle events: informational, no decision depends on them."""

    kind = ObserverKind.LIFECYCLE_EVENTS

    @property
    def absence(self) -> str:
        """Say what a missing topic means: where the decision log was ever written it is missed."""
        never_ran = self.current.decision_log_status[0] is DecisionLogStatus.ABSENT
        return NO_PIPELINE if never_ran and not self.has_read else ""

    def decode(self, message: Message) -> Observation:
        """Return the event. Raises MalformedRecord."""
        return EventSeen(event=events.decode(message.value()))

    def decoded(self, records: Records) -> HandOver:
        """Decode events of transactions and checkpoints in columns where there are many, and all others one by one."""
        messages = records.messages
        if len(messages) < COLUMNS_FROM:
            return super().decoded(records)
        columns, numbers = lifecycle_event_batch.decode([message.value() for message in messages])
        is_odd = np.ones(len(messages), bool)
        is_odd[numbers] = False
        others = [self.observed(messages[number]) for number in is_odd.nonzero()[0].tolist()]
        table = events_table(self.source, records.partition[numbers], records.offset[numbers], columns)
        return partial(self.current.observe_events, columns, table, others, self.offsets(records))
