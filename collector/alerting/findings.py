"""What an alert rule found: its subject, severity and evidence, and the group it is notified with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lifecycle.verdicts import Evidence


class Severity(Enum):
    """How soon the on-call engineer must act; the value is what the API and every receiver say."""

    WARNING = "warning"
    """Nothing is lost yet: act within the hour."""
    CRITICAL = "critical"
    """Rows are lost, invisible or about to be: act now."""

    @property
    def rank(self) -> int:
        """Return 0 for the mildest."""
        return list(Severity).index(self)


LABELS = (
    "rule",
    "severity",
    "pipeline",
    "resource_manager",
    "transaction",
    "batch",
    "partition",
    "observer",
    "standing_order",
)
"""Every label that an alert may carry: what silences match, and what an Alertmanager routes by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that one rule holds against the present snapshot.

    ``subject`` names it within its rule and stays while it lasts; ``group`` is the grouping key; ``for_ms`` is how long it
    must hold before it fires; ``subject_labels`` holds the labels besides rule and severity.
    """

    rule: str
    subject: str
    group: str
    severity: Severity
    summary: str
    evidence: tuple[Evidence, ...]
    subject_labels: Mapping[str, str]
    for_ms: int = 0

    @property
    def key(self) -> str:
        """Return the text that names the alert: rule and subject."""
        return f"{self.rule}|{self.subject}"

    @property
    def labels(self) -> dict[str, str]:
        """Return every label, in the order of LABELS."""
        found = {"rule": self.rule, "severity": self.severity.value, **self.subject_labels}
        return {name: found[name] for name in LABELS if name in found}
