"""What a supervisor leaves when it ends and no driver comes any more that would recover: nothing undecided, anywhere."""

from __future__ import annotations

import pytest

from indoubt.lifecycle.decisions import RunStarted
from indoubt.lifecycle.errors import DecisionVoid
from indoubt.pipeline.checkpoints.checkpoint_directory import CheckpointDirectory
from indoubt.pipeline.runtime.crash_points import CrashPoint
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.protocol_run import ProtocolSinks, at, protocol_sinks, spark_checkpoint
from tests.integration.supervisor_process import SLOTS, SupervisorProcess

pytestmark = [pytest.mark.integration, pytest.mark.long]
NAMES = ("kafka", "mysql", "postgres")


@pytest.fixture
def sinks(connection, mariadb, postgres, tmp_path) -> ProtocolSinks:
    return protocol_sinks(connection, tmp_path, [mariadb, postgres], NAMES)


def test_a_frozen_driver_that_is_stopped_leaves_nothing_open(sinks, tmp_path):
    with SupervisorProcess(sinks, tmp_path, "after-prepare", "freeze") as supervisor:
        supervisor.wait_until_struck()
        assert sinks.pending() == SLOTS * len(NAMES)
        supervisor.terminate()
        supervisor.wait_exit()
        assert "the driver stands still" in supervisor.log
        sinks.expect(pending=0)


def test_a_supervisor_that_gives_up_leaves_nothing_open(sinks, tmp_path):
    with SupervisorProcess(sinks, tmp_path, "after-prepare", "kill", restart_attempts=0) as supervisor:
        assert supervisor.wait_exit() != 0
        assert "gave up after 0 restarts" in supervisor.log
        sinks.expect(pending=0)


def test_a_stop_between_two_drivers_leaves_nothing_open(sinks, tmp_path):
    with SupervisorProcess(sinks, tmp_path, "after-prepare", "kill", restart_delay_ms=600_000) as supervisor:
        supervisor.wait_until_struck()
        supervisor.terminate()
        supervisor.wait_exit()
        sinks.expect(pending=0)


@pytest.mark.parametrize("step", ["after-decision", pytest.param("mid-commit")])
def test_a_supervisor_that_ends_commits_what_was_decided(sinks, tmp_path, step):
    with SupervisorProcess(sinks, tmp_path, step, "freeze") as supervisor:
        supervisor.wait_until_struck()
        supervisor.terminate()
        supervisor.wait_exit()
    sinks.expect(*(b"%d" % slot for slot in range(SLOTS)), pending=0)
    recovered = sinks.run().recovered
    assert (recovered.committed, recovered.lost, recovered.rolled_back) == (0, 0, 0), "nothing was left to do"
    assert recovered.plan is not None
    assert not recovered.plan.incomplete


def test_an_ending_supervisor_commits_nothing_after_another_start(sinks, tmp_path):
    with SupervisorProcess(sinks, tmp_path, "after-decision", "freeze") as supervisor:
        supervisor.wait_until_struck()
        identity = CheckpointDirectory.at(sinks.pipeline_settings()).read()
        newer = RunStarted(prefix=f"other-{sinks.prefix}", checkpoint_id=identity.checkpoint_id, run="newer", at_ms=0)
        DecisionLog(sinks.connection).start_run(newer)
        supervisor.terminate()
        supervisor.wait_exit()
    assert sinks.pending() == SLOTS * len(NAMES)
    assert sinks.run().recovered.committed == SLOTS * len(NAMES)
    sinks.expect(*(b"%d" % slot for slot in range(SLOTS)), pending=0)


def test_a_supervisor_that_ends_leaves_what_a_newer_run_opened(sinks, tmp_path):
    with SupervisorProcess(sinks, tmp_path, "after-prepare", "freeze") as supervisor:
        supervisor.wait_until_struck()
        newer = sinks.run()
        messages = [newer.slot(slot, b"newer") for slot in range(SLOTS)]
        supervisor.terminate()
        supervisor.wait_exit()
        newer.commit(*messages)
    sinks.expect(*[b"newer"] * SLOTS, pending=0)


def test_a_decision_that_comes_after_the_sweep_is_void(sinks, monkeypatch):
    run = sinks.run()
    spark_checkpoint(sinks.checkpoint, planned=0, committed=-1)
    message = run.slot(0, b"a")
    at(monkeypatch, CrashPoint.BEFORE_DECISION, run.recovery.sweep)
    with pytest.raises(DecisionVoid, match="abort by sweep after run"):
        run.commit(message)
    sinks.expect(pending=0)
