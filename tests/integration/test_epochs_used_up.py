"""A slot's transactional ids come to the end of their epochs (32,767), and the coordinator gives them new producer ids.

With a batch each 5 s that is after four days, for each batch takes its id once or twice.
"""

from __future__ import annotations

import pytest

from indoubt.lifecycle.identity import TransactionalId
from indoubt.pipeline.runtime.crash_points import CrashPoint
from indoubt.resource_managers.kafka.wire import wire
from tests.integration.protocol_run import (
    ProtocolSinks,
    Stopped,
    protocol_sinks,
    spark_checkpoint,
    stop_at,
)

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1200)]
LAST_EPOCH = 32_766
"""The highest that is given out."""
BEFORE = 7
"""So many epochs before the last one, the first batch begins: ends and takes use them up at different places."""


@pytest.fixture
def sinks(connection, tmp_path) -> ProtocolSinks:
    return protocol_sinks(connection, tmp_path, [], ["kafka"])


def use_up(sinks: ProtocolSinks) -> None:
    """Take both ids of slot 0 until few epochs are left."""
    for batch in (0, 1):
        item = (str(TransactionalId.of(sinks.prefix, 0, batch)), -1, -1)
        epoch = -1
        while epoch < LAST_EPOCH - BEFORE:
            (answer,) = wire(sinks.connection).init_producer_ids([item], 60_000)
            assert answer.is_done or answer.may_pass, answer
            if answer.is_done and (epoch < 0 or epoch % 5000 == 0 or epoch > LAST_EPOCH - 2 * BEFORE):
                described = wire(sinks.connection).describe_transactions([item[0]])[item[0]]
                epoch = described.producer_epoch
            elif answer.is_done:
                epoch += 1


def producers(sinks: ProtocolSinks) -> set[int]:
    ids = [str(TransactionalId.of(sinks.prefix, 0, batch)) for batch in (0, 1)]
    return {described.producer_id for described in wire(sinks.connection).describe_transactions(ids).values()}


def test_batches_go_on_over_the_last_epoch_of_their_ids(sinks, monkeypatch):
    use_up(sinks)
    before = producers(sinks)
    current, wanted = sinks.run(), []
    for batch in range(24):
        value = b"%d" % batch
        wanted.append(value)
        match batch % 4:
            case 0:  # As ever.
                current.commit(current.slot(0, value, batch=batch), batch=batch)
            case 1:  # Aborted, and written by the next attempt.
                current.abort(current.slot(0, b"aborted", batch=batch), batch=batch)
                current = sinks.run()
                current.commit(current.slot(0, value, batch=batch), batch=batch)
            case 2:  # The driver ends after the decision; recovery commits.
                message = current.slot(0, value, batch=batch)
                with monkeypatch.context() as patch:
                    stop_at(patch, CrashPoint.AFTER_DECISION)
                    with pytest.raises(Stopped):
                        current.commit(message, batch=batch)
                current = sinks.run()
                current.commit(current.slot(0, value, batch=batch), batch=batch)
            case 3:  # Decided, then aborted by others: what is lost is replayed.
                message = current.slot(0, value, batch=batch)
                with monkeypatch.context() as patch:
                    stop_at(patch, CrashPoint.AFTER_DECISION)
                    with pytest.raises(Stopped):
                        current.commit(message, batch=batch)
                current.roll_back(*message.handles)
                current = sinks.run()
                assert current.recovered.lost == 1
                current.commit(current.slot(0, value, batch=batch), batch=batch)
        spark_checkpoint(sinks.checkpoint, planned=batch, committed=batch)
    assert not producers(sinks) & before, "both ids have new producer ids"
    sinks.expect(*wanted, pending=0)
