"""Reads the control topic of Iceberg's sinks for Kafka Connect, and looks whether their tables have what was written.

What is in its table is looked at for a day: a coordinator that lives on beside another may add it once more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import groupby
from typing import Any

from confluent_kafka import KafkaException, Message, TopicCollection

from indoubt.collector.observe.iceberg_catalogs import IcebergCatalogs, asking, history_of
from indoubt.collector.observe.source import Observer
from indoubt.collector.observe.topic_reader import MISSING, SharedClient
from indoubt.collector.records.formats import iceberg_events
from indoubt.collector.records.formats.iceberg_events import EventKind
from indoubt.collector.records.iceberg_connect import (
    CLOCKS_MS,
    ConnectSeen,
    CoordinatorGroup,
    Place,
    Placed,
    TableSeen,
    Written,
    coordinator_group,
    place_of,
)
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.errors import MalformedRecord, MissingTopic, ResourceManagerError, Unreachable
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.group_members import DEAD
from indoubt.resource_managers.kafka.group_questions import members
from indoubt.resource_managers.kafka.partitions import KafkaPartitions
from indoubt.resource_managers.topics.topic_follower import TopicFollower

ADDED_KEPT_MS = 86_400_000
"""So long what is in its table is looked at; and so far back the topic is read at the start."""
MOST = 20_000
"""So many events at most are kept, the newest."""
READ_S = 0.2
ASK_LIMIT_S = 5.0


class ConnectTables:
    """Reads tables anew each time, and what a snapshot adds once. ``polled`` is called while that goes on. For one thread."""

    def __init__(self, polled: Callable[[], None]) -> None:
        self._polled, self._catalogs = polled, IcebergCatalogs()
        self._adds: dict[str, dict[int, frozenset[str]]] = {}
        """Table -> snapshot -> the files that it adds, as its manifests said."""

    def seen(self, name: str, since_ms: int) -> TableSeen:
        """Return a table as it is now, with what its snapshots since then (epoch ms) add. Raises ResourceManagerError."""
        with asking(name):
            table = self._catalogs.table(name)
            history, known = history_of(table), self._adds.get(name, {})
            recent = [each.id for each in history.snapshots.values() if each.at_ms >= since_ms]
            self._adds[name] = {each: known[each] for each in recent if each in known}
            for each in recent:
                if each not in known:
                    self._adds[name][each] = _added(table, each)
                    self._polled()
            return TableSeen(str(table.metadata.table_uuid), history, self._adds[name])


class IcebergConnect(Observer):
    """``topic``: the control topic; ``interval_ms``: time between two looks at the tables."""

    kind = ObserverKind.ICEBERG_CONNECT
    absence = "no sink of Iceberg for Kafka Connect writes to this cluster"

    def __init__(self, current: CurrentState, connection: KafkaConnection, topic: str, *, interval_ms: int) -> None:
        super().__init__(current, topic)
        self._connection, self._topic, self._interval_s = connection, topic, interval_ms / 1000
        self._tables = ConnectTables(self.polled)
        self._written: dict[tuple[int, int], Written] = {}
        """(partition, offset) -> what was written, the oldest first within a partition."""
        self._malformed, self._is_there, self._has_looked = "", False, False
        self._unasked: dict[tuple[str, str], str] = {}
        """(group, table) -> why it could not be asked at the last look."""
        self._placed: tuple[Placed, ...] = ()

    @property
    def is_listed(self) -> bool:
        """Say whether the status page shows it: most clusters have no such topic, or none that may be read."""
        return self._is_there

    @property
    def has_caught_up(self) -> bool:
        """Say whether what it tells is of everything that was written."""
        return self._has_looked

    @property
    def note(self) -> str:
        """Return what is not in its table, and what could not be asked or read."""
        found = [f"{group} to {table}: {why}" for (group, table), why in sorted(self._unasked.items())]
        odd = sorted(
            (each for each in self._placed if each.place not in (Place.ADDED, Place.WAITING)),
            key=lambda each: list(Place).index(each.place),
        )
        for place, of_place in groupby(odd, key=lambda each: each.place):
            every = list(of_place)
            found.append(f"{counted(len(every), 'write')} {place.value}, the last of them: {every[-1].why}")
        return "; ".join([*found, *([self._malformed] if self._malformed else [])])

    def observe(self) -> None:
        """Read and look until stopped. Raises MissingTopic, Unreachable, ResourceManagerError."""
        self._find()
        self._is_there = True
        with TopicFollower(
            self._connection, self._topic, "indoubt-collector", since_ms=now_ms() - ADDED_KEPT_MS
        ) as follower:
            look_s = 0.0
            while not self.stopping.is_set():
                message = follower.read(READ_S)
                if message is not None:
                    self._take(message)
                elif time.monotonic() >= look_s and follower.is_at_end():
                    self.look()
                    self._has_looked = True
                    self.polled()
                    look_s = time.monotonic() + self._interval_s

    def look(self) -> None:
        """Look once for everything that was written. Raises Unreachable, ResourceManagerError."""
        at_ms, written = now_ms(), list(self._written.values())
        # The groups first, then the tables: a coordinator adds to the table, then commits its group's offsets.
        groups = self._groups({each.event.group for each in written})
        self._unasked = {}
        placed: list[Placed] = []
        by_table = sorted(written, key=lambda each: each.event.table)
        for table, of_table in groupby(by_table, key=lambda each: each.event.table):
            every = list(of_table)
            try:
                seen = self._tables.seen(table, min(each.event.at_ms for each in every) - CLOCKS_MS)
            except ResourceManagerError as error:
                self._unasked |= {(each.event.group, table): str(error) for each in every}
                continue
            for each in every:
                if (coordinators := groups.get(each.event.group)) is not None:
                    placed.append(place_of(each, seen, coordinators))
                else:
                    group = coordinator_group(each.event.group)
                    self._unasked[(each.event.group, table)] = f"group {group} cannot be asked"
        self._forget(placed, at_ms)
        self._placed = tuple(placed)
        told = ConnectSeen(
            at_ms=at_ms,
            placed=self._placed,
            coordinators={group: each.members or 0 for group, each in groups.items()},
            unasked=frozenset(self._unasked),
        )
        self.current.iceberg_connect = {**self.current.iceberg_connect, self._topic: told}
        self.current.changed()

    def _find(self) -> None:
        """Raise MissingTopic where the topic is not there: a consumer that asks for it does not say so."""
        if self._is_missing:
            self.stopping.wait(self._interval_s)
        asked = SharedClient.of(self._connection).admin.describe_topics(
            TopicCollection([self._topic]), request_timeout=ASK_LIMIT_S
        )
        try:
            asked[self._topic].result(2 * ASK_LIMIT_S)
        except (KafkaException, TimeoutError) as error:
            is_missing = isinstance(error, KafkaException) and error.args[0].code() in MISSING
            kind = MissingTopic if is_missing else Unreachable
            raise kind(f"topic {self._topic} cannot be read: {error}") from None

    def _take(self, message: Message) -> None:
        partition, offset, value = message.partition(), message.offset(), message.value()
        try:
            event = iceberg_events.decode(value or b"")
        except MalformedRecord as error:
            self._malformed = f"offset {offset} of {self._topic}-{partition} cannot be read: {error}"
            return
        self.count(1)
        if event.kind is EventKind.DATA_WRITTEN and event.files:
            self._written[(partition, offset)] = Written(self._topic, partition, offset, event)
            if len(self._written) > MOST:
                del self._written[next(iter(self._written))]

    def _groups(self, groups: Collection[str]) -> Mapping[str, CoordinatorGroup]:
        """Return the group of each connector's coordinators; one whose owner does not answer is missing."""
        names = {group: coordinator_group(group) for group in groups}
        present = members(self._connection, names.values(), now_ms()).found
        offsets = KafkaPartitions(self._connection, "").group_offsets(dict.fromkeys(names.values())).found
        return {
            group: CoordinatorGroup(
                members=None if present[name].state == DEAD else present[name].count,
                offsets={number: at for (topic, number), at in offsets[name].items() if topic == self._topic},
            )
            for group, name in names.items()
            if name in present and name in offsets
        }

    def _forget(self, placed: Iterable[Placed], at_ms: int) -> None:
        """Forget what is in its table for long."""
        for each in placed:
            if each.place is Place.ADDED and each.written.event.at_ms < at_ms - ADDED_KEPT_MS:
                del self._written[(each.written.partition, each.written.offset)]


def _added(table: Any, snapshot: int) -> frozenset[str]:
    """Return the data and delete files that a snapshot adds."""
    return frozenset(
        entry.data_file.file_path
        for manifest in table.snapshot_by_id(snapshot).manifests(table.io)
        if manifest.added_snapshot_id == snapshot
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        if entry.status == 1 and entry.snapshot_id == snapshot
    )
