"""Alert rules, numbered: each a ``Rule`` in a module of this package, which needs no other mention.

A rule is a pure function of the situation. docs/alerts.md says what to do about each.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace

from indoubt.collector.assess.findings import MAX_FINDINGS, Finding
from indoubt.collector.assess.rule import Rule, unavailable_sources
from indoubt.collector.assess.situation import Situation


def discovered() -> dict[str, Rule]:
    """Return the rules of every module here, by their numbers and in this order."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    found = [rule for module in modules for rule in vars(module).values() if isinstance(rule, Rule)]
    return {rule.number: rule for rule in sorted(found, key=lambda rule: int(rule.number[1:]))}


RULES = discovered()


def findings(situation: Situation) -> list[Finding]:
    """Return what all rules find that can see, in the order of their numbers; at most MAX_FINDINGS of one rule, by subject.

    A rule whose evidence cannot be seen finds nothing: what was true when it was seen last may be over.
    """
    found: list[Finding] = []
    unseen = held(situation)
    for rule in RULES.values():
        if rule.number not in unseen:
            of_rule = (replace(finding, rule=rule.number, for_ms=rule.for_ms) for finding in rule.find(situation))
            seen = (finding for finding in of_rule if finding.key not in unseen)
            found += sorted(seen, key=lambda finding: finding.subject)[:MAX_FINDINGS]
    return found


def held(situation: Situation) -> frozenset[str]:
    """Return the rules, by number, and single alerts, by key, whose evidence cannot be seen now.

    What they found before is not over for that.
    """
    unavailable = situation.read(unavailable_sources)
    return frozenset(
        {rule.number for rule in RULES.values() if unavailable.intersection(rule.sources)}
        | {f"{rule.number}|{subject}" for rule in RULES.values() for subject in situation.read(rule.unseen)}
    )
