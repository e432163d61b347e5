"""The one way to the collector: its HTTP API (docs/api.md), as typed rows or one CollectorError."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from indoubt.app.client.audit_entries import AuditEntry, read_audit
from indoubt.app.client.collector_rows import FoundPage, Orderable, Rows
from indoubt.app.client.hanging_transactions import read_hanging
from indoubt.app.client.kept_answers import KeptAnswers
from indoubt.app.settings import Settings
from indoubt.lifecycle.errors import IndoubtError
from indoubt.lifecycle.orders import Action, Role
from indoubt.lifecycle.page_paths import CLUSTER_HEADER
from indoubt.lifecycle.persons import Person
from indoubt.lifecycle.rows.alerts import AlertRow, ReceiverRow, SilenceRow
from indoubt.lifecycle.rows.attention import Attention
from indoubt.lifecycle.rows.batches import BatchRow
from indoubt.lifecycle.rows.ends import AbortCounts, AbortRow, LossRow
from indoubt.lifecycle.rows.events import EndedTransactionRow, RawEventRow
from indoubt.lifecycle.rows.groups import ConsumerGroupRow, PartitionSeries, SeriesOfGroups
from indoubt.lifecycle.rows.incidents import Incident
from indoubt.lifecycle.rows.orders import OrderPreview, OrderResult, OrderRun, UnderWayRow
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
from indoubt.lifecycle.rows.row_json import read_row
from indoubt.lifecycle.rows.search import FoundTransactionRow
from indoubt.lifecycle.rows.series import CheckpointGapsRow, Series
from indoubt.lifecycle.rows.standing_orders import StandingOrderRow, SwitchAnswer
from indoubt.lifecycle.rows.status import Status
from indoubt.lifecycle.rows.transactions import TransactionCountRow, TransactionDetailRow, TransactionRow

READ_LIMIT_S = 4.0
PREVIEW_LIMIT_S = 20.0
"""It names everything that a filter means."""
ORDER_LIMIT_S = 75.0
"""Longer than a collector waits for a pipeline's answer (60 s)."""

Row = TypeVar("Row")
Filters = Mapping[str, str | tuple[str, ...]]
"""Of a look; one with several texts is sent several times."""


class Failure(Enum):
    """What went wrong between the app and the collector."""

    UNREACHABLE = "unreachable"
    """No collector answered, or not within the limit."""
    NOT_READY = "not ready"
    """It is there and still loads its history (503)."""
    TOKEN = "token"
    """It does not know the token (401)."""
    NOT_ALLOWED = "not allowed"
    """A viewer, or a read-only collector (403)."""
    UNKNOWN_KEY = "unknown key"
    """It does not know that transaction (404)."""
    REFUSED = "refused"
    """The order is not safe, or its evidence changed (409)."""
    TOO_MANY = "too many requests"
    """It was asked more often than it allows (429)."""
    NO_ANSWER_TO_ORDER = "no answer to an order"
    """The order was sent and no answer came: it may have been carried out."""
    UNEXPECTED = "unexpected"
    """It answered with something that docs/api.md does not say."""


class CollectorError(IndoubtError):
    """The collector could not be asked, or said no; the message says what and what to do."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure = failure

    @property
    def is_lost(self) -> bool:
        """True when no page can show anything until this is over."""
        return self.failure in (Failure.UNREACHABLE, Failure.NOT_READY, Failure.TOKEN, Failure.TOO_MANY)


_FOUND = partial(read_row, FoundTransactionRow)
_FAILURES = {
    401: Failure.TOKEN,
    403: Failure.NOT_ALLOWED,
    404: Failure.UNKNOWN_KEY,
    409: Failure.REFUSED,
    429: Failure.TOO_MANY,
    503: Failure.NOT_READY,
    504: Failure.NO_ANSWER_TO_ORDER,
}


class CollectorClient:
    """Asks the collector. Every method raises CollectorError.

    ``shared_for_s``: so long an answer serves all who ask the same in the name of the same person; by default each asks again.
    ``asking_person`` returns who that is at the moment, None for the holder of the token.
    """

    def __init__(
        self,
        settings: Settings,
        shared_for_s: float = 0.0,
        asking_person: Callable[[], Person | None] = lambda: None,
    ) -> None:
        self.address, self.cluster = settings.collector_url, settings.cluster
        self._asking_person = asking_person
        self.kept_answers = KeptAnswers(shared_for_s)
        self._token = settings.token
        self._look_only = settings.look_only
        # Proxies from the environment are left out: the token goes to the collector's address and nowhere else.
        self._http = httpx.Client(
            base_url=self.address,
            timeout=httpx.Timeout(READ_LIMIT_S, connect=2.0),
            trust_env=False,
            verify=settings.tls(),
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def forget(self) -> None:
        """Share no answer from before now."""
        self.kept_answers.forget()

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

    def silence(self, matchers: Mapping[str, str], *, reason: str, duration_ms: int) -> SilenceRow:
        """Silence alerts that carry all of these labels, from now on for so long."""
        body = {"matchers": dict(matchers), "reason": reason, "duration_ms": duration_ms}
        path = "/api/v1/silences"
        return self._understand(path, partial(read_row, SilenceRow), self._ask("POST", path, json=body))

    def end_silence(self, number: int, *, reason: str) -> SilenceRow:
        """End a silence now."""
        path = f"/api/v1/silences/{number}"
        return self._understand(
            path, partial(read_row, SilenceRow), self._ask("DELETE", path, params={"reason": reason})
        )

    def standing_orders(self) -> Rows[StandingOrderRow]:
        """Return what is done without a person, in the order of the collector's file."""
        return self._rows("/api/v1/standing-orders", partial(read_row, StandingOrderRow), {})

    def switch_standing_orders(self, *, stopped: bool, reason: str) -> SwitchAnswer:
        """Stop all standing orders, or let them go on."""
        path = "/api/v1/standing-orders"
        answer = self._ask("POST", path, json={"stopped": stopped, "reason": reason})
        return self._understand(path, partial(read_row, SwitchAnswer), answer)

    def audit(self, *, words: str = "", keys: Sequence[str] = (), limit: int = 500) -> Rows[AuditEntry]:
        """Return the newest orders given, newest first; ``words``: with this text in them, ``keys``: about any of at most 100."""
        wanted: dict[str, str | tuple[str, ...]] = {"limit": str(limit)}
        wanted |= {"words": words} if words else {}
        return self._rows("/api/v1/audit", read_audit, wanted | ({"key": tuple(keys)} if keys else {}))

    def check(self, action: Action, shown: Sequence[Orderable], *, reason: str, confirm: str = "") -> OrderResult:
        """Return what an order over what was shown would do; the collector refuses it when any of it has changed."""
        path, body = "/api/v1/orders", _about(action, shown, reason, confirm) | {"dry_run": True}
        return self._order(path, partial(read_row, OrderResult), body)

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
        return self._order("/api/v1/orders/runs", partial(read_row, OrderRun), body)

    def under_way(self, keys: Sequence[str]) -> Rows[UnderWayRow]:
        """Return the orders about any of these keys (at most 100) that are under way, whoever gave them, newest first."""
        return self._rows("/api/v1/orders/under-way", partial(read_row, UnderWayRow), {"key": tuple(keys)})

    def preview(self, action: Action, wanted: Mapping[str, str]) -> OrderPreview:
        """Return what an order by filter would be about; ``wanted``: as the API's filter. Too much for one typed text is raised."""
        body = {"action": action.value, "filter": dict(wanted)}
        path = "/api/v1/orders/preview"
        answer = self._ask("POST", path, json=body, timeout=PREVIEW_LIMIT_S)
        return self._understand(path, partial(read_row, OrderPreview), answer)

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
        return self._order("/api/v1/orders/runs", partial(read_row, OrderRun), body)

    def runs(self) -> Rows[OrderRun]:
        """Return the runs of the last hour that this person began, the newest first, without their steps."""
        return self._rows("/api/v1/orders/runs", partial(read_row, OrderRun), {"mine": "true"})

    def run(self, run: str, *, steps: bool = False) -> OrderRun:
        """Return how far a run is; ``steps``: and what became of each transaction."""
        wanted = {"steps": "true"} if steps else {}
        return self._read(f"/api/v1/orders/runs/{run}", partial(read_row, OrderRun), wanted)

    def stop_run(self, run: str) -> OrderRun:
        """Have the collector send no more of a run than what is under way."""
        path = f"/api/v1/orders/runs/{run}"
        return self._understand(path, partial(read_row, OrderRun), self._ask("DELETE", path))

    def _order(self, path: str, read: Callable[[Any], Row], body: Mapping[str, object]) -> Row:
        try:
            answer = self._ask("POST", path, json=body, timeout=ORDER_LIMIT_S)
        except CollectorError as error:
            if error.failure is Failure.UNREACHABLE and not isinstance(error.__cause__, httpx.ConnectError):
                raise CollectorError(
                    Failure.NO_ANSWER_TO_ORDER,
                    f"the order was sent to {self.address} and no answer came ({error}). It may have been carried out: "
                    "look at Audit and at the transactions before you give it again",
                ) from error
            raise
        return self._understand(path, read, answer)

    def answer(self, idempotency_key: str) -> OrderResult | None:
        """Return what became of an order; None: it has no answer yet, or it never arrived. One that was refused is raised."""
        path = "/api/v1/orders"
        said = self._ask("GET", path, params={"idempotency_key": idempotency_key})
        refused, answer = self._understand(path, lambda value: (value["refused"], value["answer"]), said)
        if refused:
            raise CollectorError(Failure.REFUSED, str(refused))
        return self._understand(path, partial(read_row, OrderResult), answer) if answer is not None else None

    def _read(self, path: str, read: Callable[[Any], Row], filters: Filters | None = None) -> Row:
        return self._understand(path, read, self._get_shared(path, filters or {}))

    def _rows(self, path: str, read: Callable[[Any], Row], filters: Filters) -> Rows[Row]:
        answer = self._get_shared(path, filters)
        return self._understand(
            path, lambda value: Rows(map(read, value["rows"]), int(value["more"]), value["next"]), answer
        )

    def _understand(self, path: str, read: Callable[[Any], Row], answer: Any) -> Row:
        try:
            return read(answer)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CollectorError(
                Failure.UNEXPECTED,
                f"{self.address}{path} answered with something unexpected ({type(error).__name__}: {error}): "
                "are collector and app of the same version?",
            ) from error

    def _get_shared(self, path: str, filters: Filters) -> Any:
        # Each person has a limit, and one who reaches it must not hold up the others.
        what = (path, frozenset(filters.items()), self._asking_person())
        return self.kept_answers.get(what, lambda: self._ask("GET", path, params=dict(filters)))

    def _ask(self, method: str, path: str, **request: Any) -> Any:
        try:
            return self._asked(method, path, **request)
        finally:
            if method != "GET":
                self.kept_answers.forget()

    def _asked(self, method: str, path: str, **request: Any) -> Any:
        if self._look_only and method != "GET":
            raise CollectorError(Failure.NOT_ALLOWED, "These pages give no orders (--look-only)")
        try:
            person = self._asking_person()
            named = {CLUSTER_HEADER: self.cluster} if self.cluster else {}
            headers = (
                named | {"Authorization": f"Bearer {self._token()}"} | (person.headers() if person is not None else {})
            )
            answer = self._http.request(method, path, headers=headers, follow_redirects=False, **request)
        except httpx.TimeoutException as error:
            raise CollectorError(Failure.UNREACHABLE, "The collector does not answer in time") from error
        except httpx.HTTPError as error:
            raise CollectorError(Failure.UNREACHABLE, unanswered(error)) from error
        except IndoubtError as error:
            raise CollectorError(Failure.TOKEN, str(error)) from error
        try:
            value = answer.json()
        except ValueError:
            value = None
        if answer.is_success and value is not None:
            return value
        raise CollectorError(_FAILURES.get(answer.status_code, Failure.UNEXPECTED), _message(answer.status_code, value))


def _about(action: Action, shown: Sequence[Orderable], reason: str, confirm: str) -> dict[str, object]:
    seen = {item.key: item.revision for item in shown}
    return {"action": action.value, "keys": list(seen), "seen": seen, "reason": reason, "confirm": confirm}


def _part(over: bool | None, after: str) -> dict[str, str]:
    return ({} if over is None else {"over": str(over).lower()}) | ({"after": after} if after else {})


def _message(status: int, value: Any) -> str:
    if isinstance(value, Mapping) and value.get("detail"):
        return str(value["detail"])
    return f"it answered with HTTP {status} and no message"


def unanswered(error: Exception) -> str:
    """Return that the collector does not answer; a number of the system's says no more, but a certificate that is refused does."""
    why = str(error)
    return (
        "The collector does not answer"
        if not why or why.startswith("[Errno ")
        else f"The collector does not answer: {why}"
    )
