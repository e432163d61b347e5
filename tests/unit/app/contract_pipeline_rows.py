"""Rows about pipelines, jobs, checkpoints and what happened over time, as docs/api.md has them."""

from __future__ import annotations

from typing import Any

from indoubt.lifecycle.durations import DAY_MS
from tests.unit.app.contract_rows import now_ms


def pipeline(name: str = "ip-count", **changes: Any) -> dict[str, Any]:
    """Return a row of the pipelines: running, with a heartbeat a moment ago, unless changed."""
    return {
        "key": f"pipeline:{name}",
        "pipeline": name,
        "checkpoint_id": "checkpoint-1",
        "attempt": 88,
        "state": "running",
        "run_at_ms": now_ms() - 600_000,
        "started_at_ms": now_ms() - 590_000,
        "last_seen_at_ms": now_ms() - 900,
        "last_heartbeat": "a checkpoint was completed",
        "interval_ms": 5000,
        "source": "ip_count_source",
        "sink": "ip_count_sink",
        "may_start": False,
        "restart": None,
        "revision": "88",
        **changes,
    }


def timeout(pipeline: str = "ip-count", **changes: Any) -> dict[str, Any]:
    """Return a row of the timeouts: one of 60 s that is 3 s too short, unless changed."""
    return {
        "pipeline": pipeline,
        "managed": True,
        "risk": "too short",
        "advice": "60 s are 3.0 s too short. Set transaction.timeout.ms=90000 (90 s) or more.",
        "timeout_ms": 60_000,
        "left_ms": -3_000,
        "recovery_ms": 23_000,
        "recovery": "23 s, the longest of its last 3, median 14 s",
        "restarts": [
            {"run": run, "committed_at_ms": now_ms() - 3_600_000 + run, "took_ms": took_ms}
            for run, took_ms in ((210, 9_000), (340, 23_000), (410, 14_000))
        ],
        "transactions": 1204,
        "timed_out": 0,
        "p50_ms": 12_000,
        "p95_ms": 30_000,
        "p99_ms": 40_000,
        "longest_ms": 48_000,
        "longest_transaction": "ip-count-0-1",
        "open": 4,
        "oldest_key": "kafka:ip-count-0-1:4001:7@1",
        "oldest_opened_at_ms": now_ms() - 20_000,
        "oldest_deadline_ms": now_ms() + 40_000,
        **changes,
    }


def prefix_ids(prefix: str = "ip-count", **changes: Any) -> dict[str, Any]:
    """Return a row of the ids: eight that are used again, unless changed."""
    return {
        "prefix": prefix,
        "ids": 8,
        "growth_per_hour": 0.0,
        "ids_by_hour": [8] * 24,
        "stale_ids": 0,
        "leaks": False,
        "shared": False,
        "why": "",
        "checkpoint_ids": 1,
        "fenced_last_hour": 0,
        "newest_at_ms": now_ms() - 4_000,
        "oldest_at_ms": now_ms() - 9_000,
        "example": f"{prefix}-0-1",
        **changes,
    }


def job(name: str = "orders-to-lake", **changes: Any) -> dict[str, Any]:
    """Return a row of Flink's jobs: one that runs since an hour and went on from a checkpoint, unless changed."""
    return {
        "cluster": "flink-eu",
        "job": "a1b2c3",
        "name": name,
        "pipeline": "flink-eu/orders-to-lake",
        "state": "RUNNING",
        "started_at_ms": 1_764_000_000_000,
        "ended_at_ms": None,
        "restarts": 2,
        "restored_from": 88,
        "restored_at_ms": 1_764_000_001_000,
        **changes,
    }


def restore(checkpoint: int = 41, **changes: Any) -> dict[str, Any]:
    """Return what a restore from a checkpoint of that job does: it loses nothing, unless changed."""
    return {
        "pipeline": "flink-eu/orders-to-lake",
        "cluster": "flink-eu",
        "job": "a1b2c3",
        "checkpoint": checkpoint,
        "path": f"file:/checkpoints/chk-{checkpoint}",
        "kind": "CHECKPOINT",
        "written_at_ms": now_ms() - 20_000,
        "is_newest": checkpoint == 41,
        "is_safe": True,
        "certainty": "likely",
        "lost": 0,
        "twice": 0,
        "commits": 0,
        "rolled_back": 0,
        "unknown": 0,
        "deadline_ms": None,
        "advice": "Nothing is lost or written twice.",
        "doubts": [],
        "keys": {},
        **changes,
    }


def application_series(pipeline: str = "ip-count", **changes: Any) -> dict[str, Any]:
    """Return four buckets of an application, of which nobody looked at the third."""
    return {
        "pipeline": pipeline,
        "managed": True,
        "commits": [4, 8, None, 0],
        "aborts": [0, 2, None, 0],
        "lost": [0, 1, None, 0],
        "waiting": [0, 1, None, 0],
        "longest_wait_ms": [0, 65_000, None, 0],
        "hidden": [0, 120, None, 0],
        "lag": [0, 130, None, 48],
        "longest_open_ms": [400, 48_000, None, 600],
        "checkpoint_ms": [700, 900, None, 800],
        "timeout_ms": 60_000,
        "checkpoint_p50_ms": 750,
        "last_commit_ms": now_ms() - 2_000,
        **changes,
    }


def series(*applications: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the answer of GET /series: of these applications in the last four minutes."""
    until = now_ms()
    return {
        "now_ms": until,
        "from_ms": until - 240_000,
        "until_ms": until,
        "bucket_ms": 60_000,
        "applications": list(applications),
        "more": 0,
        "marks": [],
        "gaps": [],
        **changes,
    }


def _axis() -> dict[str, Any]:
    until = now_ms()
    return {"now_ms": until, "from_ms": until - 240_000, "until_ms": until, "bucket_ms": 60_000}


def trend(pipeline: str = "ip-count", **changes: Any) -> dict[str, Any]:
    """Return one application of GET /trends over three days, of which the second has no result."""
    known = {
        "pipeline": pipeline,
        "committed": [1_000, None, 2_000],
        "aborted": [10, None, 4],
        "lost": [0, None, 1],
        "causes": [{"cause": "timeout", "aborts": [9, None, 4]}, {"cause": "client", "aborts": [1, None, 0]}],
        "open_p50_ms": [300, None, 310],
        "open_p99_ms": [2_000, None, 2_100],
        "open_longest_ms": [41_000, None, 52_000],
        "timeout_ms": [60_000, None, 60_000],
        "margin_least_ms": [19_000, None, 8_000],
        "ids": [8, None, 12],
        "new_ids": [8, None, 4],
        "branches": [None, None, None],
        "branch_longest_ms": [None, None, None],
    }
    return {**known, **changes}


def trends(*applications: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the answer of GET /trends: of these applications in the last three days."""
    until_ms = (now_ms() // DAY_MS + 1) * DAY_MS
    known = {
        "now_ms": now_ms(),
        "from_ms": until_ms - 3 * DAY_MS,
        "until_ms": until_ms,
        "bucket_ms": DAY_MS,
        "made_at_ms": now_ms() - 3_600_000 if applications else None,
        "is_archived": bool(applications),
        "applications": list(applications),
        "more": 0,
    }
    return {**known, **changes}


def series_of_groups(*groups: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the answer of GET /series/groups: of these groups in the last four minutes, of which the third was not observed."""
    return {**_axis(), "observed": [True, True, False, True], "groups": list(groups), "gaps": [], **changes}


def series_of_partition(**changes: Any) -> dict[str, Any]:
    """Return the answer of GET /series/partitions: of orders-2 in the last four minutes, of which the third was not observed."""
    return {**_axis(), "topic": "orders", "partition": 2, "high_watermark": [100, 140, None, 200], "hidden": [0, 40, None, 0],
            "holders": [], "gaps": [], **changes}  # fmt: skip


def holder_span(transaction: str = "orders-1", **changes: Any) -> dict[str, Any]:
    """Return a transaction that was open on a partition from three minutes ago on for a minute, unless changed."""
    now = now_ms()
    return {"key": f"kafka:{transaction}:4711:5@1", "transaction": transaction, "pipeline": "shop", "from_ms": now - 180_000,
            "ended_ms": now - 120_000, "outcome": "aborted", **changes}  # fmt: skip


def consumer_group(name: str = "billing", **changes: Any) -> dict[str, Any]:
    """Return a row of the groups: one with three members that has read all, unless changed."""
    return {"group": name, "state": "Stable", "members": 3, "kind": "", "certainty": "certain", "since_ms": None,
            "topics": ["orders", "payments"], "partitions": 8, "lag": 0, "hidden": 0, "most": [], **changes}  # fmt: skip


def checkpoint(number: int = 41, **changes: Any) -> dict[str, Any]:
    """Return a row of the checkpoints: completed ten seconds ago within 1.2 s, unless changed."""
    ended = now_ms() - 10_000
    return {
        "pipeline": "ip-count",
        "number": number,
        "state": "completed",
        "started_at_ms": ended - 1_200,
        "ended_at_ms": ended,
        "duration_ms": 1_200,
        "transactions": 2,
        "rows": 80,
        "source": "lifecycle events",
        "kind": "checkpoint",
        "reason": "",
        "state_bytes": None,
        "job": "",
        "path": "",
        "sinks": [],
        **changes,
    }


def checkpoint_gaps(pipeline: str = "ip-count", **changes: Any) -> dict[str, Any]:
    """Return what is wrong with a pipeline's checkpoints: nothing, unless changed."""
    return {"pipeline": pipeline, "usual_ms": 5_000, "gaps": [], "failures": [], "hung": [], **changes}


def checkpoint_gap(from_ms: int, until_ms: int, **changes: Any) -> dict[str, Any]:
    """Return a time without a checkpoint in which the collector looked, unless changed."""
    name = f"no checkpoint for {(until_ms - from_ms) // 1000} s"
    return {"from_ms": from_ms, "until_ms": until_ms, "ongoing": False, "observed": True, "name": name,
            "why": "the driver was frozen", **changes}  # fmt: skip


def checkpoint_durations(pipeline: str = "ip-count", **changes: Any) -> dict[str, Any]:
    """Return how long a pipeline's checkpoints took in ten buckets of a minute: 1 s, and none in the third, unless changed."""
    from_ms = 1_795_000_020_000
    lengths = [None if place == 2 else 1_000 for place in range(10)]
    return {
        "pipeline": pipeline,
        "from_ms": from_ms,
        "until_ms": from_ms + 600_000,
        "bucket_ms": 60_000,
        "known_from_ms": from_ms,
        "completed": 108,
        "p50_ms": 1_000,
        "p99_ms": 1_000,
        "longest_ms": 1_000,
        "bucket_completed": [0 if length is None else 12 for length in lengths],
        "bucket_p50_ms": lengths,
        "bucket_longest_ms": lengths,
        **changes,
    }
