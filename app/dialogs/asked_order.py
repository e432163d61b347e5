"""An order in its dialog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from indoubt.app.client.collector_errors import CollectorError, Failure
from indoubt.app.components.markup import Html
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.orders import OrderResult, OrderRun
from indoubt.lifecycle.rows.transactions import TransactionRow

Target = TypeVar("Target")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOrder(Generic[Target]):
    """An order in its dialog, for what was shown, and its result so far."""

    action: Action
    target: Target
    dry_run_result: OrderResult | None = None
    result: OrderResult | None = None
    refusal: CollectorError | None = None
    now: tuple[TransactionRow | None, ...] = ()
    """Transactions as they were after the order was refused."""
    under_way: OrderRun | None = None
    """The collector's run of it, until that is over."""
    overtaken: Html | None = None
    """What became of it in the meantime, in a sentence: nothing is left to order as it was shown."""
    complaint: str = ""
    shown_at_ms: int = 0
    """By the collector's clock."""
    idempotency_key: str = ""
    """Of the order that was sent; with it the app asks for a result whose answer never came."""

    @property
    def has_no_answer(self) -> bool:
        """True if the order was sent and its answer never came."""
        return self.refusal is not None and self.refusal.failure is Failure.NO_ANSWER_TO_ORDER
