"""Whose transaction it is: one name for an application, whatever the number of its transactional ids."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ApplicationKind(Enum):
    """What wrote a transaction, as far as evidence tells; the value is what the API says."""

    PIPELINE = "indoubt pipeline"
    FLINK = "flink"
    STREAMS = "kafka streams"
    CONNECT = "kafka connect"
    OTHER = "other"
    """Nothing tells: the name is what its ids have in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The application of a transaction, and which part of it wrote.

    ``instance``: Kafka Streams' process id, the transactional id prefix of Flink's sink. ``task``: the slot of a pipeline, Flink's
    subtask, the thread or the task of Kafka Streams, Connect's task. Both are empty where the id does not say.
    """

    kind: ApplicationKind
    name: str
    instance: str = ""
    task: str = ""
