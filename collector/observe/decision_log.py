"""Observes the decision log: which runs started, what was decided, how decided transactions ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ListOffsetsResultInfo, OffsetSpec, ResourceType

from indoubt.collector.history.store import Store
from indoubt.collector.observe.topic_reader import Records, SharedClient, TopicReader
from indoubt.collector.observe.topic_source import HandOver, TopicObserver, quarantined
from indoubt.collector.records.decision_reading import DecisionReading, Entry
from indoubt.collector.records.facts import BrokerIdentity
from indoubt.collector.records.log_settings import LogSettings
from indoubt.collector.records.observations import DecisionSeen, Observed, Position
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.decisions import encode
from indoubt.lifecycle.errors import DecisionLogUnreadable, MissingTopic
from indoubt.resource_managers.kafka.connection import KafkaConnection

END_LIMIT_S = 1.0
"""For the question where the log ends."""
ASK_EVERY_S, ASK_AGAIN_S = 300.0, 10.0
"""How often the topic's configuration is asked for, and how soon after a question that had no answer."""
SETTINGS_LIMIT_S = 30.0
NO_PIPELINE = "no pipeline of indoubt ever ran on this cluster"
AGAIN_FROM = "/again"
"""Behind the source's name: the source under which history has where to read again from, for parts of records. No topic has it."""


class DecisionTopic(TopicObserver):
    """The decision log. Says to the current state whether it can be trusted to be whole."""

    kind = ObserverKind.DECISION_LOG

    def __init__(self, current: CurrentState, store: Store, connection: KafkaConnection, topic: str) -> None:
        super().__init__(current, store, connection, topic)
        self._reading = DecisionReading(topic, known=0, start=0)
        self._unreadable: DecisionLogUnreadable | None = None
        """Why nothing may be said of what was decided although the topic can be read."""
        self._asked: tuple[list[BrokerIdentity], Future[ListOffsetsResultInfo]] | None = None
        """The question where the log ends, and the transactions that were open before it was asked."""
        self._settings = LogSettingsWatch(lambda: SharedClient.of(connection).admin, topic)

    def begin(self, reader: TopicReader) -> None:
        """Begin where history ends, or before, where parts stand of what was not whole then."""
        again_from = self._store.next_offsets(self.source + AGAIN_FROM)
        reader.start(self._source.next_offsets, again_from)
        found = reader.next_offsets
        if set(found) != {0}:
            raise DecisionLogUnreadable(
                f"{self.topic} has {len(found)} partitions: records of several have no order: it needs one"
            )
        self._reading = DecisionReading(self.topic, known=self._source.next_offsets.get(0, 0), start=found[0])

    def decoded(self, records: Records) -> HandOver:
        """Return what hands over the records that are whole with these; those of a log whose head is gone wait for a snapshot."""
        entries: list[Entry] = []
        failure: DecisionLogUnreadable | None = None
        for message in records.messages:
            try:
                entries += self._reading.read(message.offset(), message.value())
            except DecisionLogUnreadable as error:
                failure = error
                break
        observed = [self._observed(entry) for entry in entries]
        next_offset, again_from = self._reading.next_offset, self._reading.begin

        def hand_over() -> None:
            if next_offset is not None:
                places = {(self.source, 0): next_offset, (self.source + AGAIN_FROM, 0): again_from}
                self.current.observe(observed, places)
                self._source.next_offsets[0] = next_offset
                self._unreadable = None
            if failure is not None:
                self._unreadable = failure
                raise failure

        return hand_over

    def read_up_to(self, records: Records) -> None:
        """Nothing: it was noted as the records were handed over, whole ones alone."""

    def polled(self) -> None:
        """Note a successful poll, unless what was read says that the log cannot be trusted."""
        if (settings := self._settings.read()) is not None:
            self.current.see_log_settings(settings)
        if self._unreadable is None:
            super().polled()
        else:
            self.poll_failed(self._unreadable)

    def read_on(self, has_reached_end: bool) -> None:
        """Trust the log once it was read to its end, and is whole; ask where it ends for what was opened since."""
        self._ask_for_end()
        if has_reached_end and self._reading.lack:
            self._unreadable = DecisionLogUnreadable(self._reading.lack)
            self.poll_failed(self._unreadable)
        if self._unreadable is None:
            self.current.see_decision_log(
                DecisionLogStatus.READABLE if has_reached_end else DecisionLogStatus.UNREADABLE
            )

    def _ask_for_end(self) -> None:
        """Learn where the log ends now, if a transaction was opened since: what is written later is later than that one."""
        if self._asked is not None:
            seen, answer = self._asked
            if answer.done():
                self._asked = None
                with contextlib.suppress(KafkaException):
                    self.current.transactions.see_log_end(seen, answer.result().offset)
        elif seen := self.current.transactions.without_log_end():
            at = TopicPartition(self.topic, 0)
            asked = SharedClient.of(self._connection).admin.list_offsets(
                {at: OffsetSpec.latest()}, request_timeout=END_LIMIT_S
            )
            self._asked = seen, asked[at]

    @property
    def note(self) -> str:
        """Return that the topic deletes records by itself, or why this is unknown."""
        settings = self.current.log_settings
        if settings is not None and settings.wrong:
            return f"the topic forgets by itself ({settings.said}): {settings.remedy}"
        return self._settings.denied

    @property
    def absence(self) -> str:
        """Say what a missing log means."""
        return "" if self.has_read else NO_PIPELINE

    def made_anew(self) -> None:
        """Forget what the log before this one said: its offsets mean nothing here."""
        self._unreadable = self._asked = None
        self.current.forget_decisions()

    def failed(self, error: Exception) -> None:
        """Withdraw the trust; a log that never existed means that no pipeline of ours ever ran."""
        if isinstance(error, MissingTopic):
            self.current.see_log_settings(None)
        never_was = isinstance(error, MissingTopic) and not self.has_read
        self.current.see_decision_log(
            DecisionLogStatus.ABSENT if never_was else DecisionLogStatus.UNREADABLE, str(error)
        )

    def _observed(self, entry: Entry) -> Observed:
        position = Position(source=self.source, partition=0, offset=entry.offset)
        if entry.record is None:
            return Observed(position=position, observation=quarantined(entry.value, entry.error))
        seen = DecisionSeen(offset=entry.offset, record=entry.record, counts=entry.counts)
        # A record that came in parts, or in a snapshot, has no value of its own.
        return Observed(position=position, observation=seen, raw=encode(entry.record).decode())


class LogSettingsWatch:
    """For one thread, which calls ``read`` often; each call returns at once."""

    def __init__(
        self, admin: Callable[[], AdminClient], topic: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._admin, self._topic, self._clock = admin, topic, clock
        self._asked: Future[Mapping[str, Any]] | None = None
        self._due_s = clock()
        self.denied = ""
        """Why the configuration may not be read; empty where it may."""

    def read(self) -> LogSettings | None:
        """Return the settings where an answer has come, and ask where a question is due."""
        if self._asked is not None:
            return self._heard(self._asked) if self._asked.done() else None
        if self._clock() >= self._due_s:
            resource = ConfigResource(ResourceType.TOPIC, self._topic)
            self._asked = self._admin().describe_configs([resource], request_timeout=SETTINGS_LIMIT_S)[resource]
        return None

    def _heard(self, answer: Future[Mapping[str, Any]]) -> LogSettings | None:
        self._asked, self._due_s = None, self._clock() + ASK_AGAIN_S
        try:
            entries = answer.result()
        except KafkaException as error:
            self.denied = (
                f"whether {self._topic} forgets by itself is unknown: its configuration cannot be read "
                f"({error.args[0].str()}): allow DescribeConfigs on it"
            )
            return None
        self._due_s, self.denied = self._clock() + ASK_EVERY_S, ""
        return LogSettings.of(self._topic, {name: str(entry.value) for name, entry in entries.items()}, now_ms())
