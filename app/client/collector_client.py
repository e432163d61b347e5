"""The one way to the collector: its HTTP API (docs/api.md), as typed rows or one CollectorError."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from app.alert_rows import Alert, Receiver, Silence, read_alert, read_receiver, read_silence
from app.batch_rows import Batch, read_batch
from app.collector_json import (
    read_abort,
    read_audit,
    read_blocked,
    read_checkpoint,
    read_detail,
    read_hanging,
    read_overview,
    read_pipeline,
    read_result,
    read_status,
    read_transaction,
)
from app.collector_rows import (
    Abort,
    Action,
    AuditRow,
    BlockedPartition,
    CheckpointRow,
    Orderable,
    OrderResult,
    Overview,
    Pipeline,
    Rows,
    Status,
    Transaction,
    TransactionDetail,
)
from app.id_rows import PrefixIds, read_ids
from app.job_rows import FlinkJob, read_job
from app.kept_aside_rows import KeptAside, read_kept_aside
from app.loss_rows import Loss, read_loss
from app.settings import Settings
from app.timeout_rows import TimeoutRow, read_timeout
from lifecycle.errors import IndoubtError

LOOK_LIMIT_S = 4.0
ORDER_LIMIT_S = 30.0

Row = TypeVar("Row")


class Failure(Enum):
    """What went wrong between the app and the collector."""

    UNREACHABLE = "unreachable"
    """Nobody answered, or not within the limit."""
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


_FAILURES = {
    401: Failure.TOKEN,
    403: Failure.NOT_ALLOWED,
    404: Failure.UNKNOWN_KEY,
    409: Failure.REFUSED,
    429: Failure.TOO_MANY,
    503: Failure.NOT_READY,
}


class CollectorClient:
    """Asks the collector. Every method raises CollectorError; nothing is cached, every look is a new one."""

    def __init__(self, settings: Settings) -> None:
        self.address = settings.collector_url
        self._token = settings.token
        # Proxies from the environment are left out: the token goes to the collector's address and nowhere else.
        self._http = httpx.Client(
            base_url=self.address,
            timeout=httpx.Timeout(LOOK_LIMIT_S, connect=2.0),
            trust_env=False,
            verify=settings.tls(),
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def status(self) -> Status:
        """Return who is asked, who asks and how the observers are."""
        return self._read("/api/v1/status", read_status)

    def overview(self) -> Overview:
        """Return the state of everything, in one look."""
        return self._read("/api/v1/overview", read_overview)

    def transactions(self, *, settled_too: bool = False, limit: int = 500, **filters: str) -> Rows[Transaction]:
        """Return transactions, most urgent first."""
        wanted = {**filters, "limit": str(limit), **({"all": "true"} if settled_too else {})}
        return self._rows("/api/v1/transactions", read_transaction, wanted)

    def transaction(self, key: str) -> TransactionDetail:
        """Return one transaction with its timeline and evidence."""
        return self._read(f"/api/v1/transactions/{quote(key, safe='')}", read_detail)

    def hanging(self) -> Rows[Transaction]:
        """Return the transactions that are open on a partition while no coordinator will end them, oldest first."""
        return self._rows("/api/v1/hanging", read_hanging, {})

    def blocked(self, *, lagging_too: bool = False) -> Rows[BlockedPartition]:
        """Return the partitions whose readers wait or have stopped, the longest waits first; or all on which a group lags."""
        return self._rows("/api/v1/blocked", read_blocked, {"all": "true"} if lagging_too else {})

    def aborts(self, *, limit: int = 500, **filters: str) -> Rows[Abort]:
        """Return aborted and lost transactions, newest first."""
        return self._rows("/api/v1/aborts", read_abort, {**filters, "limit": str(limit)})

    def timeouts(self) -> Rows[TimeoutRow]:
        """Return the applications of the last 24 hours with how their timeouts stand, the worst first."""
        return self._rows("/api/v1/timeouts", read_timeout, {})

    def losses(self, *, transaction: str = "", limit: int = 500) -> Rows[Loss]:
        """Return undone transactions and whether what they held is missing, newest first.

        ``transaction``: of this id, whatever became of them, as far as history reaches.
        """
        wanted = {"limit": str(limit), **({"transaction": transaction} if transaction else {})}
        return self._rows("/api/v1/losses", read_loss, wanted)

    def batches(self, *, pipeline: str = "", limit: int = 500) -> Rows[Batch]:
        """Return attempts at batches, those that wait for somebody first, each newest first; ``pipeline``: of this one only."""
        wanted = {"limit": str(limit), **({"pipeline": pipeline} if pipeline else {})}
        return self._rows("/api/v1/batches", read_batch, wanted)

    def checkpoints(self, *, limit: int = 500, **filters: str) -> Rows[CheckpointRow]:
        """Return checkpoints, newest first."""
        return self._rows("/api/v1/checkpoints", read_checkpoint, {**filters, "limit": str(limit)})

    def pipelines(self) -> Rows[Pipeline]:
        """Return the pipelines that ever started a run."""
        return self._rows("/api/v1/pipelines", read_pipeline, {})

    def jobs(self) -> Rows[FlinkJob]:
        """Return Flink's jobs, running ones first."""
        return self._rows("/api/v1/jobs", read_job, {})

    def ids(self) -> Rows[PrefixIds]:
        """Return transactional ids by prefix, most ids first."""
        return self._rows("/api/v1/ids", read_ids, {})

    def malformed(self) -> Rows[KeptAside]:
        """Return the records that could not be understood, newest first."""
        return self._rows("/api/v1/malformed", read_kept_aside, {})

    def alerts(self) -> Rows[Alert]:
        """Return alerts: firing ones first, then pending, then resolved."""
        return self._rows("/api/v1/alerts", read_alert, {})

    def silences(self) -> Rows[Silence]:
        """Return silences, also those that ended."""
        return self._rows("/api/v1/silences", read_silence, {})

    def receivers(self) -> Rows[Receiver]:
        """Return who is told of alerts, and how far that has come."""
        return self._rows("/api/v1/receivers", read_receiver, {})

    def silence(self, matchers: Mapping[str, str], *, reason: str, duration_ms: int) -> Silence:
        """Have nobody told of alerts that carry all of these labels, from now on for so long."""
        body = {"matchers": dict(matchers), "reason": reason, "duration_ms": duration_ms}
        path = "/api/v1/silences"
        return self._understand(path, read_silence, self._ask("POST", path, json=body))

    def end_silence(self, number: int, *, reason: str) -> Silence:
        """End a silence now."""
        path = f"/api/v1/silences/{number}"
        return self._understand(path, read_silence, self._ask("DELETE", path, params={"reason": reason}))

    def audit(self) -> Rows[AuditRow]:
        """Return the newest orders given, newest first."""
        return self._rows("/api/v1/audit", read_audit, {})

    def order(
        self,
        action: Action,
        shown: Sequence[Orderable],
        *,
        reason: str,
        dry_run: bool,
        confirm: str = "",
        idempotency_key: str = "",
    ) -> OrderResult:
        """Give one order over what was shown, as it was shown; the collector refuses it when any of it has changed.

        ``idempotency_key``: by which ``answer`` finds what became of it.
        """
        body = {
            "action": action.value,
            "keys": [one.key for one in shown],
            "seen": {one.key: one.revision for one in shown},
            "reason": reason,
            "dry_run": dry_run,
            "confirm": confirm,
            "idempotency_key": idempotency_key,
        }
        try:
            answer = self._ask("POST", "/api/v1/orders", json=body, timeout=ORDER_LIMIT_S)
        except CollectorError as error:
            if error.failure is Failure.UNREACHABLE and not isinstance(error.__cause__, httpx.ConnectError):
                raise CollectorError(
                    Failure.NO_ANSWER_TO_ORDER,
                    f"the order was sent to {self.address} and no answer came ({error}). It may have been carried out: "
                    "look at Audit and at the transactions before you give it again",
                ) from error
            raise
        return self._understand("/api/v1/orders", read_result, answer)

    def answer(self, idempotency_key: str) -> OrderResult | None:
        """Return what became of an order; None: it has no answer yet, or it never arrived. One that was refused is raised."""
        path = "/api/v1/orders"
        said = self._ask("GET", path, params={"idempotency_key": idempotency_key})
        refused, answer = self._understand(path, lambda value: (value["refused"], value["answer"]), said)
        if refused:
            raise CollectorError(Failure.REFUSED, str(refused))
        return self._understand(path, read_result, answer) if answer is not None else None

    def _read(self, path: str, read: Callable[[Any], Row]) -> Row:
        return self._understand(path, read, self._ask("GET", path))

    def _rows(self, path: str, read: Callable[[Any], Row], filters: Mapping[str, str]) -> Rows[Row]:
        answer = self._ask("GET", path, params=dict(filters))
        return self._understand(path, lambda value: Rows(map(read, value["rows"]), int(value["more"])), answer)

    def _understand(self, path: str, read: Callable[[Any], Row], answer: Any) -> Row:
        try:
            return read(answer)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CollectorError(
                Failure.UNEXPECTED,
                f"{self.address}{path} answered with something unexpected ({type(error).__name__}: {error}): "
                "are collector and app of the same version?",
            ) from error

    def _ask(self, method: str, path: str, **request: Any) -> Any:
        try:
            answer = self._http.request(
                method, path, headers={"Authorization": f"Bearer {self._token()}"}, follow_redirects=False, **request
            )
        except httpx.TimeoutException as error:
            raise CollectorError(Failure.UNREACHABLE, "no answer in time") from error
        except httpx.HTTPError as error:
            raise CollectorError(Failure.UNREACHABLE, str(error) or type(error).__name__) from error
        except IndoubtError as error:
            raise CollectorError(Failure.TOKEN, str(error)) from error
        try:
            value = answer.json()
        except ValueError:
            value = None
        if answer.is_success and value is not None:
            return value
        raise CollectorError(_FAILURES.get(answer.status_code, Failure.UNEXPECTED), _message(answer.status_code, value))


def _message(status: int, value: Any) -> str:
    error = value.get("error") if isinstance(value, Mapping) else None
    if isinstance(error, Mapping) and error.get("message"):
        return str(error["message"])
    return f"it answered with HTTP {status} and no message"
