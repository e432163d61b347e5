"""The one way to the collector: its HTTP API (docs/api.md), as typed rows or one CollectorError."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import quote

from indoubt.app.client.collector_connection import Rows, Wanted
from indoubt.app.client.hanging_transactions import HangingTransaction, as_transaction
from indoubt.app.client.order_client import OrderClient
from indoubt.lifecycle.orders import Role
from indoubt.lifecycle.rows.alerts import AlertRow, ReceiverRow, SilenceRow
from indoubt.lifecycle.rows.attention import Attention
from indoubt.lifecycle.rows.batches import BatchRow
from indoubt.lifecycle.rows.ends import AbortCounts, AbortRow, LossRow
from indoubt.lifecycle.rows.events import EndedTransactionRow, RawEventRow
from indoubt.lifecycle.rows.groups import ConsumerGroupRow, PartitionSeries, SeriesOfGroups
from indoubt.lifecycle.rows.incidents import Incident
from indoubt.lifecycle.rows.overview import Overview
from indoubt.lifecycle.rows.partitions import BlockedRow, HangingRow, PartitionRow
from indoubt.lifecycle.rows.pipelines import (
    CheckpointDurationsRow,
    CheckpointRow,
    IdsRow,
    JobRow,
    PipelineRow,
    TimeoutRow,
)
from indoubt.lifecycle.rows.records import AuditRow, QuarantinedRow
from indoubt.lifecycle.rows.restores import RestoreRow
from indoubt.lifecycle.rows.search import FoundTransactionRow
from indoubt.lifecycle.rows.series import CheckpointGapsRow, Series
from indoubt.lifecycle.rows.standing_orders import StandingOrderRow
from indoubt.lifecycle.rows.status import Status
from indoubt.lifecycle.rows.transactions import TransactionCountRow, TransactionDetailRow, TransactionRow
from indoubt.lifecycle.rows.trends import Trends


class CollectorClient(OrderClient):
    """Asks the collector, and gives it orders. Every method raises CollectorError."""

    def status(self) -> Status:
        """Return who is asked, who asks and how the observers are."""
        found = self._read("/api/v1/status", Status)
        return replace(found, role=Role.VIEWER) if self._look_only else found

    def now_ms(self) -> int:
        """Return the time by the collector's clock."""
        return self.status().now_ms

    def overview(self, limit: int | None = None) -> Overview:
        """Return the state of everything, in one look; ``limit``: of each list at most so many."""
        return self._read("/api/v1/overview", Overview, limit=limit)

    def incidents(self, *, keys: Sequence[str] = (), limit: int = 500) -> Rows[Incident]:
        """Return the incidents that last, the most urgent first; about any of these keys, if some are given.

        ``keys``: of transactions, alerts or what a remedy is for, or names of applications; at most 100.
        """
        return self._rows("/api/v1/incidents", Incident, limit=limit, key=keys)

    def parts(self, keys: Sequence[str] = ()) -> list[Attention]:
        """Return the parts of incidents, the most urgent first; about any of these transactions, if some are given."""
        found = [part for one in self.incidents(keys=keys) for part in one.parts]
        return [part for part in found if not keys or not set(keys).isdisjoint(part.keys)]

    def transactions(self, *, settled_too: bool = False, limit: int = 500, **filters: str) -> Rows[TransactionRow]:
        """Return transactions, most urgent first."""
        return self._rows("/api/v1/transactions", TransactionRow, limit=limit, all=settled_too or None, **filters)

    def transaction_counts(self, *, words: str = "") -> Rows[TransactionCountRow]:
        """Return how many transactions that are not settled each application has, by verdict: however many are listed.

        ``words``: those alone that have all of them in their names.
        """
        return self._rows("/api/v1/transaction-counts", TransactionCountRow, words=words)

    def transaction(self, key: str) -> TransactionDetailRow:
        """Return one transaction with its timeline and evidence."""
        return self._read(f"/api/v1/transactions/{quote(key, safe='')}", TransactionDetailRow)

    def events(self, key: str, *, limit: int = 500) -> Rows[RawEventRow]:
        """Return every record about one transaction and its batch, oldest first."""
        return self._rows(f"/api/v1/transactions/{quote(key, safe='')}/events", RawEventRow, limit=limit)

    def earlier(self, key: str) -> Rows[EndedTransactionRow]:
        """Return the 20 transactions of the same id that began last before this one, newest first."""
        return self._rows(f"/api/v1/transactions/{quote(key, safe='')}/earlier", EndedTransactionRow, limit=20)

    def search(self, *, limit: int = 100, **filters: str) -> Rows[FoundTransactionRow]:
        """Return a page of a search over all history, newest opening first; ``after``: what the page before it had as ``next``."""
        return self._rows("/api/v1/search", FoundTransactionRow, limit=limit, **filters)

    def partition(self, topic: str, number: int) -> PartitionRow:
        """Return a topic-partition: who reads it, what is open on it, and what has ended."""
        return self._read(f"/api/v1/partitions/{quote(topic, safe='')}/{number}", PartitionRow)

    def hanging(self) -> Rows[HangingTransaction]:
        """Return the transactions that are open on a partition while no coordinator will end them, oldest first."""
        rows = self._rows("/api/v1/hanging", HangingRow)
        return Rows(map(as_transaction, rows), rows.more, rows.next)

    def blocked(self, *, lagging_too: bool = False) -> Rows[BlockedRow]:
        """Return the partitions whose readers wait or have stopped, the longest waits first; or all on which a group lags."""
        return self._rows("/api/v1/blocked", BlockedRow, all=lagging_too or None)

    def groups(self, *, limit: int = 500) -> Rows[ConsumerGroupRow]:
        """Return the consumer groups, those that wait or have stopped first, then those that lag most."""
        return self._rows("/api/v1/groups", ConsumerGroupRow, limit=limit)

    def aborts(self, *, causes: Sequence[str] = (), limit: int = 500, **filters: str) -> Rows[AbortRow]:
        """Return aborted and lost transactions, newest first; ``causes``: of these only, where there are any.

        ``after``: what the page before had as ``next``.
        """
        return self._rows("/api/v1/aborts", AbortRow, cause=causes, limit=limit, **filters)

    def abort_counts(self, **filters: str) -> AbortCounts:
        """Return how many transactions of Kafka were aborted over time, by cause."""
        return self._read("/api/v1/aborts/counts", AbortCounts, **filters)

    def timeouts(self) -> Rows[TimeoutRow]:
        """Return the applications of the last 24 hours with how their timeouts stand, the worst first."""
        return self._rows("/api/v1/timeouts", TimeoutRow)

    def losses(
        self, *, transaction: str = "", verdicts: Sequence[str] = (), limit: int = 500, after: str = ""
    ) -> Rows[LossRow]:
        """Return undone transactions and whether what they held is missing, newest first; ``verdicts``: with these only.

        ``transaction``: of this id, whatever became of them; ``after``: what the page before had as ``next``.
        """
        return self._rows(
            "/api/v1/losses", LossRow, transaction=transaction, verdict=verdicts, limit=limit, after=after
        )

    def batches(self, *, limit: int = 500, **filters: Wanted) -> Rows[BatchRow]:
        """Return attempts at batches, those that need an operator first, each newest first.

        ``pipeline``, ``batch``: of this pipeline, and of the batch with this number, only. ``over``: those that are, newest
        first, or the others; ``after``: what the page before had as ``next``.
        """
        return self._rows("/api/v1/batches", BatchRow, limit=limit, **filters)

    def checkpoints(self, *, limit: int = 500, **filters: str) -> Rows[CheckpointRow]:
        """Return checkpoints, newest first."""
        return self._rows("/api/v1/checkpoints", CheckpointRow, limit=limit, **filters)

    def series(self, *, window_ms: int, pipeline: str = "", limit: int = 20) -> Series:
        """Return applications over the last ``window_ms``, those first that lost data or made readers wait."""
        return self._read("/api/v1/series", Series, window_ms=window_ms, pipeline=pipeline, limit=limit)

    def trends(self, *, pipeline: str = "", limit: int = 20) -> Trends:
        """Return applications over 90 days, as the job over archived history made them."""
        return self._read("/api/v1/trends", Trends, pipeline=pipeline, limit=limit)

    def series_of_groups(self, *, window_ms: int, limit: int) -> SeriesOfGroups:
        """Return what the first ``limit`` of the consumer groups had not read over the last ``window_ms``."""
        return self._read("/api/v1/series/groups", SeriesOfGroups, window_ms=window_ms, limit=limit)

    def series_of_partition(self, topic: str, number: int, *, window_ms: int) -> PartitionSeries:
        """Return where a partition ended over the last ``window_ms``, and who held it back."""
        path = f"/api/v1/series/partitions/{quote(topic, safe='')}/{number}"
        return self._read(path, PartitionSeries, window_ms=window_ms)

    def checkpoint_gaps(self, *, pipeline: str = "") -> Rows[CheckpointGapsRow]:
        """Return the times without a checkpoint, by pipeline."""
        return self._rows("/api/v1/checkpoints/gaps", CheckpointGapsRow, pipeline=pipeline)

    def checkpoint_durations(self, **filters: str) -> Rows[CheckpointDurationsRow]:
        """Return how long checkpoints took, by pipeline."""
        return self._rows("/api/v1/checkpoints/durations", CheckpointDurationsRow, **filters)

    def pipelines(self) -> Rows[PipelineRow]:
        """Return the pipelines that ever started a run."""
        return self._rows("/api/v1/pipelines", PipelineRow)

    def jobs(self) -> Rows[JobRow]:
        """Return Flink's jobs, running ones first."""
        return self._rows("/api/v1/jobs", JobRow)

    def restores(self, job: str) -> Rows[RestoreRow]:
        """Return what a restore from each retained checkpoint of a Flink job would lose or write twice, the newest first."""
        return self._rows("/api/v1/restores", RestoreRow, job=job)

    def ids(self) -> Rows[IdsRow]:
        """Return transactional ids by prefix, most ids first."""
        return self._rows("/api/v1/ids", IdsRow)

    def quarantined(self, *, limit: int = 500) -> Rows[QuarantinedRow]:
        """Return the records that could not be understood, newest first."""
        return self._rows("/api/v1/quarantined", QuarantinedRow, limit=limit)

    def alerts(self, *, limit: int = 500, **filters: Wanted) -> Rows[AlertRow]:
        """Return alerts: firing ones first, then pending, then resolved.

        ``over``: the resolved ones, newest first, or the others; ``state``: those alone; ``after``: what the page before had as
        ``next``.
        """
        return self._rows("/api/v1/alerts", AlertRow, limit=limit, **filters)

    def silences(self) -> Rows[SilenceRow]:
        """Return silences, also those that ended."""
        return self._rows("/api/v1/silences", SilenceRow)

    def receivers(self) -> Rows[ReceiverRow]:
        """Return who is notified of alerts, and how far that has come."""
        return self._rows("/api/v1/receivers", ReceiverRow)

    def standing_orders(self) -> Rows[StandingOrderRow]:
        """Return what is done without a person, in the order of the collector's file."""
        return self._rows("/api/v1/standing-orders", StandingOrderRow)

    def audit(self, *, words: str = "", keys: Sequence[str] = (), limit: int = 500) -> Rows[AuditRow]:
        """Return the newest orders given, newest first; ``words``: with this text in them, ``keys``: about any of at most 100."""
        return self._rows("/api/v1/audit", AuditRow, words=words, key=keys, limit=limit)
