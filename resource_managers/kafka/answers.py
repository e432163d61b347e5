"""What a broker answers, as values: the one place that knows Kafka's error codes and kafka-python's error classes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from kafka import errors as kafka_errors

from indoubt.lifecycle.errors import ResourceManagerError


class AnswerKind(Enum):
    """What an error code means for what is done next."""

    DONE = "done"
    FENCED = "another producer took the id since, or the id expired: its marker tells how the transaction ended"
    WRONG_STATE = "the transaction is in a state that this request does not fit"
    UNKNOWN_ID = "the coordinator does not know the transactional id"
    UNKNOWN_GROUP = "the coordinator does not know the consumer group"
    UNSTABLE_OFFSET = "a transaction holds the offset"
    COORDINATOR_MOVED = "another broker coordinates the key, or none does at the moment"
    LEADER_MOVED = "another broker leads the partition, or none does at the moment"
    NOT_AUTHORIZED = "the user may not ask this"
    UNSUPPORTED = "the broker does not know this version of the request"
    NO_ANSWER = "no broker answered: there was no connection, or it took too long"
    OTHER = "any other error of the broker's"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAnswer:
    """Done, or why not. ``name``: kafka-python's name of the error, which is what users can look up."""

    kind: AnswerKind
    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def is_done(self) -> bool:
        """Say whether the broker did what it was asked."""
        return self.kind is AnswerKind.DONE

    @property
    def is_refusal(self) -> bool:
        """Say whether no retry will change the answer."""
        return self.kind in (AnswerKind.NOT_AUTHORIZED, AnswerKind.UNSUPPORTED)

    @property
    def may_pass(self) -> bool:
        """Say whether the same request may be answered otherwise a moment later."""
        passing = (AnswerKind.NO_ANSWER, AnswerKind.COORDINATOR_MOVED, AnswerKind.LEADER_MOVED)
        return self.kind in passing or bool(getattr(getattr(kafka_errors, self.name, None), "retriable", False))

    @property
    def asks_for_layout(self) -> bool:
        """Say whether the layout may be old: a leader has moved or does not answer."""
        return self.kind in (AnswerKind.LEADER_MOVED, AnswerKind.NO_ANSWER)


class MarkerNotWritten(ResourceManagerError):
    """An end marker was not written. ``answer``: the broker's."""

    def __init__(self, message: str, answer: BrokerAnswer) -> None:
        super().__init__(message)
        self.answer = answer


_KINDS: tuple[tuple[AnswerKind, tuple[type[Exception], ...]], ...] = (
    (AnswerKind.DONE, (kafka_errors.NoError,)),
    (
        AnswerKind.FENCED,
        (
            kafka_errors.ProducerFencedError,
            kafka_errors.InvalidProducerEpochError,
            kafka_errors.InvalidProducerIdMappingError,
        ),
    ),
    (AnswerKind.WRONG_STATE, (kafka_errors.InvalidTxnStateError,)),
    (AnswerKind.UNKNOWN_ID, (kafka_errors.TransactionalIdNotFoundError,)),
    (AnswerKind.UNKNOWN_GROUP, (kafka_errors.GroupIdNotFoundError,)),
    (AnswerKind.UNSTABLE_OFFSET, (kafka_errors.UnstableOffsetCommitError,)),
    (
        AnswerKind.COORDINATOR_MOVED,
        (
            kafka_errors.NotCoordinatorError,
            kafka_errors.CoordinatorNotAvailableError,
            kafka_errors.CoordinatorLoadInProgressError,
        ),
    ),
    (AnswerKind.NOT_AUTHORIZED, (kafka_errors.AuthorizationError,)),
    (AnswerKind.UNSUPPORTED, (kafka_errors.UnsupportedVersionError,)),
)


def answer_of_error(error: type[Exception]) -> BrokerAnswer:
    """Return what an error class of kafka-python means."""
    kind = next((kind for kind, classes in _KINDS if issubclass(error, classes)), None)
    if kind is None and not issubclass(error, kafka_errors.BrokerResponseError):
        kind = AnswerKind.NO_ANSWER
    elif kind is None:
        kind = AnswerKind.LEADER_MOVED if getattr(error, "invalid_metadata", False) else AnswerKind.OTHER
    return BrokerAnswer(kind=kind, name=error.__name__)


def answer_of(response: Any) -> BrokerAnswer:
    """Return what a response, or a row of one, says by its error code; without such a code it is done.

    A BrokerAnswer, which stands where there is no response, is returned as it is; None is a row that is missing.
    """
    if isinstance(response, BrokerAnswer):
        return response
    if response is None:
        return MISSING_ROW
    return answer_of_code(getattr(response, "error_code", 0))


def answer_of_code(code: int) -> BrokerAnswer:
    """Return what an error code of Kafka's means."""
    return answer_of_error(kafka_errors.for_code(code)) if code else DONE


DONE = answer_of_error(kafka_errors.NoError)
NO_LEADER = answer_of_error(kafka_errors.LeaderNotAvailableError)
MISSING_ROW = answer_of_error(kafka_errors.UnknownError)
"""Stands where a broker left out what it was asked about."""
