"""Sources in history: a topic's records stand under its name, and under a new one once another topic has taken its place."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

EPOCH_OF_TOPIC = "select epoch, source, topic_id from source_epochs where topic = ? order by epoch desc limit 1"
EPOCHS = "select * from source_epochs"
_BEGIN = "insert into source_epochs values (?, ?, ?, ?, ?)"
_NAME_ID = "update source_epochs set topic_id = ? where topic = ? and epoch = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One epoch of a topic. ``topic_id`` is empty as long as none is known; ``next_offsets``: the first that is not in history."""

    name: str
    topic_id: str
    next_offsets: dict[int, int]


def begin(connection: duckdb.DuckDBPyConnection, topic: str, topic_id: str, at_ms: int) -> str:
    """Note that ``topic`` has this id from now on; return the source name of its records.

    A topic without an id so far is the same one, by its first name; another id begins an epoch.
    """
    last = connection.execute(EPOCH_OF_TOPIC, [topic]).fetchone()
    if last is None:
        connection.execute(_BEGIN, [topic, 1, topic, topic_id, at_ms])
        return topic
    epoch, name, known_id = last
    if known_id == topic_id:
        return str(name)
    if not known_id:
        connection.execute(_NAME_ID, [topic_id, topic, epoch])
        return str(name)
    name = f"{topic}#{epoch + 1}"
    connection.execute(_BEGIN, [topic, epoch + 1, name, topic_id, at_ms])
    return name
