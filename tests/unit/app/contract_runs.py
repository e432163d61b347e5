"""Runs of orders, as docs/api.md describes them: a thread carries out each part once it may."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tests.unit.app.contract_rows import now_ms

PART = 250
Give = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]
WAIT_LIMIT_S = 120.0


class Runs:
    """The runs of one collector. ``give`` carries out a part, ``give_whole`` an order by its keys, once ``may_send`` is set."""

    def __init__(self, give: Give, give_whole: Give, may_send: threading.Event) -> None:
        self._give, self._give_whole, self._may_send = give, give_whole, may_send
        self._previewed: dict[str, tuple[dict[str, str], str, str]] = {}
        self._by_key: dict[str, dict[str, Any]] = {}
        self._threads: list[threading.Thread] = []
        self.rows: dict[str, dict[str, Any]] = {}
        self.came = threading.Event()

    def preview(self, condition: Mapping[str, Any], revisions: Mapping[str, str], what: str) -> dict[str, Any]:
        """Return a condition with its fingerprint, which an order may name from now on."""
        fingerprint, keys = uuid.uuid4().hex, condition["keys"]
        self._previewed[fingerprint] = ({key: revisions[key] for key in keys}, condition["confirm"], what)
        return {**condition, "fingerprint": fingerprint, "parts": -(-len(keys) // PART)}

    def begin(self, body: dict[str, Any], who: str) -> dict[str, Any]:
        """Return a new run, or the one that was begun under the same key."""
        key = body["idempotency_key"]
        if key and key in self._by_key:
            return self._by_key[key]
        by_filter = "filter" in body
        if by_filter:
            seen, _, what = self._previewed[body["fingerprint"]]
        else:
            seen, what = dict.fromkeys(body["keys"], ""), body["subject"]
        row = {
            "run": uuid.uuid4().hex[:16], "begun_at_ms": now_ms(), "who": who, "action": body["action"],
            "filter": body.get("filter", {}), "what": what, "reason": body["reason"], "dry_run": body.get("dry_run", False),
            "transactions": len(seen), "parts": -(-len(seen) // PART), "parts_sent": 0, "sent": 0, "done": 0,
            "outcomes": {}, "outcome": "", "took_ms": 0, "audits": [], "is_over": False, "halted": "", "steps": [],
        }  # fmt: skip
        self.rows[row["run"]] = self._by_key[key] = row
        send = self._send if by_filter else self._send_whole
        self._threads.append(threading.Thread(target=send, args=(row, body, seen), daemon=True))
        self._threads[-1].start()
        return row

    def _send(self, row: dict[str, Any], body: dict[str, Any], seen: Mapping[str, str]) -> None:
        keys = list(seen)
        for first in range(0, len(keys), PART):
            if row["halted"]:
                break
            self.came.set()
            self._may_send.wait(WAIT_LIMIT_S)
            part = keys[first : first + PART]
            order = {"keys": part, "seen": {key: seen[key] for key in part}, "each": True}
            _, answer = self._give({**body, **order})
            steps = [*row["steps"], *answer["steps"]]
            counts = Counter(step["outcome"] for step in steps)
            row |= {
                "steps": steps, "sent": first + len(part), "outcomes": dict(counts), "done": len(steps) - counts["refused"],
                "outcome": answer["outcome"], "took_ms": row["took_ms"] + answer["took_ms"],
                "audits": [*row["audits"], answer["audit"]], "parts_sent": row["parts_sent"] + 1,
            }  # fmt: skip
        row["is_over"] = True

    def _send_whole(self, row: dict[str, Any], body: dict[str, Any], seen: Mapping[str, str]) -> None:
        self.came.set()
        self._may_send.wait(WAIT_LIMIT_S)
        status, answer = self._give_whole({"dry_run": False, **body, "who": row["who"]})
        if status == 200:
            steps = answer["steps"]
            row |= {
                "steps": steps, "sent": len(seen), "done": len(steps), "parts_sent": 1, "outcome": answer["outcome"],
                "outcomes": dict(Counter(step["outcome"] for step in steps)), "took_ms": answer["took_ms"],
                "audits": [answer["audit"]],
            }  # fmt: skip
        else:
            row |= {"halted": answer["detail"], "outcome": "refused"}
        row["is_over"] = True

    def end(self) -> None:
        """Wait until all runs are over."""
        for thread in self._threads:
            thread.join(WAIT_LIMIT_S)

    def stop(self, row: dict[str, Any], who: str) -> None:
        """Send no part after the one that is under way."""
        row["halted"] = f"{who} stopped it."
