"""A snapshot of the decision log says as much as the records that it stands for, whatever they were."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import (
    BatchAttempt,
    CheckpointTakenOver,
    Decision,
    Ruling,
    RunStarted,
    Settled,
    Snapshot,
    decode,
    encode,
)
from tests.unit.lifecycle.decision_records import decision, outcome, run, taken_over
from tests.unit.lifecycle.ledgers import fold
from tests.unit.lifecycle.test_identity import HANDLE

pytestmark = pytest.mark.slow


PREFIXES, CHECKPOINT_IDS, BATCHES, SLOTS, LONGEST = ("p", "q"), ("L", "M", "N"), range(4), range(2), 24

runs = st.builds(
    RunStarted,
    prefix=st.sampled_from(PREFIXES),
    checkpoint_id=st.sampled_from(CHECKPOINT_IDS),
    run=st.just("r"),
    at_ms=st.just(1),
)
batch_attempts = st.builds(
    BatchAttempt,
    checkpoint_id=st.sampled_from(CHECKPOINT_IDS),
    batch=st.sampled_from(BATCHES),
    attempt=st.integers(min_value=0, max_value=LONGEST // 2),
)


def handles_of(batch_attempt):
    """Return the transactions of an attempt: no other attempt has them."""
    name = f"{batch_attempt.checkpoint_id}{batch_attempt.batch}{batch_attempt.attempt}"
    return tuple(replace(HANDLE, transaction=f"{name}-{slot}-{batch_attempt.batch % 2}", slot=slot) for slot in SLOTS)


@st.composite
def decisions(draw):
    batch_attempt = draw(batch_attempts)
    return Decision(
        prefix=draw(st.sampled_from(PREFIXES)),
        batch_attempt=batch_attempt,
        ruling=draw(st.sampled_from([Ruling.COMMIT, Ruling.COMMIT, Ruling.ABORT])),
        handles=handles_of(batch_attempt),
        who="w",
        at_ms=2,
    )


@st.composite
def logs(draw):
    """Return a log: a decision is often that of a recent run, or about what was decided; outcomes are of recent decisions."""
    log = []
    takeovers = st.builds(taken_over, st.integers(0, LONGEST // 2), st.sampled_from(CHECKPOINT_IDS))
    kinds = st.one_of(runs, decisions(), decisions(), st.sampled_from(Settled), takeovers)
    for record in draw(st.lists(kinds, max_size=LONGEST)):
        started = [(offset, r) for offset, r in enumerate(log) if isinstance(r, RunStarted)]
        decided = [r for r in log if isinstance(r, Decision)]
        if isinstance(record, Decision) and started and draw(st.integers(0, 3)):
            attempt, of = draw(st.sampled_from(started[-3:]))
            batch_attempt = replace(record.batch_attempt, checkpoint_id=of.checkpoint_id, attempt=attempt)
            record = replace(record, prefix=of.prefix, batch_attempt=batch_attempt, handles=handles_of(batch_attempt))
        elif isinstance(record, Decision) and decided:
            record = replace(draw(st.sampled_from(decided[-3:])), ruling=record.ruling)
        if isinstance(record, CheckpointTakenOver) and started:
            attempt, of = draw(st.sampled_from(started[-2:]))
            record = replace(record, checkpoint_id=of.checkpoint_id, attempt=attempt)
        if isinstance(record, Settled):
            if not decided:
                continue
            of = draw(st.sampled_from(decided[-3:]))
            handles = of.handles[draw(st.sampled_from([slice(0, 2), slice(0, 1), slice(1, 2)]))]
            record = outcome(of, record, *handles)
        log.append(record)
    return log


def snapshot_of(ledger: DecisionLedger) -> Snapshot:
    covers = ledger.next_offset
    taken = Snapshot(prefix="p", begin=covers, covers=covers, kept=ledger.kept(), who="w", at_ms=9)
    found = decode(encode(taken))
    assert found == taken
    return found


def answers(ledger: DecisionLedger) -> dict:
    """Return all that is asked of a ledger about what still matters."""
    decided = [kept.record for kept in ledger.kept() if isinstance(kept.record, Decision)]
    keys = [handle.key for d in decided for handle in d.handles]
    return {
        "kept": ledger.kept(),
        "newer": [
            ledger.newer_run(p, checkpoint_id, a)
            for p in PREFIXES
            for checkpoint_id in CHECKPOINT_IDS
            for a in range(-1, LONGEST)
        ],
        "latest": [ledger.latest_run(prefix) for prefix in PREFIXES],
        "prefixes": ledger.prefixes(),
        "checkpoint_ids": [set(ledger.checkpoint_ids(prefix)) for prefix in PREFIXES],
        "taken over": [ledger.taken_over(checkpoint_id) for checkpoint_id in CHECKPOINT_IDS],
        "last": [ledger.last_decided_batch(checkpoint_id) for checkpoint_id in CHECKPOINT_IDS],
        "commits": [
            ledger.commits_of(checkpoint_id, ledger.last_decided_batch(checkpoint_id) or 0)
            for checkpoint_id in CHECKPOINT_IDS
        ],
        "unsettled": [ledger.unsettled(prefix) for prefix in PREFIXES],
        "counting": [ledger.counting(d.batch_attempt) for d in decided],
        "first": [ledger.first(d.batch_attempt) for d in decided],
        "listing": [ledger.listing(key) for key in keys],
        "outcome": [ledger.outcome(key) for key in keys],
    }


@pytest.mark.long
@settings(max_examples=300, deadline=None, derandomize=True)
@given(logs(), st.integers(0, LONGEST))
def test_who_starts_at_a_snapshot_decides_as_who_read_all(log, cut):
    whole, cut = DecisionLedger(), min(cut, len(log))
    for offset, record in enumerate(log[:cut]):
        whole.apply(offset, record)
    taken = snapshot_of(whole)
    started, past = DecisionLedger.of_snapshot(taken), fold(enumerate(log[:cut]))
    past.forget_before(taken)
    for offset, record in enumerate(log[cut:], cut):
        counts = [ledger.apply(offset, record) for ledger in (whole, started, past)]
        if isinstance(record, CheckpointTakenOver) or (isinstance(record, Decision) and record.ruling is Ruling.COMMIT):
            assert len(set(counts)) == 1, f"{record} at {offset}: {counts}"
    assert answers(whole) == answers(started) == answers(past)
    assert snapshot_of(started).kept == snapshot_of(whole).kept, "a snapshot of a snapshot says as much"


def test_who_reads_past_a_snapshot_stays_as_small_as_who_starts_there():
    ledger = DecisionLedger()
    ledger.apply(0, run())
    for batch in range(100):
        decided = decision(0, batch=batch, handles=(replace(HANDLE, producer_epoch=batch),))
        ledger.apply(ledger.next_offset, decided)
        ledger.apply(ledger.next_offset, outcome(decided, Settled.COMMITTED, *decided.handles))
        ledger.forget_before(snapshot_of(ledger))
    assert len(ledger.kept()) == 3
    assert len(ledger.commit_decisions("p")) == 1
