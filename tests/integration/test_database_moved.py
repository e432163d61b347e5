"""A batch is committed and its driver gone before anybody noted it; then the pipeline finds its rows, and none of our markers.

So it is after it was pointed at another server that only its table was copied to, or after a restore that left our tables out.
"""

from __future__ import annotations

import pytest

from demo.database_server import DatabaseServer
from indoubt.lifecycle.decisions import Decision, Ruling, Settled
from indoubt.lifecycle.errors import ResourceManagerError
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.pipeline.recovery.settle_command import settle
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.database_fixtures import ask
from tests.integration.protocol_run import LIMIT_S, ProtocolRun, ProtocolSinks, protocol_sinks

pytestmark = pytest.mark.integration


@pytest.fixture(params=["mariadb", "postgres"])
def server(request) -> DatabaseServer:
    return request.getfixturevalue(request.param)


@pytest.fixture
def sinks(connection, server, tmp_path) -> ProtocolSinks:
    return protocol_sinks(connection, tmp_path, [server], [server.kind])


def decide(sinks: ProtocolSinks, run: ProtocolRun, value: bytes, batch: int = 0) -> Handle:
    (handle,) = run.slot(0, value, batch=batch).handles
    DecisionLog(sinks.connection).decide(
        Decision(
            prefix=sinks.prefix,
            batch_attempt=run.batch_attempt(batch),
            ruling=Ruling.COMMIT,
            handles=(handle,),
            who="a run",
            at_ms=0,
        )
    )
    return handle


def move(server: DatabaseServer, run: ProtocolRun) -> None:
    """Leave the rows there and take away what we keep beside them."""
    ask(server.connection, "delete from indoubt_markers where checkpoint_id = %s", (run.options.checkpoint_id,))


@pytest.mark.parametrize("outcome", [Settled.COMMITTED, Settled.LOST])
def test_a_database_that_never_saw_the_run_is_asked_nothing(sinks, server, outcome):
    run = sinks.run()
    handle = decide(sinks, run, b"a")
    marker = Marker(batch=0, attempt=run.options.attempt, checkpoint_id=run.options.checkpoint_id)
    run.managers.commit([handle], [marker], LIMIT_S)
    move(server, run)
    with pytest.raises(ResourceManagerError, match=r"it is unknown .*did not see run .*pipeline settle"):
        sinks.run()
    assert settle(sinks.pipeline_settings(), outcome, "somebody", [], yes=True) == 0
    later = sinks.run()
    later.commit(later.slot(0, b"a"))
    sinks.expect(*[b"a"] * (1 if outcome is Settled.COMMITTED else 2), pending=0)


def test_a_database_that_saw_the_run_proves_that_a_branch_was_rolled_back(sinks):
    run = sinks.run()
    for batch in (0, 1):
        run.commit(run.slot(0, b"%d" % batch, batch=batch), batch=batch)
    again = sinks.run()
    again.roll_back(decide(sinks, again, b"a", batch=2))
    assert sinks.run().recovered.lost == 1
