"""Offsets of finished checkpoints, committed to a consumer group too, so that ordinary lag tools see the pipeline.

Nothing reads them back: Spark's own offset log says where a pipeline goes on. A group of that name that another application
uses is left alone: it would go on where the pipeline has read to.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from kafka import TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from indoubt.lifecycle.errors import IndoubtError, SettingsError
from indoubt.lifecycle.identity import Marker
from indoubt.resource_managers.kafka import group_questions
from indoubt.resource_managers.kafka.answers import answer_of_error
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.wire import wire

log = logging.getLogger(__name__)

LEFT_OUT = ("malformed", "too_long")
"""Observed metrics by which the jobs count rows that they leave out."""
OURS = "indoubt:0"
"""What stands beside each offset that is committed here; it parses as a marker, as do those of slots in groups of their own."""
CLOSE_LIMIT_S = 5.0
RETRY_S = 0.2
SETTLING_S = 10.0
"""How long the group's coordinator may be moving when a pipeline starts."""

Positions = dict[TopicPartition, OffsetAndMetadata]


def refuse_foreign_group(connection: KafkaConnection, group: str) -> None:
    """Return unless another application uses the group. Raises SettingsError that names what it has there, Unreachable.

    Where it may not be asked about, nothing is committed to it either.
    """
    deadline = time.monotonic() + SETTLING_S
    while True:
        try:
            foreign = _foreign(connection, group)
            break
        except KafkaError as error:
            if not answer_of_error(type(error)).may_pass or time.monotonic() > deadline:
                log.warning("consumer group %s cannot be asked about: %s", group, error)
                return
        time.sleep(RETRY_S)
    members = group_questions.members(connection, [group], at_ms=0).found.get(group)
    if members is not None and members.client_ids:
        foreign = foreign or f"member {min(members.client_ids)}"
    if foreign:
        raise SettingsError(
            f"prefix {group!r} is the name of a consumer group that another application uses ({foreign}): the pipeline commits "
            "its own offsets to the group of its prefix, and that application would go on from there and skip records. Give the "
            "pipeline another --prefix. If no application uses the group any more, delete it: kafka-consumer-groups.sh "
            f"--bootstrap-server {connection.bootstrap_servers} --delete --group {group}"
        )


def _foreign(connection: KafkaConnection, group: str) -> str:
    """Return an offset of the group that no pipeline of indoubt committed, in words; empty without any. Raises KafkaError."""
    for place, position in wire(connection).admin.list_group_offsets(group)[group].items():
        if position.offset >= 0 and Marker.parse(position.offset, position.metadata or "") is None:
            return f"offset {position.offset} of {place.topic}-{place.partition}"
    return ""


class GroupOffsets:
    """Commits the end offsets of each batch to the group, in a thread of its own; a failure is logged and stops nothing.

    By an admin client: a consumer's close waits for the answer to its last commit as long as no broker gives it. By
    kafka-python's: confluent-kafka 2.x crashes the process where an offset that it alters has metadata.
    """

    def __init__(self, connection: KafkaConnection, group: str) -> None:
        self._connection, self._group = connection, group
        self._changed = threading.Condition()
        self._newest: tuple[int, Positions] | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._commit_newest, name=f"group-offsets-{group}", daemon=True)
        self._thread.start()

    def note(self, progress: Mapping[str, Any]) -> None:
        """Have it committed where this batch ended; only the newest batch is, where they come faster than answers.

        ``progress`` is what ``StreamingQueryProgress.json`` holds.
        """
        batch = progress["batchId"]
        for source in progress["sources"]:
            positions = _positions(source["endOffset"])
            if positions:
                with self._changed:
                    self._newest = (batch, positions)
                    self._changed.notify()
        for name, row in progress.get("observedMetrics", {}).items():
            if name in LEFT_OUT and row["rows"]:
                log.warning("batch %s: %d rows %s, left out", batch, row["rows"], name)

    def close(self) -> None:
        """Wait up to 5 s until the last offsets are committed."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(CLOSE_LIMIT_S)
        if self._thread.is_alive():
            log.warning("the last group offsets may not be committed: no broker answered in %.0f s", CLOSE_LIMIT_S)

    def _commit_newest(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._newest is not None or self._closed)
                newest, self._newest = self._newest, None
            if newest is None:
                return
            batch, positions = newest
            try:
                self._commit(positions)
            except KafkaError as error:
                if not answer_of_error(type(error)).may_pass:
                    log.warning("group offsets of batch %s were not committed: %s", batch, error)
                    continue
                wire(self._connection).forget_group_coordinator(self._group)
                with self._changed:
                    # A newer batch's offsets take the place of these.
                    self._newest = self._newest or newest
                time.sleep(RETRY_S)
            except IndoubtError as error:
                log.warning("group offsets of batch %s were not committed: %s", batch, error)

    def _commit(self, positions: Positions) -> None:
        """Commit, unless the group is another application's. Raises KafkaError, Unreachable."""
        asked_of = wire(self._connection)
        if foreign := _foreign(self._connection, self._group):
            # Each time: another application may take the name up while the pipeline runs.
            log.warning("group offsets are not committed: group %s is another application's (%s)", self._group, foreign)
            return
        for answer in asked_of.admin.alter_group_offsets(self._group, positions).values():
            if not answer_of_error(answer).is_done:
                raise answer(f"group {self._group}")


def _positions(offsets: Any) -> Positions:
    """Return the offsets of a source that reads topics, Spark's or ours; none of another one."""
    try:
        return {
            TopicPartition(topic, int(partition)): OffsetAndMetadata(int(offset), OURS, -1)
            for topic, partitions in offsets.items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError):
        return {}
