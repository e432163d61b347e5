"""What an alert rule found: its subject, severity and evidence, and the group it is notified with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.rows.attention import Remedy
from indoubt.lifecycle.verdicts import Evidence


class Severity(Enum):
    """How soon the on-call engineer must act; the value is what the API and every receiver say."""

    WARNING = "warning"
    """Nothing is lost yet: act within the hour."""
    CRITICAL = "critical"
    """Rows are lost, invisible or about to be: act now."""

    @property
    def rank(self) -> int:
        """Return 0 for the mildest."""
        return 0 if self is Severity.WARNING else 1


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
MAX_FINDINGS = 1_000
"""Per rule: a broker with a hundred thousand open transactions is one problem, not a hundred thousand alerts."""
SOURCES_GROUP = "what the collector reads"
STANDING_ORDERS_GROUP = "standing orders"
_APPLICATION = "application "


def application_group(application: str) -> str:
    """Return the incident of one pipeline or other application, its batches' too."""
    return f"{_APPLICATION}{application}"


def application_of(group: str) -> str:
    """Return the application of an incident, empty where it is about something else."""
    return group.removeprefix(_APPLICATION) if group.startswith(_APPLICATION) else ""


def topic_group(topic: str) -> str:
    """Return the incident of a topic's partitions whose application is not known."""
    return f"topic {topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that one rule holds against the present snapshot.

    ``subject`` names it within its rule and stays while it lasts; ``group`` is the incident that it is a part of, in words: its
    alerts are one card and one notification, so that a hundred lost batches are no hundred messages; ``rule`` and ``for_ms``, how
    long it must hold before it fires, are the rule's; ``subject_labels`` holds the labels besides rule and severity;
    ``object_path`` is the page of what it is about, empty where only the alert has one.
    """

    subject: str
    group: str
    severity: Severity
    summary: str
    evidence: tuple[Evidence, ...]
    subject_labels: Mapping[str, str]
    rule: str = ""
    for_ms: int = 0
    remedy: Remedy = Remedy.OPEN
    object_path: str = ""

    @property
    def key(self) -> str:
        """Return the text that names the alert: rule and subject."""
        return f"{self.rule}|{self.subject}"

    @property
    def path(self) -> str:
        """Return the page of what it is about, below the app's address."""
        return self.object_path or page_paths.alert(self.key)

    @property
    def labels(self) -> dict[str, str]:
        """Return every label, in the order of LABELS."""
        found = {"rule": self.rule, "severity": self.severity.value, **self.subject_labels}
        return {name: found[name] for name in LABELS if name in found}


def of_transaction(
    t: TransactionView,
    *,
    severity: Severity,
    summary: str,
    evidence: tuple[Evidence, ...],
    remedy: Remedy = Remedy.OPEN,
) -> Finding:
    """Return what a rule finds of a transaction."""
    batch = {"batch": str(t.batch_attempt.batch)} if t.batch_attempt is not None else {}
    labels = {"pipeline": t.pipeline, "resource_manager": t.resource_manager, "transaction": t.transaction, **batch}
    return Finding(
        subject=t.key,
        group=application_group(t.pipeline),
        severity=severity,
        summary=summary,
        evidence=evidence,
        subject_labels=labels,
        remedy=remedy,
        object_path=page_paths.transaction(t.key),
    )
