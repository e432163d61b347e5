"""The decision log as the collector reads it: parts, snapshots, a head that is gone, a newer program's records."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from indoubt.collector.history.store import Store
from indoubt.collector.records.decision_reading import DecisionReading, Entry
from indoubt.collector.records.observations import DecisionSeen, FoldedRecord, Observed, Position
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.replay import DECISIONS_OF_EACH
from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decision_parts import encode_within
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Outcome, Ruling, RunStarted, Settled, Snapshot, encode
from indoubt.lifecycle.errors import DecisionLogUnreadable
from tests.unit.collector.observations import T0, checkpoint_taken_over, handle
from tests.unit.lifecycle.ledgers import fold

TOPIC = "transaction_decisions"
BYTES = 2_000
NEWER = b'{"version":2,"type":"run_started","prefix":"p","at_ms":1}'


def run(number: int, checkpoint_id: str = "L", prefix: str = "p") -> RunStarted:
    return RunStarted(prefix=prefix, checkpoint_id=checkpoint_id, run=f"run-{number}", at_ms=T0 + number)


def commit(attempt: int, batch: int = 0, handles: int = 1, checkpoint_id: str = "L") -> Decision:
    listed = tuple(handle(f"p-{slot}-{batch % 2}", epoch=batch, slot=slot) for slot in range(handles))
    batch_attempt = BatchAttempt(checkpoint_id=checkpoint_id, batch=batch, attempt=attempt)
    return Decision(
        prefix="p", batch_attempt=batch_attempt, ruling=Ruling.COMMIT, handles=listed, who="r", at_ms=T0 + batch
    )


def committed(decision: Decision) -> Outcome:
    keys = tuple(one.key for one in decision.handles)
    return Outcome(
        prefix="p",
        batch_attempt=decision.batch_attempt,
        handle_keys=keys,
        settled=Settled.COMMITTED,
        who="r",
        at_ms=decision.at_ms,
    )


def snapshot(ledger: DecisionLedger, begin: int | None = None) -> Snapshot:
    covers = ledger.next_offset
    begin = covers if begin is None else begin
    return Snapshot(prefix="p", begin=begin, covers=covers, kept=ledger.kept(), who="r", at_ms=T0)


def values(*records: FoldedRecord | Snapshot) -> list[bytes]:
    return [encode(record) for record in records]


def read(reading: DecisionReading, log: Sequence[bytes | None], start: int = 0) -> list[Entry]:
    return [entry for offset in range(start, len(log)) for entry in reading.read(offset, log[offset])]


def folded(entries: Sequence[Entry]) -> DecisionLedger:
    """Return the ledger as the collector folds it."""
    ledger = DecisionLedger()
    for entry in entries:
        assert entry.record is not None
        if entry.counts is None:
            ledger.apply(entry.offset, entry.record)
        else:
            ledger.repeat(replace(KEPT, offset=entry.offset, counts=entry.counts, record=entry.record))
    return ledger


FIRST, SECOND = commit(0, batch=7), commit(0, batch=8)
# A run of another checkpoint id under the same prefix makes a decision of the first one void; a third run leaves it out of a
# snapshot.
RECORDS: list[FoldedRecord] = [
    run(0),
    FIRST,
    committed(FIRST),
    SECOND,
    run(1, checkpoint_id="M"),
    commit(0, batch=9),
    run(2, checkpoint_id="N"),
    run(3, checkpoint_id="M"),
]
(KEPT, *_) = fold(enumerate(RECORDS)).kept()


def test_what_stands_in_the_log_is_read_in_its_order() -> None:
    reading = DecisionReading(TOPIC, known=0, start=0)
    log = [*values(*RECORDS[:2]), b"{half", values(RECORDS[2])[0]]
    entries = read(reading, log)
    assert [(entry.offset, entry.record, bool(entry.error)) for entry in entries] == [
        (0, RECORDS[0], False),
        (1, RECORDS[1], False),
        (2, None, True),
        (3, RECORDS[2], False),
    ]
    assert (reading.next_offset, reading.begin, reading.lack) == (4, 4, "")


def test_a_record_in_parts_is_whole_with_its_last_part_and_once() -> None:
    large = commit(0, handles=12)
    parts = encode_within(large, BYTES)
    assert len(parts) > 2
    log = [values(run(0))[0], *parts[:-1], values(run(9, prefix="q", checkpoint_id="Q"))[0], parts[-1]]
    reading = DecisionReading(TOPIC, known=0, start=0)
    entries = read(reading, log)
    assert [(entry.offset, entry.record) for entry in entries[-2:]] == [
        (len(log) - 2, run(9, prefix="q", checkpoint_id="Q")),
        (len(log) - 1, large),
    ]
    assert reading.begin == len(log)


def test_parts_outlive_a_restart_at_any_place() -> None:
    large = commit(0, handles=12)
    parts = encode_within(large, BYTES)
    log = [values(run(0))[0], parts[0], values(committed(large))[0], *parts[1:], values(run(1))[0]]
    for known in range(1, len(log)):
        before = DecisionReading(TOPIC, known=0, start=0)
        seen = read(before, log[:known])
        assert before.next_offset == known
        begin = before.begin
        assert begin == (1 if 2 <= known <= len(log) - 2 else known)
        seen += read(DecisionReading(TOPIC, known=known, start=begin), log, start=begin)
        assert [entry.offset for entry in seen] == [0, 2, len(log) - 2, len(log) - 1], "each of them once"
        assert seen[2].record == large


def test_what_a_newer_program_wrote_ends_the_reading_and_is_named() -> None:
    reading = DecisionReading(TOPIC, known=0, start=0)
    assert len(read(reading, values(run(0), FIRST))) == 2
    for offset, value in ((2, NEWER), (3, values(run(1))[0])):
        with pytest.raises(DecisionLogUnreadable, match=r"at offset 2 what a newer program .* Update the collector"):
            reading.read(offset, value)
    assert reading.next_offset == 2, "it is read again from there"


def test_a_record_that_is_missing_inside_the_log_is_no_void_one() -> None:
    reading = DecisionReading(TOPIC, known=0, start=0)
    reading.read(0, values(run(0))[0])
    with pytest.raises(DecisionLogUnreadable, match=r"no record at offset 1, the next one is at 4: .*compacted"):
        reading.read(4, values(FIRST)[0])


def test_a_head_that_is_gone_without_a_snapshot_says_nothing_is_void() -> None:
    reading = DecisionReading(TOPIC, known=0, start=3)
    assert read(reading, [None] * 3 + values(*RECORDS[3:]), start=3) == []
    assert reading.next_offset is None
    assert "from offset 0 to 2 are gone, and no snapshot stands for them" in reading.lack


@pytest.mark.parametrize("known", [0, 2, 4])
def test_a_snapshot_stands_for_what_is_gone(known: int) -> None:
    whole = fold(enumerate(RECORDS))
    late = commit(7, batch=3, checkpoint_id="M")
    log = values(*RECORDS, snapshot(whole), late, committed(late))
    start = len(RECORDS) - 1
    reading = DecisionReading(TOPIC, known=known, start=start)
    entries = read(reading, log, start=start)
    assert (reading.next_offset, reading.lack) == (len(log), "")
    offsets = [entry.offset for entry in entries]
    assert offsets == sorted(set(offsets)), "each once, in log order"
    assert min(offsets) >= known, "what history has is not told again"
    if known == 0:
        ledger = folded(entries)
        everything = fold(enumerate([*RECORDS, snapshot(whole), late, committed(late)]))
        assert ledger.prefixes() == everything.prefixes()
        assert ledger.latest_run("p") == everything.latest_run("p")
        assert [ledger.last_decided_batch(checkpoint_id) for checkpoint_id in "LMN"] == [8, 3, None]
        assert ledger.listing(SECOND.handles[0].key) == everything.listing(SECOND.handles[0].key)
        void = BatchAttempt(checkpoint_id="L", batch=9, attempt=0)
        assert ledger.first(void) == everything.first(void)
        assert not ledger.first(void)[2], "the run that made it void is not repeated, that it is void is"  # type: ignore[index]


def test_a_snapshot_of_which_a_part_is_gone_too_stands_for_nothing() -> None:
    whole = fold(enumerate(RECORDS))
    log = values(*RECORDS, snapshot(whole), run(20, checkpoint_id="Q", prefix="q"))
    start = len(RECORDS)
    late = snapshot(whole, begin=start - 1)
    log[start] = encode(late)
    reading = DecisionReading(TOPIC, known=0, start=start)
    assert read(reading, log, start=start) == []
    good = snapshot(fold([*enumerate(RECORDS), (start, late), (start + 1, run(20, checkpoint_id="Q", prefix="q"))]))
    entries = reading.read(len(log), encode(good))
    assert entries
    assert reading.lack == ""


def test_a_snapshot_changes_nothing_for_who_has_read_all() -> None:
    reading = DecisionReading(TOPIC, known=0, start=0)
    entries = read(reading, values(*RECORDS, snapshot(fold(enumerate(RECORDS)))))
    assert len(entries) == len(RECORDS)
    assert reading.next_offset == len(RECORDS) + 1


def observed(entry: Entry) -> Observed:
    assert entry.record is not None
    seen = DecisionSeen(offset=entry.offset, record=entry.record, counts=entry.counts)
    position = Position(source=TOPIC, partition=0, offset=entry.offset)
    return Observed(position=position, observation=seen, raw=encode(entry.record).decode())


def state_over(store: Store) -> CurrentState:
    current = CurrentState(store, settled_kept=10, checkpoints_kept=10, limits=Limits())
    current.load()
    return current


def answers(current: CurrentState) -> list[object]:
    with current.reading() as state:
        ledger = state.ledger
        batch_attempts = [BatchAttempt(checkpoint_id="L", batch=batch, attempt=0) for batch in (7, 8, 9)]
        return [
            ledger.latest_run("p"),
            *(ledger.first(batch_attempt) for batch_attempt in batch_attempts),
            ledger.last_decided_batch("L"),
        ]


def test_history_keeps_whether_a_record_counts_and_counts_each_once(tmp_path: Path) -> None:
    log = values(*RECORDS, snapshot(fold(enumerate(RECORDS))))
    reading = DecisionReading(TOPIC, known=0, start=len(RECORDS))
    entries = read(reading, log, start=len(RECORDS))
    assert reading.next_offset is not None
    with closing(Store(tmp_path / "history.duckdb")) as store:
        current = state_over(store)
        current.observe(
            [observed(entry) for entry in entries], {(TOPIC, 0): reading.next_offset, (f"{TOPIC}/again", 0): 8}
        )
        before, counted = answers(current), current.counts()
    with closing(Store(tmp_path / "history.duckdb")) as store:
        again = state_over(store)
        assert (answers(again), again.counts()) == (before, counted)
        assert counted == (len(entries), 0)
        assert (store.next_offsets(TOPIC), store.next_offsets(f"{TOPIC}/again")) == ({0: len(log)}, {0: 8})


def test_a_takeover_is_known_from_a_snapshot_and_from_history(tmp_path: Path) -> None:
    adopting = run(6, checkpoint_id="L", prefix="q")
    over = checkpoint_taken_over(7, attempt=6, prefix="q", checkpoint_id="L").record
    records = [*RECORDS[:6], adopting, over, run(8), commit(8, batch=10)]
    whole = fold(enumerate(records))
    assert whole.taken_over("L") == (7, over)
    assert whole.counting(BatchAttempt(checkpoint_id="L", batch=10, attempt=8)) is None
    log = values(*records, snapshot(whole))
    reading = DecisionReading(TOPIC, known=0, start=len(records))
    entries = read(reading, log, start=len(records))
    with closing(Store(tmp_path / "history.duckdb")) as store:
        state_over(store).observe([observed(entry) for entry in entries])
    with closing(Store(tmp_path / "history.duckdb")) as store, state_over(store).reading() as state:
        assert state.ledger.taken_over("L") == (7, over)
        assert state.pipelines["q"].logged_ms == T0 + 6, "the later of its records"
        assert not state.ledger.apply(len(log), commit(8, batch=11))


def test_a_decision_counts_as_before_when_older_records_left_history(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "history.duckdb")) as store:
        current = state_over(store)
        current.observe([observed(Entry(offset=n, value=None, record=one)) for n, one in enumerate(RECORDS)])
        store.flushed()
        # The run that made batch 9 void: starts of runs stay, but a size limit or a hand may take them.
        store.transact([('delete from decision_records where "offset" in (0, 4)', [])])
        expected = answers(current)[1:]
    with closing(Store(tmp_path / "history.duckdb")) as store:
        assert answers(state_over(store))[1:] == expected


def test_an_idle_pipeline_is_loaded_however_much_others_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indoubt.collector.views.replay.DECISIONS_LOADED", 3)
    monkeypatch.setattr("indoubt.collector.views.replay.DECISIONS_OF_EACH", 2)
    assert DECISIONS_OF_EACH > 2
    records: list[FoldedRecord] = [run(0), SECOND]
    records += [replace(run(n, checkpoint_id="Q"), prefix="busy") for n in range(2)]
    records += [replace(commit(2, batch=n, checkpoint_id="Q"), prefix="busy") for n in range(20)]
    with closing(Store(tmp_path / "history.duckdb")) as store:
        state_over(store).observe([observed(Entry(offset=n, value=None, record=one)) for n, one in enumerate(records)])
    with closing(Store(tmp_path / "history.duckdb")) as store, state_over(store).reading() as state:
        assert state.ledger.listing(SECOND.handles[0].key) is not None
        assert state.last_decided["L"].batch == 8


def test_what_a_newer_collector_left_in_history_makes_the_log_unreadable(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "history.duckdb")) as store:
        newer = replace(observed(Entry(offset=5, value=None, record=run(0))), raw=NEWER.decode())
        state_over(store).observe([newer])
    with closing(Store(tmp_path / "history.duckdb")) as store:
        current = state_over(store)
        current.see_decision_log(DecisionLogStatus.READABLE)
        status, error = current.decision_log_status
        assert status is DecisionLogStatus.UNREADABLE
        assert "at offset 5, what a newer collector wrote" in error
