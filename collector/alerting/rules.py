"""Alert rules, numbered: pure functions of the snapshot and its time, each with evidence, summary, severity and group.

docs/alerts.md says of each what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from collector.alerting import checkpoint_rule, partition_rules, source_rules, standing_order_rules, transaction_rules
from collector.alerting.findings import MAX_FINDINGS, Finding
from collector.alerting.snapshot import AlertSnapshot, Source
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
    _rule("A1", "timeout near", transaction_rules.a1_timeout_near, _T),
    _rule("A2", "commit overdue", transaction_rules.a2_commit_overdue, _T, _D),
    _rule("A3", "hanging", partition_rules.a3_hanging, Source.PARTITIONS, for_ms=10_000),
    _rule("A4", "blocked consumers", partition_rules.a4_blocked_consumers, Source.PARTITIONS),
    _rule("A5", "repeated aborts", transaction_rules.a5_repeated_aborts),
    _rule("A6", "failing checkpoints", checkpoint_rule.a6_failing_checkpoints, Source.CHECKPOINTS),
    _rule("A7", "lost", transaction_rules.a7_lost, _D),
    _rule("A8", "id leak", transaction_rules.a8_id_leak, _T, for_ms=60_000),
    _rule("A9", "observer down", source_rules.a9_observer_down, Source.OBSERVERS),
    _rule("A10", "one side only", transaction_rules.a10_one_side_only, _T, _D, Source.DATABASES, for_ms=10_000),
    # Without a source: it also fires about a log that is unreadable for this very reason.
    _rule("A11", "finite log", source_rules.a11_finite_log),
    _rule("A12", "duplicated", transaction_rules.a12_duplicated),
    _rule("A13", "standing order acted", standing_order_rules.a13_acted),
    _rule("A14", "standing order held back", standing_order_rules.a14_held_back, Source.OBSERVERS, for_ms=3_000),
    _rule("A15", "checkpoint not read", source_rules.a15_checkpoint_not_read, Source.OBSERVERS, for_ms=15_000),
    _rule("A16", "clock off", source_rules.a16_clock_off, for_ms=5_000),
)
"""``for_ms`` is 0 where the rule's own limit already waits."""
