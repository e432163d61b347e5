"""What kinds of observers there are."""

from __future__ import annotations

from enum import Enum


class ObserverKind(Enum):
    """What an observer watches; the value begins its name on pages, in metrics and in evidence."""

    TRANSACTION_LOG = "transaction log"
    TRANSACTION_POLLING = "transaction polling"
    """Also the source of what it hands over: a record read there may lack what the log says."""
    DECISION_LOG = "decision log"
    LIFECYCLE_EVENTS = "lifecycle events"
    CLOCKS = "clocks"
    """How far this machine's clock is from the clocks of brokers, Flink and databases."""
    PARTITIONS = "partitions"
    OFFSETS = "offsets of transactions"
    DATABASE = "database"
    FLINK = "flink"
    FLINK_CHECKPOINTS = "flink checkpoints of"
    FLINK_STORE = "flink store of"
    """Its high-availability store: which completed checkpoint a recovery goes on from."""
    FLINK_FILES = "flink files of"
    """Files of FileSinks that checkpoints list."""
    CHECKPOINT_DIRECTORY = "checkpoints of"
    ICEBERG_CONNECT = "iceberg control topic"
    """What Iceberg's sinks for Kafka Connect have written, and whether it is in their tables."""
    KUBERNETES = "kubernetes"
    """Which Flink clusters there are, by the resources of Flink's operator."""


DECIDING_OBSERVERS = frozenset(
    {ObserverKind.DECISION_LOG, ObserverKind.TRANSACTION_LOG, ObserverKind.TRANSACTION_POLLING}
)
"""Without these no verdict can be trusted."""
