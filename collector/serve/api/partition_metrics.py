"""As metrics: what is held back on partitions, what groups have not read of them, and which branches databases have prepared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily, Metric

from indoubt.collector.serve.api.application_metrics import PipelineLabels, gauge
from indoubt.collector.verdicts.partition_state import PartitionFindings
from indoubt.collector.verdicts.reader_waits import GroupLag, group_lags
from indoubt.collector.views import application_names
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.application import Application
from indoubt.resource_managers.kafka.partitions import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPartitions:
    """What was found on partitions, and whose it is: holders by their partition, hanging transactions by their key."""

    findings: PartitionFindings
    holders: Mapping[Partition, Application] = field(default_factory=dict)
    hanging: Mapping[str, Application] = field(default_factory=dict)


def see(current: CurrentState, findings: PartitionFindings) -> SeenPartitions:
    """Return what was found with whose it is, as far as that is known now."""
    with current.reading() as state:
        return SeenPartitions(
            findings=findings,
            holders=application_names.applications_of_holders(state, findings.blocked),
            hanging=application_names.applications_of_hanging(state, findings.hanging),
        )


def families(seen: SeenPartitions, now_ms: int, labels: PipelineLabels) -> Iterator[Metric]:
    """Yield every metric about partitions."""
    held = [partition for partition in seen.findings.blocked if partition.snapshot.hidden > 0]
    since_ms = min((at for partition in held if (at := partition.held_since_ms) is not None), default=now_ms)
    waiting = sum(1 for partition in held if partition.waiting)
    totals = (
        (
            "indoubt_hidden_records",
            "Records behind last stable offsets: written, and hidden from read_committed readers.",
            sum(partition.snapshot.hidden for partition in held),
        ),
        ("indoubt_held_partitions", "Partitions that have such records.", len(held)),
        ("indoubt_blocked_partitions", "Partitions on which consumer groups wait for them.", waiting),
        (
            "indoubt_longest_held_seconds",
            "How long the first of them is held back.",
            max(0, now_ms - since_ms) / 1000,
        ),
        (
            "indoubt_hanging_transactions",
            "Transactions that no coordinator will ever end.",
            len(seen.findings.hanging),
        ),
    )
    for name, words, value in totals:
        yield GaugeMetricFamily(name, words, value=value)
    yield from _by_pipeline(seen, now_ms, labels)


def _by_pipeline(seen: SeenPartitions, now_ms: int, labels: PipelineLabels) -> Iterator[Metric]:
    """Yield how much whose transactions hold back. Where no holder was found, it is in the totals alone."""
    hidden: dict[str, float] = {}
    partitions: dict[str, float] = {}
    longest: dict[str, float] = {}
    for one in seen.findings.blocked:
        application = seen.holders.get(one.snapshot.partition)
        if application is None or one.snapshot.hidden == 0:
            continue
        label, since_ms = labels.of_application(application), one.held_since_ms
        hidden[label] = hidden.get(label, 0) + one.snapshot.hidden
        partitions[label] = partitions.get(label, 0) + 1
        held_s = max(0, now_ms - since_ms) / 1000 if since_ms is not None else 0
        longest[label] = max(longest.get(label, 0), held_s)
    hanging: dict[str, float] = {}
    for application in seen.hanging.values():
        label = labels.of_application(application)
        hanging[label] = hanging.get(label, 0) + 1
    of_each = (
        ("indoubt_pipeline_hidden_records", "Records that a pipeline's open transactions hide.", hidden),
        ("indoubt_pipeline_held_partitions", "Partitions that they hold back.", partitions),
        ("indoubt_pipeline_longest_held_seconds", "How long the first of them is held back.", longest),
        ("indoubt_pipeline_hanging_transactions", "Its transactions that no coordinator will ever end.", hanging),
    )
    for name, words, values in of_each:
        yield gauge(name, words, ("pipeline",), {(label,): value for label, value in values.items()})


def of_groups(findings: PartitionFindings, labels: PipelineLabels) -> Iterator[Metric]:
    """Yield the two gauges; a group that has read all has the value 0, so that an end of lag is seen."""
    lags = group_lags(findings)
    by_label: dict[str, GroupLag] = {}
    for group, label in labels.of_groups(group for group, read in findings.read_by.items() if read).items():
        by_label[label] = lags.get(group, GroupLag()).plus(by_label.get(label, GroupLag()))
    yield gauge(
        "indoubt_group_readable_lag",
        "Offsets that a group has not read and may read: up to last stable offsets, without markers and aborted records.",
        ("group",),
        {(label,): lag.lag for label, lag in by_label.items()},
    )
    yield gauge(
        "indoubt_group_hidden_lag",
        "Offsets that a group has not read after last stable offsets.",
        ("group",),
        {(label,): lag.hidden for label, lag in by_label.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDatabase:
    """What a database listed last: ``since_ms`` of its oldest branch (epoch ms), ``xmin_age`` in transactions; None: unknown."""

    instance: str
    prepared: int
    since_ms: int | None
    xmin_age: int | None


def see_databases(current: CurrentState) -> tuple[SeenDatabase, ...]:
    """Return what each database listed last; one that never answered, or whose list another one reads, is left out."""
    with current.reading() as state:
        found = []
        for instance, snapshot in state.database_snapshots.items():
            if snapshot.at_ms is None:
                continue
            branches = [branch for key in snapshot.details if (branch := state.branches.get(key)) is not None]
            since = [branch.since_ms for branch in branches if branch.since_ms is not None]
            ages = [age for detail in snapshot.details.values() if (age := detail.transaction_age) is not None]
            found.append(
                SeenDatabase(
                    instance=instance,
                    prepared=len(snapshot.details),
                    since_ms=min(since, default=None),
                    xmin_age=max(ages, default=None),
                )
            )
        return tuple(found)


def of_databases(seen: Sequence[SeenDatabase], now_ms: int) -> Iterator[Metric]:
    """Yield every metric about databases. Without a prepared branch nothing has an age."""
    prepared = {(one.instance,): one.prepared for one in seen}
    ages = {(one.instance,): max(0, now_ms - one.since_ms) / 1000 for one in seen if one.since_ms is not None}
    xmin = {(one.instance,): one.xmin_age for one in seen if one.xmin_age is not None}
    names = ("database",)
    yield gauge("indoubt_prepared_branches", "Branches that are prepared now.", names, prepared)
    yield gauge("indoubt_oldest_prepared_branch_seconds", "For how long the oldest of them is.", names, ages)
    yield gauge(
        "indoubt_prepared_branch_xmin_age",
        "Transactions that PostgreSQL began since the oldest of them: vacuum removes nothing that died meanwhile.",
        names,
        xmin,
    )
