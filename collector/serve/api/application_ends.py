"""Counters of how the transactions of each application ended: they only grow while the process runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, Metric

from indoubt.collector.serve.api.pipeline_labels import OTHER, PipelineLabels
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.application import ApplicationKind

Ends = Mapping[tuple[str, str], tuple[int, int]]
"""(kind, label of the application) -> how many of its transactions were committed and aborted."""


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
    commits = CounterMetricFamily(
        "indoubt_pipeline_commits", "Its transactions seen to be committed.", labels=("kind", "pipeline")
    )
    aborts = CounterMetricFamily(
        "indoubt_pipeline_aborts", "Its transactions seen to be aborted.", labels=("kind", "pipeline")
    )
    for of, (committed, aborted) in ends.items():
        commits.add_metric(of, committed)
        aborts.add_metric(of, aborted)
    yield commits
    yield aborts
