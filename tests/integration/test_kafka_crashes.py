"""The writer dies by SIGKILL, the broker dies: another process finishes what was prepared. Asserted from outside."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from demo.broker import Broker
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.lifecycle.errors import Unreachable
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.lifecycle.outcomes import Committed, RetryLater, RolledBack
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.kafka_fixtures import LIMIT_S, Sink, make_sink, wait_until
from tests.integration.pipeline_process import ROOT
from tests.integration.sink_reader import seen

pytestmark = pytest.mark.integration

FINISHER = """
import json, sys
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from indoubt.resource_managers.kafka.connection import KafkaConnection
manager = KafkaResourceManager(KafkaConnection(sys.argv[1]))
handle = Handle.from_json(json.loads(sys.argv[2]))
if sys.argv[3] == "commit":
    outcome = manager.commit([handle], [Marker(batch=0, attempt=1, checkpoint_id="L")], 20.0)
else:
    outcome = manager.rollback([handle], 20.0)
print(type(outcome[0]).__name__)
"""


def killed_writer(sink: Sink, until: str, batch: int = 0) -> Handle | None:
    """Run a writer up to ``until``, kill it, return its handle."""
    arguments = [sink.connection.bootstrap_servers, sink.topic, sink.prefix, str(batch), until]
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.kafka_writer", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )
    assert child.stdout is not None
    line = child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    assert child.wait(LIMIT_S) == -signal.SIGKILL
    child.stdout.close()
    assert line, "the writer died before it was killed"
    return Handle.from_json(json.loads(line)) if until == "prepared" else None


def finish(sink: Sink, handle: Handle, how: str) -> str:
    """Commit or roll back in a new process; return the outcome's name."""
    command = [sys.executable, "-c", FINISHER, sink.connection.bootstrap_servers, json.dumps(handle.to_json()), how]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def sink(connection) -> Sink:
    return make_sink(connection)


@pytest.mark.long
def test_writer_killed_after_prepare_is_committed_by_another_process(sink):
    handle = killed_writer(sink, "prepared")
    assert handle is not None
    assert seen(sink).total() == 0
    assert finish(sink, handle, "commit") == "Committed"
    wait_until("three committed rows", lambda: seen(sink).total() == 3)
    assert seen(sink) == Counter([b"a", b"b", b"c"])
    assert finish(sink, handle, "commit") in ("Committed", "AlreadyCommitted")
    assert seen(sink) == Counter([b"a", b"b", b"c"])


def test_writer_killed_after_prepare_is_rolled_back_by_another_process(sink):
    handle = killed_writer(sink, "prepared")
    assert handle is not None
    assert finish(sink, handle, "rollback") == "RolledBack"
    wait_until("the abort is complete", lambda: sink.view(handle.transaction).state == "CompleteAbort")
    assert finish(sink, handle, "commit") == "Lost"
    assert seen(sink).total() == 0


def test_writer_killed_before_prepare_is_found_and_fenced_by_recovery(sink):
    killed_writer(sink, "open")
    manager = sink.manager()
    views = manager.recover(sink.prefix)
    assert [view.state for view in views] == ["Ongoing"]
    assert manager.fence(views, LIMIT_S) == [""]
    assert manager.recover(sink.prefix) == []
    assert seen(sink).total() == 0


@pytest.mark.long
def test_commit_waits_for_a_broker_up_to_its_limit(tmp_path):
    with Broker(tmp_path) as broker:
        connection = KafkaConnection(broker.bootstrap_servers)
        sink = make_sink(connection)
        marker = Marker(batch=0, attempt=1, checkpoint_id="L")
        first, second = sink.prepare(b"a", slot=0), sink.prepare(b"b", slot=1)
        manager = sink.manager()
        manager.check([first, second])
        broker.kill()
        started = time.monotonic()
        assert isinstance(manager.commit([first], [marker], 1.0)[0], RetryLater)
        assert isinstance(manager.rollback([second], 1.0)[0], RetryLater)
        assert not manager.check([first])[0].ready
        assert time.monotonic() - started < 30
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(manager.commit, [first], [marker], 60.0)
            broker.start()
            assert isinstance(waiting.result(70)[0], Committed)
        assert isinstance(manager.rollback([second], 60.0)[0], RolledBack)
        wait_until("one committed row", lambda: seen(sink).total() == 1)
        assert DecisionLog(connection).read_to_end().prefixes() == frozenset()


@pytest.mark.long
def test_unreachable_broker_is_named_with_the_limit():
    connection = KafkaConnection("127.0.0.1:1")
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1.*1 s"):
        connection.reach(1.0)
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        KafkaResourceManager(connection).list_transactions()
