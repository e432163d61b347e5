"""Bulk orders: which transactions a filter means now, and the fingerprint by which an order says which it was shown."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from collector.orders.confirmation import confirmation_text
from collector.rows.transactions import transaction_row, urgency
from collector.verdicts.judging import Judged
from lifecycle.errors import OrderRefused
from lifecycle.rows.order_request import MAX_KEYS, Filter
from lifecycle.rows.row_json import row_to_json
from lifecycle.verdicts import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a filter means: ``chosen`` may be aborted, ``left_out`` fits the filter and may not."""

    chosen: tuple[Judged, ...]
    left_out: tuple[Judged, ...]

    @property
    def fingerprint(self) -> str:
        """Return a text that changes when another transaction is chosen, or one of them changed."""
        return fingerprint([(judged.view.key, judged.view.revision) for judged in self.chosen])

    def to_json(self, chosen_by: Filter) -> dict[str, Any]:
        """Return the preview as the API answers it. Raises OrderRefused when no order could name all of them."""
        return {
            "action": "abort",
            "filter": chosen_by.to_json(),
            "fingerprint": self.fingerprint,
            "keys": [judged.view.key for judged in self.chosen],
            "confirm": confirmation_text(self.chosen),
            "rows": [row_to_json(transaction_row(judged)) for judged in self.chosen],
            "left_out": [
                {
                    "key": judged.view.key,
                    "transaction": judged.view.transaction,
                    "verdict": judged.judgement.verdict.value,
                }
                for judged in self.left_out
            ],
        }


def select(judged: Iterable[Judged], wanted: Filter, at_ms: int) -> Selection:
    """Return what the filter means among these, most urgent first. Raises OrderRefused when it is too much for one order."""
    fitting = sorted((each for each in judged if _fits(each, wanted, at_ms)), key=urgency)
    chosen = tuple(judged for judged in fitting if judged.judgement.may_abort)
    if len(chosen) > MAX_KEYS:
        raise OrderRefused(f"the filter means {len(chosen)} transactions and an order takes {MAX_KEYS}: narrow it")
    return Selection(chosen=chosen, left_out=tuple(judged for judged in fitting if not judged.judgement.may_abort))


def fingerprint(revisions: Sequence[tuple[str, str]]) -> str:
    """Return the fingerprint of (key, revision) pairs, whatever their order."""
    lines = sorted(f"{key} {revision}" for key, revision in revisions)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def require_unchanged(selection: Selection, seen: str) -> None:
    """Raise OrderRefused unless the order was shown just this selection."""
    if not selection.chosen:
        raise OrderRefused("the filter means no transaction that may be aborted (any more): look again")
    if seen != selection.fingerprint:
        raise OrderRefused(
            f"the filter means other transactions, or changed ones, than its preview showed: {len(selection.chosen)} now; "
            "ask for the preview again. Nothing was aborted"
        )


def _fits(judged: Judged, wanted: Filter, at_ms: int) -> bool:
    view, opened = judged.view, judged.view.opened_ms
    return (
        judged.judgement.verdict is not Verdict.SETTLED
        and wanted.pipeline in ("", view.pipeline)
        and wanted.verdict in ("", judged.judgement.verdict.value)
        and wanted.resource_manager in ("", view.resource_manager)
        and view.transaction.startswith(wanted.transaction_prefix)
        and (not wanted.open_for_ms or (opened is not None and at_ms - opened >= wanted.open_for_ms))
    )
