"""Rows about transactions, batches and partitions as docs/api.md has them: page tests ask a collector that answers with them."""

from __future__ import annotations

import time
from typing import Any


def now_ms() -> int:
    return int(time.time() * 1000)


def application(name: str, kind: str = "indoubt pipeline", **changes: Any) -> dict[str, Any]:
    """Return the application of a transaction: a pipeline of ours unless changed."""
    return {"kind": kind, "name": name, "instance": "", "task": "", **changes}


def transaction(**changes: Any) -> dict[str, Any]:
    """Return one row of the table: a decided slot of ours, 20 s after its opening, unless changed."""
    opened = now_ms() - 20_000
    row: dict[str, Any] = {
        "resource_manager": "kafka",
        "transaction": "ip-count-0-1",
        "producer_id": 4001,
        "producer_epoch": 7,
        "client_transaction_version": 2,
        "pipeline": changes.get("pipeline", "ip-count"),
        "application": application(changes.get("pipeline", "ip-count")),
        "managed": True,
        "checkpoint_id": "checkpoint-1",
        "batch": 1841,
        "attempt": 88,
        "slot": 0,
        "checkpoint": changes.get("batch", 1841),
        "state": "decided",
        "verdict": "commit it",
        "certainty": "certain",
        "rule": 2,
        "opened_at_ms": opened,
        "timeout_ms": 60_000,
        "deadline_ms": opened + 60_000,
        "rows": 3101,
        "bytes": 310_100,
        "partitions": ["ip_count_sink-0"],
        "may_commit": True,
        "may_abort": False,
        "loses_data": False,
        "commit_confirmation": "",
        "evidence": [{"fact": "decision 88213 lists this handle", "source": "decision log", "at_ms": opened + 900}],
        "revision": "r1",
        "updated_at_ms": now_ms(),
        "written_again_at_ms": None,
        **changes,
    }
    row.setdefault("key", f"kafka:{row['transaction']}:{row['producer_id']}:{row['opened_at_ms']}")
    return row


def batch(number: int = 1841, slots: int = 4, **changes: Any) -> list[dict[str, Any]]:
    """Return the slots of one decided batch."""
    return [
        transaction(
            **{
                "transaction": f"ip-count-{slot}-{number % 2}",
                "producer_id": 4001 + slot,
                "slot": slot,
                "batch": number,
                "partitions": [f"ip_count_sink-{slot}"],
                **changes,
            }
        )
        for slot in range(slots)
    ]


def foreign(name: str = "abandoned-1", **changes: Any) -> dict[str, Any]:
    """Return an open transaction of somebody else, which may be aborted after a typed confirmation."""
    return transaction(
        **{
            "transaction": name,
            "pipeline": name,
            "application": application(str(changes.get("pipeline", name)), kind="other"),
            "managed": False,
            "checkpoint_id": None,
            "batch": None,
            "attempt": None,
            "slot": None,
            "state": "open",
            "verdict": "foreign",
            "certainty": "guess",
            "rows": None,
            "bytes": None,
            "may_commit": False,
            "may_abort": True,
            "loses_data": True,
            "evidence": [{"fact": "no checkpoint names this id", "source": "transaction log", "at_ms": None}],
            **changes,
        }
    )


def hanging(**changes: Any) -> dict[str, Any]:
    """Return a transaction that its coordinator has committed and whose partition never got the marker."""
    since = now_ms() - 90_000
    return {
        "key": "hanging:orders-2:4711:5:88100",
        "topic": "orders",
        "partition": 2,
        "transaction": "orders-1",
        "application": application("orders", kind="other"),
        "producer_id": 4711,
        "producer_epoch": 5,
        "start_offset": 88100,
        "coordinator_epoch": 3,
        "last_record_at_ms": since - 1000,
        "since_ms": since,
        "found_at_ms": since + 3000,
        "verdict": "hanging",
        "certainty": "certain",
        "rule": 6,
        "hidden": 120,
        "waiting": 1,
        "remedy": "commit marker on the partition",
        "may_commit": True,
        "may_abort": False,
        "loses_data": False,
        "confirm": "",
        "evidence": [{"fact": "orders-1 is CompleteCommit, epoch 6", "source": "coordinator", "at_ms": since}],
        "revision": "h1",
        **changes,
    }


def blocked(**changes: Any) -> dict[str, Any]:
    """Return a partition that a foreign transaction holds back, with a group that waits and one that does not."""
    since = now_ms() - 65_000
    return {
        "topic": "orders",
        "partition": 2,
        "last_stable_offset": 88100,
        "high_watermark": 88220,
        "hidden": 120,
        "holder_key": "kafka:orders-1:4711:5@1",
        "holder_transaction": "orders-1",
        "application": {"kind": "kafka streams", "name": "shop", "instance": "6c7e1f0a-91b4-4a55-8f0e-0123456789ab", "task": "1"},
        "holder_producer_id": 4711,
        "holder_producer_epoch": 5,
        "holder_start_offset": 88100,
        "held_since_ms": since,
        "waiting": 1,
        "waiting_since_ms": since,
        "waited_ms": 65_000,
        "lag": 120,
        "groups": [
            {"group": "billing", "kind": "waiting", "certainty": "likely", "state": "Stable", "offset": 88100, "lag": 120,
             "since_ms": since, "waited_ms": 65_000},
            {"group": "audit", "kind": "markers only", "certainty": "certain", "state": "Stable", "offset": 88099, "lag": 1,
             "since_ms": since, "waited_ms": None},
        ],
        "seen_at_ms": now_ms(),
        **changes,
    }  # fmt: skip


def loss(transaction: str = "flink-orders-0-3", **changes: Any) -> dict[str, Any]:
    """Return a row of the losses: a transaction of Flink that the broker timed out after its checkpoint, unless changed."""
    return {
        "at_ms": now_ms() - 120_000,
        "key": f"kafka:{transaction}:4001:7",
        "transaction": transaction,
        "producer_id": 4001,
        "producer_epoch": 7,
        "pipeline": "orders-eu/orders",
        "managed": False,
        "checkpoint": 88,
        "verdict": "lost",
        "certainty": "certain",
        "why": "Checkpoint 88 counts it as written, and the broker timed it out.",
        "cause": "timeout",
        "cause_certainty": "certain",
        "opened_at_ms": now_ms() - 180_000,
        "written_again_at_ms": None,
        "rows": None,
        "partitions": ["orders-0", "orders-1"],
        "offsets": [
            {"partition": "orders-0", "first": 1200, "next": 1450, "certainty": "likely", "how": "read from the log"}
        ],
        **changes,
    }


def shared_batch(number: int = 12, **changes: Any) -> dict[str, Any]:
    """Return a row of the batches: one that was decided, is committed in MySQL, and open in Kafka, unless changed."""
    return {
        "key": f"word-count/1f0e/{number}/3",
        "pipeline": "word-count",
        "checkpoint_id": "1f0e",
        "batch": number,
        "attempt": 3,
        "verdict": "one side only",
        "explanation": "Committed on mysql, not on kafka (kafka: 2 open of 2): settle it.",
        "committed_on": ["mysql"],
        "missing_on": ["kafka"],
        "decision": "commit",
        "decision_offset": 88,
        "decided_at_ms": now_ms() - 18_000,
        "decided_by": "run 3",
        "settle": "commit",
        "sides": [
            {"resource_manager": "kafka", "transactions": 2, "committed": 0, "aborted": 0, "open": 2, "rows": 40},
            {"resource_manager": "mysql", "transactions": 2, "committed": 2, "aborted": 0, "open": 0, "rows": 40},
        ],
        "transactions": [],
        "rows": 40,
        "opened_at_ms": now_ms() - 20_000,
        "deadline_ms": now_ms() + 40_000,
        "updated_at_ms": now_ms() - 18_000,
        "written_again_at_ms": None,
        "revision": f"r{number}",
        **changes,
    }


def parts_of_batch(transactions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of transactions as a batch has them: none has ended."""
    names = ("key", "resource_manager", "slot", "state", "verdict", "certainty", "rows", "opened_at_ms")
    others = {"committed": False, "prepared_at_ms": None, "ended_at_ms": None}
    return [{name: row[name] for name in names} | others for row in transactions]


def raw_event(kind: str = "broker", what: str = "Ongoing", **changes: Any) -> dict[str, Any]:
    """Return one raw event: the coordinator's record of an opening, unless changed."""
    return {
        "at_ms": now_ms() - 20_000,
        "kind": kind,
        "what": what,
        "source": "__transaction_state",
        "partition": 7,
        "offset": 4711,
        "raw": {"status": "ONGOING"},
        **changes,
    }


def ended_transaction(transaction: str = "ip-count-0-1", **changes: Any) -> dict[str, Any]:
    """Return a transaction that came before: committed after 900 ms, unless changed."""
    opened = now_ms() - 60_000
    return {
        "key": f"kafka:{transaction}:4001:6@{opened}",
        "transaction": transaction,
        "pipeline": "ip-count",
        "batch": 1839,
        "slot": 0,
        "state": "committed",
        "opened_at_ms": opened,
        "ended_at_ms": opened + 900,
        "open_ms": 900,
        "written_again_at_ms": None,
        "rows": 3000,
        "partitions": ["ip_count_sink-0"],
        **changes,
    }


def abort(transaction: str = "orders-0", **changes: Any) -> dict[str, Any]:
    """Return a row of the aborts: one of another application that its own client aborted, unless changed."""
    return {
        "at_ms": now_ms(),
        "key": f"kafka:{transaction}:7:3@1",
        "transaction": transaction,
        "pipeline": "orders",
        "batch": None,
        "slot": None,
        "verdict": "aborted",
        "cause": "client",
        "certainty": "likely",
        "open_ms": 5,
        "written_again_at_ms": None,
        "rows": None,
        **changes,
    }


def given_order(audit: int = 512, **changes: Any) -> dict[str, Any]:
    """Return a row of the audit: an abort that was carried out, unless changed."""
    return {
        "audit": audit,
        "at_ms": now_ms(),
        "who": "anna",
        "action": "abort",
        "keys": ["kafka:a:1:1"],
        "reason": "a test",
        "evidence": [],
        "outcome": "accepted",
        "detail": "[]",
        "refers_to": None,
        "given_at_ms": None,
        **changes,
    }
