"""Rows of GET /blocked, /hanging and /groups, in the columns of the OpenAPI document; all times epoch ms."""

from __future__ import annotations

from collections.abc import Mapping

from indoubt.collector.verdicts.blocked_readers import Reader, ReaderKind
from indoubt.collector.verdicts.hanging_transactions import Suspect
from indoubt.collector.verdicts.partition_state import Blocked, PartitionFindings
from indoubt.collector.verdicts.reader_waits import GroupLag, lag_of
from indoubt.collector.verdicts.told_evidence import part_of_application
from indoubt.lifecycle.application import Application
from indoubt.lifecycle.rows.groups import ConsumerGroupRow, GroupPartitionRow
from indoubt.lifecycle.rows.partitions import BlockedRow, GroupRow, HangingRow
from indoubt.resource_managers.kafka.partitions import Partition

MOST_PARTITIONS = 20
_KINDS = list(ReaderKind)


def blocked_rows(
    findings: PartitionFindings,
    at_ms: int,
    applications: Mapping[Partition, Application],
    *,
    every: bool,
    topic: str | None,
) -> list[BlockedRow]:
    """Return the rows of GET /blocked, the longest waits first; without ``every`` only what needs attention.

    ``applications``: of the transactions that hold partitions back, by partition.
    """
    chosen = (b for b in findings.blocked if (every or b.needs_attention) and topic in (None, b.snapshot.partition[0]))
    return [blocked_row(blocked, at_ms, applications.get(blocked.snapshot.partition)) for blocked in chosen]


def hanging_rows(findings: PartitionFindings, applications: Mapping[str, Application]) -> list[HangingRow]:
    """Return the rows of GET /hanging, the oldest first; ``applications``: by the keys of what hangs."""
    oldest_first = sorted(findings.hanging, key=lambda suspect: (suspect.since_ms, suspect.key))
    return [hanging_row(suspect, findings, applications[suspect.key]) for suspect in oldest_first]


def blocked_row(blocked: Blocked, at_ms: int, application: Application | None) -> BlockedRow:
    """Return a row of GET /blocked; waits are counted up to ``at_ms``, and ``application`` is the holder's."""
    snapshot, holder = blocked.snapshot, blocked.holder
    producer = holder.producer if holder is not None else None
    waiting = blocked.waiting
    since_ms = min((reader.since_ms for reader in waiting), default=None)
    return BlockedRow(
        topic=snapshot.partition[0],
        partition=snapshot.partition[1],
        last_stable_offset=snapshot.last_stable_offset,
        high_watermark=snapshot.high_watermark,
        hidden=snapshot.hidden,
        holder_key=holder.key if holder is not None else "",
        holder_transaction=holder.transaction if holder is not None else "",
        application=application,
        holder_producer_id=producer.producer_id if producer is not None else None,
        holder_producer_epoch=producer.producer_epoch if producer is not None else None,
        holder_start_offset=producer.start_offset if producer is not None else None,
        held_since_ms=blocked.held_since_ms,
        waiting=len(waiting),
        waiting_since_ms=since_ms,
        waited_ms=max(0, at_ms - since_ms) if since_ms is not None else None,
        lag=max((reader.lag for reader in blocked.readers if reader.kind is not ReaderKind.MARKERS_ONLY), default=None),
        groups=tuple(_group_row(reader, at_ms) for reader in blocked.readers),
        seen_at_ms=snapshot.seen_ms,
    )


def hanging_row(suspect: Suspect, findings: PartitionFindings, application: Application) -> HangingRow:
    """Return a row of GET /hanging; ``findings`` tells what it hides and who waits for it."""
    producer, judgement = suspect.producer, suspect.judgement
    behind = next((blocked for blocked in findings.blocked if blocked.snapshot.partition == producer.partition), None)
    return HangingRow(
        key=suspect.key,
        topic=producer.partition[0],
        partition=producer.partition[1],
        transaction=suspect.doubt.transaction,
        application=application,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        start_offset=producer.start_offset,
        coordinator_epoch=producer.coordinator_epoch,
        last_record_at_ms=producer.last_timestamp_ms,
        since_ms=suspect.since_ms,
        found_at_ms=suspect.found_ms,
        verdict=judgement.verdict,
        certainty=judgement.certainty,
        rule=judgement.rule,
        hidden=behind.snapshot.hidden if behind is not None else None,
        waiting=len(behind.waiting) if behind is not None else 0,
        remedy=suspect.doubt.remedy.value,
        may_commit=judgement.may_commit,
        may_abort=judgement.may_abort,
        loses_data=judgement.loses_data,
        confirm=suspect.confirmation,
        evidence=(*judgement.evidence, *part_of_application(application)),
        revision=suspect.revision,
    )


def _group_row(reader: Reader, at_ms: int) -> GroupRow:
    return GroupRow(
        group=reader.group,
        kind=reader.kind.value,
        certainty=reader.certainty.value,
        state=reader.state,
        offset=reader.offset,
        lag=reader.lag,
        since_ms=reader.since_ms,
        waited_ms=max(0, at_ms - reader.since_ms) if reader.kind is ReaderKind.WAITING else None,
    )


def group_rows(findings: PartitionFindings) -> list[ConsumerGroupRow]:
    """Return the rows, those that stand worst first, then those that lag most; groups without offsets are left out."""
    behind: dict[str, list[tuple[Reader, Blocked]]] = {}
    for blocked in findings.blocked:
        for reader in blocked.readers:
            behind.setdefault(reader.group, []).append((reader, blocked))
    rows = [
        _consumer_group_row(group, partitions, behind.get(group, []), findings)
        for group, partitions in findings.read_by.items()
    ]
    return sorted((row for row in rows if row.partitions), key=_urgency)


def _consumer_group_row(
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
