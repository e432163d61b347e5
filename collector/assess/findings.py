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


def batch_group(pipeline: str, batch: int) -> str:
    """Return the name under which pages show all alerts about one batch."""
    return f"batch {batch} of {pipeline}"


def application_group(application: str) -> str:
    """Return the group of all alerts about one pipeline or other application, its batches' too."""
    return f"application {application}"


def topic_group(topic: str) -> str:
    """Return the group of all alerts about a topic's partitions whose application is not known."""
    return f"topic {topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that one rule holds against the present snapshot.

    ``subject`` names it within its rule and stays while it lasts; ``group`` says in words what it is about, and alerts of one
    group are one notification, so that a hundred lost batches are no hundred messages; ``batch_group`` is the batch that it
    is about, empty where it is about none; ``for_ms`` is how long it must hold before it fires; ``subject_labels`` holds the
    labels besides rule and severity; ``object_path`` is the page of what it is about, empty where only the alert has one.
    """

    rule: str
    subject: str
    group: str
    severity: Severity
    summary: str
    evidence: tuple[Evidence, ...]
    subject_labels: Mapping[str, str]
    for_ms: int = 0
    remedy: Remedy = Remedy.OPEN
    object_path: str = ""
    batch_group: str = ""

    @property
    def key(self) -> str:
        """Return the text that names the alert: rule and subject."""
        return f"{self.rule}|{self.subject}"

    @property
    def shown_group(self) -> str:
        """Return the batch, else the application, topic or part of the collector, that pages show it with."""
        return self.batch_group or self.group

    @property
    def path(self) -> str:
        """Return the page of what it is about, below the app's address."""
        return self.object_path or page_paths.alert(self.key)

    @property
    def labels(self) -> dict[str, str]:
        """Return every label, in the order of LABELS."""
        found = {"rule": self.rule, "severity": self.severity.value, **self.subject_labels}
        return {name: found[name] for name in LABELS if name in found}


def batch_of(t: TransactionView) -> str:
    """Return the group of a transaction's batch, empty where it belongs to none."""
    return batch_group(t.pipeline, t.batch_attempt.batch) if t.batch_attempt is not None else ""


def of_transaction(
    t: TransactionView,
    *,
    rule: str,
    severity: Severity,
    summary: str,
    evidence: tuple[Evidence, ...],
    remedy: Remedy = Remedy.OPEN,
) -> Finding:
    """Return what a rule finds of a transaction."""
    batch = {"batch": str(t.batch_attempt.batch)} if t.batch_attempt is not None else {}
    labels = {"pipeline": t.pipeline, "resource_manager": t.resource_manager, "transaction": t.transaction, **batch}
    return Finding(
        rule=rule,
        subject=t.key,
        group=application_group(t.pipeline),
        batch_group=batch_of(t),
        severity=severity,
        summary=summary,
        evidence=evidence,
        subject_labels=labels,
        remedy=remedy,
        object_path=page_paths.transaction(t.key),
    )
