"""Rules of the replay, on each resource manager: what was lost after its decision is written again, and nothing else."""

from __future__ import annotations

import pytest

from indoubt.lifecycle.errors import NotDeterministic, ResourceManagerError
from indoubt.pipeline.runtime.crash_points import CrashPoint
from tests.integration.protocol_run import ProtocolRun, ProtocolSinks, at, protocol_sinks

pytestmark = pytest.mark.integration
SERVERS = {"kafka": (), "mysql": ("mariadb",), "postgres": ("postgres",)}


@pytest.fixture(params=SERVERS)
def sinks(request, connection, tmp_path) -> ProtocolSinks:
    servers = [request.getfixturevalue(name) for name in SERVERS[request.param]]
    return protocol_sinks(connection, tmp_path, servers, [request.param])


@pytest.fixture
def topic_sink(connection, tmp_path) -> ProtocolSinks:
    return protocol_sinks(connection, tmp_path, [], ["kafka"])


def after_a_loss(sinks: ProtocolSinks, patch: pytest.MonkeyPatch, *slots: bytes, lost: int) -> ProtocolRun:
    """Decide a batch, lose one slot of it before it is committed; return the run that must replay the batch."""
    run = sinks.run()
    messages = [run.slot(number, value) for number, value in enumerate(slots)]
    at(patch, CrashPoint.AFTER_DECISION, lambda: run.roll_back(messages[lost].handles[0]))
    with pytest.raises(ResourceManagerError, match="was lost"):
        run.commit(*messages)
    later = sinks.run()
    assert later.recovered.lost == 1
    assert later.recovered.plan is not None
    assert sum(len(branch.committed) for branch in later.recovered.plan.branches.values()) == len(slots) - 1
    return later


def test_a_missing_fingerprint_is_prepared_and_a_committed_one_skipped(sinks, monkeypatch):
    """The rows come in other slots than before: a slot is no name for rows."""
    later = after_a_loss(sinks, monkeypatch, b"a", b"b", b"c", lost=1)
    sinks.expect(b"a", b"c", pending=0)
    messages = [later.slot(number, value) for number, value in enumerate([b"c", b"a", b"b"])]
    assert [len(message.handles) for message in messages] == [0, 0, 1]
    sinks.expect(b"a", b"c", pending=1)
    later.commit(*messages)
    sinks.expect(b"a", b"b", b"c", pending=0)


def test_missing_fingerprints_are_prepared_and_the_surplus_is_aborted(topic_sink, monkeypatch):
    later = after_a_loss(topic_sink, monkeypatch, b"same", b"same", lost=0)
    messages = [later.slot(number, b"same") for number in range(2)]
    assert [len(message.handles) for message in messages] == [1, 1]
    later.commit(*messages)
    topic_sink.expect(b"same", b"same", pending=0)
    (_, decision) = topic_sink.ledger().commit_decisions(topic_sink.prefix)[-1]
    assert len(decision.handles) == 1, "as many as are missing"


def test_a_fingerprint_neither_missing_nor_committed_fails_and_says_so(topic_sink, monkeypatch):
    later = after_a_loss(topic_sink, monkeypatch, b"a", b"b", lost=1)
    with pytest.raises(NotDeterministic, match="the query is not deterministic"):
        later.slot(1, b"other rows")
    topic_sink.expect(b"a", pending=0)


def test_too_few_missing_rows_prepared_fails_and_decides_nothing(topic_sink, monkeypatch):
    later = after_a_loss(topic_sink, monkeypatch, b"a", b"b", lost=1)
    with pytest.raises(NotDeterministic):
        later.commit(later.slot(0, b"a"))
    assert topic_sink.ledger().first(later.batch_attempt()) is None
    topic_sink.expect(b"a", pending=0)


def test_where_nothing_is_missing_only_fingerprints_are_compared(sinks):
    run = sinks.run()
    run.commit(run.slot(0, b"a"), run.slot(1, b"b"))
    sinks.expect(b"a", b"b", pending=0)
    later = sinks.run()
    messages = [later.slot(0, b"b"), later.slot(1, b"a")]
    assert [message.handles for message in messages] == [(), ()]
    later.commit(*messages)
    assert sinks.ledger().first(later.batch_attempt()) is None, "nothing was written, so nothing is decided"
    sinks.expect(b"a", b"b", pending=0)
    with pytest.raises(NotDeterministic, match="the query is not deterministic"):
        later.slot(0, b"other rows")
    with pytest.raises(NotDeterministic, match="with other rows"):
        later.commit(later.slot(0, b"a"), later.slot(1, b"a"))


def test_a_replay_that_is_lost_too_is_replayed_again(sinks, monkeypatch):
    later = after_a_loss(sinks, monkeypatch, b"a", b"b", lost=1)
    messages = [later.slot(0, b"a"), later.slot(1, b"b")]
    at(monkeypatch, CrashPoint.AFTER_DECISION, lambda: later.roll_back(messages[1].handles[0]))
    with pytest.raises(ResourceManagerError, match="was lost"):
        later.commit(*messages)
    third = sinks.run()
    assert third.recovered.lost == 1
    third.commit(third.slot(0, b"b"), third.slot(1, b"a"))
    sinks.expect(b"a", b"b", pending=0)
    assert sinks.run().recovered.lost == 0
