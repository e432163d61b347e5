"""Bulk orders: which transactions a filter means now, and the fingerprint by which an order says which it was shown."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from collector.judging import Judged
from collector.ordering.confirmation import text_to_type
from collector.orders import KEYS_MOST, Filter
from collector.transaction_rows import transaction_row, urgency
from lifecycle.errors import OrderRefused
from lifecycle.verdicts import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a filter means: ``chosen`` may be aborted, ``left_out`` fits the filter and may not."""

    chosen: tuple[Judged, ...]
    left_out: tuple[Judged, ...]

    @property
    def fingerprint(self) -> str:
        """Return a text that changes when another transaction is chosen, or one of them changed."""
        return fingerprint([(one.view.key, one.view.revision) for one in self.chosen])

    def to_json(self, chosen_by: Filter) -> dict[str, Any]:
        """Return the preview as the API answers it. Raises OrderRefused when no order could name all of them."""
        return {
            "action": "abort",
            "filter": chosen_by.to_json(),
            "fingerprint": self.fingerprint,
            "keys": [one.view.key for one in self.chosen],
            "confirm": text_to_type(self.chosen),
            "rows": [transaction_row(one) for one in self.chosen],
            "left_out": [
                {"key": one.view.key, "transaction": one.view.transaction, "verdict": one.judgement.verdict.value}
                for one in self.left_out
            ],
        }


def select(judged: Iterable[Judged], wanted: Filter, at_ms: int) -> Selection:
    """Return what the filter means among these, most urgent first. Raises OrderRefused when it is too much for one order."""
    fitting = sorted((one for one in judged if _fits(one, wanted, at_ms)), key=urgency)
    chosen = tuple(one for one in fitting if one.judgement.may_abort)
    if len(chosen) > KEYS_MOST:
        raise OrderRefused(f"the filter means {len(chosen)} transactions and an order takes {KEYS_MOST}: narrow it")
    return Selection(chosen=chosen, left_out=tuple(one for one in fitting if not one.judgement.may_abort))


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


def _fits(one: Judged, wanted: Filter, at_ms: int) -> bool:
    view, opened = one.view, one.view.opened_ms
    return (
        one.judgement.verdict is not Verdict.SETTLED
        and wanted.pipeline in ("", view.pipeline)
        and wanted.verdict in ("", one.judgement.verdict.value)
        and wanted.resource_manager in ("", view.resource_manager)
        and view.transaction.startswith(wanted.transaction_prefix)
        and (not wanted.open_for_ms or (opened is not None and at_ms - opened >= wanted.open_for_ms))
    )
