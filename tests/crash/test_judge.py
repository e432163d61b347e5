"""The judge gets histories with each defect and must name the defect: a judge that cannot fail proves nothing."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.crash.judge import (
    Anomaly,
    Kind,
    Produced,
    Record,
    Reread,
    TopicRead,
    judge_counts,
    judge_end,
    judge_sides,
    judge_table,
    judge_topic,
)

PRODUCED = Produced(counts={"a": 4, "b": 2})


def topic(*records: tuple[str, int] | bytes, partition: int = 0, first: int = 0) -> list[TopicRead]:
    """Return reads of one partition in offset order; bytes are a value that the workload did not produce."""
    return [
        TopicRead(
            partition=partition,
            offset=first + offset,
            record=record if isinstance(record, tuple) else None,
            value=b"%s:%d" % (record[0].encode(), record[1]) if isinstance(record, tuple) else record,
        )
        for offset, record in enumerate(records)
    ]


A = [("a", serial) for serial in range(4)]
B = [("b", serial) for serial in range(2)]
CLEAN = topic(*A) + topic(*B, partition=1)


def kinds(anomalies: list[Anomaly]) -> set[Kind]:
    return {anomaly.kind for anomaly in anomalies}


def judged(final: list[TopicRead], live: list[TopicRead] | None = None, produced: Produced = PRODUCED) -> set[Kind]:
    return kinds(judge_topic("out", produced, final, final if live is None else live))


def test_a_run_without_defect_is_clean():
    assert judge_topic("out", PRODUCED, CLEAN, CLEAN) == []


def test_a_reader_that_saw_less_than_the_end_is_clean():
    assert judged(CLEAN, live=CLEAN[:3]) == set()


def test_a_missing_record_is_a_lost_write_and_is_named():
    (anomaly,) = judge_topic("out", PRODUCED, topic(A[0], A[1], A[3]) + topic(*B, partition=1), [])
    assert (anomaly.kind, anomaly.count) == (Kind.LOST_WRITE, 1)
    assert "a 2" in anomaly.examples


def test_the_last_record_missing_is_a_lost_write():
    assert judged(CLEAN[:-1]) == {Kind.LOST_WRITE}


def test_a_record_twice_in_a_row_is_a_duplicate():
    assert judged(topic(A[0], A[1], A[1], A[2], A[3]) + topic(*B, partition=1)) == {Kind.DUPLICATE}


def test_a_replayed_tail_is_duplicates_out_of_order():
    assert judged(topic(*A, A[2], A[3]) + topic(*B, partition=1)) == {Kind.DUPLICATE, Kind.OUT_OF_ORDER}


def test_swapped_records_of_one_key_are_out_of_order():
    assert judged(topic(A[0], A[2], A[1], A[3]) + topic(*B, partition=1)) == {Kind.OUT_OF_ORDER}


def test_records_of_different_keys_may_stand_in_any_order():
    assert judged(topic(B[0], A[0], A[1], B[1], A[2], A[3])) == set()


def test_a_key_in_two_partitions_is_out_of_order():
    assert judged(topic(*A, B[0]) + topic(B[1], partition=1)) == {Kind.OUT_OF_ORDER}


@pytest.mark.parametrize("stray", [b"aborted", ("a", 4), ("c", 0)], ids=["harmed or aborted", "beyond", "unknown key"])
def test_a_value_that_was_not_produced_is_named(stray):
    assert judged([*CLEAN, *topic(stray, first=4)]) == {Kind.NEVER_PRODUCED}


def test_a_record_seen_and_gone_later_is_a_precommitted_read():
    # A replay wrote it at another offset, so at the end it is neither lost nor duplicated.
    seen_early = topic(A[0], first=90)
    assert judged(CLEAN, live=[*CLEAN, *seen_early]) == {Kind.PRECOMMITTED_READ}


def test_another_value_than_a_reader_saw_is_a_precommitted_read():
    assert judged(CLEAN, live=topic(A[1])) == {Kind.PRECOMMITTED_READ}


REREAD = Produced(counts={"a": 4, "b": 2}, rereads=(Reread(committed={"a": 2}, produced={"a": 3, "b": 1}),))


@pytest.mark.parametrize(
    "reads",
    [topic(*A[:2], *A) + topic(*B, partition=1), topic(*A[:3], *A) + topic(B[0], *B, partition=1)],
    ids=["what was committed for certain", "all that was produced by then"],
)
def test_a_new_checkpoint_id_reads_again_what_was_committed(reads):
    assert judged(reads, produced=REREAD) == set()


def test_a_new_checkpoint_id_that_does_not_read_again_has_lost_a_copy():
    assert judged(topic(*A) + topic(*B, partition=1), produced=REREAD) == {Kind.LOST_WRITE}


def test_a_record_of_the_new_checkpoint_id_may_not_be_there_twice():
    assert judged(topic(*A, *A) + topic(*B, partition=1), produced=REREAD) == {Kind.DUPLICATE}


def test_three_copies_are_too_many_for_two_checkpoint_ids():
    reads = topic(A[0], A[1], A[0], A[0], A[1], A[2], A[3]) + topic(*B, partition=1)
    assert Kind.DUPLICATE in judged(reads, produced=REREAD)


def test_a_surplus_copy_and_a_missing_one_do_not_cancel_out():
    reads = topic(A[0], A[1], A[1], A[0], A[2], A[3]) + topic(*B, partition=1)
    assert judged(reads, produced=REREAD) == {Kind.OUT_OF_ORDER}


def test_a_checkpoint_id_that_goes_on_in_the_middle_is_out_of_order():
    reads = topic(A[0], A[1], A[2], A[1], A[0], A[1], A[3]) + topic(*B, partition=1)
    assert Kind.OUT_OF_ORDER in judged(reads, produced=REREAD)


def table(*rows: Record | bytes) -> Counter[Record | bytes]:
    return Counter(rows)


def table_kinds(final: Counter[Record | bytes], live: dict[Record | bytes, int] | None = None) -> set[Kind]:
    return kinds(judge_table("t", PRODUCED, final, live or {}))


def test_a_table_is_judged_by_its_rows():
    assert table_kinds(table(*A, *B), {A[0]: 1, B[1]: 1}) == set()
    assert table_kinds(table(*A[:-1], *B)) == {Kind.LOST_WRITE}
    assert table_kinds(table(*A, *B, B[0])) == {Kind.DUPLICATE}
    assert table_kinds(table(*A, *B, b"stray")) == {Kind.NEVER_PRODUCED}


@pytest.mark.parametrize("seen", [{A[0]: 2}, {b"aborted": 1}], ids=["a second copy", "a stray row"])
def test_a_row_that_was_seen_in_a_table_and_is_gone_is_a_precommitted_read(seen):
    assert table_kinds(table(*A, *B), seen) == {Kind.PRECOMMITTED_READ}


def counts_kinds(final: dict[str, int], live: dict[str, list[int]] | None = None) -> set[Kind]:
    return kinds(judge_counts("t", {"a": 4, "b": 2}, final, live or {}))


def test_counts_are_judged_by_word():
    assert counts_kinds({"a": 4, "b": 2}, {"a": [1, 4], "b": [2]}) == set()
    assert counts_kinds({"a": 4}) == {Kind.LOST_WRITE}
    assert counts_kinds({"a": 3, "b": 2}) == {Kind.LOST_WRITE}
    assert counts_kinds({"a": 5, "b": 2}) == {Kind.DUPLICATE}
    assert counts_kinds({"a": 4, "b": 2, "c": 1}) == {Kind.NEVER_PRODUCED}


@pytest.mark.parametrize("values", [[1, 3, 2], [1, 5]], ids=["went back", "was higher than at the end"])
def test_a_count_that_a_reader_saw_too_early_is_a_precommitted_read(values):
    assert counts_kinds({"a": 4, "b": 2}, {"a": values}) == {Kind.PRECOMMITTED_READ}


def test_a_global_transaction_on_one_side_only_is_named():
    assert judge_sides(("out", "t"), table(*A), table(*A)) == []
    (anomaly,) = judge_sides(("out", "t"), table(*A), table(*A[:3]))
    assert anomaly.kind is Kind.ONE_SIDED
    assert "a 3: 1 in out, 0 in t" in anomaly.examples
    assert kinds(judge_sides(("out", "t"), table(*A[:3]), table(*A))) == {Kind.ONE_SIDED}


def test_what_is_left_in_doubt_and_who_waits_behind_it_is_named():
    assert judge_end([], []) == []
    assert kinds(judge_end(["kafka p-0-1"], [])) == {Kind.ORPHANED}
    assert kinds(judge_end([], ["partition 0 ends at 9, readable to 7"])) == {Kind.BLOCKED_READERS}
