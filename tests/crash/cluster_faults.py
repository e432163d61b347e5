"""Faults that only a cluster has: its machines, its brokers' leaders, the store of its checkpoints."""

from __future__ import annotations

import signal
from collections.abc import Callable

from confluent_kafka import KafkaException
from kafka import KafkaAdminClient, TopicPartition

from demo.kafka_cluster import Node
from demo.object_store import UNAVAILABLE
from demo.spark_cluster import SparkNode
from demo.whole_cluster import WholeCluster
from indoubt.lifecycle.child_processes import with_descendants
from indoubt.resource_managers.kafka.wire import wire
from tests.crash.processes import send
from tests.crash.random_hits import Traffic
from tests.crash.run import BUSY, Run
from tests.crash.schedule import Strike
from tests.crash.steps import REACH_LIMIT_S, decided, disturb, let_pass, reach_point, require_superseded

ANOTHER_MACHINE = "127.0.0.4"
MOVE_LIMIT_S = 60.0
FROZEN_S = 6.0
"""Longer than the brokers' session timeout of 2 s, so that the cluster takes the broker for dead."""
WITHOUT_REPLICAS_S = 8.0
LATE_S = "3"
"""Each answer of the store comes so many seconds late."""


def node_killed(run: Run, planned: Strike) -> None:
    """SIGKILL to the machine on which a task stands, executor and all; another machine gets the task. Then it is back."""
    node, _ = _standing_task(run, planned)
    node.kill()
    run.signals["SIGKILL Spark worker"] += 1
    run.settle("the loss of a machine")
    node.start()


def executor_killed(run: Run, planned: Strike) -> None:
    """SIGKILL to the executor of a task and to its Python processes; Spark starts another and tries the task again."""
    node, standing = _standing_task(run, planned)
    # Parents come first: the worker itself, then the executor above the process that stands.
    executor = next(pid for pid in node.pids[1:] if standing in with_descendants([pid]))
    send(signal.SIGKILL, with_descendants([executor]))
    run.signals["SIGKILL executor"] += 1


def driver_moved(run: Run, planned: Strike) -> None:
    """The driver's machine dies at the point (hard: is cut off, and comes back later); another one starts the pipeline."""
    environment = {"SPARK_LOCAL_IP": ANOTHER_MACHINE}
    reach_point(run, planned, "freeze", planned.point)
    if not planned.hard:
        run.pipeline.kill_all()
        run.take_over(run.start_another(environment=environment))
        return
    gone = run.pipeline
    send(signal.SIGSTOP, [gone.process.pid])
    successor = run.start_another(environment=environment)
    try:
        run.settle("the start on another machine")
        gone.wake()
        run.workload.produce(planned.records)
        run.wait_until("the end of the supervisor that is back", lambda: gone.process.poll() is not None, REACH_LIMIT_S)
        require_superseded(gone)
    except BaseException:
        successor.stop()
        raise
    run.take_over(successor)


def coordinator_killed(run: Run, planned: Strike) -> None:
    """SIGKILL to the coordinator of a transaction that is decided and not committed; another broker takes its place."""
    reach_point(run, planned, "freeze", planned.point)
    cluster = _whole(run).kafka
    ids = [handle.transaction for handle in decided(run)]
    states = run.transactional_ids()
    open_ids = [id_ for id_ in ids if states.get(id_) in BUSY] or ids
    coordinators = wire(run.servers.connection).transaction_coordinators(open_ids)
    broker = next(broker for broker in cluster.brokers if broker.node == coordinators[open_ids[0]])
    broker.kill()
    run.signals["SIGKILL broker"] += 1
    run.pipeline.wake()
    run.settle("the failover of a coordinator")
    broker.start()
    run.servers.await_broker()


def brokers_rolled(run: Run, planned: Strike) -> None:
    """Restart every broker in turn while batches run; the first while one stands at the point."""
    reach_point(run, planned, "freeze", planned.point)
    cluster = _whole(run).kafka
    with Traffic(run):
        for broker in cluster.brokers:
            broker.stop()
            run.signals["SIGTERM broker"] += 1
            run.pipeline.wake()
            broker.start()
            run.servers.await_broker()


def leader_moved(run: Run, planned: Strike) -> None:
    """Give each of the sink's partitions another leader while the sink writes or commits there."""
    reach_point(run, planned, "freeze", planned.point)
    admin = run.servers.admin
    partitions = admin.list_topics(run.sink).topics[run.sink].partitions
    before = {number: partition.leader for number, partition in partitions.items()}
    turned = {
        TopicPartition(run.sink, number): [*partition.replicas[1:], partition.replicas[0]]
        for number, partition in partitions.items()
    }
    client = KafkaAdminClient(**run.servers.connection.for_kafka_python())
    try:
        client.alter_partition_reassignments(turned)
    finally:
        client.close()

    def moved() -> bool:
        try:
            now = admin.list_topics(run.sink, timeout=10).topics[run.sink].partitions
        except KafkaException:
            return False
        return any(partition.leader != before[number] for number, partition in now.items())

    run.wait_until("another leader of the sink's partitions", moved, MOVE_LIMIT_S)
    run.pipeline.wake()


def broker_frozen(run: Run, planned: Strike) -> None:
    """SIGSTOP to a broker for longer than its session, so that the others take its place; then it goes on as before."""
    reach_point(run, planned, "freeze", planned.point)
    cluster = _whole(run).kafka
    broker = run.dice.choice(cluster.brokers)
    assert broker.pid is not None
    send(signal.SIGSTOP, [broker.pid])
    run.signals["SIGSTOP broker"] += 1
    try:
        run.pipeline.wake()
        let_pass(run, FROZEN_S)
        cluster.await_led_by_others(run.servers.admin, broker)
    finally:
        send(signal.SIGCONT, [broker.pid])
    run.servers.await_broker()


def replicas_missing(run: Run, planned: Strike) -> None:
    """Stop two of three brokers, so that min.insync.replicas is not met and nothing can be written; then they return."""
    reach_point(run, planned, "freeze", planned.point)
    stopped: list[Node] = run.dice.sample(_whole(run).kafka.brokers, 2)
    for broker in stopped:
        broker.kill() if planned.hard else broker.stop()
        run.signals[f"{'SIGKILL' if planned.hard else 'SIGTERM'} broker"] += 1
    run.pipeline.wake()
    let_pass(run, WITHOUT_REPLICAS_S)
    for broker in stopped:
        broker.start()
    run.servers.await_broker()


def store_unavailable(run: Run, planned: Strike) -> None:
    """The store of the checkpoint directory answers 503 for some seconds (hard: for longer than its client tries)."""
    _disturb_store(run, planned, UNAVAILABLE)


def store_late(run: Run, planned: Strike) -> None:
    """Each answer of the store comes seconds late."""
    _disturb_store(run, planned, LATE_S)


def _disturb_store(run: Run, planned: Strike, fault: str) -> None:
    disturb(run, planned, _whole(run).store, fault)


def _standing_task(run: Run, planned: Strike) -> tuple[SparkNode, int]:
    """Freeze the Python process of a task at the point; return its machine and its id."""
    standing = reach_point(run, planned, "freeze-worker", planned.point)
    node = next(node for node in _whole(run).spark.workers if standing in node.pids)
    return node, standing


def _whole(run: Run) -> WholeCluster:
    assert run.servers.whole is not None
    return run.servers.whole


CLUSTER_FAULTS: dict[str, Callable[[Run, Strike], None]] = {
    "node-killed": node_killed,
    "executor-killed": executor_killed,
    "driver-moved": driver_moved,
    "coordinator-killed": coordinator_killed,
    "brokers-rolled": brokers_rolled,
    "leader-moved": leader_moved,
    "broker-frozen": broker_frozen,
    "replicas-missing": replicas_missing,
    "store-unavailable": store_unavailable,
    "store-late": store_late,
}
