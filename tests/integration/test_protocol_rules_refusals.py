"""What is refused at start, with a reason, because going on could lose or double rows; and what is allowed all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.lifecycle.decisions import Decision, Ruling, Settled
from indoubt.lifecycle.errors import ResourceManagerError, SettingsError
from indoubt.lifecycle.identity import Handle, TransactionalId
from indoubt.pipeline.recovery.settle_command import settle
from indoubt.pipeline.runtime.crash_points import CrashPoint
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.pipeline_process import make_topics, read_committed
from tests.integration.protocol_run import ProtocolSinks, Stopped, protocol_sinks, spark_checkpoint, stop_at

pytestmark = pytest.mark.integration


@pytest.fixture
def sinks(connection, tmp_path) -> ProtocolSinks:
    return protocol_sinks(connection, tmp_path, [], ["kafka"])


def decide_and_stop(sinks: ProtocolSinks, patch: pytest.MonkeyPatch) -> None:
    """Leave batch 0 planned by Spark, decided, and not committed."""
    run = sinks.run()
    spark_checkpoint(sinks.checkpoint, planned=0, committed=-1)
    message = run.slot(0, b"decided")
    stop_at(patch, CrashPoint.AFTER_DECISION)
    with pytest.raises(Stopped):
        run.commit(message)


@pytest.mark.parametrize("changed", ["sink", "prefix", "decisions_topic"])
def test_a_changed_sink_is_refused_while_something_is_decided(sinks, monkeypatch, changed):
    decide_and_stop(sinks, monkeypatch)
    other = f"other-{sinks.prefix}"
    if changed == "sink":
        make_topics(sinks.connection, other, partitions=1)
    refused = sinks.recovery(**{changed: other})
    with pytest.raises(
        SettingsError, match=rf"its last batch is unfinished \(0\): .*start once more with these.*{other}"
    ):
        refused.recover()
    sinks.expect(pending=1)
    assert sinks.run().recovered.committed == 1
    sinks.expect(b"decided", pending=0)
    # Spark replays the batch, finds nothing missing, and its commit log has it: now nothing is in doubt.
    spark_checkpoint(sinks.checkpoint, planned=0, committed=0)
    run = sinks.run(**{changed: other})
    run.commit(run.slot(0, b"next", batch=1), batch=1)
    where = other if changed == "sink" else sinks.sinks.topic
    assert read_committed(sinks.connection, where)[b"next"] == 1


def decide_what_nobody_knows(sinks: ProtocolSinks) -> Handle:
    """Leave batch 0 planned and decided, with a handle whose marker and id are both gone, as after 7 days."""
    run = sinks.run()
    (handle,) = run.slot(0, b"a").handles
    run.roll_back(handle)
    gone = replace(handle, transaction=str(TransactionalId(prefix=sinks.prefix, slot=77, parity=0)), slot=77)
    DecisionLog(sinks.connection).decide(
        Decision(
            prefix=sinks.prefix,
            batch_attempt=run.batch_attempt(),
            ruling=Ruling.COMMIT,
            handles=(gone,),
            who="a run",
            at_ms=0,
        )
    )
    return gone


@pytest.mark.parametrize("outcome", [Settled.COMMITTED, Settled.LOST])
def test_an_unknown_outcome_is_refused_until_a_person_tells_it(sinks, capsys, outcome):
    gone = decide_what_nobody_knows(sinks)
    for _ in range(2):
        with pytest.raises(
            ResourceManagerError, match=rf"{gone.transaction} of batch 0: it is unknown.*pipeline settle"
        ):
            sinks.run()
    settings = sinks.pipeline_settings()
    assert settle(settings, None, "", [], yes=False) == 0
    assert capsys.readouterr().out.startswith(f"{gone.key} batch=0 ")
    assert settle(settings, outcome, "somebody", [], yes=False) == 1
    with pytest.raises(SettingsError, match="kafka:another: not among the unsettled"):
        settle(settings, outcome, "somebody", ["kafka:another"], yes=True)
    assert sinks.ledger().outcome(gone.key) is None, "neither committed nor lost"
    assert settle(settings, outcome, "somebody", [gone.key], yes=True) == 0
    told = sinks.ledger().outcome(gone.key)
    assert told is not None
    assert (told.settled, told.who) == (outcome, "somebody")
    later = sinks.run()
    later.commit(later.slot(0, b"a"))
    sinks.expect(*([b"a"] if outcome is Settled.LOST else []), pending=0)


def test_a_persons_word_does_not_stand_against_proof(sinks, monkeypatch):
    decide_and_stop(sinks, monkeypatch)
    assert settle(sinks.pipeline_settings(), Settled.LOST, "somebody", [], yes=True) == 0
    sinks.expect(b"decided", pending=0)
    later = sinks.run()
    later.commit(later.slot(0, b"decided"))
    sinks.expect(b"decided", pending=0)


def test_after_a_clean_stop_the_commit_log_proves_what_markers_do_not(sinks):
    gone = decide_what_nobody_knows(sinks)
    spark_checkpoint(sinks.checkpoint, planned=0, committed=0)
    run = sinks.run()
    outcome = sinks.ledger().outcome(gone.key)
    assert outcome is not None
    assert outcome.settled is Settled.COMMITTED
    run.commit(run.slot(0, b"b", batch=1), batch=1)
    sinks.expect(b"b", pending=0)


def test_an_abandoned_directory_does_not_block_a_new_one(sinks, caplog):
    gone = decide_what_nobody_knows(sinks)
    afresh = sinks.run(checkpoint=str(sinks.checkpoint) + "-new")
    assert f"{gone.transaction} of batch 0: it is unknown" in caplog.text
    afresh.commit(afresh.slot(0, b"a"))
    sinks.expect(b"a", pending=0)


@pytest.mark.parametrize("guarantee", ["at_least_once", "none"])
def test_another_guarantee_is_refused_while_a_decided_batch_is_unfinished(sinks, monkeypatch, guarantee):
    run = sinks.run()
    message = run.slot(0, b"a")
    stop_at(monkeypatch, CrashPoint.AFTER_COMMIT)
    with pytest.raises(Stopped):
        run.commit(message)
    with pytest.raises(
        SettingsError, match=r"batch 0 .* is decided and not finished: with .* it would be written once more"
    ):
        sinks.run(delivery_guarantee=guarantee)
    again = sinks.run()
    again.commit(again.slot(0, b"a"))
    spark_checkpoint(sinks.checkpoint, planned=0, committed=0)
    later = sinks.run(delivery_guarantee=guarantee)
    later.commit(later.slot(0, b"b", batch=1), batch=1)
    sinks.expect(b"a", b"b", pending=0)
