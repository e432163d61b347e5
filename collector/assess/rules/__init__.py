"""Alert rules, numbered: pure functions of the snapshot and its time, each with evidence, summary, severity and group.

docs/alerts.md says of each what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from collector.assess.findings import MAX_FINDINGS, Finding
from collector.assess.rules import checkpoints, partitions, sources, standing_orders, transactions
from collector.assess.snapshot import AlertSnapshot, Source
from collector.config.alerts import AlertSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """A rule: its number and name, how long what it finds must hold, and the sources that its evidence comes from."""

    number: str
    name: str
    find: Callable[[AlertSnapshot, AlertSettings], Iterable[Finding]]
    for_ms: int
    sources: frozenset[Source]


def findings(snapshot: AlertSnapshot, limits: AlertSettings) -> list[Finding]:
    """Return what all rules find that can see, in the order of their numbers; at most MAX_FINDINGS of one rule, by subject.

    A rule whose evidence cannot be seen finds nothing: what was true when it was seen last may be over.
    """
    found: list[Finding] = []
    unavailable_sources = held(snapshot)
    for rule in RULES:
        if rule.number in unavailable_sources:
            continue
        of_rule = [finding for finding in rule.find(snapshot, limits) if finding.key not in unavailable_sources]
        of_rule.sort(key=lambda finding: finding.subject)
        found += [
            finding if finding.for_ms == rule.for_ms else replace(finding, for_ms=rule.for_ms)
            for finding in of_rule[:MAX_FINDINGS]
        ]
    return found


def held(snapshot: AlertSnapshot) -> frozenset[str]:
    """Return the rules, by number, and single alerts, by key, whose evidence cannot be seen now.

    What they found before is not over for that.
    """
    return frozenset(
        {rule.number for rule in RULES if rule.sources & snapshot.unavailable_sources}
        | {f"A6|{pipeline}" for pipeline in snapshot.unobserved_pipelines}
    )


def _rule(
    number: str,
    name: str,
    find: Callable[[AlertSnapshot, AlertSettings], Iterable[Finding]],
    *sources: Source,
    for_ms: int = 0,
) -> AlertRule:
    return AlertRule(number=number, name=name, find=find, for_ms=for_ms, sources=frozenset(sources))


_T, _D = Source.TRANSACTIONS, Source.DECISIONS
RULES: tuple[AlertRule, ...] = (
    _rule("A1", "timeout near", transactions.a1_timeout_near, _T),
    _rule("A2", "commit overdue", transactions.a2_commit_overdue, _T, _D),
    _rule("A3", "hanging", partitions.a3_hanging, Source.PARTITIONS, for_ms=10_000),
    _rule("A4", "blocked consumers", partitions.a4_blocked_consumers, Source.PARTITIONS),
    _rule("A5", "repeated aborts", transactions.a5_repeated_aborts),
    _rule("A6", "failing checkpoints", checkpoints.a6_failing_checkpoints, Source.CHECKPOINTS),
    _rule("A7", "lost", transactions.a7_lost, _D),
    _rule("A8", "id leak", transactions.a8_id_leak, _T, for_ms=60_000),
    _rule("A9", "observer down", sources.a9_observer_down, Source.OBSERVERS),
    _rule("A10", "one side only", transactions.a10_one_side_only, _T, _D, Source.DATABASES, for_ms=10_000),
    # Without a source: it also fires about a log that is unreadable for this very reason.
    _rule("A11", "finite log", sources.a11_finite_log),
    _rule("A12", "duplicated", transactions.a12_duplicated),
    _rule("A13", "standing order acted", standing_orders.a13_acted),
    _rule("A14", "standing order held back", standing_orders.a14_held_back, Source.OBSERVERS, for_ms=3_000),
    _rule("A15", "checkpoint not read", sources.a15_checkpoint_not_read, Source.OBSERVERS, for_ms=15_000),
    _rule("A16", "clock off", sources.a16_clock_off, for_ms=5_000),
)
"""``for_ms`` is 0 where the rule's own limit already waits."""
