"""Expiry: markers, transactional ids and segments expire while the pipeline is stopped, crashed or idle."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from indoubt.lifecycle.decisions import Settled
from indoubt.lifecycle.identity import Handle
from indoubt.pipeline.config.settings import ROOT
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.crash.catalogue import DECIDED_POINTS
from tests.crash.random_hits import Traffic
from tests.crash.run import Run
from tests.crash.schedule import Strike
from tests.crash.steps import (
    REACH_LIMIT_S,
    WHO,
    FaultMissed,
    await_running_query,
    decided,
    reach_point,
    stop,
)

EXPIRY_LIMIT_S = 240.0
SETTLE_LIMIT_S = 120.0
ANSWER_LIMIT_S = 30.0
UNKNOWN = "it is unknown whether"
LIFECYCLE = "transaction_lifecycle"


def expired_after_stop(run: Run, planned: Strike) -> None:
    """Stop in order, let everything expire, start: the pipeline must continue, because it settled everything at the stop."""
    stop(run)
    await_expiry(run)
    run.take_over(run.start_another())


def expired_while_running(run: Run, planned: Strike) -> None:
    """Let a run outlive Kafka's retention, then kill its driver at the point. Hard: under traffic, so only segments expire."""
    await_running_query(run)
    if planned.hard:
        with Traffic(run):
            await_segments(run)
    else:
        await_expiry(run)
    reach_point(run, planned, "kill", planned.point)


def expired_after_crash(run: Run, planned: Strike) -> None:
    """Kill everything at the point and let everything expire. An undecided batch is replayed.

    For a decided batch without proof the pipeline must refuse to guess. The test then acts like an operator who knows the
    outcomes, and passes them to ``pipeline settle``.
    """
    reach_point(run, planned, "freeze", planned.point)
    still_open = set(run.open_transactions())
    run.pipeline.kill_all()
    unproven = _without_outcome(run, decided(run)) if planned.point in DECIDED_POINTS else []
    await_expiry(run)
    run.take_over(run.start_another())
    if not unproven:
        return
    run.wait_until("the refusal to guess", lambda: UNKNOWN in run.pipeline.log, REACH_LIMIT_S)
    run.pipeline.kill_all()
    run.notes.append(f"{len(unproven)} handles without proof: refused, then answered by hand")
    _answer(run, [(handle, handle.transaction not in still_open) for handle in unproven])
    run.take_over(run.start_another())


def log_trimmed(run: Run, planned: Strike) -> None:
    """Cut the decision log before a snapshot while a driver is frozen at the point; then wake it (hard: kill it).

    The start of its run and its earlier decisions are then only in the snapshot.
    """
    reach_point(run, planned, "freeze", planned.point)
    attempt = int(run.pipeline.status["attempt"])
    log = DecisionLog(run.servers.connection)
    first = log.cut(log.snapshot(run.prefix, WHO), 0)
    log.close()
    if first <= attempt:
        raise FaultMissed(f"the log begins at {first}, which is not after the live run's start at {attempt}")
    run.notes.append(f"the decision log begins at {first}, the live run began at {attempt}")
    if planned.hard:
        run.pipeline.kill_driver()
    else:
        run.pipeline.wake()


def await_expiry(run: Run) -> None:
    """Wait until every earlier transactional id, marker and record of the lifecycle topic has expired."""
    began = time.monotonic()
    await_segments(run)
    run.wait_until("the expiry of the transactional ids", lambda: not run.transactional_ids(), EXPIRY_LIMIT_S)
    run.wait_until("the expiry of the markers", lambda: not run.marker_groups(), EXPIRY_LIMIT_S)
    run.notes.append(f"expired in {time.monotonic() - began:.0f} s")


def await_segments(run: Run) -> None:
    """Wait until the broker has deleted the present records of the lifecycle topic, which has the cluster's retention."""
    before = _offsets(run, OffsetSpec.latest())

    def dropped() -> bool:
        heads = _offsets(run, OffsetSpec.earliest())
        return all(heads[partition] >= end for partition, end in before.items())

    run.wait_until(f"the expiry of {LIFECYCLE} to {before}", dropped, EXPIRY_LIMIT_S)


def _offsets(run: Run, which: OffsetSpec) -> dict[int, int]:
    admin = run.servers.admin
    partitions = admin.list_topics(LIFECYCLE, timeout=ANSWER_LIMIT_S).topics[LIFECYCLE].partitions
    answers = admin.list_offsets({TopicPartition(LIFECYCLE, number): which for number in partitions})
    return {where.partition: int(answer.result(ANSWER_LIMIT_S).offset) for where, answer in answers.items()}


def _without_outcome(run: Run, handles: Sequence[Handle]) -> list[Handle]:
    """Return the handles without an outcome in the decision log: after the expiry there is no other proof."""
    log = DecisionLog(run.servers.connection)
    ledger = log.read_to_end()
    log.close()
    return [handle for handle in handles if ledger.outcome(handle.key) is None]


def _answer(run: Run, answers: Sequence[tuple[Handle, bool]]) -> None:
    """Record in the decision log whether each handle was committed or lost, as an operator does."""
    for settled in Settled:
        keys = [handle.key for handle, committed in answers if committed == (settled is Settled.COMMITTED)]
        if not keys:
            continue
        chosen = [word for key in keys for word in ("--transaction", key)]
        command = [*run.pipeline.command("settle"), "--outcome", settled.value, "--who", WHO, *chosen, "--yes"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SETTLE_LIMIT_S)
        assert done.returncode == 0, f"'pipeline settle' ended with {done.returncode}: {done.stdout}{done.stderr}"
        settled_lines = sorted(done.stdout.splitlines()[-len(keys) :])
        expected = sorted(f"{key} {settled.value}" for key in keys)
        assert settled_lines == expected, f"'pipeline settle' printed {settled_lines}"
