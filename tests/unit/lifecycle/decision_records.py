"""Records of a decision log, of one run and one handle where nothing else is asked for."""

from __future__ import annotations

from indoubt.lifecycle.decisions import (
    BatchAttempt,
    CheckpointTakenOver,
    Decision,
    Kept,
    Outcome,
    Ruling,
    RunStarted,
    Settled,
    Snapshot,
)
from tests.unit.lifecycle.test_identity import HANDLE


def run(checkpoint_id="L", prefix="p", name="r"):
    return RunStarted(prefix=prefix, checkpoint_id=checkpoint_id, run=name, at_ms=1)


def decision(attempt, batch=0, ruling=Ruling.COMMIT, checkpoint_id="L", prefix="p", who="run", handles=(HANDLE,)):
    batch_attempt = BatchAttempt(checkpoint_id=checkpoint_id, batch=batch, attempt=attempt)
    return Decision(prefix=prefix, batch_attempt=batch_attempt, ruling=ruling, handles=handles, who=who, at_ms=2)


def taken_over(attempt, checkpoint_id="L", new_checkpoint_id="N", prefix="p2"):
    new = {"sink": "s", "decisions": "d", "location": "file:///c"}
    return CheckpointTakenOver(
        prefix=prefix, checkpoint_id=checkpoint_id, attempt=attempt, new_checkpoint_id=new_checkpoint_id, at_ms=4, **new
    )


def outcome(of, settled, *handles):
    keys = tuple(handle.key for handle in handles or (HANDLE,))
    return Outcome(
        prefix=of.prefix, batch_attempt=of.batch_attempt, handle_keys=keys, settled=settled, who="recovery", at_ms=3
    )


COMMIT, ABORT = Ruling.COMMIT, Ruling.ABORT


SNAPSHOT = Snapshot(
    prefix="p",
    begin=1,
    covers=9,
    kept=(
        Kept(offset=0, counts=True, record=run()),
        Kept(offset=3, counts=False, record=decision(0)),
        Kept(offset=4, counts=True, record=outcome(decision(0), Settled.COMMITTED)),
        Kept(offset=5, counts=True, record=taken_over(0)),
    ),
    who="run 0",
    at_ms=4,
)
