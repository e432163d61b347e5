"""Rules of completion and of failure, on each resource manager: what is decided is committed, what is not is aborted.

The cases are those of Flink's TwoPhaseCommitSinkFunction; a checkpoint is a micro-batch here, and the notification that it
is complete is the coordinator's ``commit``, or the recovery of a later run. Judged by readers of their own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from indoubt.lifecycle.decisions import RunStarted, Settled
from indoubt.lifecycle.errors import DecisionLogUnreadable, DecisionVoid, ResourceManagerError
from indoubt.pipeline.runtime.crash_points import CrashPoint
from indoubt.pipeline.sink import coordinator
from indoubt.pipeline.sink.coordinator import BatchAborted
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.pipeline_process import wait_until
from tests.integration.protocol_run import ProtocolSinks, Stopped, at, protocol_sinks, stop_at

pytestmark = pytest.mark.integration
SERVERS = {"kafka": (), "mysql": ("mariadb",), "postgres": ("postgres",)}


@pytest.fixture(params=SERVERS)
def sinks(request, connection, tmp_path) -> ProtocolSinks:
    servers = [request.getfixturevalue(name) for name in SERVERS[request.param]]
    return protocol_sinks(connection, tmp_path, servers, [request.param])


@pytest.fixture
def topic_sink(connection, tmp_path) -> ProtocolSinks:
    return protocol_sinks(connection, tmp_path, [], ["kafka"])


def test_completion_settles_the_one_pending(sinks):
    run = sinks.run()
    message = run.slot(0, b"a", b"b")
    sinks.expect(pending=1)
    run.commit(message)
    sinks.expect(b"a", b"b", pending=0)


def test_completion_settles_several_when_a_notification_was_skipped(sinks, monkeypatch):
    """Batch 0's notification never came; batch 1's, in a later run, settles everything that was decided up to it."""
    run = sinks.run()
    for batch in (0, 1):
        prepared = run.slot(batch, b"batch %d" % batch, batch=batch)
        stop_at(monkeypatch, CrashPoint.AFTER_DECISION)
        with pytest.raises(Stopped):
            run.commit(prepared, batch=batch)
    sinks.expect(pending=2)
    later = sinks.run()
    assert (later.recovered.committed, later.recovered.rolled_back) == (2, 0)
    sinks.expect(b"batch 0", b"batch 1", pending=0)


def test_completion_that_comes_late_after_a_newer_transaction_began(sinks, monkeypatch):
    run = sinks.run()
    prepared = run.slot(0, b"older")
    newer = []

    def a_later_run_begins_the_next_batch() -> None:
        later = sinks.run()
        assert later.recovered.committed == 1
        newer.append((later, later.slot(0, b"newer", batch=1)))

    at(monkeypatch, CrashPoint.AFTER_DECISION, a_later_run_begins_the_next_batch)
    run.commit(prepared)
    sinks.expect(b"older", pending=1)  # the newer one stays as it is
    later, message = newer[0]
    later.commit(message, batch=1)
    sinks.expect(b"older", b"newer", pending=0)


def test_every_pending_transaction_is_tried_before_an_error_is_raised(sinks, monkeypatch):
    run = sinks.run()
    messages = [run.slot(slot, b"slot %d" % slot) for slot in range(4)]
    handles = [message.handles[0] for message in messages]
    at(monkeypatch, CrashPoint.AFTER_DECISION, lambda: run.roll_back(handles[0], handles[2]))
    with pytest.raises(ResourceManagerError, match=rf"{handles[0].transaction} was lost.*\(and 1 more\)"):
        run.commit(*messages)
    assert sinks.seen() == Counter([b"slot 1", b"slot 3"]), "tried after the first had failed"
    failed = {handles[0].key, handles[2].key}
    wait_until(
        "the log says which are committed",
        lambda: {handle.key for _, handle in sinks.ledger().unsettled(sinks.prefix)} == failed,
    )
    later = sinks.run()
    assert (later.recovered.committed, later.recovered.lost) == (0, 2), "the committed ones are known from the log"
    later.commit(*(later.slot(slot, b"slot %d" % slot) for slot in range(4)))
    sinks.expect(*[b"slot %d" % slot for slot in range(4)], pending=0)


def test_a_failed_checkpoint_aborts_its_transactions(sinks):
    run = sinks.run()
    messages = [run.slot(slot, b"a") for slot in range(2)]
    sinks.expect(pending=2)
    run.abort(*messages)
    sinks.expect(pending=0)
    assert sinks.ledger().counting(run.batch_attempt()) is None


def test_recover_and_commit_after_a_commit_failure(sinks, monkeypatch):
    run = sinks.run()
    messages = [run.slot(slot, b"%d" % slot) for slot in range(2)]
    stop_at(monkeypatch, CrashPoint.AFTER_DECISION)
    with pytest.raises(Stopped):
        run.commit(*messages)
    sinks.expect(pending=2)
    later = sinks.run()
    assert (later.recovered.committed, later.recovered.lost, later.recovered.rolled_back) == (2, 0, 0)
    sinks.expect(b"0", b"1", pending=0)


def test_recover_and_abort_of_the_undecided(sinks):
    run = sinks.run()
    for slot in range(2):
        run.slot(slot, b"a")
    later = sinks.run()
    assert (later.recovered.committed, later.recovered.rolled_back) == (0, 2)
    sinks.expect(pending=0)


@pytest.mark.parametrize("guarantee", ["at_least_once", "none"])
def test_recovery_aborts_the_undecided_in_all_delivery_modes(topic_sink, guarantee):
    topic_sink.run().slot(0, b"a")
    later = topic_sink.run(delivery_guarantee=guarantee)
    assert later.recovered.rolled_back == 1
    topic_sink.expect(pending=0)


def test_what_is_committed_stands_in_the_log_and_is_not_asked_for_again(sinks):
    run = sinks.run()
    messages = [run.slot(slot, b"a") for slot in range(2)]
    run.commit(*messages)
    keys = [handle.key for message in messages for handle in message.handles]
    outcomes = wait_until(
        "the log says that they are committed",
        lambda: [found for found in [list(map(sinks.ledger().outcome, keys))] if all(found)],
    )[0]
    assert {outcome.settled for outcome in outcomes} == {Settled.COMMITTED}
    assert outcomes[0].handle_keys == tuple(keys), "one record for the batch"
    later = sinks.run()
    assert (later.recovered.committed, later.recovered.lost) == (0, 0)
    assert {len(branch.committed) for branch in later.recovered.plan.branches.values()} == {2}


def test_recovery_finds_out_what_is_committed_when_the_log_does_not_say_so(sinks, monkeypatch, caplog):
    def unreadable(*_: object) -> None:
        raise DecisionLogUnreadable("the broker is away")

    run = sinks.run()
    monkeypatch.setattr(DecisionLog, "append_soon", unreadable)
    run.commit(run.slot(0, b"a"))
    assert "batch 0 is committed, which the decision log does not say" in caplog.text
    assert sinks.run().recovered.committed == 1
    sinks.expect(b"a", pending=0)


def test_abort_looks_for_the_decision_first(sinks, monkeypatch):
    """Spark calls ``abort`` with every handle when ``commit`` raised: also when the batch is decided."""
    run = sinks.run()
    message = run.slot(0, b"a")
    stop_at(monkeypatch, CrashPoint.AFTER_DECISION)
    with pytest.raises(Stopped):
        run.commit(message)
    run.abort(message)
    assert sinks.pending() == 1, "decided: it stays for recovery to commit"
    assert sinks.run().recovered.committed == 1
    assert sinks.seen() == Counter([b"a"])


def test_abort_rolls_nothing_back_while_nobody_knows_what_was_decided(topic_sink, caplog):
    run = topic_sink.run()
    message = run.slot(0, b"a")
    run.options = replace(run.options, decisions_topic="no-such-log")
    run.abort(message)
    assert topic_sink.pending() == 1
    assert "nothing is rolled back while the decision log cannot be read" in caplog.text


def test_check_comes_before_the_decision(sinks):
    run = sinks.run()
    messages = [run.slot(slot, b"a") for slot in range(2)]
    run.roll_back(messages[1].handles[0])
    with pytest.raises(BatchAborted, match=rf"{messages[1].handles[0].transaction} cannot be committed"):
        run.commit(*messages)
    assert sinks.ledger().first(run.batch_attempt()) is None, "nothing was decided"
    run.abort(*messages)
    sinks.expect(pending=0)


def test_a_batch_with_too_little_time_left_is_not_decided(topic_sink, monkeypatch):
    monkeypatch.setattr(coordinator, "COMMIT_MARGIN_MS", 59_999)
    run = topic_sink.run(transaction_timeout_ms=60_000)
    message = run.slot(0, b"a")
    with pytest.raises(BatchAborted, match=r"ms left of 60000 ms, less than 59999: raise transaction_timeout_ms"):
        run.commit(message)
    assert topic_sink.ledger().first(run.batch_attempt()) is None
    run.abort(message)


def test_only_handles_of_a_decision_that_counts_are_committed(sinks):
    run = sinks.run()
    listed_in_a_void_one = run.slot(0, b"void")
    newer = RunStarted(prefix=sinks.prefix, checkpoint_id=run.options.checkpoint_id, run="newer", at_ms=0)
    DecisionLog(sinks.connection).start_run(newer)
    with pytest.raises(DecisionVoid, match=r"run newer .* started after this one"):
        run.commit(listed_in_a_void_one)
    assert sinks.seen() == Counter()
    later = sinks.run()
    assert (later.recovered.committed, later.recovered.rolled_back) == (0, 1)
    sinks.expect(pending=0)
