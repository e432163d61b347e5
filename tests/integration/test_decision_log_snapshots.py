"""The decision log stays short: large records in parts, snapshots, and what is deleted behind them, on the real log."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.decision_parts import encode_within
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Outcome, Ruling, RunStarted, Settled
from indoubt.lifecycle.errors import DecisionLogUnreadable
from indoubt.lifecycle.identity import Handle
from indoubt.pipeline.config.settings import PipelineSettings
from indoubt.pipeline.recovery.recovery import keep_short
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics import decision_log_reader
from indoubt.resource_managers.topics.decision_log import DecisionLog
from indoubt.resource_managers.topics.decision_log_topic import FORGETS_NOTHING, DecisionLogTopic
from tests.integration.test_decision_log import cut_before

pytestmark = pytest.mark.integration

HANDLE = Handle(
    resource_manager="kafka",
    transaction="p-0-0",
    producer_id=123_456,
    producer_epoch=0,
    slot=0,
    rows=100_000,
    bytes=10_000_000,
    fingerprint="100000:0123456789abcdef",
    opened_at_ms=1_700_000_000_000,
    prepared_at_ms=1_700_000_000_000,
    timeout_ms=60_000,
)


@pytest.fixture
def topic(connection) -> str:
    name = f"decisions-{uuid.uuid4().hex[:8]}"
    DecisionLog(connection, name).ensure_topic()
    return name


def start(log: DecisionLog, prefix: str = "p", checkpoint_id: str = "L") -> int:
    return log.start_run(RunStarted(prefix=prefix, checkpoint_id=checkpoint_id, run=uuid.uuid4().hex, at_ms=1))


def commit(attempt: int, batch: int = 0, handles: int = 1) -> Decision:
    listed = tuple(replace(HANDLE, producer_id=batch, producer_epoch=n, slot=n) for n in range(handles))
    batch_attempt = BatchAttempt(checkpoint_id="L", batch=batch, attempt=attempt)
    return Decision(
        prefix="p", batch_attempt=batch_attempt, ruling=Ruling.COMMIT, handles=listed, who=f"run {attempt}", at_ms=2
    )


def committed(decision: Decision) -> Outcome:
    keys = tuple(handle.key for handle in decision.handles)
    return Outcome(
        prefix="p",
        batch_attempt=decision.batch_attempt,
        handle_keys=keys,
        settled=Settled.COMMITTED,
        who=decision.who,
        at_ms=3,
    )


def batches(log: DecisionLog, attempt: int, first: int, count: int) -> None:
    """Decide and settle so many batches; all of it is in the log then."""
    for batch in range(first, first + count):
        decision = commit(attempt, batch)
        log.decide(decision)
        last = batch == first + count - 1
        (log.append if last else log.append_soon)(committed(decision))


def answers(log: DecisionLog) -> dict:
    """Return what the log says of its newest run and last batch."""
    ledger = log.read_to_end()
    last = ledger.last_decided_batch("L")
    return {
        "latest": ledger.latest_run("p"),
        "last": last,
        "commits": ledger.commits_of("L", last),
        "unsettled": ledger.unsettled("p"),
        "next": ledger.next_offset,
    }


def ends(connection: KafkaConnection, topic: str) -> tuple[int, int]:
    return DecisionLogTopic(connection, topic).ends()


def test_a_decision_with_ten_thousand_handles_is_written_and_read(connection, topic):
    log = DecisionLog(connection, topic)
    decision = commit(start(log), handles=10_000)
    began = time.monotonic()
    offset = log.decide(decision)
    assert time.monotonic() - began < 15
    assert offset > 2, "it stands in several records"
    ledger = DecisionLog(connection, topic).read_to_end()
    assert ledger.listing(decision.handles[9_999].key) == (offset, decision)
    log.append(committed(decision))
    assert log.read_to_end().unsettled("p") == []


def test_parts_are_no_larger_than_the_topic_takes(connection):
    name = f"decisions-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(connection.for_librdkafka())
    config = FORGETS_NOTHING | {"max.message.bytes": "18000"}
    admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(30)
    log = DecisionLog(connection, name)
    log.ensure_topic()
    decision = commit(start(log), handles=300)
    assert log.decide(decision) > 4
    listing = DecisionLog(connection, name).read_to_end().listing(decision.handles[0].key)
    assert listing is not None
    assert listing[1] == decision


def test_parts_that_nobody_finished_decide_nothing_and_hold_nobody_up(connection, topic):
    log = DecisionLog(connection, topic)
    attempt = start(log)
    *parts, _ = encode_within(commit(attempt, handles=100), 4_000)
    died = Producer(connection.for_librdkafka())
    for value in parts:
        died.produce(topic, value, partition=0)
    assert died.flush(30) == 0
    assert log.read_to_end().counting(BatchAttempt(checkpoint_id="L", batch=0, attempt=attempt)) is None
    again = commit(attempt, handles=2)
    offset = log.decide(again)
    assert DecisionLog(connection, topic).read_to_end().listing(again.handles[0].key) == (offset, again)


def test_who_starts_at_a_snapshot_says_what_who_read_all_says(connection, topic, monkeypatch):
    log = DecisionLog(connection, topic)
    whole = DecisionLog(connection, topic)
    attempt = start(log)
    batches(log, attempt, 0, 20)
    log.snapshot("p", "test")
    batches(log, attempt, 20, 3)
    open_ = commit(attempt, 23, handles=2)
    log.decide(open_)
    monkeypatch.setattr(decision_log_reader, "SHORT_LOG", 0)
    started = DecisionLog(connection, topic)
    assert answers(started) == answers(whole) == answers(log)
    assert started.newest_snapshot is not None
    assert started.read_to_end().commits_of("L", 3) == [], "it did not read what the snapshot stands for"
    assert [handle for _, handle in started.read_to_end().unsettled("p")] == list(open_.handles)


def test_a_snapshot_is_found_however_long_ago_it_was(connection, topic, monkeypatch):
    """The log's records are hours old: looked for ever further back, with one that this reader must not use on the way."""
    log = DecisionLog(connection, topic)
    attempt = start(log)
    batches(log, attempt, 0, 5)
    log.snapshot("p", "old")
    last = log.append(commit(attempt, 5))
    log.snapshot("p", "new")
    later_ms = now_ms() + 5 * 3_600_000
    monkeypatch.setattr(decision_log_reader, "SHORT_LOG", 0)
    monkeypatch.setattr(decision_log_reader, "now_ms", lambda: later_ms)
    assert _who_wrote_where_it_begins(connection, topic, None) == "new"
    assert _who_wrote_where_it_begins(connection, topic, last - 1) == "old", "the new one says what comes later"


def _who_wrote_where_it_begins(connection: KafkaConnection, topic: str, last: int | None) -> str:
    log = DecisionLog(connection, topic)
    ledger = log.read_to_end() if last is None else log.read_to(last)
    assert ledger.commits_of("L", 0) == [], "it began at the head"
    assert log.newest_snapshot is not None
    return log.newest_snapshot.who


def test_parts_around_a_snapshot_are_whole_for_who_starts_there(connection, topic):
    log = DecisionLog(connection, topic)
    attempt = start(log)
    batches(log, attempt, 0, 3)
    decision = commit(attempt, 3, handles=100)
    *parts, last = encode_within(decision, 4_000)
    slow = Producer(connection.for_librdkafka())
    for value in parts:
        slow.produce(topic, value, partition=0)
    assert slow.flush(30) == 0
    before = log.snapshot("p", "test")
    log.cut(before, keep_ms=0)
    slow.produce(topic, last, partition=0)
    assert slow.flush(30) == 0
    listing = DecisionLog(connection, topic).read_to_end().listing(decision.handles[0].key)
    assert listing is not None
    assert listing[1] == decision
    assert ends(connection, topic)[0] == before, "cut up to the first of the parts"


def test_a_log_of_many_batches_stays_short_once_it_is_cut(connection, topic):
    log, head = DecisionLog(connection, topic), DecisionLog(connection, topic)
    attempt = start(log)
    lengths = []
    for round_ in range(6):
        batches(log, attempt, 50 * round_, 50)
        log.cut(log.snapshot("p", "test"), keep_ms=0)
        first, end = ends(connection, topic)
        lengths.append(end - first)
        head.read_to_end()
    assert max(lengths) <= 5, "each snapshot stands for what was before it"
    assert len(log.read_to_end().commit_decisions("p")) <= 2, "what was read long ago left memory too"
    fresh = DecisionLog(connection, topic)
    assert answers(fresh) == answers(log) == answers(head)
    assert fresh.decide(commit(attempt, 300)), "the run that began before all of this goes on"
    newer = start(log)
    with pytest.raises(Exception, match=f"log offset {newer}"):
        fresh.decide(commit(attempt, 301))


def test_what_is_young_is_not_deleted(connection, topic):
    log = DecisionLog(connection, topic)
    attempt = start(log)
    batches(log, attempt, 0, 5)
    assert log.cut(log.snapshot("p", "test"), keep_ms=3_600_000) == 0
    assert ends(connection, topic)[0] == 0


def test_a_reader_whose_place_was_deleted_begins_again_at_a_snapshot(connection, topic):
    log, reader = DecisionLog(connection, topic), DecisionLog(connection, topic)
    attempt = start(log)
    batches(log, attempt, 0, 3)
    first_seen = answers(reader)
    # Its consumer would have fetched what comes next: an error ends it, and it is opened anew at its place.
    reader._reader.close()
    batches(log, attempt, 3, 10)
    log.cut(log.snapshot("p", "test"), keep_ms=0)
    assert ends(connection, topic)[0] > first_seen["next"]
    batches(log, attempt, 13, 2)
    assert answers(reader) == answers(log)
    assert reader.decide(commit(attempt, 15))


def test_a_cut_that_no_snapshot_covers_is_unreadable(connection, topic):
    log = DecisionLog(connection, topic)
    attempt = start(log)
    before = log.snapshot("p", "test")
    batches(log, attempt, 0, 3)
    cut_before(connection, topic, before + 3)
    with pytest.raises(DecisionLogUnreadable, match="no snapshot stands"):
        DecisionLog(connection, topic).read_to_end()


def settings(connection: KafkaConnection, topic: str, **more: str) -> PipelineSettings:
    given = {"job": "passthrough", "bootstrap_servers": connection.bootstrap_servers, "checkpoint": "/nowhere"}
    given |= {"prefix": "p", "source": "in", "sink": "out", "decisions_topic": topic}
    return PipelineSettings.read(given | more)


def test_a_pipeline_shortens_the_log_when_a_snapshot_is_due(connection, topic):
    log, other = DecisionLog(connection, topic), DecisionLog(connection, topic)
    attempt = start(log)
    batches(log, attempt, 0, 10)
    assert keep_short(log, settings(connection, topic), "L", attempt)
    assert ends(connection, topic)[0] == 0, "30 days are kept"
    assert not keep_short(other, settings(connection, topic), "L", attempt), "whoever wrote the newest one"
    now_and_then = settings(connection, topic, decisions_snapshot_interval_ms="0", decisions_keep_days="0")
    assert keep_short(other, now_and_then, "L", attempt)
    first, end = ends(connection, topic)
    assert end - first <= 2
    start(log)
    assert not keep_short(log, now_and_then, "L", attempt), "a run that was superseded leaves the log alone"


def test_a_log_that_cannot_be_shortened_stops_no_pipeline(connection, caplog):
    assert not keep_short(DecisionLog(connection, "no-such-log"), settings(connection, "no-such-log"), "L", 0)
    assert "was not shortened, which is tried again: topic 'no-such-log' does not exist" in caplog.text
