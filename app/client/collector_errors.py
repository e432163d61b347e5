"""What can go wrong between the app and the collector, as one CollectorError."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from indoubt.lifecycle.errors import IndoubtError

NOT_IN_TIME = "The collector does not answer in time"


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


_FAILURES = {
    401: Failure.TOKEN,
    403: Failure.NOT_ALLOWED,
    404: Failure.UNKNOWN_KEY,
    409: Failure.REFUSED,
    429: Failure.TOO_MANY,
    503: Failure.NOT_READY,
    504: Failure.NO_ANSWER_TO_ORDER,
}


def refusal(status: int, value: Any) -> CollectorError:
    """Return the error that an answer with such a status is; ``value``: its JSON, None where it has none."""
    return CollectorError(_FAILURES.get(status, Failure.UNEXPECTED), _message(status, value))


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
