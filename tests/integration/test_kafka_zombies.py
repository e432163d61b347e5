"""A writer that is superseded: it may not begin, ends nothing of its successor, and its own work ends with it."""

from __future__ import annotations

import pytest

from indoubt.lifecycle.errors import Fenced, ZombieWriter
from indoubt.lifecycle.outcomes import Committed
from indoubt.resource_managers.kafka.markers import KafkaMarkers
from indoubt.resource_managers.kafka.missing_markers import MissingMarkers
from indoubt.resource_managers.kafka.wire import wire
from tests.integration.kafka_fixtures import LIMIT_S, Sink, fingerprint_of, make_sink, rows
from tests.integration.sink_reader import expect, seen

pytestmark = pytest.mark.integration


@pytest.fixture
def sink(connection) -> Sink:
    return make_sink(connection)


def test_a_zombie_that_aborts_late_spares_the_next_batch(sink, monkeypatch):
    """It finds its slot's other transaction open and not superseded; then its batch is committed, and the next one prepared."""
    left = sink.prepare(b"left", batch=3, attempt=1)
    latest, live = KafkaMarkers.latest, []

    def stand_still(markers, *arguments):
        found = latest(markers, *arguments)
        monkeypatch.undo()
        sink.commit(sink.prepare(b"a", batch=4, attempt=2), batch=4, attempt=2)
        live.append(sink.prepare(b"b", batch=5, attempt=2))
        return found

    monkeypatch.setattr(KafkaMarkers, "latest", stand_still)
    with pytest.raises(ZombieWriter, match="superseded"):
        sink.begin(batch=4, attempt=1)
    assert not sink.manager().check([left])[0].ready
    assert sink.manager().check(live)[0].ready
    assert isinstance(sink.commit(live[0], batch=5, attempt=2), Committed)


@pytest.mark.parametrize("writes", [True, False])
def test_a_zombie_that_asks_late_for_its_epoch_aborts_nothing(sink, monkeypatch, writes):
    """Right after it has taken the id it stands still; its successor takes the id and prepares."""
    ask, successors = MissingMarkers.require_nothing_left_open, []

    def late(*arguments):
        monkeypatch.undo()
        successors.append(sink.prepare(b"successor", attempt=2))
        return ask(*arguments)

    monkeypatch.setattr(MissingMarkers, "require_nothing_left_open", late)
    zombie = sink.begin(attempt=1)
    if writes:
        zombie.write(rows(b"zombie"))
        with pytest.raises(Fenced):
            zombie.prepare(fingerprint_of(b"zombie"))
    zombie.abort()
    assert sink.manager().check(successors)[0].ready
    assert isinstance(sink.commit(successors[0], attempt=2), Committed)
    expect(sink, b"successor")


def test_a_writer_knows_for_certain_who_it_is_whatever_its_id_had_before(sink):
    def begun(batch, attempt):
        transaction = sink.begin(batch, attempt)
        handle = transaction.provisional_handle
        described = wire(sink.connection).describe_transactions([handle.transaction])[handle.transaction]
        assert described.producer == (handle.producer_id, handle.producer_epoch)
        return transaction

    begun(0, 1).prepare(fingerprint_of())
    over_open = begun(0, 2).prepare(fingerprint_of())
    sink.commit(over_open, 0, 2)
    over_committed = begun(2, 2).prepare(fingerprint_of())
    sink.manager().rollback([over_committed], LIMIT_S)
    begun(2, 3).abort()
    begun(2, 4).abort()


def test_a_writer_whose_id_was_taken_cannot_prepare(sink):
    transaction = sink.begin(attempt=1)
    transaction.write(rows(b"a"))
    sink.begin(attempt=2).abort()
    with pytest.raises(Fenced, match="newer producer"):
        transaction.prepare(fingerprint_of())
    transaction.abort()
    assert seen(sink).total() == 0
