"""What is known of each run of a pipeline of ours: of it follows how long a restart takes.

Every step takes a minimum or a maximum, so that the order does not matter in which the sources tell of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

RUNS_KEPT = 20
"""The newest of each pipeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """One run. Times are epoch ms by its driver's clock, None: not seen.

    ``began_ms``: its record in the decision log. ``query_ms``: its query started. ``first_commit_ms``: it decided to commit a
    batch, or completed one that was committed before. ``opened_ms``: when that batch began. ``stopped_on_request``: a person
    asked for its end.
    """

    began_ms: int | None = None
    query_ms: int | None = None
    opened_ms: int | None = None
    first_commit_ms: int | None = None
    last_sign_ms: int | None = None
    stopped_on_request: bool = False


def with_sign(
    runs: Mapping[int, RunFacts],
    attempt: int,
    at_ms: int,
    *,
    begins: bool = False,
    query_starts: bool = False,
    commits: bool = False,
    opened_ms: int | None = None,
    stopped_on_request: bool = False,
) -> Mapping[int, RunFacts]:
    """Return the runs with one more sign of a run, and what it was; ``attempt``: where the run began in the decision log.

    ``opened_ms``: when the batch that it commits began, None where that is not known.
    """
    known = runs.get(attempt) or RunFacts()
    after = replace(
        known,
        last_sign_ms=max(at_ms, known.last_sign_ms or at_ms),
        stopped_on_request=known.stopped_on_request or stopped_on_request,
    )
    if begins:
        after = replace(after, began_ms=at_ms)
    if query_starts:
        after = replace(after, query_ms=min(at_ms, known.query_ms or at_ms))
    if commits and at_ms <= (known.first_commit_ms or at_ms):
        after = replace(after, first_commit_ms=at_ms, opened_ms=opened_ms)
    kept = {**runs, attempt: after}
    return kept if len(kept) <= RUNS_KEPT else {number: kept[number] for number in sorted(kept)[-RUNS_KEPT:]}
