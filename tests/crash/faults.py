"""The faults' effects on a run. A fault without effect raises FaultMissed, because a clean verdict would then prove nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from confluent_kafka import Producer

from demo.offset_log import OffsetLog
from demo.readers import end_offsets
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Ruling
from indoubt.lifecycle.errors import DecisionVoid
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.crash.catalogue import FAULTS
from tests.crash.cluster_faults import CLUSTER_FAULTS
from tests.crash.expiry import expired_after_crash, expired_after_stop, expired_while_running, log_trimmed
from tests.crash.full_disk import DISK, FullDisk
from tests.crash.judge import Reread
from tests.crash.processes import Part
from tests.crash.random_hits import random_broker, random_database, random_process
from tests.crash.run import Run
from tests.crash.schedule import Strike
from tests.crash.server_faults import (
    broker_away,
    broker_of_two_lost,
    broker_restart,
    database_restart,
    files_late,
    files_unavailable,
)
from tests.crash.steps import (
    REACH_LIMIT_S,
    WHO,
    FaultMissed,
    await_reached,
    await_running_query,
    await_timeout,
    decided,
    end_at,
    now_ms,
    planned_batch,
    reach_point,
    require_lost,
    require_superseded,
    stop,
)
from tests.crash.stops import stopped_by_force, stopped_while_busy

ANSWER_LIMIT_S = 30.0


def strike(run: Run, planned: Strike) -> None:
    """Cause a fault, and wait until the pipeline must continue by itself."""
    if planned.fault.startswith("kill-driver-"):
        kill_driver(run, planned)
    elif planned.fault.startswith("kill-worker-"):
        kill_worker(run, planned)
    else:
        _OTHERS[planned.fault](run, planned)


def kill_driver(run: Run, planned: Strike) -> None:
    """SIGKILL to driver, JVM and workers at the point; mid-recovery comes after a kill that leaves something to settle."""
    if planned.point == "mid-recovery":
        run.pipeline.arm("mid-recovery", "kill")
        reach_point(run, planned, "kill", "after-decision")
        await_reached(run, "mid-recovery")
    else:
        reach_point(run, planned, "kill", planned.point)


def kill_worker(run: Run, planned: Strike) -> None:
    """SIGKILL to the Python process that reaches the point: Spark retries a task; a commit worker fails the query."""
    reach_point(run, planned, "kill-worker", planned.point)


def driver_frozen(run: Run, planned: Strike) -> None:
    """SIGSTOP past the timeout; a successor starts on the same checkpoint; then the zombie wakes and must stop."""
    reach_point(run, planned, "freeze", planned.point)
    await_timeout(run)
    zombie, successor = run.pipeline, run.start_another()
    try:
        await_running_query(run)
        zombie.wake()
        # The zombie must notice that it is superseded as soon as it has something to decide.
        run.workload.produce(planned.records)
        run.wait_until(
            "the end of the woken driver's supervisor", lambda: zombie.process.poll() is not None, REACH_LIMIT_S
        )
        require_superseded(zombie)
    except BaseException:
        successor.stop()
        raise
    run.take_over(successor)


def worker_frozen(run: Run, planned: Strike) -> None:
    """SIGSTOP past the timeout to the Python process that reaches the point; then it continues."""
    reach_point(run, planned, "freeze-worker", planned.point)
    await_timeout(run)
    run.pipeline.wake()


def timed_out_after_decision(run: Run, planned: Strike) -> None:
    """Freeze after the decision until the broker has aborted the transactions: the batch is lost, then replayed."""
    reach_point(run, planned, "freeze", planned.point)
    handles = decided(run)
    run.wait_until("the broker's abort of the decided transactions", lambda: not run.open_transactions(), REACH_LIMIT_S)
    run.pipeline.kill_driver()
    require_lost(run, handles)


def foreign_fence(run: Run, planned: Strike) -> None:
    """Take the ids of decided transactions by init_transactions, which aborts them; then wake or end the driver."""
    reach_point(run, planned, "freeze", planned.point)
    handles = decided(run)
    for handle in handles:
        intruder = Producer(
            run.servers.connection.for_librdkafka(**{"transactional.id": handle.transaction, "log_level": 0})
        )
        intruder.init_transactions(ANSWER_LIMIT_S)
    if planned.hard:
        run.pipeline.kill_driver()
    else:
        run.pipeline.wake()
    require_lost(run, handles)


def operator_abort(run: Run, planned: Strike) -> None:
    """Append an operator's abort for the undecided batch of a live driver, then wake it: it must stop itself and replay."""
    reach_point(run, planned, "freeze", planned.point)
    status, log = run.pipeline.status, DecisionLog(run.servers.connection)
    batch_attempt = BatchAttempt(
        checkpoint_id=status["checkpoint_id"], batch=planned_batch(run), attempt=status["attempt"]
    )
    opened = KafkaResourceManager(run.servers.connection).recover(run.prefix)
    try:
        log.decide(
            Decision(
                prefix=run.prefix, batch_attempt=batch_attempt, ruling=Ruling.ABORT, handles=(), who=WHO, at_ms=now_ms()
            )
        )
    except DecisionVoid as error:
        raise FaultMissed(f"the driver had decided already: {error}") from error
    finally:
        log.close()
    if planned.hard:
        # The collector does this after its decision; otherwise the driver's own abort must.
        KafkaResourceManager(run.servers.connection).fence(opened, ANSWER_LIMIT_S)
    run.pipeline.wake()
    run.wait_until(
        "another run after the abort", lambda: run.pipeline.status["attempt"] > status["attempt"], REACH_LIMIT_S
    )


def checkpoint_copied(run: Run, planned: Strike) -> None:
    """Stop, copy the checkpoint directory, start both: the pipeline that started first must stop, the other continues."""
    stop(run)
    copy = run.checkpoint.copy("copy")
    directory_of = {run.start_another(directory): directory for directory in (run.checkpoint, copy)}
    rivals = list(directory_of)
    try:

        def one_is_over() -> bool:
            # A pipeline with nothing to decide does not notice that it is superseded.
            run.workload.produce(2)
            return any(rival.process.poll() is not None for rival in rivals)

        run.wait_until("the end of one of two pipelines on copies of one checkpoint", one_is_over, REACH_LIMIT_S)
        winner, loser = sorted(rivals, key=lambda rival: rival.process.poll() is not None)
        require_superseded(loser)
    except BaseException:
        for rival in rivals:
            rival.stop()
        raise
    loser.stop()
    run.checkpoint = directory_of[winner]
    run.take_over(winner)


def checkpoint_deleted(run: Run, planned: Strike) -> None:
    """Delete the checkpoint directory and start the same prefix again: it reads the source from its start."""
    end_at(run, planned)
    produced = dict(run.workload.counts)
    run.checkpoint.delete()
    run.rereads.append(Reread(committed=run.committed_now(), produced=produced))
    run.take_over(run.start_another())


def partitions_added(run: Run, planned: Strike) -> None:
    """Add source partitions, with keys of their own, while the pipeline is down."""
    end_at(run, planned)
    run.workload.add_partitions(1 + planned.records % 2)
    run.take_over(run.start_another())
    run.workload.produce(planned.records)


def empty_batch(run: Run, planned: Strike) -> None:
    """Write only records of an aborted transaction to the source: a batch without a readable record."""
    run.workload.produce_aborted(planned.records)
    ends = end_offsets(run.servers.bootstrap_servers, run.source)
    log = OffsetLog(run.checkpoint, run.source)

    def went_past() -> bool:
        log.refresh()
        batches = log.committed() if log.last_committed >= 0 else []
        return bool(batches) and all(batches[-1].end_offsets.get(n, 0) >= end - 1 for n, end in ends.items())

    run.wait_until("a committed batch past the aborted records", went_past, REACH_LIMIT_S)


def large_record(run: Run, planned: Strike) -> None:
    """Write a record of 2 MB between others."""
    run.workload.produce_around_large(planned.records)


def disk_full(run: Run, planned: Strike) -> None:
    """Fill the checkpoint directory's disk until the pipeline fails, then make room again."""
    await_running_query(run)
    restarts = run.pipeline.status["restarts"]
    with FullDisk(run.directory / DISK, run.pipeline) as disk:
        run.workload.produce(planned.records)

        def failed() -> bool:
            return run.pipeline.process.poll() is not None or run.pipeline.status["restarts"] > restarts

        run.wait_until(f"a failure for lack of room ({disk.how})", failed, REACH_LIMIT_S)
    run.notes.append(f"disk full by {disk.how}")
    if run.pipeline.process.poll() is not None:
        run.notes.append(f"the supervisor had ended with code {run.pipeline.process.returncode}")
        run.take_over(run.start_another())


_OTHERS: dict[str, Callable[[Run, Strike], None]] = {
    "driver-frozen": driver_frozen,
    "worker-frozen": worker_frozen,
    "timed-out-after-decision": timed_out_after_decision,
    "broker-restart": broker_restart,
    "broker-away": broker_away,
    "broker-of-two-lost": broker_of_two_lost,
    "database-restart": database_restart,
    **{f"random-{part.value}": partial(random_process, part=part) for part in Part},
    "files-unavailable": files_unavailable,
    "files-late": files_late,
    "random-broker": random_broker,
    "random-brokers": random_broker,
    "random-database": random_database,
    "stopped-while-busy": stopped_while_busy,
    "stopped-by-force": stopped_by_force,
    "checkpoint-copied": checkpoint_copied,
    "checkpoint-deleted": checkpoint_deleted,
    "partitions-added": partitions_added,
    "empty-batch": empty_batch,
    "large-record": large_record,
    "disk-full": disk_full,
    "operator-abort": operator_abort,
    "foreign-fence": foreign_fence,
    "log-trimmed": log_trimmed,
    "expired-after-stop": expired_after_stop,
    "expired-after-crash": expired_after_crash,
    "expired-while-running": expired_while_running,
    **CLUSTER_FAULTS,
}
IMPLEMENTED = frozenset(name for name in FAULTS if name.startswith("kill-")) | _OTHERS.keys()
