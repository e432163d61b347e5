"""Ends transactions in rounds: what got no final answer is asked about again, until a limit has passed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from indoubt.lifecycle.backoff import Backoff
from indoubt.lifecycle.errors import Unreachable
from indoubt.lifecycle.identity import Handle
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.descriptions import number
from indoubt.resource_managers.kafka.wire import KafkaWire, wire
from indoubt.resource_managers.protocol import OpenTransactionView

Item = TypeVar("Item")
Answer = TypeVar("Answer")

RETRY = Backoff(first_s=0.02, max_s=0.5)


def in_rounds(
    kafka: KafkaConnection,
    items: Sequence[Item],
    limit_s: float,
    end: Callable[[KafkaWire, Sequence[Item]], list[tuple[Answer, bool]]],
    unreached: Callable[[Item, str], Answer],
) -> list[Answer]:
    """Return the last answer about each item, in order. ``end`` answers about those that are left, and says which is final.

    Once ``limit_s`` has passed, one that is not final stands, too. ``unreached`` makes it where no broker could be reached.
    """
    deadline = time.monotonic() + limit_s
    answers: dict[int, Answer] = {}
    left = dict(enumerate(items))
    pauses = RETRY.pauses()
    while left:
        try:
            connection = wire(kafka, max(1.0, deadline - time.monotonic()))
        except Unreachable as error:
            given = [(unreached(item, str(error)), False) for item in left.values()]
        else:
            given = end(connection, list(left.values()))
        for index, (answer, is_final) in zip(list(left), given, strict=True):
            answers[index] = answer
            if is_final:
                del left[index]
        if time.monotonic() > deadline:
            break
        if left:
            time.sleep(next(pauses))
    return [answers[index] for index in range(len(items))]


def producer_of(item: Handle | OpenTransactionView) -> tuple[str, int, int]:
    """Return transactional id, producer id and epoch, as EndTxn takes them."""
    return item.transaction, number(item.producer_id), number(item.producer_epoch)
