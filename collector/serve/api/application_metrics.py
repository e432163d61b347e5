"""The labels ``pipeline`` and ``group`` of metrics, with bounded sets of values, and how each application's transactions ended."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.application import Application, ApplicationKind

FOREIGN, OTHER = "foreign", "other"
Ends = Mapping[tuple[str, str], tuple[int, int]]
"""(kind, label of the application) -> how many of its transactions were committed and aborted."""


class PipelineLabels:
    """Label values of pipelines: the first ``most`` prefixes that are seen have their own, every later one is "other".

    So do the first ``most`` applications of Flink, Kafka Streams and Connect, counted apart: they never take a pipeline's value.
    Transactions that nothing tells more of share one. None of these is ever forgotten, so a value stays.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._own: set[str] = set()
        self._applications: set[str] = set()
        self._others: set[str] = set()
        self._groups: frozenset[str] = frozenset()

    def of(self, pipeline: str) -> str:
        """Return the label of a pipeline of ours, or of one whose checkpoints are watched."""
        return self._first(self._own, pipeline)

    def of_transaction(self, view: TransactionView) -> str:
        """Return the label of a transaction's pipeline."""
        return self.of_application(view.application)

    def of_application(self, application: Application) -> str:
        """Return the label of whoever wrote a transaction."""
        name = application.name
        if application.kind is ApplicationKind.PIPELINE:
            return self.of(name)
        if application.kind is ApplicationKind.OTHER:
            return FOREIGN
        if name in self._own:
            return name
        return self._first(self._applications, name)

    def name_of(self, application: Application) -> str:
        """Return the label of an application beside its kind: those that nothing tells more of have their names, too.

        The first ``most`` of them do, counted apart.
        """
        if application.kind is not ApplicationKind.OTHER:
            return self.of_application(application)
        return self._first(self._others, application.name)

    def of_groups(self, groups: Iterable[str]) -> dict[str, str]:
        """Return the label of each consumer group that there is now: ``most`` of them have their own, as long as they exist.

        Groups come and go with every console consumer, so a name that is gone makes room for another.
        """
        there = sorted(groups)
        kept = [name for name in there if name in self._groups]
        new = [name for name in there if name not in self._groups]
        self._groups = frozenset([*kept, *new][: self._most])
        return {name: name if name in self._groups else OTHER for name in there}

    def _first(self, known: set[str], name: str) -> str:
        if name not in known and len(known) < self._most:
            known.add(name)
        return name if name in known else OTHER


class ApplicationEnds:
    """Adds up what the state has counted since the last scrape.

    An end is counted once, under the name that the application has then: what becomes known of a job later moves nothing.
    """

    def __init__(self, labels: PipelineLabels) -> None:
        self._labels = labels
        self._ends: dict[tuple[str, str], tuple[int, int]] = {}
        self._lock = threading.Lock()

    def now(self, current: CurrentState) -> Ends:
        """Return the ends of each application since the process began."""
        with self._lock:
            for application, committed, aborted in current.take_ends():
                kind = ApplicationKind.OTHER if application is None else application.kind
                of = (kind.value, OTHER if application is None else self._labels.name_of(application))
                before = self._ends.get(of, (0, 0))
                self._ends[of] = (before[0] + committed, before[1] + aborted)
            return dict(self._ends)


def families(ends: Ends) -> Iterator[Metric]:
    """Yield the two counters."""
    commits = {of: committed for of, (committed, _) in ends.items()}
    aborts = {of: aborted for of, (_, aborted) in ends.items()}
    names = ("kind", "pipeline")
    yield counter("indoubt_pipeline_commits", "Its transactions seen to be committed.", names, commits)
    yield counter("indoubt_pipeline_aborts", "Its transactions seen to be aborted.", names, aborts)


def gauge(name: str, words: str, names: Sequence[str], values: Mapping[Any, float]) -> GaugeMetricFamily:
    """Return a gauge with its values by the values of its labels."""
    family = GaugeMetricFamily(name, words, labels=names)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def counter(name: str, words: str, names: Sequence[str], values: Mapping[Any, float]) -> CounterMetricFamily:
    """Return a counter in the same way."""
    family = CounterMetricFamily(name, words, labels=names)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family
