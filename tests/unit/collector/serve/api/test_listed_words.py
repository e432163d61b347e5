"""A word that fits one slot of a batch finds the whole batch, and of others what has it alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from indoubt.collector.serve.api.listings import has, having
from indoubt.lifecycle.decisions import BatchAttempt


def judged(transaction: str, *, batch: int | None = None, partitions: tuple[str, ...] = ()) -> Any:
    attempt = BatchAttempt(checkpoint_id="c", batch=batch, attempt=1) if batch is not None else None
    view = SimpleNamespace(
        transaction=transaction,
        pipeline=transaction.partition("-")[0],
        managed=batch is not None,
        batch_attempt=attempt,
        resource_manager="kafka",
        broker=SimpleNamespace(partitions=frozenset(partitions)),
        key=transaction,
    )
    return SimpleNamespace(view=view)


FOUND = [
    judged("words-0-1", batch=7, partitions=("out-0",)),
    judged("words-1-1", batch=7, partitions=("out-1",)),
    judged("words-0-0", batch=8),
    judged("bank-1", partitions=("out-1",)),
    judged("bank-2"),
]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("out-0", ["words-0-1", "words-1-1"]),
        ("OUT-0 words-1", ["words-0-1", "words-1-1"]),
        ("batch 8", ["words-0-0"]),
        ("bank out", ["bank-1"]),
        ("bank kafka", ["bank-1", "bank-2"]),
        ("bank words", []),
        ("  ", [one.view.transaction for one in FOUND]),
    ],
)
def test_all_words_are_found_in_a_batch_together_and_in_others_alone(words: str, expected: list[str]) -> None:
    assert [one.view.transaction for one in having(FOUND, words)] == expected


def test_one_transaction_by_itself_has_its_own_words_only() -> None:
    assert has(FOUND[0].view, "out-0 BATCH")
    assert not has(FOUND[1].view, "out-0")
