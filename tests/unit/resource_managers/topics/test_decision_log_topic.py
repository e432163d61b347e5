"""Which of a broker's answers about the decision log are waited out: a real broker gives them for a moment, by chance."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from indoubt.lifecycle.errors import DecisionLogUnreadable
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log_topic import DecisionLogTopic


def answers(*told: int | str) -> list[Any]:
    """Return what is known after a broker gave these, one at each question: the code of an error, or an answer."""
    left = list(told)

    def ask() -> list[Future[Any]]:
        future: Future[Any] = Future()
        one = left.pop(0)
        if isinstance(one, str):
            future.set_result(one)
        else:
            future.set_exception(KafkaException(KafkaError(one)))
        return [future]

    topic = DecisionLogTopic(KafkaConnection("127.0.0.1:1"), "decisions")
    topic._look_up_leader = lambda: None  # type: ignore[method-assign]
    return topic._answers(ask)


@pytest.mark.parametrize(
    "code",
    [
        # As brokers gave it while they were restarted in turn.
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
    ],
)
def test_a_leader_that_is_not_known_yet_is_asked_again(code: int) -> None:
    assert answers(code, code, "it") == ["it"]


def test_what_does_not_pass_is_said_at_once() -> None:
    with pytest.raises(DecisionLogUnreadable, match=r"'decisions' cannot be read: .*[Aa]uthorization"):
        answers(KafkaError.TOPIC_AUTHORIZATION_FAILED, "never asked")
