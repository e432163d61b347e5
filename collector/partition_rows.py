"""Rows of GET /blocked and GET /hanging, in the columns and order of docs/api.md; all times epoch ms."""

from __future__ import annotations

from typing import Any

from collector.blocked_readers import Reader, ReaderKind
from collector.hanging import Suspect, partition_name
from collector.overview import headline
from collector.partition_sights import Blocked, PartitionPicture
from collector.transaction_rows import evidence_row
from lifecycle.verdicts import URGENCY, Verdict


def blocked_rows(picture: PartitionPicture, at_ms: int, *, every: bool, topic: str | None) -> list[dict[str, Any]]:
    """Return the rows of GET /blocked, the longest waits first; without ``every`` only what needs a look."""
    chosen = (b for b in picture.blocked if (every or b.needs_a_look) and topic in (None, b.sight.partition[0]))
    return [blocked_row(blocked, at_ms) for blocked in chosen]


def hanging_rows(picture: PartitionPicture) -> list[dict[str, Any]]:
    """Return the rows of GET /hanging, the oldest first."""
    oldest_first = sorted(picture.hanging, key=lambda suspect: (suspect.since_ms, suspect.key))
    return [hanging_row(suspect, picture) for suspect in oldest_first]


def blocked_row(blocked: Blocked, at_ms: int) -> dict[str, Any]:
    """Return a row of GET /blocked; waits are counted up to ``at_ms``."""
    sight, holder = blocked.sight, blocked.holder
    producer = holder.producer if holder is not None else None
    waiting = blocked.waiting
    since_ms = min((reader.since_ms for reader in waiting), default=None)
    return {
        "topic": sight.partition[0],
        "partition": sight.partition[1],
        "last_stable_offset": sight.last_stable_offset,
        "high_watermark": sight.high_watermark,
        "hidden": sight.hidden,
        "holder_key": holder.key if holder is not None else "",
        "holder_transaction": holder.transaction if holder is not None else "",
        "holder_producer_id": producer.producer_id if producer is not None else None,
        "holder_producer_epoch": producer.producer_epoch if producer is not None else None,
        "holder_start_offset": producer.start_offset if producer is not None else None,
        "held_since_ms": blocked.held_since_ms,
        "waiting": len(waiting),
        "waiting_since_ms": since_ms,
        "waited_ms": max(0, at_ms - since_ms) if since_ms is not None else None,
        "lag": max(
            (reader.lag for reader in blocked.readers if reader.kind is not ReaderKind.MARKERS_ONLY), default=None
        ),
        "groups": [_group_row(reader, at_ms) for reader in blocked.readers],
        "seen_at_ms": sight.seen_ms,
    }


def hanging_row(suspect: Suspect, picture: PartitionPicture) -> dict[str, Any]:
    """Return a row of GET /hanging; ``picture`` tells what it hides and who waits for it."""
    producer, judgement = suspect.producer, suspect.judgement
    behind = next((blocked for blocked in picture.blocked if blocked.sight.partition == producer.partition), None)
    return {
        "key": suspect.key,
        "topic": producer.partition[0],
        "partition": producer.partition[1],
        "transaction": suspect.doubt.transaction,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "start_offset": producer.start_offset,
        "coordinator_epoch": producer.coordinator_epoch,
        "last_record_at_ms": producer.last_timestamp_ms,
        "since_ms": suspect.since_ms,
        "found_at_ms": suspect.found_ms,
        "verdict": judgement.verdict.value,
        "rule": judgement.rule,
        "hidden": behind.sight.hidden if behind is not None else None,
        "waiting": len(behind.waiting) if behind is not None else 0,
        "remedy": suspect.doubt.remedy.value,
        "may_commit": judgement.may_commit,
        "may_abort": judgement.may_abort,
        "loses_data": judgement.loses_data,
        "confirm": suspect.confirmation,
        "evidence": [evidence_row(evidence) for evidence in judgement.evidence],
        "revision": suspect.revision,
    }


def hanging_groups(picture: PartitionPicture) -> list[dict[str, Any]]:
    """Return what hangs as groups of what needs a hand: one for each application, or producer where nobody knows its id."""
    found: dict[str, list[Suspect]] = {}
    for suspect in sorted(picture.hanging, key=lambda one: (one.since_ms, one.key)):
        found.setdefault(suspect.doubt.transaction or f"producer {suspect.producer.producer_id}", []).append(suspect)
    return [
        {
            "verdict": Verdict.HANGING.value,
            "pipeline": name,
            "batch": None,
            "keys": [suspect.key for suspect in members],
            "rows": None,
            "decided_at_ms": None,
            "deadline_ms": None,
            "headline": headline(Verdict.HANGING, name, None, len(members), None),
            "partitions": sorted({partition_name(suspect.producer.partition) for suspect in members}),
        }
        for name, members in found.items()
    ]


def by_urgency(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return groups of what needs a hand by the urgency of their verdicts, else as given."""
    return sorted(groups, key=lambda group: URGENCY.index(Verdict(group["verdict"])))


def blocked_counts(picture: PartitionPicture) -> dict[str, int]:
    """Return what the overview counts: partitions with waiting groups, groups that wait, hanging transactions."""
    waiting = [blocked for blocked in picture.blocked if blocked.waiting]
    return {
        "blocked_partitions": len(waiting),
        "waiting_groups": len({reader.group for blocked in waiting for reader in blocked.waiting}),
        "hanging": len(picture.hanging),
    }


def _group_row(reader: Reader, at_ms: int) -> dict[str, Any]:
    return {
        "group": reader.group,
        "kind": reader.kind.value,
        "certainty": reader.certainty.value,
        "state": reader.state,
        "offset": reader.offset,
        "lag": reader.lag,
        "since_ms": reader.since_ms,
        "waited_ms": max(0, at_ms - reader.since_ms) if reader.kind is ReaderKind.WAITING else None,
    }
