"""Rows of GET /groups: every consumer group with what it has not read, and how it stands where it stands worst."""

from __future__ import annotations

from collections.abc import Mapping

from indoubt.collector.verdicts.blocked_readers import Reader, ReaderKind
from indoubt.collector.verdicts.partition_state import Blocked, PartitionFindings
from indoubt.collector.verdicts.reader_waits import GroupLag, lag_of
from indoubt.lifecycle.rows.groups import ConsumerGroupRow, GroupPartitionRow
from indoubt.resource_managers.kafka.partitions import Partition

MOST_PARTITIONS = 20
_KINDS = list(ReaderKind)


def group_rows(findings: PartitionFindings) -> list[ConsumerGroupRow]:
    """Return the rows, those that stand worst first, then those that lag most; groups without offsets are left out."""
    behind: dict[str, list[tuple[Reader, Blocked]]] = {}
    for blocked in findings.blocked:
        for reader in blocked.readers:
            behind.setdefault(reader.group, []).append((reader, blocked))
    rows = [_row(group, partitions, behind.get(group, []), findings) for group, partitions in findings.read_by.items()]
    return sorted((row for row in rows if row.partitions), key=_urgency)


def _row(
    group: str, partitions: frozenset[Partition], behind: list[tuple[Reader, Blocked]], findings: PartitionFindings
) -> ConsumerGroupRow:
    lags = {blocked.snapshot.partition: lag_of(reader, blocked.snapshot) for reader, blocked in behind}
    total = GroupLag()
    for lag in lags.values():
        total = total.plus(lag)
    worst = min((reader for reader, _ in behind), key=lambda r: (_KINDS.index(r.kind), r.since_ms), default=None)
    seen = findings.groups.get(group)
    return ConsumerGroupRow(
        group=group,
        state=seen.state if seen is not None else "",
        members=seen.members if seen is not None else None,
        kind=worst.kind.value if worst is not None else "",
        certainty=worst.certainty.value if worst is not None else "certain",
        since_ms=worst.since_ms if worst is not None else None,
        topics=tuple(sorted({topic for topic, _ in partitions})),
        partitions=len(partitions),
        lag=total.lag,
        hidden=total.hidden,
        most=_most(lags),
    )


def _most(lags: Mapping[Partition, GroupLag]) -> tuple[GroupPartitionRow, ...]:
    found = [
        GroupPartitionRow(topic=topic, partition=number, lag=lag.lag, hidden=lag.hidden)
        for (topic, number), lag in lags.items()
        if lag != GroupLag()
    ]
    return tuple(sorted(found, key=lambda row: (-row.lag - row.hidden, row.topic, row.partition))[:MOST_PARTITIONS])


def _urgency(row: ConsumerGroupRow) -> tuple[int, int, str]:
    urgent = ("waiting", "stalled")
    return urgent.index(row.kind) if row.kind in urgent else len(urgent), -row.lag - row.hidden, row.group
