"""A rule that is Spark's to keep: rows that are written over come partitioned by their key."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from demo.prerequisites import java_home
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.pipeline.config.settings import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

COUNT_WORDS = """
import json, sys
from pyspark.sql import functions as F
from indoubt.pipeline.run.driver import make_spark
from indoubt.pipeline.config.settings import PipelineSettings
from indoubt.pipeline.jobs.job import word_count

lines, checkpoint = sys.argv[1:]
settings = PipelineSettings.read({"job": "word_count", "bootstrap_servers": "unused:1", "checkpoint": checkpoint,
                                  "prefix": "p", "source": "in", "sink": "out", "tasks": "3"})
spark = make_spark(settings)
source = spark.readStream.format("text").option("maxFilesPerTrigger", 2).load(lines)

def tell(rows, batch):
    for row in rows.select(F.spark_partition_id().alias("slot"), "word", "count").collect():
        print(json.dumps([batch, row.slot, row.word, row["count"]]), flush=True)

query = word_count(source, records=False).writeStream.outputMode("update").foreachBatch(tell)
query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
spark.stop()
"""


@pytest.mark.long
def test_upserts_are_partitioned_by_key_so_that_no_two_slots_touch_one_row(tmp_path):
    """Two slots that touch one row would wait for each other's prepared locks, in PostgreSQL for ever."""
    lines = tmp_path / "lines"
    lines.mkdir()
    words = [f"word{number}" for number in range(40)]
    for file in range(4):
        (lines / f"{file}.txt").write_text("\n".join(words))
    told = subprocess.run(
        [sys.executable, "-c", COUNT_WORDS, str(lines), str(tmp_path / "checkpoint")],
        cwd=ROOT,
        env={**os.environ, "JAVA_HOME": java_home()},
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "log").open("w"),
        text=True,
        timeout=540,
        preexec_fn=die_with_parent,
    )
    assert told.returncode == 0, Path(tmp_path / "log").read_text()[-3000:]
    slots: dict[str, set[int]] = defaultdict(set)
    counts: dict[str, list[int]] = defaultdict(list)
    for _, slot, word, count in sorted(json.loads(line) for line in told.stdout.splitlines()):
        slots[word].add(slot)
        counts[word].append(count)
    assert all(len(found) == 1 for found in slots.values()), slots
    assert len(set.union(*slots.values())) == 3, "the words are dealt out over all slots"
    assert counts == {word: [2, 4] for word in words}, "absolute values, one row for each word and batch"
