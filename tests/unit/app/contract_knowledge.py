"""What a collector by docs/api.md knows, and how it answers who asks: values that a test sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import Any

from tests.unit.app.contract_attention_rows import incident
from tests.unit.app.contract_pipeline_rows import series, series_of_groups, series_of_partition, trends
from tests.unit.app.contract_rows import now_ms

TOKEN = "operator-token-of-the-test"


def _is_set() -> Event:
    event = Event()
    event.set()
    return event


@dataclass
class Known:
    """What the collector knows; a test changes it between two polls."""

    transactions: list[dict[str, Any]] = field(default_factory=list)
    hanging: list[dict[str, Any]] = field(default_factory=list)
    blocked: list[dict[str, Any]] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    pipelines: list[dict[str, Any]] = field(default_factory=list)
    aborts: list[dict[str, Any]] = field(default_factory=list)
    losses: list[dict[str, Any]] = field(default_factory=list)
    batches: list[dict[str, Any]] = field(default_factory=list)
    timeouts: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    restores: list[dict[str, Any]] = field(default_factory=list)
    ids: list[dict[str, Any]] = field(default_factory=list)
    quarantined: list[dict[str, Any]] = field(default_factory=list)
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    standing_orders: list[dict[str, Any]] = field(default_factory=list)
    attention: list[dict[str, Any]] = field(default_factory=list)
    """Parts of incidents beside those of the transactions."""
    incidents: list[dict[str, Any]] = field(default_factory=list)
    """Whole ones, behind those that these make."""
    awaited: list[dict[str, Any]] = field(default_factory=list)
    history_error: str = ""
    lost_forgotten: int = 0
    audit: list[dict[str, Any]] = field(default_factory=list)
    alerts: list[dict[str, Any]] = field(default_factory=list)
    silences: list[dict[str, Any]] = field(default_factory=list)
    receivers: list[dict[str, Any]] = field(default_factory=list)
    orders: list[dict[str, Any]] = field(default_factory=list)
    under_way: list[dict[str, Any]] = field(default_factory=list)
    switches: list[dict[str, Any]] = field(default_factory=list)
    """What was sent to stop or start the standing orders."""
    answers: dict[str, Any] = field(default_factory=dict)
    """What became of each order, by its idempotency key."""
    loses: str = ""
    """``answer``: an order is carried out and its sender is not told; ``order``: it is not even received."""
    may_answer: Event = field(default_factory=_is_set)
    """Orders wait for it."""
    role: str = "operator"
    read_only: bool = False
    standby_of: str = ""
    token: str = TOKEN
    cluster_name: str = ""
    clusters_asked: set[str] = field(default_factory=set)
    """The clusters that requests name, empty for none."""
    loading: bool = False
    asked: list[str] = field(default_factory=list)
    """The path of every look, in the order of their arrival."""
    version: int = 0
    """A test counts it up to have a change told."""
    ends_streams: bool = False
    streams: int = 0
    """How many readers of changes are connected."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """Of every transaction that is asked for."""
    series: dict[str, Any] = field(default_factory=series)
    trends: dict[str, Any] = field(default_factory=trends)
    archive: dict[str, Any] = field(default_factory=dict)
    series_of_groups: dict[str, Any] = field(default_factory=series_of_groups)
    series_of_partition: dict[str, Any] = field(default_factory=series_of_partition)
    checkpoint_gaps: list[dict[str, Any]] = field(default_factory=list)
    abort_counts: dict[str, Any] = field(
        default_factory=lambda: {"from_ms": 1_795_000_020_000, "bucket_ms": 60_000, "buckets": 30, "counts": []}
    )
    checkpoint_durations: list[dict[str, Any]] = field(default_factory=list)
    found: list[dict[str, Any]] = field(default_factory=list)
    """What a search finds, in pages of their own: the cursor of each is its place."""
    searches: list[dict[str, str]] = field(default_factory=list)
    earlier: list[dict[str, Any]] = field(default_factory=list)
    partition: dict[str, Any] | None = None
    """The only one that is known."""
    raw: dict[str, bytes] = field(default_factory=dict)
    """Path -> body to answer instead, whatever it is."""

    def status(self) -> dict[str, Any]:
        observers = [
            {"name": name, "state": "up", "delay_ms": 120, "since_ms": now_ms() - 60_000, "error": "", "records": 9}
            for name in ("lifecycle topic", "decision log", "transaction log")
        ]
        observers.append(
            {
                "name": "checkpoints",
                "state": "down",
                "delay_ms": None,
                "since_ms": now_ms() - 9000,
                "error": "no such directory",
                "records": 0,
            }
        )
        return {
            "now_ms": now_ms(), "cluster": "orders-eu", "cluster_name": self.cluster_name,
            "bootstrap": "127.0.0.1:9092", "name": "anna", "role": self.role,
            "read_only": self.read_only, "quarantined": len(self.quarantined), "events": 8812,
            "lost_forgotten": self.lost_forgotten,
            "history": {"error": self.history_error, "waiting": 3 if self.history_error else 0, "set_aside": [],
                        **self.archive},
            "observers": observers, "standby_of": self.standby_of,
        }  # fmt: skip

    def table(self, path: str, words: str) -> list[dict[str, Any]]:
        """Return the rows of a table; of transactions, and of how many there are, those that have all of the words."""
        if path not in ("transactions", "transaction-counts"):
            found: list[dict[str, Any]] = getattr(self, path.replace("-", "_"))
            return found
        names = ("transaction", "pipeline", "resource_manager", "partitions")
        rows = [
            row
            for row in self.transactions
            if all(word in str([row[name] for name in names]).casefold() for word in words.casefold().split())
        ]
        return rows if path == "transactions" else self._counts(rows)

    def orders_given(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        """Return the rows of the audit that have the words that are asked for, and any of the keys."""
        words, keys = query.get("words", [""])[0].casefold(), set(query.get("key", ()))
        return [
            row
            for row in self.audit
            if words in str(list(row.values())).casefold() and (not keys or keys & set(row["keys"]))
        ]

    def _counts(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for row in rows:
            found.setdefault((row["application"]["kind"], row["pipeline"], row["verdict"]), []).append(row)
        return [
            {"pipeline": name, "kind": kind, "verdict": verdict, "transactions": len(rows),
             "oldest_opened_at_ms": min(row["opened_at_ms"] for row in rows), "deadline_ms": None}
            for (kind, name, verdict), rows in found.items() if verdict != "settled"
        ]  # fmt: skip

    def incidents_about(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        keys = set(query.get("key", ()))

        def names(one: dict[str, Any]) -> set[str]:
            of_parts = {name for part in one["parts"] for name in (*part["keys"], part["target"])}
            return {one["application"], *one["alerts"], *of_parts}

        lasting = [one for one in self.overview()["incidents"] if one["state"] != "over"]
        return [one for one in lasting if not keys or keys & names(one)]

    def overview(self) -> dict[str, Any]:
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        shown = [{**row, "pipeline": row["application"]["name"], "batch": None, "rows": None, "deadline_ms": None, "partitions": []}
                 for row in self.hanging]  # fmt: skip
        for row in (*shown, *self.transactions):
            if row["verdict"] not in ("in progress", "settled"):
                groups.setdefault((row["verdict"], row["pipeline"], row["batch"]), []).append(row)
        parts: dict[str, list[dict[str, Any]]] = {}
        for part in (*(_card(*group, rows) for group, rows in groups.items()), *self.attention):
            parts.setdefault(part["group"], []).append(part)
        firing = [row for row in self.alerts if row["state"] == "firing" and row["silenced_by"] is None]
        alerts = {group: [row["key"] for row in firing if row["group"] == group] for group in parts}
        incidents = [*(incident(*of_it, alerts=alerts[group]) for group, of_it in parts.items()), *self.incidents]
        lasting = [one for one in incidents if one["state"] != "over"]
        return {
            "now_ms": now_ms(),
            "counts": {"open": len(self.transactions), "prepared": 4, "committed_per_minute": 48, "aborted_per_minute": 2,
                       "waiting_groups": len(self.blocked),
                       "hanging": len(self.hanging)},
            "oldest_open_at_ms": min((row["opened_at_ms"] for row in self.transactions), default=None),
            "incidents": incidents, "incidents_total": len(lasting),
            "to_act": sum(one["state"] == "act" for one in lasting),
            "alerting": len({row["group"] for row in firing}),
            "all_well_since_ms": None if lasting or self.awaited else now_ms() - 10_800_000,
            "awaited": self.awaited, "pipelines_alive": 1, "observers_up": 3, "observers": 4,
            "in_progress": [], "in_progress_total": 0,
        }  # fmt: skip

    def detail(self, key: str) -> dict[str, Any] | None:
        row = next((row for row in self.transactions if row["key"] == key), None)
        if row is None:
            return None
        opened = row["opened_at_ms"]
        return {
            "branch": None,
            "loss": None,
            **row,
            "timeline": [
                {"at_ms": opened, "what": "opened", "source": "transaction log"},
                {"at_ms": opened + 640, "what": "prepared", "source": "lifecycle topic"},
                {"at_ms": opened + 655, "what": "decided: commit", "source": "decision log"},
            ],
            "siblings": [
                other["key"] for other in self.transactions
                if other is not row and row["batch"] is not None and other["batch"] == row["batch"]
            ],
            "decision": {"offset": 88213, "at_ms": opened + 655, "who": "run 7f3a", "ruling": "commit"} if row["managed"] else None,
            "handle": {name: row[name] for name in ("transaction", "producer_id", "rows")} if row["managed"] else None,
            "broker": {"state": "Ongoing", "producer_id": row["producer_id"], "producer_epoch": row["producer_epoch"],
                       "timeout_ms": row["timeout_ms"], "started_at_ms": opened},
            "last_seen_ms": opened + 700 if row["managed"] else None,
        }  # fmt: skip


def least_sure(rows: list[dict[str, Any]]) -> str:
    """Return the certainty of the least sure of these transactions."""
    return max((row["certainty"] for row in rows), key=("certain", "likely", "guess").index)


def _card(verdict: str, pipeline: str, number: int | None, rows: list[dict[str, Any]]) -> dict[str, Any]:
    keys = [row["key"] for row in rows]
    return {
        "key": f"{verdict}/{pipeline}/{number}", "kind": "transactions", "badge": verdict, "verdict": verdict,
        "group": f"application {pipeline}",
        "certainty": least_sure(rows),
        "severity": "critical", "pipeline": pipeline, "batch": number, "keys": keys,
        "headline": f"{verdict}: {len(rows)} of {pipeline}",
        "waits": [{"group": "dashboard", "lag": 40, "since_ms": now_ms() - 8_000, "partitions": 4}], "since_ms": now_ms() - 18_000,
        "deadline_ms": min((row["deadline_ms"] for row in rows if row["deadline_ms"]), default=None),
        "consequence": "The broker aborts it, and decided rows are lost.",
        "remedy": next((act for act in ("commit", "abort") if any(row[f"may_{act}"] for row in rows)), "open"),
        "target": "", "rows": sum(row["rows"] or 0 for row in rows) or None,
        "partitions": [name for row in rows for name in row["partitions"]],
    }  # fmt: skip
