"""Where a batch ends, and how its partitions are divided among tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indoubt.pipeline.source.batch_offsets import bounded, by_partition, by_topic, divided

offsets = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 12)), st.integers(0, 10**12), min_size=1
)


@given(offsets)
def test_offsets_are_what_spark_writes(found):
    assert by_partition(by_topic(found)) == found


@given(offsets, st.dictionaries(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 12)), st.integers(0, 10**6)))
def test_a_batch_is_bounded_and_no_partition_starves(starts, sizes):
    ends = {partition: starts.get(partition, 0) + size for partition, size in sizes.items()}
    most = 1_000
    found = bounded(starts, ends, most)
    taken = {partition: end - starts.get(partition, 0) for partition, end in found.items()}
    assert all(0 <= taken[partition] <= sizes[partition] for partition in sizes)
    assert sum(taken.values()) <= most + len(sizes)
    assert all(taken[partition] > 0 for partition, size in sizes.items() if size)
    if sum(sizes.values()) <= most:
        assert found == ends


def test_no_partition_goes_back():
    assert bounded({("t", 0): 9, ("t", 1): 5}, {("t", 0): 7, ("t", 1): 8}, 100) == {("t", 0): 9, ("t", 1): 8}


@given(offsets, st.integers(1, 5), st.integers(1, 10**6))
def test_each_record_is_read_by_one_task_and_a_repeated_batch_has_the_same_tasks(ends, tasks, task_records):
    start, end = by_topic(dict.fromkeys(ends, 3)), by_topic(ends)
    found = divided(start, end, tasks, task_records)
    backwards = {topic: dict(reversed(parts.items())) for topic, parts in reversed(end.items())}
    assert found == divided(start, backwards, tasks, task_records), "whatever the order of what Spark kept"
    ranges = {(part.topic, part.partition): (part.start, part.end) for task in found for part in task}
    assert len(ranges) == sum(len(task) for task in found)
    assert ranges == {partition: (3, offset) for partition, offset in ends.items() if offset > 3}
    assert len(found) <= tasks
    assert all(found), "no task is without records"


@pytest.mark.parametrize(
    ("records", "tasks"), [([10, 0], 1), ([100, 0], 1), ([60, 60], 2), ([200, 1, 1], 3), ([500] * 5, 3)]
)
def test_a_batch_of_few_records_has_few_tasks(records, tasks):
    found = divided({}, by_topic({("t", number): size for number, size in enumerate(records)}), 3, 100)
    assert len(found) == tasks


def test_the_largest_partition_has_a_task_of_its_own():
    found = divided({}, {"t": {"0": 10, "1": 10, "2": 1_000, "3": 10}}, 2, 1)
    assert sorted([part.partition for part in task] for task in found) == [[0, 1, 3], [2]]
