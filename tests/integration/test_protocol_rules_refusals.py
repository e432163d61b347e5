"""What is refused at start, with a reason, because going on could lose or double rows; and what is allowed all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lifecycle.decisions import Decision, Ruling
from lifecycle.errors import ResourceManagerError, SettingsError
from lifecycle.identity import TransactionalId
from pipeline.crash_points import CrashPoint
from resource_managers.decision_log import DecisionLog
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
def test_a_changed_sink_prefix_or_decision_log_is_refused_while_something_is_decided(sinks, monkeypatch, changed):
    decide_and_stop(sinks, monkeypatch)
    other = f"other-{sinks.prefix}"
    make_topics(sinks.connection, other, partitions=1)
    refused = sinks.recovery(**{changed: other})
    with pytest.raises(SettingsError, match=f"its last batch is unfinished: start once more with these.*{other}"):
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


def test_an_unknown_outcome_is_refused_until_a_new_checkpoint_directory_is_given(sinks, caplog):
    """Marker and id are both gone: nobody can tell, so nobody guesses."""
    run = sinks.run()
    (handle,) = run.slot(0, b"a").handles
    run.roll_back(handle)
    gone = replace(handle, transaction=str(TransactionalId(prefix=sinks.prefix, slot=77, parity=0)), slot=77)
    decision = Decision(
        prefix=sinks.prefix, about=run.about(), ruling=Ruling.COMMIT, handles=(gone,), who="a run", at_ms=0
    )
    DecisionLog(sinks.connection).decide(decision)
    for _ in range(2):
        with pytest.raises(ResourceManagerError, match=rf"{gone.transaction} of batch 0: nobody can tell"):
            sinks.run()
    assert sinks.ledger().outcome(gone.key) is None, "neither committed nor lost"
    afresh = sinks.run(checkpoint=str(sinks.checkpoint) + "-new")
    assert f"{gone.transaction} of batch 0: nobody can tell" in caplog.text
    afresh.commit(afresh.slot(0, b"a"))
    sinks.expect(b"a", pending=0)
