"""Which sides are measured, and a table without the side that the others are compared with."""

from __future__ import annotations

import pytest

from benchmarks.sink_throughput import WORK
from benchmarks.spark_run import Batch
from benchmarks.throughput import AT_LEAST_ONCE, BOUND, EXACTLY_ONCE, FLINK_EXACTLY_ONCE, Results, chosen, report


def results() -> Results:
    batch = Batch(number=0, started_s=0.0, ended_s=1.0, rows=10, durations_ms={"addBatch": 700})
    cpu_s = [{"java": 0.5}, {"java": 0.7}]
    return Results(steady=[2e6, 3e6], whole=[1e6, 1e6], cpu_s=cpu_s, first_s=[4.0, 5.0], batches=[batch])


def test_sides_are_taken_by_name():
    assert chosen(f"{BOUND}, {EXACTLY_ONCE}", with_flink=False) == [EXACTLY_ONCE, BOUND]
    assert chosen(f"{FLINK_EXACTLY_ONCE},{AT_LEAST_ONCE}", with_flink=True) == [AT_LEAST_ONCE, FLINK_EXACTLY_ONCE]


@pytest.mark.parametrize(("text", "named"), [("nowhere", "nowhere"), (FLINK_EXACTLY_ONCE, "--flink"), ("", "no side")])
def test_sides_that_cannot_be_measured_are_refused_before_the_start(text, named):
    with pytest.raises(ValueError, match=named):
        chosen(text, with_flink=False)


def test_a_side_measured_alone_has_no_ratio(capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.machine.describe", lambda: "a machine")
    report(WORK, {BOUND: results()}, 10, 2)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "drops all" in line][:1]
    assert line.split()[-6:] == ["2,500,000", "1,000,000", "-", "2,000k-3,000k", "4.5", "s"]
