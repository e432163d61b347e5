"""Zombies: writers and runs that were given up for dead, and act again. They write nothing that anybody sees."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.pipeline.config.settings import ROOT
from indoubt.pipeline.runtime.crash_points import CrashPoint
from indoubt.pipeline.sink import coordinator
from indoubt.resource_managers.protocol import OpenTransaction, SlotAttempt
from tests.integration.kafka_fixtures import fingerprint_of
from tests.integration.pipeline_process import wait_until
from tests.integration.protocol_run import ProtocolRun, ProtocolSinks, at, protocol_sinks, rows

pytestmark = pytest.mark.integration
SERVERS = {"kafka": (), "mysql": ("mariadb",), "postgres": ("postgres",)}
WHERE_IT_STOPS = [
    pytest.param(kind, point, marks=[pytest.mark.long] if kind != "kafka" and point != "while-writing" else [])
    for kind in SERVERS
    for point in ("before-begin", "while-writing", "after-flush")
]
"""Each starts a process: of the databases only the middle in the short run."""


@pytest.fixture(params=SERVERS)
def sinks(request, connection, tmp_path) -> ProtocolSinks:
    servers = [request.getfixturevalue(name) for name in SERVERS[request.param]]
    return protocol_sinks(connection, tmp_path, servers, [request.param])


class FrozenSlot:
    """A task's process that has stopped itself by SIGSTOP at a named step."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def wake(self) -> dict[str, Any]:
        """Let it go on; return what it tells in the end: its handles, or an error."""
        self._process.send_signal(signal.SIGCONT)
        told, _ = self._process.communicate(timeout=90)
        return json.loads(told)


@contextmanager
def frozen_slot(run: ProtocolRun, directory: Path, point: str, slot: int, *values: str) -> Iterator[FrozenSlot]:
    """Start the task of one slot of batch 0, and wait until it stands still at ``point``."""
    points = directory / "crash-points"
    points.mkdir()
    (points / point).write_text("freeze-worker")
    options = replace(run.options, crash_points=str(points)).to_spark()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.slot_process"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps({"options": options, "slot": slot, "batch": 0, "values": values}) + "\n")
        process.stdin.flush()
        stat = Path(f"/proc/{process.pid}/stat")
        wait_until(f"the writer at {point}", lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
        yield FrozenSlot(process)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("sinks", "point"), WHERE_IT_STOPS, indirect=["sinks"])
def test_a_zombie_woken_after_sigstop_is_fenced_and_shows_nothing(sinks, tmp_path, point):
    with frozen_slot(sinks.run(), tmp_path, point, 0, "zombie") as zombie:
        successor = sinks.run()
        successor.commit(successor.slot(0, b"successor"))
        sinks.expect(b"successor", pending=0)
        told = zombie.wake()
    assert told["error"] in ("Fenced", "ZombieWriter", "Unreachable", "ResourceManagerError"), told
    sinks.expect(b"successor", pending=0)


def test_a_prepared_zombie_is_rolled_back_and_its_handle_commits_nothing(sinks, tmp_path):
    run = sinks.run()
    with frozen_slot(run, tmp_path, "slot-prepared", 0, "zombie") as zombie:
        successor = sinks.run()
        assert successor.recovered.rolled_back == 1
        successor.commit(successor.slot(0, b"successor"))
        (handle,) = [Handle.from_json(found) for found in zombie.wake()["handles"]]
    (readiness,) = run.managers.check([handle])
    assert not readiness.ready
    sinks.expect(b"successor", pending=0)


def open_slot(run: ProtocolRun, slot: int) -> OpenTransaction:
    """Begin a slot of batch 0 as its task does, and write nothing yet."""
    marker = Marker(batch=0, attempt=run.options.attempt, checkpoint_id=run.options.checkpoint_id)
    (manager,) = run.managers._managers.values()
    return manager.begin(SlotAttempt(prefix=run.options.prefix, slot=slot, marker=marker))


def test_a_zombie_executors_late_transaction_is_swept_again(sinks):
    zombie_run = sinks.run()
    before = open_slot(zombie_run, 2) if sinks.names == ("kafka",) else None
    run = sinks.run()
    assert run.recovered.rolled_back == 0, "nothing was there to be swept yet"
    zombie = before or open_slot(zombie_run, 2)
    zombie.write(rows(b"zombie"))
    zombie.prepare(fingerprint_of())
    assert sinks.pending() == 1
    swept = run.recovery.sweep_unused(run.options.attempt)
    assert swept == (sinks.names != ("kafka",)), (
        "a branch says its attempt; of a pooled id, nobody knows yet whose it is"
    )
    for batch in range(2):
        run.commit(run.slot(0, b"batch %d" % batch, batch=batch), batch=batch)
    under_way = run.slot(0, b"batch 2", batch=2)
    run.recovery.sweep_unused(run.options.attempt)
    sinks.expect(b"batch 0", b"batch 1", pending=1)
    run.commit(under_way, batch=2)
    sinks.expect(b"batch 0", b"batch 1", b"batch 2", pending=0)


@pytest.mark.parametrize("ahead_s", [-3600, 3600])
def test_a_sweep_spares_the_batch_under_way_with_any_clock(sinks, monkeypatch, ahead_s):
    """Batch 1 has more slots than batch 0, and lasts for several looks."""
    run = sinks.run()
    with monkeypatch.context() as skewed:
        skewed.setattr(coordinator, "now_ms", lambda: now_ms() + ahead_s * 1000)
        first = run.slot(0, b"a")
        assert run.recovery.sweep_unused(run.options.attempt) == 0
        run.commit(first)
    under_way = [run.slot(slot, b"b", batch=1) for slot in range(2)]
    for _ in range(3):
        assert run.recovery.sweep_unused(run.options.attempt) == 0
    at(monkeypatch, CrashPoint.AFTER_DECISION, lambda: run.recovery.sweep_unused(run.options.attempt))
    run.commit(*under_way, batch=1)
    sinks.expect(b"a", b"b", b"b", pending=0)


def test_a_run_that_was_superseded_sweeps_nothing_of_the_later_one(sinks):
    earlier = sinks.run()
    later = sinks.run()
    message = later.slot(0, b"a")
    earlier.recovery.sweep()
    later.commit(message)
    sinks.expect(b"a", pending=0)


def test_a_changed_number_of_tasks_after_a_restart_leaves_no_orphan(sinks):
    run = sinks.run()
    run.commit(*(run.slot(slot, b"%d" % slot) for slot in range(2)))
    for slot in range(5):
        run.slot(slot, b"undecided", batch=1)
    sinks.expect(b"0", b"1", pending=5)
    fewer = sinks.run()
    assert fewer.recovered.rolled_back == 5
    fewer.commit(fewer.slot(0, b"2", batch=1), batch=1)
    sinks.expect(b"0", b"1", b"2", pending=0)
    fewer.slot(0, b"undecided", batch=2)
    more = sinks.run()
    assert more.recovered.rolled_back == 1
    more.commit(*(more.slot(slot, b"3", batch=2) for slot in range(4)), batch=2)
    sinks.expect(b"0", b"1", b"2", *[b"3"] * 4, pending=0)
    assert more.recovery.sweep() == 0
