"""Orders to the collector: what is done to transactions, pipelines and alerts, how far that is, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

import httpx

from indoubt.app.client.collector_connection import CollectorConnection, Row, Rows
from indoubt.app.client.collector_errors import CollectorError, Failure
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.alerts import SilenceRow
from indoubt.lifecycle.rows.orders import OrderPreview, OrderResult, OrderRun, UnderWayRow
from indoubt.lifecycle.rows.row_json import read_row
from indoubt.lifecycle.rows.standing_orders import SwitchAnswer

PREVIEW_LIMIT_S = 20.0
"""It names everything that a filter means."""
ORDER_LIMIT_S = 75.0
"""Longer than a collector waits for a pipeline's answer (60 s)."""


class Orderable(Protocol):
    """What an order can be given over: ``key`` names it, ``revision`` changes when what an order rests on does."""

    @property
    def key(self) -> str:
        """Return the text that names it in orders."""

    @property
    def revision(self) -> str:
        """Return the text by which the collector finds that it has changed since."""


class OrderClient(CollectorConnection):
    """Gives orders, and asks after those that were given. Every method raises CollectorError."""

    def silence(self, matchers: Mapping[str, str], *, reason: str, duration_ms: int) -> SilenceRow:
        """Silence alerts that carry all of these labels, from now on for so long."""
        body = {"matchers": dict(matchers), "reason": reason, "duration_ms": duration_ms}
        return self._sent("POST", "/api/v1/silences", SilenceRow, json=body)

    def end_silence(self, number: int, *, reason: str) -> SilenceRow:
        """End a silence now."""
        return self._sent("DELETE", f"/api/v1/silences/{number}", SilenceRow, params={"reason": reason})

    def switch_standing_orders(self, *, stopped: bool, reason: str) -> SwitchAnswer:
        """Stop all standing orders, or let them go on."""
        return self._sent("POST", "/api/v1/standing-orders", SwitchAnswer, json={"stopped": stopped, "reason": reason})

    def check(self, action: Action, shown: Sequence[Orderable], *, reason: str, confirm: str = "") -> OrderResult:
        """Return what an order over what was shown would do; the collector refuses it when any of it has changed."""
        return self._order("/api/v1/orders", OrderResult, _about(action, shown, reason, confirm) | {"dry_run": True})

    def begin_run(
        self,
        action: Action,
        shown: Sequence[Orderable],
        *,
        subject: str,
        reason: str,
        confirm: str = "",
        idempotency_key: str = "",
    ) -> OrderRun:
        """Have the collector carry out an order over what was shown; it refuses it when any of it has changed.

        ``subject``: what it is about, in words. ``idempotency_key``: by which ``answer`` finds what became of it.
        """
        body = _about(action, shown, reason, confirm) | {"subject": subject[:200], "idempotency_key": idempotency_key}
        return self._order("/api/v1/orders/runs", OrderRun, body)

    def under_way(self, keys: Sequence[str]) -> Rows[UnderWayRow]:
        """Return the orders about any of these keys (at most 100) that are under way, whoever gave them, newest first."""
        return self._rows("/api/v1/orders/under-way", UnderWayRow, key=keys)

    def preview(self, action: Action, wanted: Mapping[str, str]) -> OrderPreview:
        """Return what an order by filter would be about; ``wanted``: as the API's filter. Too much for one typed text is raised."""
        body = {"action": action.value, "filter": dict(wanted)}
        return self._sent("POST", "/api/v1/orders/preview", OrderPreview, json=body, timeout=PREVIEW_LIMIT_S)

    def begin_filter_run(
        self,
        action: Action,
        wanted: Mapping[str, str],
        fingerprint: str,
        *,
        reason: str,
        dry_run: bool,
        confirm: str,
        idempotency_key: str,
    ) -> OrderRun:
        """Have the collector order everything that a condition of a preview names; under the same key again nothing is begun."""
        body: dict[str, object] = {
            "action": action.value,
            "filter": dict(wanted),
            "fingerprint": fingerprint,
            "reason": reason,
        }
        body |= {"dry_run": dry_run, "confirm": confirm, "idempotency_key": idempotency_key}
        return self._order("/api/v1/orders/runs", OrderRun, body)

    def runs(self) -> Rows[OrderRun]:
        """Return the runs of the last hour that this person began, the newest first, without their steps."""
        return self._rows("/api/v1/orders/runs", OrderRun, mine=True)

    def run(self, run: str, *, steps: bool = False) -> OrderRun:
        """Return how far a run is; ``steps``: and what became of each transaction."""
        return self._read(f"/api/v1/orders/runs/{run}", OrderRun, steps=steps or None)

    def stop_run(self, run: str) -> OrderRun:
        """Have the collector send no more of a run than what is under way."""
        return self._sent("DELETE", f"/api/v1/orders/runs/{run}", OrderRun)

    def answer(self, idempotency_key: str) -> OrderResult | None:
        """Return what became of an order; None: it has no answer yet, or it never arrived. One that was refused is raised."""
        path = "/api/v1/orders"
        said = self._ask("GET", path, params={"idempotency_key": idempotency_key})
        refused, answer = self._understand(path, lambda value: (value["refused"], value["answer"]), said)
        if refused:
            raise CollectorError(Failure.REFUSED, str(refused))
        return self._understand(path, partial(read_row, OrderResult), answer) if answer is not None else None

    def _order(self, path: str, row: type[Row], body: Mapping[str, object]) -> Row:
        try:
            return self._sent("POST", path, row, json=body, timeout=ORDER_LIMIT_S)
        except CollectorError as error:
            if error.failure is Failure.UNREACHABLE and not isinstance(error.__cause__, httpx.ConnectError):
                raise CollectorError(
                    Failure.NO_ANSWER_TO_ORDER,
                    f"the order was sent to {self.address} and no answer came ({error}). It may have been carried out: "
                    "look at Audit and at the transactions before you give it again",
                ) from error
            raise


def _about(action: Action, shown: Sequence[Orderable], reason: str, confirm: str) -> dict[str, object]:
    seen = {item.key: item.revision for item in shown}
    return {"action": action.value, "keys": list(seen), "seen": seen, "reason": reason, "confirm": confirm}
