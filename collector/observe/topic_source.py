"""An observer of one Kafka topic: reads on from where history ends, quarantines what it cannot understand."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from confluent_kafka import Message

from indoubt.collector.history.store import Store
from indoubt.collector.history.write_queue import Offsets
from indoubt.collector.observe.source import Observer
from indoubt.collector.observe.topic_reader import Records, TopicReader
from indoubt.collector.records.observations import Observation, Observed, Position, Quarantined
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import MalformedRecord, MissingTopic
from indoubt.resource_managers.kafka.connection import KafkaConnection

READ_LIMIT_S = 0.2
MISSING_PAUSE_S = 0.25
"""How long a topic that is made is not seen, at most."""
SHOWN_CHARACTERS = 200
AHEAD_FROM = 1_000
"""Records of one read from which it is likely that more wait: they are decoded while those before them are folded."""
STREAM_FROM = 10
"""Records of one read from which it is likely that more follow at once."""
STREAM_EVERY_S = 0.04
"""So often a stream is read: two hundred records at once take a sixth of the processor time that they take by twenties."""
log = logging.getLogger(__name__)
HandOver = Callable[[], None]


class _Ahead(NamedTuple):
    """Records that were read and not handed over yet."""

    records: Records
    decoded: Future[HandOver]


class TopicObserver(Observer):
    """Subclasses say what records mean."""

    def __init__(self, current: CurrentState, store: Store, connection: KafkaConnection, topic: str) -> None:
        super().__init__(current)
        self.topic = topic
        self._connection, self._store = connection, store
        self._source = store.source_of(topic)
        self._has_reached_end = False

    @property
    def has_caught_up(self) -> bool:
        """Say whether the topic was read to its end since it was opened, and is read on as fast as it grows."""
        return self._has_reached_end

    @property
    def source(self) -> str:
        """Return the name under which history has the records: the topic's, with a number once it was recreated."""
        return self._source.name

    @property
    def has_read(self) -> bool:
        """Say whether any record was read, by this process or one before."""
        return bool(self._source.next_offsets)

    def begin(self, reader: TopicReader) -> None:
        """Have the reader begin where history ends. Raises MissingTopic, Unreachable, ResourceManagerError."""
        reader.start(self._source.next_offsets)

    def read_on(self, has_reached_end: bool) -> None:
        """Called after each poll; for what depends on having seen everything."""

    def made_anew(self) -> None:
        """Called when another topic of the same name has taken the place of the one that was read."""

    def observe(self) -> None:
        """Read the topic until stopped. Raises MissingTopic, Unreachable, ResourceManagerError."""
        self._has_reached_end = False
        with TopicReader(self._connection, self.topic) as reader:
            if not self._is_found(reader):
                return
            if reader.topic_id != self._source.topic_id:
                self._follow(reader.topic_id)
            self.begin(reader)
            self.polled()
            with ThreadPoolExecutor(1, f"{self.name} decoder") as decoder:
                self._follow_on(reader, decoder)

    def _follow_on(self, reader: TopicReader, decoder: ThreadPoolExecutor) -> None:
        """Read on until stopped. While many records come, they are decoded beside, as those before them are folded."""
        ahead: _Ahead | None = None
        try:
            while not self.stopping.is_set():
                records = reader.read(READ_LIMIT_S if ahead is None else 0)
                read_s = time.monotonic()
                is_many = len(records.messages) >= AHEAD_FROM
                begun = _Ahead(records, decoder.submit(self.decoded, records)) if is_many else None
                if ahead is not None:
                    before, ahead = ahead, None
                    self._hand_over(before.records, before.decoded.result())
                if begun is None and records.messages:
                    self._hand_over(records, self.decoded(records))
                ahead = begun
                self.polled()
                has_reached_end = reader.has_reached_end and ahead is None
                self._has_reached_end = has_reached_end or (self._has_reached_end and not reader.is_behind)
                self.read_on(has_reached_end)
                if len(records.messages) >= STREAM_FROM and ahead is None:
                    self.stopping.wait(STREAM_EVERY_S - (time.monotonic() - read_s))
        finally:
            # Also when the next read failed: these were read of this topic, and the next may be another one.
            if ahead is not None:
                self._hand_over(ahead.records, ahead.decoded.result())

    def _is_found(self, reader: TopicReader) -> bool:
        """Ask for the topic until it is there or the observer is stopped; return whether it is. Raises Unreachable and others.

        Many clusters never have it: to ask with the same clients costs nothing, new ones each time took 2 % of a core.
        """
        while not self.stopping.is_set():
            try:
                reader.find()
                return True
            except MissingTopic as error:
                self.poll_failed(error)
            self.stopping.wait(MISSING_PAUSE_S)
        return False

    @abstractmethod
    def decoded(self, records: Records) -> HandOver:
        """Return what hands over the records of a read. Called in the order of the reads, from one thread at a time."""

    def _hand_over(self, records: Records, hand_over: HandOver) -> None:
        hand_over()
        self.count(len(records.messages))
        # Only now: after a failure the topic is read again from here, in this process or the next.
        self.read_up_to(records)

    def read_up_to(self, records: Records) -> None:
        """Note that these records were handed over."""
        self._source.next_offsets.update(records.next_offsets)

    def offsets(self, records: Records) -> Offsets:
        """Return how far the topic was read with these records."""
        return {(self.source, partition): at for partition, at in records.next_offsets.items()}

    def _follow(self, topic_id: str) -> None:
        """Read a topic that history does not know by this id: from its first record when it was recreated."""
        if self._source.topic_id:
            log.warning("topic %s was recreated (id %s): it is read from its start", self.topic, topic_id)
            self.made_anew()
        self._source = self._store.begin_source(self.topic, topic_id)


class RecordTopic(TopicObserver):
    """A topic whose every record is an observation by itself."""

    @abstractmethod
    def decode(self, message: Message) -> Observation:
        """Return what a record says. Raises MalformedRecord."""

    def decoded(self, records: Records) -> HandOver:
        """Return what hands over the records of a read. Called in the order of the reads, from one thread at a time."""
        observed = [self.observed(message) for message in records.messages]
        return lambda: self.current.observe(observed)

    def observed(self, message: Message) -> Observed:
        """Return one record as an observation; what cannot be understood is quarantined."""
        position = Position(source=self.source, partition=message.partition(), offset=message.offset())
        value = message.value()
        raw = value.decode(errors="replace") if value is not None else ""
        try:
            observation = self.decode(message)
        except MalformedRecord as error:
            observation = quarantined(value, str(error))
        return Observed(position=position, observation=observation, raw=raw)


def quarantined(value: bytes | None, error: str) -> Quarantined:
    """Return a value that cannot be understood as what is kept of it: its beginning, in hexadecimal where it is no text."""
    text = value.decode(errors="replace") if value is not None else ""
    shown = text if text.isprintable() else (value or b"").hex()
    return Quarantined(error=error, value=shown[:SHOWN_CHARACTERS], at_ms=now_ms())
