"""A decision log that lost its end, as after an unclean leader election: what it does not know any more is not written twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from demo.broker import Broker
from indoubt.lifecycle.errors import DecisionLogUnreadable, DecisionMissing, Unreachable
from indoubt.pipeline.runtime.crash_points import CrashPoint
from indoubt.pipeline.sink import coordinator
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.partitions import KafkaPartitions
from tests.integration.pipeline_process import wait_until
from tests.integration.protocol_run import ProtocolRun, ProtocolSinks, Stopped, protocol_sinks, stop_at

pytestmark = pytest.mark.integration

LOG = "transaction_decisions"


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker whose files may be changed."""
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(params=["kafka", *[pytest.param(kind, marks=pytest.mark.long) for kind in ("mysql", "postgres")]])
def sinks(request, own_broker, tmp_path) -> ProtocolSinks:
    fixtures = {"mysql": ["mariadb"], "postgres": ["postgres"]}.get(request.param, [])
    servers = [request.getfixturevalue(name) for name in fixtures]
    return protocol_sinks(KafkaConnection(own_broker.bootstrap_servers), tmp_path, servers, [request.param])


@contextmanager
def stopped(broker: Broker) -> Iterator[Path]:
    """Stop the broker, yield where the decision log lies, and start it again."""
    broker.stop()
    (directory,) = broker.directory.rglob(f"{LOG}-0")
    yield directory
    # What it keeps about the log's end is recreated from the log itself.
    for file in (*directory.glob("*.snapshot"), *directory.glob("*index"), directory.parent / ".kafka_cleanshutdown"):
        file.unlink(missing_ok=True)
    broker.start()
    wait_until("the broker tells where its topics are", lambda: tells_topics(broker))


def tells_topics(broker: Broker) -> bool:
    try:
        return bool(KafkaPartitions(KafkaConnection(broker.bootstrap_servers), "").layout([LOG]).leaders)
    except Unreachable:
        return False


def cut_from(directory: Path, offset: int) -> None:
    """Take every record from this offset on out of the log's only file."""
    (file,) = directory.glob("*.log")
    content, at = file.read_bytes(), 0
    while at < len(content) and int.from_bytes(content[at : at + 8]) < offset:
        at += 12 + int.from_bytes(content[at + 8 : at + 12])
    file.write_bytes(content[:at])


def die_after_commit(run: ProtocolRun, *values: bytes, batch: int) -> None:
    """Commit a batch and die before Spark's commit log has it, with all that was kept of the log."""
    message = run.slot(0, *values, batch=batch)
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, CrashPoint.AFTER_COMMIT)
        with pytest.raises(Stopped):
            run.commit(message, batch=batch)
    coordinator._logs.clear()


@pytest.mark.long
def test_a_committed_batch_without_its_decision_is_not_written_again(sinks, own_broker):
    run = sinks.run()
    run.commit(run.slot(0, b"a", batch=0), batch=0)
    die_after_commit(run, b"b", batch=1)
    lost = sinks.ledger().commits_of(run.options.checkpoint_id, 1)[0]
    offset, _, _ = sinks.ledger().first(lost.batch_attempt)
    with stopped(own_broker) as directory:
        cut_from(directory, offset)
    later = sinks.run()
    assert sinks.ledger().last_decided_batch(run.options.checkpoint_id) == 0, (
        "the log knows nothing of batch 1 any more"
    )
    refused = rf"has committed batch 1 in attempt {run.options.attempt}, .*log '{LOG}' has no decision"
    with pytest.raises(DecisionMissing, match=refused):
        later.slot(0, b"b", batch=1)
    sinks.expect(b"a", b"b", pending=0)


@pytest.mark.long
@pytest.mark.parametrize("sinks", ["kafka"], indirect=True)
def test_a_driver_decides_nothing_once_its_log_lost_its_end(sinks, own_broker):
    run = sinks.run()
    run.commit(run.slot(0, b"a", batch=0), batch=0)
    message = run.slot(0, b"b", batch=1)
    with stopped(own_broker) as directory:
        cut_from(directory, run.options.attempt + 1)
    for _ in range(2):
        with pytest.raises(DecisionLogUnreadable, match="lost its end"):
            run.commit(message, batch=1)
    run.abort(message, batch=1)
    sinks.expect(b"a", pending=1)
