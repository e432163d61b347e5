"""What an alert rule found: about what, how bad, why, and with which others one notification tells of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lifecycle.verdicts import Evidence


class Severity(Enum):
    """How soon somebody must look; the value is what the API and every receiver say."""

    WARNING = "warning"
    """Nothing is lost yet: look within the hour."""
    CRITICAL = "critical"
    """Rows are lost, invisible or about to be: look now."""

    @property
    def rank(self) -> int:
        """Return 0 for the mildest."""
        return list(Severity).index(self)


LABELS = ("rule", "severity", "pipeline", "resource_manager", "transaction", "batch", "partition", "observer")
"""Every label that an alert may carry: what silences match, and what an Alertmanager routes by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that one rule holds against the present picture.

    ``subject`` names it within its rule and stays while it lasts; ``group`` is the grouping key; ``for_ms`` is how long it
    must hold before it fires; ``about`` holds the labels besides rule and severity.
    """

    rule: str
    subject: str
    group: str
    severity: Severity
    summary: str
    evidence: tuple[Evidence, ...]
    about: Mapping[str, str]
    for_ms: int = 0

    @property
    def key(self) -> str:
        """Return the text that names the alert: rule and subject."""
        return f"{self.rule}|{self.subject}"

    @property
    def labels(self) -> dict[str, str]:
        """Return every label, in the order of LABELS."""
        found = {"rule": self.rule, "severity": self.severity.value, **self.about}
        return {name: found[name] for name in LABELS if name in found}
