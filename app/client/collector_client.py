"""The one way to the collector: its HTTP API (docs/api.md), as typed rows or one CollectorError."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from urllib.parse import quote

from indoubt.app.client.audit_entries import AuditEntry, read_audit
from indoubt.app.client.collector_rows import FoundPage, Rows
from indoubt.app.client.hanging_transactions import read_hanging
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
from indoubt.lifecycle.rows.partitions import BlockedRow, PartitionRow
from indoubt.lifecycle.rows.pipelines import (
    CheckpointDurationsRow,
    CheckpointRow,
    IdsRow,
    JobRow,
    PipelineRow,
    TimeoutRow,
)
from indoubt.lifecycle.rows.records import QuarantinedRow
from indoubt.lifecycle.rows.restores import RestoreRow
from indoubt.lifecycle.rows.row_json import read_row
from indoubt.lifecycle.rows.search import FoundTransactionRow
from indoubt.lifecycle.rows.series import CheckpointGapsRow, Series
from indoubt.lifecycle.rows.standing_orders import StandingOrderRow
from indoubt.lifecycle.rows.status import Status
from indoubt.lifecycle.rows.transactions import TransactionCountRow, TransactionDetailRow, TransactionRow
from indoubt.lifecycle.rows.trends import Trends

_FOUND = partial(read_row, FoundTransactionRow)


class CollectorClient(OrderClient):
    """Asks the collector, and gives it orders. Every method raises CollectorError."""

    def status(self) -> Status:
        """Return who is asked, who asks and how the observers are."""
        found = self._read("/api/v1/status", partial(read_row, Status))
        return replace(found, role=Role.VIEWER) if self._look_only else found

    def overview(self, limit: int | None = None) -> Overview:
        """Return the state of everything, in one look; ``limit``: of each list at most so many."""
        wanted = {} if limit is None else {"limit": str(limit)}
        return self._read("/api/v1/overview", partial(read_row, Overview), wanted)

    def incidents(self, *, keys: Sequence[str] = (), limit: int = 500) -> Rows[Incident]:
        """Return the incidents that last, the most urgent first; about any of these keys, if some are given.

        ``keys``: of transactions, alerts or what a remedy is for, or names of applications; at most 100.
        """
        wanted = {"limit": str(limit)} | ({"key": tuple(keys)} if keys else {})
        return self._rows("/api/v1/incidents", partial(read_row, Incident), wanted)

    def parts(self, keys: Sequence[str] = ()) -> list[Attention]:
        """Return the parts of incidents, the most urgent first; about any of these transactions, if some are given."""
        found = [part for one in self.incidents(keys=keys) for part in one.parts]
        return [part for part in found if not keys or not set(keys).isdisjoint(part.keys)]

    def transactions(self, *, settled_too: bool = False, limit: int = 500, **filters: str) -> Rows[TransactionRow]:
        """Return transactions, most urgent first."""
        wanted = {**filters, "limit": str(limit), **({"all": "true"} if settled_too else {})}
        return self._rows("/api/v1/transactions", partial(read_row, TransactionRow), wanted)

    def transaction_counts(self, *, words: str = "") -> Rows[TransactionCountRow]:
        """Return how many transactions that are not settled each application has, by verdict: however many are listed.

        ``words``: those alone that have all of them in their names.
        """
        wanted = {"words": words} if words else {}
        return self._rows("/api/v1/transaction-counts", partial(read_row, TransactionCountRow), wanted)

    def transaction(self, key: str) -> TransactionDetailRow:
        """Return one transaction with its timeline and evidence."""
        return self._read(f"/api/v1/transactions/{quote(key, safe='')}", partial(read_row, TransactionDetailRow))

    def events(self, key: str, *, limit: int = 500) -> Rows[RawEventRow]:
        """Return every record about one transaction and its batch, oldest first."""
        path = f"/api/v1/transactions/{quote(key, safe='')}/events"
        return self._rows(path, partial(read_row, RawEventRow), {"limit": str(limit)})

    def earlier(self, key: str) -> Rows[EndedTransactionRow]:
        """Return the 20 transactions of the same id that began last before this one, newest first."""
        path = f"/api/v1/transactions/{quote(key, safe='')}/earlier"
        return self._rows(path, partial(read_row, EndedTransactionRow), {"limit": "20"})

    def search(self, *, limit: int = 100, **filters: str) -> FoundPage:
        """Return a page of a search over all history, newest opening first; ``after``: what the page before it had as ``next``."""
        path, wanted = "/api/v1/search", {name: text for name, text in filters.items() if text} | {"limit": str(limit)}
        answer = self._get_shared(path, wanted)
        return self._understand(path, lambda value: FoundPage(map(_FOUND, value["rows"]), value["next"]), answer)

    def partition(self, topic: str, number: int) -> PartitionRow:
        """Return a topic-partition: who reads it, what is open on it, and what has ended."""
        return self._read(f"/api/v1/partitions/{quote(topic, safe='')}/{number}", partial(read_row, PartitionRow))

    def hanging(self) -> Rows[TransactionRow]:
        """Return the transactions that are open on a partition while no coordinator will end them, oldest first."""
        return self._rows("/api/v1/hanging", read_hanging, {})

    def blocked(self, *, lagging_too: bool = False) -> Rows[BlockedRow]:
        """Return the partitions whose readers wait or have stopped, the longest waits first; or all on which a group lags."""
        return self._rows("/api/v1/blocked", partial(read_row, BlockedRow), {"all": "true"} if lagging_too else {})

    def groups(self, *, limit: int = 500) -> Rows[ConsumerGroupRow]:
        """Return the consumer groups, those that wait or have stopped first, then those that lag most."""
        return self._rows("/api/v1/groups", partial(read_row, ConsumerGroupRow), {"limit": str(limit)})

    def aborts(
        self, *, causes: Sequence[str] = (), limit: int = 500, after: str = "", **filters: str
    ) -> Rows[AbortRow]:
        """Return aborted and lost transactions, newest first; ``causes``: of these only, where there are any.

        ``after``: what the page before had as ``next``.
        """
        wanted: dict[str, str | tuple[str, ...]] = {**filters, "limit": str(limit), **_part(None, after)}
        if causes:
            wanted["cause"] = tuple(causes)
        return self._rows("/api/v1/aborts", partial(read_row, AbortRow), wanted)

    def abort_counts(self, **filters: str) -> AbortCounts:
        """Return how many transactions of Kafka were aborted over time, by cause."""
        path = "/api/v1/aborts/counts"
        return self._understand(path, partial(read_row, AbortCounts), self._get_shared(path, filters))

    def timeouts(self) -> Rows[TimeoutRow]:
        """Return the applications of the last 24 hours with how their timeouts stand, the worst first."""
        return self._rows("/api/v1/timeouts", partial(read_row, TimeoutRow), {})

    def losses(
        self, *, transaction: str = "", verdicts: Sequence[str] = (), limit: int = 500, after: str = ""
    ) -> Rows[LossRow]:
        """Return undone transactions and whether what they held is missing, newest first; ``verdicts``: with these only.

        ``transaction``: of this id, whatever became of them; ``after``: what the page before had as ``next``.
        """
        wanted: dict[str, str | tuple[str, ...]] = {"limit": str(limit), **_part(None, after)}
        if transaction:
            wanted["transaction"] = transaction
        if verdicts:
            wanted["verdict"] = tuple(verdicts)
        return self._rows("/api/v1/losses", partial(read_row, LossRow), wanted)

    def batches(
        self,
        *,
        pipeline: str = "",
        batch: int | None = None,
        over: bool | None = None,
        limit: int = 500,
        after: str = "",
    ) -> Rows[BatchRow]:
        """Return attempts at batches, those that need an operator first, each newest first.

        ``pipeline``, ``batch``: of this pipeline, and of the batch with this number, only. ``over``: those that are, newest
        first, or the others; ``after``: what the page before had as ``next``.
        """
        wanted = {"limit": str(limit), **({"pipeline": pipeline} if pipeline else {})}
        wanted |= {"batch": str(batch)} if batch is not None else {}
        wanted |= _part(over, after)
        return self._rows("/api/v1/batches", partial(read_row, BatchRow), wanted)

    def checkpoints(self, *, limit: int = 500, **filters: str) -> Rows[CheckpointRow]:
        """Return checkpoints, newest first."""
        return self._rows("/api/v1/checkpoints", partial(read_row, CheckpointRow), {**filters, "limit": str(limit)})

    def series(self, *, window_ms: int, pipeline: str = "", limit: int = 20) -> Series:
        """Return applications over the last ``window_ms``, those first that lost data or made readers wait."""
        wanted = {"window_ms": str(window_ms), "limit": str(limit), **({"pipeline": pipeline} if pipeline else {})}
        path = "/api/v1/series"
        return self._understand(path, partial(read_row, Series), self._get_shared(path, wanted))

    def trends(self, *, pipeline: str = "", limit: int = 20) -> Trends:
        """Return applications over 90 days, as the job over archived history made them."""
        wanted = {"limit": str(limit), **({"pipeline": pipeline} if pipeline else {})}
        path = "/api/v1/trends"
        return self._understand(path, partial(read_row, Trends), self._get_shared(path, wanted))

    def series_of_groups(self, *, window_ms: int, limit: int) -> SeriesOfGroups:
        """Return what the first ``limit`` of the consumer groups had not read over the last ``window_ms``."""
        path, wanted = "/api/v1/series/groups", {"window_ms": str(window_ms), "limit": str(limit)}
        return self._understand(path, partial(read_row, SeriesOfGroups), self._get_shared(path, wanted))

    def series_of_partition(self, topic: str, number: int, *, window_ms: int) -> PartitionSeries:
        """Return where a partition ended over the last ``window_ms``, and who held it back."""
        path, wanted = f"/api/v1/series/partitions/{quote(topic, safe='')}/{number}", {"window_ms": str(window_ms)}
        return self._understand(path, partial(read_row, PartitionSeries), self._get_shared(path, wanted))

    def checkpoint_gaps(self, *, pipeline: str = "") -> Rows[CheckpointGapsRow]:
        """Return the times without a checkpoint, by pipeline."""
        wanted = {"pipeline": pipeline} if pipeline else {}
        return self._rows("/api/v1/checkpoints/gaps", partial(read_row, CheckpointGapsRow), wanted)

    def checkpoint_durations(self, **filters: str) -> Rows[CheckpointDurationsRow]:
        """Return how long checkpoints took, by pipeline."""
        return self._rows("/api/v1/checkpoints/durations", partial(read_row, CheckpointDurationsRow), filters)

    def pipelines(self) -> Rows[PipelineRow]:
        """Return the pipelines that ever started a run."""
        return self._rows("/api/v1/pipelines", partial(read_row, PipelineRow), {})

    def jobs(self) -> Rows[JobRow]:
        """Return Flink's jobs, running ones first."""
        return self._rows("/api/v1/jobs", partial(read_row, JobRow), {})

    def restores(self, job: str) -> Rows[RestoreRow]:
        """Return what a restore from each retained checkpoint of a Flink job would lose or write twice, the newest first."""
        return self._rows("/api/v1/restores", partial(read_row, RestoreRow), {"job": job})

    def ids(self) -> Rows[IdsRow]:
        """Return transactional ids by prefix, most ids first."""
        return self._rows("/api/v1/ids", partial(read_row, IdsRow), {})

    def quarantined(self, *, limit: int = 500) -> Rows[QuarantinedRow]:
        """Return the records that could not be understood, newest first."""
        return self._rows("/api/v1/quarantined", partial(read_row, QuarantinedRow), {"limit": str(limit)})

    def alerts(
        self, *, over: bool | None = None, state: str | None = None, limit: int = 500, after: str = ""
    ) -> Rows[AlertRow]:
        """Return alerts: firing ones first, then pending, then resolved.

        ``over``: the resolved ones, newest first, or the others; ``state``: those alone; ``after``: what the page before had as
        ``next``.
        """
        wanted = {"limit": str(limit)} | _part(over, after) | ({} if state is None else {"state": state})
        return self._rows("/api/v1/alerts", partial(read_row, AlertRow), wanted)

    def silences(self) -> Rows[SilenceRow]:
        """Return silences, also those that ended."""
        return self._rows("/api/v1/silences", partial(read_row, SilenceRow), {})

    def receivers(self) -> Rows[ReceiverRow]:
        """Return who is notified of alerts, and how far that has come."""
        return self._rows("/api/v1/receivers", partial(read_row, ReceiverRow), {})

    def standing_orders(self) -> Rows[StandingOrderRow]:
        """Return what is done without a person, in the order of the collector's file."""
        return self._rows("/api/v1/standing-orders", partial(read_row, StandingOrderRow), {})

    def audit(self, *, words: str = "", keys: Sequence[str] = (), limit: int = 500) -> Rows[AuditEntry]:
        """Return the newest orders given, newest first; ``words``: with this text in them, ``keys``: about any of at most 100."""
        wanted: dict[str, str | tuple[str, ...]] = {"limit": str(limit)}
        wanted |= {"words": words} if words else {}
        return self._rows("/api/v1/audit", read_audit, wanted | ({"key": tuple(keys)} if keys else {}))


def _part(over: bool | None, after: str) -> dict[str, str]:
    return ({} if over is None else {"over": str(over).lower()}) | ({"after": after} if after else {})
