"""Every dialog of the pages, for the page that shows the one that is open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from indoubt.app.dialogs import (
    filter_order_dialog,
    silence_dialog,
    standing_orders_dialog,
    target_dialogs,
    transactions_dialog,
)
from indoubt.app.dialogs.dialog import Dialog

DIALOGS: Sequence[Dialog[Any]] = (
    transactions_dialog.DIALOG,
    target_dialogs.BATCH,
    target_dialogs.PIPELINE,
    filter_order_dialog.DIALOG,
    silence_dialog.DIALOG,
    standing_orders_dialog.DIALOG,
)


def show_if_asked() -> None:
    """Show the dialog that is open. Called once per run of the page, outside every fragment."""
    for dialog in DIALOGS:
        dialog.show_if_asked()
