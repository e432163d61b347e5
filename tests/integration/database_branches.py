"""Prepared branches of a run and of somebody else, and what is decided about them without a driver."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from indoubt.lifecycle.decisions import Decision, Ruling, RunStarted
from indoubt.lifecycle.identity import Handle
from indoubt.resource_managers.database.connection import DatabaseConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import LIMIT_S
from tests.integration.database_fixtures import connect
from tests.integration.protocol_run import ProtocolRun
from tests.integration.three_sinks import Sinks


def by_kind(handles: tuple[Handle, ...]) -> dict[str, Handle]:
    """Return the handles by their resource managers."""
    return {handle.resource_manager: handle for handle in handles}


def decide(run: ProtocolRun, *handles: Handle, batch: int = 0) -> int:
    """Append the decision to commit them; return its offset."""
    log = DecisionLog(run.options.kafka())
    try:
        return log.decide(
            Decision(
                prefix=run.options.prefix,
                batch_attempt=run.batch_attempt(batch),
                ruling=Ruling.COMMIT,
                handles=handles,
                who="run",
                at_ms=time.time_ns() // 1_000_000,
            )
        )
    finally:
        log.close()


def start_another_run(run: ProtocolRun) -> None:
    """Append that a later run of the same pipeline has started."""
    log = DecisionLog(run.options.kafka())
    log.start_run(
        RunStarted(
            prefix=run.options.prefix,
            checkpoint_id=run.options.checkpoint_id,
            run=uuid.uuid4().hex[:6],
            at_ms=time.time_ns() // 1_000_000,
        )
    )
    log.close()


def foreign_branch(sinks: Sinks, kind: str) -> str:
    """Prepare somebody else's transaction that has written one row; return its name as the collector shows it."""
    id_, connection = f"bank-{uuid.uuid4().hex[:8]}", sinks.databases[kind].connection
    driver = connect(connection)
    with driver.cursor() as cursor:
        insert = f"insert into {sinks.table} values (%s)"  # noqa: S608 (a name made here)
        if kind == "mysql":
            for statement in (f"xa start '{id_}','7',9", insert, f"xa end '{id_}','7',9", f"xa prepare '{id_}','7',9"):
                cursor.execute(statement, (b"foreign",) if statement == insert else None)
        else:
            cursor.execute("begin")
            cursor.execute(insert, (b"foreign",))
            cursor.execute(f"prepare transaction '{id_}'")
    driver.close()
    return id_ if kind == "postgres" else f"'{id_}','7',9"


@contextmanager
def waiting_for_the_table(connection: DatabaseConnection, table: str) -> Iterator[threading.Event]:
    """Let a session wait for a lock on the table that excludes everybody's; yield the event of its having got it."""
    driver, got = connect(connection), threading.Event()

    def lock() -> None:
        with driver.cursor() as cursor:
            cursor.execute("set application_name = 'nightly-job'")
            cursor.execute("begin")
            cursor.execute(f"lock table {table} in access exclusive mode")
            got.set()
            cursor.execute("rollback")

    thread = threading.Thread(target=lock)
    thread.start()
    try:
        yield got
    finally:
        thread.join(LIMIT_S)
        driver.close()
