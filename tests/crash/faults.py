"""What each fault does to a run. A fault that had no effect raises FaultMissed: a clean verdict would prove nothing then."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from demo.offset_log import OffsetLog
from demo.readers import end_offsets
from lifecycle.decisions import BatchAttempt, Decision, Outcome, Ruling, Settled
from lifecycle.errors import DecisionVoid
from lifecycle.identity import marker_group
from resource_managers.decision_log import DecisionLog
from resource_managers.kafka import KafkaResourceManager
from tests.crash.full_disk import FullDisk
from tests.crash.judge import Reread
from tests.crash.run import Run
from tests.crash.schedule import FAULTS, Strike
from tests.crash.steps import (
    REACH_LIMIT_S,
    FaultMissed,
    await_reached,
    await_running_query,
    await_timeout,
    decided,
    end_at,
    last_decision,
    let_pass,
    now_ms,
    planned_batch,
    reach_point,
    require_lost,
    require_overtaken,
    stop,
)

ANSWER_LIMIT_S = 30.0
WHO = "operator checker"
UNKNOWN = "nobody can tell whether it was committed"


def strike(run: Run, planned: Strike) -> None:
    """Cause a fault, and see it through up to where the pipeline must go on by itself."""
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
    """SIGKILL to the one Python process that gets to the point: a task is tried again, a commit worker fails the query."""
    reach_point(run, planned, "kill-worker", planned.point)


def driver_frozen(run: Run, planned: Strike) -> None:
    """SIGSTOP past the timeout; a successor starts on the same checkpoint; then the zombie wakes beside it and must stop."""
    reach_point(run, planned, "freeze", planned.point)
    await_timeout(run)
    zombie, successor = run.pipeline, run.start_another()
    try:
        run.settle("the successor's start")
        zombie.wake()
        # What wakes up must find out that it was overtaken as soon as there is something to decide.
        run.workload.produce(planned.records)
        run.wait_until(
            "the end of the woken driver's supervisor", lambda: zombie.process.poll() is not None, REACH_LIMIT_S
        )
        require_overtaken(zombie)
    except BaseException:
        successor.stop()
        raise
    run.take_over(successor)


def worker_frozen(run: Run, planned: Strike) -> None:
    """SIGSTOP past the timeout to the one Python process that gets to the point; then it goes on."""
    reach_point(run, planned, "freeze-worker", planned.point)
    await_timeout(run)
    run.pipeline.wake()


def timed_out_after_decision(run: Run, planned: Strike) -> None:
    """Freeze after the decision until the broker has aborted the transactions: what was decided is lost, then replayed."""
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
    about = BatchAttempt(life=status["life"], batch=planned_batch(run), attempt=status["attempt"])
    opened = KafkaResourceManager(run.servers.connection).recover(run.prefix)
    try:
        log.decide(Decision(prefix=run.prefix, about=about, ruling=Ruling.ABORT, handles=(), who=WHO, at_ms=now_ms()))
    except DecisionVoid as error:
        raise FaultMissed(f"the driver had decided already: {error}") from error
    finally:
        log.close()
    if planned.hard:
        # As the collector's action does after its decision; without, the driver's own abort has to.
        KafkaResourceManager(run.servers.connection).fence(opened, ANSWER_LIMIT_S)
    run.pipeline.wake()
    run.wait_until(
        "another run after the abort", lambda: run.pipeline.status["attempt"] > status["attempt"], REACH_LIMIT_S
    )


def broker_restart(run: Run, planned: Strike) -> None:
    """Stop (hard: SIGKILL) the broker at the point and start it on the same data; then the driver goes on."""
    reach_point(run, planned, "freeze", planned.point)
    _restart_broker(run, planned)


def broker_away(run: Run, planned: Strike) -> None:
    """The same, and the broker stays away for longer than the transaction timeout."""
    reach_point(run, planned, "freeze", planned.point)
    _restart_broker(run, planned, away_s=run.schedule.timeout_ms / 1000 + 1)


def _restart_broker(run: Run, planned: Strike, away_s: float = 0) -> None:
    broker = run.servers.broker
    broker.kill() if planned.hard else broker.stop()
    if away_s:
        let_pass(run, away_s)
    broker.start()
    run.servers.await_broker()
    run.pipeline.wake()


def database_restart(run: Run, planned: Strike) -> None:
    """Stop (hard: SIGKILL) the database between prepare and commit and start it on the same data; the driver goes on."""
    reach_point(run, planned, "freeze", planned.point)
    database = run.servers.database
    assert database is not None
    database.kill() if planned.hard else database.stop()
    database.start()
    run.pipeline.wake()


def checkpoint_copied(run: Run, planned: Strike) -> None:
    """Stop, copy the checkpoint directory, start both: the one whose run started first must stop, the other goes on."""
    stop(run)
    copy = run.checkpoint.with_name(f"{run.checkpoint.name}-copy")
    shutil.copytree(run.checkpoint, copy)
    rivals = [run.start_another(checkpoint) for checkpoint in (run.checkpoint, copy)]
    try:

        def one_is_over() -> bool:
            # Who has nothing to decide does not notice that it was overtaken.
            run.workload.produce(2)
            return any(rival.process.poll() is not None for rival in rivals)

        run.wait_until("the end of one of two pipelines on copies of one checkpoint", one_is_over, REACH_LIMIT_S)
        winner, loser = sorted(rivals, key=lambda rival: rival.process.poll() is not None)
        require_overtaken(loser)
    except BaseException:
        for rival in rivals:
            rival.stop()
        raise
    loser.stop()
    run.checkpoint = Path(winner.settings["checkpoint"])
    run.take_over(winner)


def checkpoint_deleted(run: Run, planned: Strike) -> None:
    """Delete the checkpoint directory and start the same prefix afresh: a new life, which reads the source from its start."""
    end_at(run, planned)
    produced = dict(run.workload.counts)
    shutil.rmtree(run.checkpoint)
    run.rereads.append(Reread(committed=run.committed_now(), produced=produced))
    run.take_over(run.start_another())


def partitions_added(run: Run, planned: Strike) -> None:
    """Add source partitions while the pipeline is down, and keys that live in them."""
    end_at(run, planned)
    run.workload.add_partitions(1 + planned.records % 2)
    run.take_over(run.start_another())
    run.workload.produce(planned.records)


def empty_batch(run: Run, planned: Strike) -> None:
    """Give the source records of an aborted transaction only: a batch in which there is nothing to read."""
    run.workload.produce_aborted(planned.records)
    ends = end_offsets(run.servers.broker.bootstrap_servers, run.source)
    log = OffsetLog(run.checkpoint, run.source)

    def went_past() -> bool:
        log.refresh()
        batches = log.committed() if log.last_committed >= 0 else []
        return bool(batches) and all(batches[-1].end_offsets.get(n, 0) >= end - 1 for n, end in ends.items())

    run.wait_until("a committed batch past the aborted records", went_past, REACH_LIMIT_S)


def large_record(run: Run, planned: Strike) -> None:
    """Put a record of 2 MB into the middle of others."""
    run.workload.produce_around_large(planned.records)


def disk_full(run: Run, planned: Strike) -> None:
    """Leave no room under the checkpoint directory until the pipeline has failed for it; then make room again."""
    await_running_query(run)
    restarts = run.pipeline.status["restarts"]
    with FullDisk(run.checkpoint.parent, run.pipeline) as disk:
        run.workload.produce(planned.records)

        def failed() -> bool:
            return run.pipeline.process.poll() is not None or run.pipeline.status["restarts"] > restarts

        run.wait_until(f"a failure for lack of room ({disk.how})", failed, REACH_LIMIT_S)
    run.notes.append(f"disk full by {disk.how}")
    if run.pipeline.process.poll() is not None:
        run.notes.append(f"the supervisor had ended with code {run.pipeline.process.returncode}")
        run.take_over(run.start_another())


def marker_expired(run: Run, planned: Strike) -> None:
    """Let marker and transactional ids of a decided batch be forgotten: the pipeline must refuse and say so, not guess.

    Then do what its text tells: look at the sink, and append the outcome to the decision log.
    """
    before = run.committed_now()
    reach_point(run, planned, "freeze", planned.point)
    handles, about = decided(run), last_decision(run).about
    manager = KafkaResourceManager(run.servers.connection)
    run.wait_until("the end of the decided transactions", lambda: not run.open_transactions(), REACH_LIMIT_S)
    run.pipeline.kill_all()
    ids = [handle.transaction for handle in handles]
    run.wait_until("the expiry of their transactional ids", lambda: not manager.describe(ids), REACH_LIMIT_S)
    groups = sorted({marker_group(run.prefix, handle.slot) for handle in handles})
    admin = run.servers.admin
    for deleted in admin.delete_consumer_groups(groups).values():
        deleted.result(ANSWER_LIMIT_S)
    run.take_over(run.start_another())
    run.wait_until("the refusal to guess", lambda: UNKNOWN in run.pipeline.log, REACH_LIMIT_S)
    run.pipeline.kill_all()
    committed = run.committed_now() != before
    if committed != (planned.point == "after-commit"):
        raise FaultMissed(f"at {planned.point} the batch is {'' if committed else 'not '}in the sink")
    log = DecisionLog(run.servers.connection)
    for handle in handles:
        settled = Settled.COMMITTED if committed else Settled.LOST
        log.append(
            Outcome(prefix=run.prefix, about=about, handle_key=handle.key, settled=settled, who=WHO, at_ms=now_ms())
        )
    log.close()
    run.take_over(run.start_another())


_OTHERS: dict[str, Callable[[Run, Strike], None]] = {
    "driver-frozen": driver_frozen,
    "worker-frozen": worker_frozen,
    "timed-out-after-decision": timed_out_after_decision,
    "broker-restart": broker_restart,
    "broker-away": broker_away,
    "database-restart": database_restart,
    "checkpoint-copied": checkpoint_copied,
    "checkpoint-deleted": checkpoint_deleted,
    "partitions-added": partitions_added,
    "empty-batch": empty_batch,
    "large-record": large_record,
    "disk-full": disk_full,
    "operator-abort": operator_abort,
    "foreign-fence": foreign_fence,
    "marker-expired": marker_expired,
}
IMPLEMENTED = frozenset(name for name in FAULTS if name.startswith("kill-")) | _OTHERS.keys()
