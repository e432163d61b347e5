"""What Spark reports of a batch becomes marks."""

from __future__ import annotations

import pytest

from benchmarks.figures import Mark
from benchmarks.spark_run import SPARK, Batch, SparkRun, marks, read_progress


def test_progress_becomes_a_batch():
    progress = {
        "batchId": 3,
        "timestamp": "2026-11-21T12:00:00.250Z",
        "numInputRows": 0,  # as where Spark does not read the records itself
        "sources": [
            {"startOffset": {"s": {"0": 1_000_000, "1": 5}}, "endOffset": {"s": {"0": 2_000_000, "1": 250_005}}}
        ],
        "durationMs": {"addBatch": 1700, "triggerExecution": 2000},
    }
    batch = read_progress(progress)
    assert (batch.number, batch.rows, batch.durations_ms["addBatch"]) == (3, 1_250_000, 1700)
    assert batch.ended_s - batch.started_s == pytest.approx(2.0)
    assert batch.started_s % 1 == pytest.approx(0.25)


def test_marks_add_up_the_rows():
    batches = [
        Batch(number=n, started_s=float(n), ended_s=n + 0.9, rows=rows, durations_ms={})
        for n, rows in enumerate((10, 20, 5))
    ]
    assert marks(batches) == [
        Mark(at_s=0.9, records=10),
        Mark(at_s=1.9, records=30),
        Mark(at_s=2.9, records=35),
    ]


@pytest.mark.parametrize(
    ("side", "guarantee"),
    [("exactly_once", "exactly_once"), ("at_least_once", "at_least_once"), (SPARK, "exactly_once")],
)
def test_a_side_is_a_guarantee_of_our_sink_or_sparks_own(side, guarantee):
    run = SparkRun(
        side=side, bootstrap_servers="h:1", source="a", sink="b", checkpoint="c", batch_records=7, prefix="p"
    )
    assert run.settings().delivery_guarantee == guarantee
    assert run.settings().max_offsets_per_trigger == 7
