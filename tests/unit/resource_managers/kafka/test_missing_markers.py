"""When a transaction of ours is over for its coordinator, and what the records themselves tell of their writer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.record.default_records import DefaultRecordBatchBuilder

from indoubt.resource_managers.kafka.answers import (
    DONE,
    MISSING_ROW,
    AnswerKind,
    BrokerAnswer,
    answer_of,
    answer_of_error,
)
from indoubt.resource_managers.kafka.descriptions import TransactionDescription, is_over, why_not_aborted
from indoubt.resource_managers.kafka.open_batches import epoch_in
from indoubt.resource_managers.protocol import OpenTransactionView


def described(state: str, *, producer_epoch: int = 3, started_at_ms: int | None = 1_000) -> TransactionDescription:
    """Return what a coordinator says of an id."""
    return TransactionDescription(
        transaction="billing",
        producer_id=7,
        producer_epoch=producer_epoch,
        state=state,
        started_at_ms=started_at_ms,
        timeout_ms=60_000,
    )


def error(kind: type[Exception]) -> BrokerAnswer:
    """Return what an error class of kafka-python means."""
    return answer_of_error(kind)


@pytest.mark.parametrize(
    ("state", "epochs"),
    [
        # Whoever writes at the coordinator's epoch is at work; what was written before is over.
        ("Ongoing", {3: False, 2: True}),
        # What is being ended may have been written up to two epochs before (4.0.0 moves by two).
        ("PrepareAbort", {3: False, 2: False, 1: False, 0: True}),
        ("PrepareCommit", {3: False, 2: False, 1: False, 0: True}),
        # Taken, and nothing begun yet: what is open at this epoch began after the coordinator was asked.
        ("Empty", {3: False, 2: True}),
        # Ended: at its own epoch below transaction.version 2, one epoch before from there on.
        ("CompleteCommit", {4: False, 3: True, 2: True}),
        ("CompleteAbort", {4: False, 3: True, 2: True}),
    ],
)
def test_a_transaction_is_over_by_its_epoch(state: str, epochs: dict[int, bool]) -> None:
    assert {epoch: is_over(described(state), 7, epoch) for epoch in epochs} == epochs


def test_a_transaction_of_another_producer_id_or_of_a_forgotten_id_is_over() -> None:
    assert is_over(described("Ongoing", producer_epoch=0), 6, 30_000)
    assert is_over(error(kafka_errors.TransactionalIdNotFoundError), 7, 3)


@pytest.mark.parametrize("answer", [MISSING_ROW, error(kafka_errors.CoordinatorNotAvailableError)])
def test_without_an_answer_nothing_is_over(answer: BrokerAnswer) -> None:
    assert not is_over(answer, 7, 3)


def fetched(epoch: int, *, offset: int = 100, error: int = 0) -> Any:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=0,
        batch_size=1_000,
    )
    builder.append(0, 1_000, b"k", b"v", [])
    records = offset.to_bytes(8, "big") + bytes(builder.build())[8:]
    row = SimpleNamespace(error_code=error, records=records)
    return SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=[row])])


def test_the_first_batch_tells_the_epoch_that_it_was_written_at() -> None:
    assert epoch_in(fetched(5), 100, 7) == 5
    assert epoch_in(fetched(5), 100, 8) is None, "another producer's"
    assert epoch_in(fetched(5, offset=120), 100, 7) is None, "the first one is gone"
    assert epoch_in(fetched(5, error=1), 100, 7) is None
    assert epoch_in(error(kafka_errors.RequestTimedOutError), 100, 7) is None


def view() -> OpenTransactionView:
    return OpenTransactionView(
        resource_manager="kafka",
        transaction="billing",
        producer_id=7,
        producer_epoch=3,
        state="Ongoing",
        started_at_ms=1_000,
        timeout_ms=60_000,
    )


def test_an_abort_of_one_that_had_ended_is_not_called_done() -> None:
    """At transaction.version 2 EndTxn(abort) of an ended transaction aborts another one, with nothing in it."""
    done = described("CompleteAbort", producer_epoch=4)
    another = described("CompleteAbort", producer_epoch=4, started_at_ms=2_000)
    assert why_not_aborted(view(), done, DONE, aborted=True, undecided=False) == ""
    assert "it ended before" in why_not_aborted(view(), another, DONE, aborted=True, undecided=False)
    taken = described("Empty", producer_epoch=5, started_at_ms=None)
    assert why_not_aborted(view(), taken, DONE, aborted=True, undecided=False) == "", "aborted, then taken by another"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (0, AnswerKind.DONE),
        (47, AnswerKind.FENCED),
        (48, AnswerKind.WRONG_STATE),
        (49, AnswerKind.FENCED),
        (90, AnswerKind.FENCED),
        (105, AnswerKind.UNKNOWN_ID),
        (69, AnswerKind.UNKNOWN_GROUP),
        (88, AnswerKind.UNSTABLE_OFFSET),
        (14, AnswerKind.COORDINATOR_MOVED),
        (15, AnswerKind.COORDINATOR_MOVED),
        (16, AnswerKind.COORDINATOR_MOVED),
        (3, AnswerKind.LEADER_MOVED),
        (5, AnswerKind.LEADER_MOVED),
        (6, AnswerKind.LEADER_MOVED),
        (29, AnswerKind.NOT_AUTHORIZED),
        (53, AnswerKind.NOT_AUTHORIZED),
        (35, AnswerKind.UNSUPPORTED),
        (51, AnswerKind.OTHER),
        (-1, AnswerKind.OTHER),
        (9_999, AnswerKind.OTHER),
    ],
)
def test_an_error_code_of_the_protocol_has_a_kind(code: int, kind: AnswerKind) -> None:
    assert answer_of(SimpleNamespace(error_code=code)).kind is kind


@pytest.mark.parametrize("raised", [kafka_errors.KafkaConnectionError, kafka_errors.NodeNotReadyError])
def test_what_the_client_raises_is_no_answer_and_asks_for_the_layout(raised: type[Exception]) -> None:
    assert (error(raised).kind, error(raised).asks_for_layout) == (AnswerKind.NO_ANSWER, True)


def test_the_unseen_end_of_what_no_decision_commits_is_an_abort() -> None:
    """Below transaction.version 2 its epoch is moved on after the abort, and nothing else tells."""
    fenced, went_on = error(kafka_errors.ProducerFencedError), described("Empty", producer_epoch=4, started_at_ms=None)
    assert why_not_aborted(view(), went_on, fenced, aborted=False, undecided=True) == ""
    assert "look again" in why_not_aborted(view(), went_on, fenced, aborted=False, undecided=False)
    earlier = described("Empty", producer_epoch=3, started_at_ms=None)
    assert "look again" in why_not_aborted(view(), earlier, fenced, aborted=False, undecided=True), "yet to begin"
    committed = described("CompleteCommit", producer_epoch=3)
    assert "its owner committed it" in why_not_aborted(view(), committed, fenced, aborted=False, undecided=True)
