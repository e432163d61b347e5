"""A card: what it does not say is empty."""

from __future__ import annotations

from indoubt.collector.assess.findings import Severity
from indoubt.lifecycle.rows.attention import Attention, AttentionKind, Remedy, WaitingGroup
from indoubt.lifecycle.verdicts import Certainty, Verdict


def card(
    kind: AttentionKind,
    key: str,
    badge: str,
    *,
    group: str,
    severity: Severity,
    headline: str,
    consequence: str,
    since_ms: int | None,
    target: str,
    remedy: Remedy = Remedy.OPEN,
    pipeline: str = "",
    batch: int | None = None,
    keys: tuple[str, ...] = (),
    waits: tuple[WaitingGroup, ...] = (),
    deadline_ms: int | None = None,
    partitions: tuple[str, ...] = (),
    verdict: Verdict | None = None,
    certainty: Certainty | None = None,
    rows: int | None = None,
) -> Attention:
    """Return the card."""
    return Attention(
        key=key,
        kind=kind,
        group=group,
        badge=badge,
        verdict=verdict,
        certainty=certainty,
        severity=severity.value,
        pipeline=pipeline,
        batch=batch,
        keys=keys,
        headline=headline,
        waits=waits,
        since_ms=since_ms,
        deadline_ms=deadline_ms,
        consequence=consequence,
        remedy=remedy,
        target=target,
        rows=rows,
        partitions=partitions,
    )
