"""Rows of GET /groups, and the answer of GET /series/groups. Times are epoch ms."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.lifecycle.rows.series import SeriesGap, TimeAxis


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartitionRow:
    """What a group has not read on one partition: ``lag`` up to the last stable offset, ``hidden`` behind it."""

    topic: str
    partition: int
    lag: int
    hidden: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRow:
    """A consumer group with committed offsets, over all ``partitions`` that it has them on.

    ``state``: Kafka's word. ``members``: None where Kafka does not tell. ``kind``: as of a group on a partition, the worst of its
    partitions, since ``since_ms``; empty where it has read all. ``lag``: offsets up to the last stable offset, ``hidden``: those
    behind it; markers and aborted records count as read. ``most``: the partitions where it lags most, at most 20.
    """

    group: str
    state: str
    members: int | None
    kind: str
    certainty: str
    since_ms: int | None
    topics: tuple[str, ...]
    partitions: int
    lag: int
    hidden: int
    most: tuple[GroupPartitionRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeries:
    """One group: a value for each bucket, the oldest first; None where nothing was observed."""

    group: str
    lag: tuple[int | None, ...]
    hidden: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesOfGroups(TimeAxis):
    """Groups that lagged in a time, in no order: the others had read all of it in each bucket that was ``observed``."""

    observed: tuple[bool, ...]
    groups: tuple[GroupSeries, ...]
    gaps: tuple[SeriesGap, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderSpan:
    """A transaction that was open on a partition; ``ended_ms`` is None while it is.

    ``outcome``: ``open``, ``committed``, ``aborted``.
    """

    key: str
    transaction: str
    pipeline: str
    from_ms: int
    ended_ms: int | None
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSeries(TimeAxis):
    """One partition: its end and the most offsets that were hidden before it, by bucket; None where nothing was observed.

    ``holders``: the transactions in memory that were open on it longest, the oldest first.
    """

    topic: str
    partition: int
    high_watermark: tuple[int | None, ...]
    hidden: tuple[int | None, ...]
    holders: tuple[HolderSpan, ...]
    gaps: tuple[SeriesGap, ...]
