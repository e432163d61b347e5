"""Ids are pooled: after any number of batches there are two per slot at the broker, and a bounded number of marker rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from indoubt.lifecycle.identity import Marker, TransactionalId
from indoubt.lifecycle.outcomes import Committed
from indoubt.resource_managers.database.markers import KEPT_BATCHES
from indoubt.resource_managers.protocol import SlotAttempt
from tests.integration import database_fixtures
from tests.integration.database_fixtures import DatabaseSink, counts
from tests.integration.kafka_fixtures import LIMIT_S, fingerprint_of, rows
from tests.integration.protocol_run import ProtocolSinks, protocol_sinks

pytestmark = pytest.mark.integration
BATCHES, SLOTS = 500, 4


@pytest.fixture
def topic_sink(connection, tmp_path) -> ProtocolSinks:
    return protocol_sinks(connection, tmp_path, [], ["kafka"])


@pytest.fixture(params=["mariadb", "postgres"])
def table(request: pytest.FixtureRequest) -> Iterator[DatabaseSink]:
    yield from database_fixtures.make_sink(request.getfixturevalue(request.param))


def write_all_batches(write: Callable[[int, int], None]) -> None:
    """Call ``write(slot, batch)`` for every batch once: the slots side by side, each with its own share, in order."""
    share = BATCHES // SLOTS

    def write_slot(slot: int) -> None:
        for batch in range(slot * share, (slot + 1) * share):
            write(slot, batch)

    with ThreadPoolExecutor(SLOTS) as pool:
        for done in [pool.submit(write_slot, slot) for slot in range(SLOTS)]:
            done.result()


@pytest.mark.long
def test_ids_are_pooled_and_bounded_two_for_each_slot_after_500_batches(topic_sink):
    run = topic_sink.run()
    manager = run.managers

    def write(slot: int, batch: int) -> None:
        marker = Marker(batch=batch, attempt=run.options.attempt, checkpoint_id=run.options.checkpoint_id)
        open_ = manager.begin(SlotAttempt(prefix=topic_sink.prefix, slot=slot, marker=marker))
        open_.write(rows(b"a"))
        handles = open_.prepare(fingerprint_of(b"a"))
        assert [type(outcome) for outcome in manager.commit(handles, [marker], LIMIT_S)] == [Committed]

    write_all_batches(write)
    topic_sink.expect(*[b"a"] * BATCHES, pending=0)
    assert set(topic_sink.ids()) == {
        str(TransactionalId(prefix=topic_sink.prefix, slot=slot, parity=parity))
        for slot in range(SLOTS)
        for parity in (0, 1)
    }


@pytest.mark.long
def test_marker_rows_are_bounded_and_no_branch_is_left_after_500_batches(table):
    def write(slot: int, batch: int) -> None:
        handle = table.prepare(counts(**{f"slot{slot}": batch}), slot=slot, batch=batch)
        assert isinstance(table.commit(handle, batch=batch), Committed)

    write_all_batches(write)
    share = BATCHES // SLOTS
    assert table.seen() == {f"slot{slot}": (slot + 1) * share - 1 for slot in range(SLOTS)}
    assert table.prepared() == []
    found = table.markers()
    for slot in range(SLOTS):
        batches = [batch for its_slot, batch, _, _ in found if its_slot == slot]
        assert batches[-1] == (slot + 1) * share - 1, "the newest stays: a zombie is told by it"
        assert len(batches) <= 2 * KEPT_BATCHES + 1
