"""Plays the engineer on call in a headless run: reads, orders and restarts through the same HTTP API as the pages."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from demo import topics
from demo.abandoned_producer import KEY
from demo.readers import LiveReader, scan
from demo.run import DemoRun, say
from demo.waiting import DemoFailed
from indoubt.lifecycle.verdicts import Verdict

VERDICT_LIMIT_S = 45.0
"""The collector must show a decided batch in time to settle it within its transactions' timeout of 60 s."""
READ_LIMIT_S = 30.0
CALL_LIMIT_S = 60.0
"""An order to restart waits up to 25 s for the supervisor's answer."""


@dataclass(slots=True)
class OnCall:
    """An engineer with a reader of the sink; ``steps`` are the actions in order, for the report."""

    run: DemoRun
    reader: LiveReader
    steps: list[dict[str, Any]] = field(default_factory=list)

    def commit_decided_batch(self) -> None:
        """Wait for the verdict "commit it", commit the whole batch, wait for a reader to get its rows, restart the pipeline."""
        rows = self.run.wait_for(f"the verdict {Verdict.COMMIT_IT.value!r}", self._decided_batch, VERDICT_LIMIT_S)
        batch, expected = rows[0]["batch"], sum(row["rows"] for row in rows)
        self._note("saw", verdict=Verdict.COMMIT_IT.value, batch=batch, transactions=len(rows), rows=expected)
        before = len(self.reader.records())
        self._order("commit", rows, "the driver stands still and its commit decision counts")
        self.run.wait_for(
            f"a read_committed reader to get the {expected} rows of batch {batch}",
            lambda: len(self.reader.records()) >= before + expected,
            READ_LIMIT_S,
        )
        self._note("read", rows=len(self.reader.records()) - before)
        pipelines: list[dict[str, Any]] = self._call("/pipelines")["rows"]
        self._order("restart", pipelines, "its driver stands still")

    def abort_foreign(self) -> None:
        """Wait until the collector shows the foreign transaction, abort it, wait for readers of the sink to continue."""
        rows = self.run.wait_for("the foreign transaction to be shown", self._foreign, VERDICT_LIMIT_S)
        self._note(
            "saw", verdict=rows[0]["verdict"], transaction=rows[0]["transaction"], partitions=rows[0]["partitions"]
        )
        begins = self._foreign_offsets()
        confirm = rows[0]["transaction"] if rows[0]["loses_data"] else ""
        self._order("abort", rows, "its application is dead and its owner was asked", confirm)
        behind = self.run.wait_for(
            f"a blocked read_committed reader of {topics.SINK} to go on",
            lambda: sum(row.offset > begins.get(row.partition, row.offset) for row in self.reader.records()),
            READ_LIMIT_S,
        )
        self._note("read on", rows_behind_it=behind)

    def _foreign_offsets(self) -> dict[int, int]:
        """Return each partition's first offset of the foreign transaction, which is where read_committed readers stop."""
        begins: dict[int, int] = {}
        for row in scan(self.run.bootstrap_servers, topics.SINK, committed_only=False):
            if row.key == KEY:
                begins.setdefault(row.partition, row.offset)
        return begins

    def _decided_batch(self) -> list[dict[str, Any]]:
        """Return the transactions of a decided batch if all of them have the verdict, else an empty list."""
        rows = [row for row in self._transactions() if row["verdict"] == Verdict.COMMIT_IT.value and row["may_commit"]]
        if not rows:
            return []
        siblings = self._call(f"/transactions/{quote(rows[0]['key'], safe='')}")["siblings"]
        keys = {row["key"] for row in rows}
        return rows if keys.issuperset(siblings) else []

    def _foreign(self) -> list[dict[str, Any]]:
        rows = self._transactions()
        return [
            row for row in rows if row["verdict"] == Verdict.FOREIGN.value and row["may_abort"] and not row["managed"]
        ]

    def _transactions(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._call("/transactions")["rows"]
        return rows

    def _order(self, action: str, rows: list[dict[str, Any]], reason: str, confirm: str = "") -> None:
        for dry_run in (True, False):
            body = {
                "action": action,
                "keys": [row["key"] for row in rows],
                "seen": {row["key"]: row["revision"] for row in rows},
                "reason": reason,
                "dry_run": dry_run,
                "confirm": confirm,
            }
            result = self._call("/orders", body=body)
            outcomes = [step["outcome"] for step in result["steps"]]
            self._note(
                action, outcome=result["outcome"], steps=outcomes, took_ms=result["took_ms"], audit=result["audit"]
            )

    def _note(self, what: str, **details: Any) -> None:
        self.steps.append({"step": what, **details})
        say(f"on call: {what} " + ", ".join(f"{name} {value}" for name, value in details.items()))

    def _call(self, path: str, body: Any = None) -> Any:
        """Return the JSON answer of the collector's API; a ``body`` makes it a POST. Raises DemoFailed."""
        url = f"{self.run.collector_url}/api/v1{path}"
        request = urllib.request.Request(url, data=None if body is None else json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        request.add_header("Authorization", f"Bearer {self.run.operator_token}")
        try:
            with urllib.request.urlopen(request, timeout=CALL_LIMIT_S) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise DemoFailed(f"{url} answered {error.code}: {error.read().decode(errors='replace')[:500]}") from None
        except OSError as error:
            raise DemoFailed(f"{url} did not answer: {error}") from None
