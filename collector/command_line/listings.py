"""The listings of the command line, one per table of the API: its path, the filters that it has, the columns that are shown.

A new table of the API is one entry here. ``--json`` shows every column.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One table. ``filters`` are the API's parameters by the name of their option; every table takes ``--limit``."""

    name: str
    what: str
    columns: tuple[str, ...]
    filters: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Return where the API has it."""
        return f"/api/v1/{self.name}"


PARAMETERS = {
    "pipeline": "pipeline",
    "verdict": "verdict",
    "resource-manager": "resource_manager",
    "cause": "cause",
    "state": "state",
    "since": "since_ms",
    "all": "all",
}
"""The API's parameter of each option."""

LISTINGS = (
    Listing(
        name="transactions",
        what="transactions that are not settled, most urgent first",
        columns=("verdict", "pipeline", "batch", "slot", "state", "opened_at_ms", "deadline_ms", "rows", "key"),
        filters=("pipeline", "verdict", "resource-manager", "all"),
    ),
    Listing(
        name="batches",
        what="batches with their transactions in every resource manager",
        columns=("pipeline", "batch", "attempt", "state", "verdict", "decided_at_ms", "rows"),
        filters=("pipeline",),
    ),
    Listing(
        name="checkpoints",
        what="checkpoints, newest first",
        columns=("pipeline", "number", "state", "started_at_ms", "duration_ms", "transactions", "rows", "source"),
        filters=("pipeline",),
    ),
    Listing(
        name="pipelines",
        what="pipelines with their newest run",
        columns=("pipeline", "state", "attempt", "run_at_ms", "started_at_ms", "sign_at_ms", "sign"),
        filters=("pipeline",),
    ),
    Listing(
        name="aborts",
        what="aborted and lost transactions, newest first",
        columns=("at_ms", "verdict", "cause", "certainty", "pipeline", "batch", "open_ms", "rows", "key"),
        filters=("since", "cause"),
    ),
    Listing(
        name="blocked",
        what="consumer groups that wait behind an open transaction",
        columns=("group", "topic", "partition", "since_ms", "records", "key"),
    ),
    Listing(
        name="hanging",
        what="transactions open on a partition that no coordinator knows",
        columns=("topic", "partition", "producer_id", "producer_epoch", "since_ms", "key"),
    ),
    Listing(
        name="alerts",
        what="alerts",
        columns=("severity", "state", "rule", "name", "since_ms", "silenced_by", "summary"),
        filters=("pipeline", "state"),
    ),
    Listing(
        name="ids",
        what="transactional ids by prefix",
        columns=("prefix", "ids", "open", "oldest_at_ms"),
    ),
    Listing(
        name="audit",
        what="every order given, newest first",
        columns=("audit", "at_ms", "who", "action", "outcome", "refers_to", "reason", "keys"),
    ),
)
