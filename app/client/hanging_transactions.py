"""Hanging transactions, shown and ordered like the other transactions."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.lifecycle.resource_manager_kinds import KAFKA
from indoubt.lifecycle.rows.partitions import HangingRow
from indoubt.lifecycle.rows.transactions import TransactionRow
from indoubt.lifecycle.states import TransactionState


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction(TransactionRow):
    """A transaction that is open on one partition, from ``start_offset`` on: it has no timeout. ``remedy``: in words."""

    confirm: str
    start_offset: int | None
    remedy: str

    @property
    def confirmation_text(self) -> str:
        """Return what an abort must repeat; empty where it loses nothing."""
        return self.confirm


def as_transaction(row: HangingRow) -> HangingTransaction:
    """Return a row of GET /hanging as a transaction: on one partition, open since its last record at the latest."""
    name = row.transaction or f"producer {row.producer_id}"
    return HangingTransaction(
        key=row.key,
        resource_manager=KAFKA.name,
        transaction=name,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        client_transaction_version=None,
        pipeline=row.application.name,
        application=row.application,
        managed=False,
        checkpoint_id=None,
        batch=None,
        attempt=None,
        slot=None,
        checkpoint=None,
        state=TransactionState.OPEN,
        verdict=row.verdict,
        certainty=row.certainty,
        rule=row.rule,
        opened_at_ms=min(row.since_ms, row.last_record_at_ms or row.since_ms),
        timeout_ms=None,
        deadline_ms=None,
        rows=None,
        bytes=None,
        partitions=(f"{row.topic}-{row.partition}",),
        may_commit=row.may_commit,
        may_abort=row.may_abort,
        loses_data=row.loses_data,
        commit_confirmation="",
        evidence=row.evidence,
        revision=row.revision,
        updated_at_ms=row.found_at_ms,
        written_again_at_ms=None,
        confirm=row.confirm,
        start_offset=row.start_offset,
        remedy=row.remedy,
    )
