"""What orders hear where a resource manager cannot be asked, or is not known here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.collector.act.orders.participants import KafkaParticipant, Participants
from indoubt.lifecycle.errors import ResourceManagerError
from indoubt.lifecycle.identity import Marker
from indoubt.lifecycle.outcomes import RetryLater
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from tests.unit.collector.act.orders.test_outcome_probes import NOBODY
from tests.unit.collector.observations import handle

BRANCH = replace(handle(), resource_manager="mysql")
MARKER = Marker(batch=0, attempt=1, checkpoint_id="l")


@pytest.fixture
def participants() -> Participants:
    return Participants({"kafka": KafkaParticipant(KafkaResourceManager(NOBODY))})


def test_a_handle_whose_resource_manager_is_not_known_here_is_for_later(participants: Participants) -> None:
    why = "it is held by 'mysql', and no connection to that is configured here; there is one to: kafka"
    assert participants.commit([BRANCH], [MARKER], 1.0) == [RetryLater(handle=BRANCH, reason=why)]
    assert participants.rollback([BRANCH], 1.0) == [RetryLater(handle=BRANCH, reason=why)]
    (readiness,) = participants.check([BRANCH])
    assert (readiness.ready, readiness.reason) == (False, why)


def test_what_is_open_is_never_said_where_it_cannot_be_asked(participants: Participants) -> None:
    with pytest.raises(ResourceManagerError, match="held by 'mysql'"):
        participants.find_open([BRANCH])  # type: ignore[list-item]
