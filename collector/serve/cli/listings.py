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
    has_pages: bool = False
    """It may be so long that ``--after`` shows the next page."""

    @property
    def path(self) -> str:
        """Return where the API has it."""
        return f"/api/v1/{self.name}"


_OTHER_NAMES = {"transaction-part": "transaction", "since": "since_ms", "until": "until_ms"}


def parameter(option: str) -> str:
    """Return the API's parameter of an option."""
    return _OTHER_NAMES.get(option, option.replace("-", "_"))


LISTINGS = (
    Listing(
        name="transactions",
        what="transactions that are not settled, most urgent first",
        columns=(
            "verdict",
            "certainty",
            "pipeline",
            "batch",
            "slot",
            "state",
            "opened_at_ms",
            "deadline_ms",
            "rows",
            "key",
        ),
        filters=("pipeline", "verdict", "certainty", "resource-manager", "all"),
        has_pages=True,
    ),
    Listing(
        name="batches",
        what="attempts at batches with their transactions in every resource manager, those on one side only first",
        columns=(
            "verdict",
            "pipeline",
            "batch",
            "attempt",
            "settle",
            "decided_at_ms",
            "rows",
            "missing_on",
            "explanation",
        ),
        filters=("pipeline", "verdict"),
        has_pages=True,
    ),
    Listing(
        name="checkpoints",
        what="checkpoints, newest first",
        columns=("pipeline", "number", "state", "started_at_ms", "duration_ms", "transactions", "rows", "source"),
        filters=("pipeline",),
        has_pages=True,
    ),
    Listing(
        name="pipelines",
        what="pipelines with their newest run",
        columns=("pipeline", "state", "attempt", "run_at_ms", "started_at_ms", "last_seen_at_ms", "last_heartbeat"),
        filters=("pipeline",),
    ),
    Listing(
        name="timeouts",
        what="is each timeout long enough? applications of the last day, the worst first",
        columns=(
            "risk",
            "pipeline",
            "timeout_ms",
            "left_ms",
            "recovery_ms",
            "p99_ms",
            "longest_ms",
            "transactions",
            "timed_out",
            "advice",
        ),
        filters=("pipeline",),
        has_pages=True,
    ),
    Listing(
        name="jobs",
        what="Flink's jobs, running ones first",
        columns=("cluster", "name", "state", "started_at_ms", "restarts", "restored_from", "job"),
    ),
    Listing(
        name="aborts",
        what="aborted and lost transactions, newest first",
        columns=("at_ms", "verdict", "cause", "certainty", "pipeline", "batch", "open_ms", "rows", "key"),
        filters=("since", "cause"),
        has_pages=True,
    ),
    Listing(
        name="search",
        what="transactions of all history, newest opening first; --topic and --group look at what they wrote to",
        columns=("opened_at_ms", "state", "cause", "pipeline", "batch", "open_ms", "rows", "key"),
        filters=("transaction-part", "pipeline", "topic", "group", "outcome", "cause", "since", "until"),
        has_pages=True,
    ),
    Listing(
        name="losses",
        what="was data lost? transactions that were undone, newest first",
        columns=("at_ms", "verdict", "certainty", "pipeline", "checkpoint", "rows", "why", "key"),
        filters=("pipeline", "verdict", "transaction", "since", "all"),
        has_pages=True,
    ),
    Listing(
        name="blocked",
        what="partitions that hide records from read_committed readers, the longest waits first",
        columns=(
            "topic",
            "partition",
            "hidden",
            "waiting",
            "waited_ms",
            "lag",
            "held_since_ms",
            "application",
            "holder_key",
        ),
        filters=("topic", "all"),
    ),
    Listing(
        name="hanging",
        what="transactions open on a partition that no coordinator will end, oldest first",
        columns=(
            "verdict",
            "certainty",
            "topic",
            "partition",
            "application",
            "transaction",
            "hidden",
            "waiting",
            "since_ms",
            "remedy",
            "key",
        ),
    ),
    Listing(
        name="alerts",
        what="alerts, firing first",
        columns=("severity", "state", "rule", "name", "since_ms", "silenced_by", "summary"),
        filters=("pipeline", "state", "severity"),
    ),
    Listing(
        name="ids",
        what="transactional ids by prefix, most ids first",
        columns=("prefix", "ids", "growth_per_hour", "stale_ids", "leaks", "shared", "newest_at_ms", "why"),
        has_pages=True,
    ),
    Listing(
        name="audit",
        what="every order given, newest first",
        columns=("audit", "at_ms", "who", "action", "outcome", "refers_to", "reason", "keys"),
        has_pages=True,
    ),
    Listing(
        name="quarantined",
        what="records that could not be understood, newest first",
        columns=("at_ms", "source", "partition", "offset", "error"),
        has_pages=True,
    ),
)
