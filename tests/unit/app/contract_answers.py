"""What becomes of orders, silences and switches: they change what the collector knows, by docs/api.md."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from indoubt.lifecycle.orders import common_beginning
from tests.unit.app.contract_attention_rows import silence
from tests.unit.app.contract_knowledge import Known
from tests.unit.app.contract_rows import given_order, now_ms
from tests.unit.app.contract_runs import Runs


class Answers(Known):
    """What the collector knows and does; it settles what is ordered, and keeps no other rule than those an app can run into."""

    @cached_property
    def runs(self) -> Runs:
        """Return the runs."""
        return Runs(self._result, lambda order: self.give(order), self.may_answer)

    def give(self, order: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body; what is accepted settles the transactions. A key that came before gets its first answer."""
        self.orders.append(order)
        key = order.get("idempotency_key", "")
        before = self.answers.get(key, {}).get("answer") if key else None
        if before is not None:
            return 200, before
        status, answer = self._result(order)
        refused = answer["detail"] if status == 409 else None
        self.answers[key] = {
            "answer": answer if status == 200 else None,
            "refused": refused,
        }
        return status, answer

    def begin_run(self, body: dict[str, Any], who: str) -> tuple[int, dict[str, Any]]:
        """Return status and body; the run goes on by itself."""
        if self.role != "operator":
            return 403, error("forbidden", "anna is a viewer; orders need an operator token")
        if "filter" in body:
            self.orders.append(body)
        return 200, self.runs.begin(body, who)

    def silence(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body; the alerts whose labels match are silenced."""
        if len(body["reason"]) < 3 or not body["matchers"]:
            return 422, error("unprocessable", "'reason' takes 3 to 2000 characters: say why")
        made = silence(len(self.silences) + 1, matchers=body["matchers"], reason=body["reason"], author="anna",
                       ends_at_ms=now_ms() + body["duration_ms"])  # fmt: skip
        self.silences.append(made)
        for one in self.alerts:
            if body["matchers"].items() <= one["labels"].items():
                one["silenced_by"] = made["silence"]
        return 200, made

    def end_silence(self, number: int) -> tuple[int, dict[str, Any]]:
        """Return status and body; what it silenced is not silenced any more."""
        found = next((one for one in self.silences if one["silence"] == number), None)
        if found is None:
            return 404, error("not_found", f"there is no silence {number}: GET /api/v1/silences lists them")
        found["state"] = "ended"
        for one in self.alerts:
            one["silenced_by"] = None if one["silenced_by"] == number else one["silenced_by"]
        return 200, found

    def switch(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body; all standing orders are stopped or go on."""
        if self.history_error:
            return 503, error("unavailable", f"history cannot be written: {self.history_error}")
        self.switches.append(body)
        for row in self.standing_orders:
            row |= {
                "state": "stopped" if body["stopped"] else "acts",
                "switched_by": "anna",
                "switched_at_ms": now_ms(),
            }
        return 200, {"stopped": body["stopped"], "audit": len(self.switches)}

    def preview(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body; a filter means what has each of its values."""
        wanted, may = body["filter"], f"may_{body['action']}"
        found = [row for row in self.transactions if all(row[name] == value for name, value in wanted.items())]
        chosen = [row for row in found if row[may]]
        risky = [row["transaction"] for row in chosen if row["loses_data"]]
        summary = [
            {"verdict": chosen[0]["verdict"], "certainty": chosen[0]["certainty"],
             "rule": 6, "transactions": len(chosen), "loses_data": len(risky), "pipelines": 1,
             "example": chosen[0]["transaction"], "evidence": chosen[0]["evidence"]}
        ] if chosen else []  # fmt: skip
        takes: dict[str, list[str]] = {}
        for row in chosen:
            confirm = common_beginning(risky) if body["action"] == "abort" else row["commit_confirmation"]
            takes.setdefault(confirm, []).append(row["key"])
        words = " and ".join(f"{name} {value}" for name, value in wanted.items())
        revisions = {row["key"]: row["revision"] for row in chosen}
        conditions = [
            self.runs.preview(
                {"confirm": confirm, "keys": keys, "summary": [row | {"transactions": len(keys)} for row in summary]},
                revisions,
                words if len(takes) == 1 else f"{words}, {confirm or 'without a text to type'}",
            )
            for confirm, keys in takes.items()
        ]
        return 200, {
            **body, "keys": [row["key"] for row in chosen],
            "conditions": conditions,
            "summary": summary, "rows": chosen[:1000], "left_out": [], "left_out_total": len(found) - len(chosen),
        }  # fmt: skip

    def _result(self, order: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.role != "operator":
            return 403, error("forbidden", "anna is a viewer; orders need an operator token")
        rows = {row["key"]: row for row in (*self.transactions, *self.hanging, *self.pipelines, *self.batches)}
        refused = [key for key in order["keys"] if order.get("each") and order["seen"][key] != rows[key]["revision"]]
        order = {**order, "keys": [key for key in order["keys"] if key not in refused]}
        for key in order["keys"]:
            if key not in rows or order["seen"].get(key) != rows[key]["revision"]:
                was = rows.get(key, {}).get("state", "not known any more")
                return 409, error(
                    "order_refused", f"transaction {key} changed since it was shown: it is {was} now; look again"
                )
        words = {
            "commit": "committed",
            "abort": "aborted",
            "restart": "restarted",
            "start": "started",
            "stop": "stopped",
            "settle": "committed",
        }
        dry, word = order["dry_run"], words[order["action"]]
        if not dry:
            self.transactions = [row for row in self.transactions if row["key"] not in order["keys"]]
            self.hanging = [row for row in self.hanging if row["key"] not in order["keys"]]
            self.batches = [row for row in self.batches if row["key"] not in order["keys"]]
        steps = [
            {
                "key": key,
                "description": f"EndTxn({order['action']})",
                "outcome": "dry run" if dry else word,
                "detail": "",
            }
            for key in order["keys"]
        ]
        steps += [
            {"key": key, "description": "nothing", "outcome": "refused", "detail": "it changed since"}
            for key in refused
        ]
        number = 512 + len(self.audit)
        known = {name: order[name] for name in ("action", "keys", "reason")} | {"who": order.get("who", "anna")}
        known |= {"outcome": "dry_run" if dry else "accepted", "detail": f"{word} {len(steps)} of {len(steps)}"}
        self.audit.insert(0, given_order(number, **known))
        return 200, {"audit": number, "outcome": "dry_run" if dry else "accepted", "took_ms": 31, "steps": steps}


def error(code: str, message: str) -> dict[str, Any]:
    return {"type": "about:blank", "title": "", "detail": message, "code": code}
