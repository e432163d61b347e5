"""The job ip_count: how many records an IP address has in each 5 s of event time."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from indoubt.pipeline.source.topic_options import Each

WINDOW_US = 5_000_000
WINDOW = LATENESS = "5 seconds"
LAST_MS = 253_402_300_799_999
"""The end of the year 9999, and as far before 1970: no event has a time beyond."""
_WHOLE = re.compile(rb"[\x00-\x20]*([+-]?0*[0-9]{1,18})[\x00-\x20]*")
"""As Spark reads a number; one of more digits is no time."""
_TIME = pa.timestamp("us", "UTC")
_COUNTS = pa.schema([("ip", pa.binary()), ("event_time", _TIME), ("records", pa.int64())])


def count_each(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return how many of these records each IP has in each window, with the latest event time of them.

    Those whose value cannot be read are counted in a row without IP.
    """
    values = rows.column("value")
    parts = pc.split_pattern(values, ",")
    whole = pc.fill_null(pc.greater_equal(pc.list_value_length(parts), 2), fill_value=False)
    parts = parts.filter(whole)
    ips, event_ms = pc.list_element(parts, 0), _event_ms(pc.list_element(parts, 1))
    readable = pc.and_(pc.is_valid(event_ms), pc.not_equal(ips, b""))
    if not pc.all(readable).as_py():
        ips, event_ms = ips.filter(readable), event_ms.filter(readable)
    left_out = len(values) - len(ips)
    times = pc.multiply(event_ms, 1000).cast(_TIME)
    table = pa.table([ips, times, pa.array(np.ones(len(ips), np.int64))], schema=_COUNTS)
    if left_out:
        table = pa.concat_tables([table, pa.table([[None], [None], [left_out]], schema=_COUNTS)])
    counts = add_up(table).combine_chunks().to_batches()
    return counts[0] if counts else pa.RecordBatch.from_pylist([], schema=_COUNTS)


def add_up(counts: pa.Table) -> pa.Table:
    """Return one row for each IP and window."""
    times_us = pc.fill_null(counts["event_time"].cast(pa.int64()), 0).to_numpy()
    groups = counts.append_column("window", pa.array(times_us // WINDOW_US)).group_by(
        ["ip", "window"], use_threads=False
    )
    added = groups.aggregate([("event_time", "max"), ("records", "sum")])
    return pa.table([added["ip"], added["event_time_max"], added["records_sum"]], schema=_COUNTS)


def _event_ms(texts: pa.Array) -> pa.Array:
    """Return the numbers of texts (binary), null for one that is no whole number or too large to be a time."""
    found = _all_numbers(texts)
    if found is None:
        numbers = [_WHOLE.fullmatch(text) for text in texts.to_pylist()]
        found = pa.array([int(number[1]) if number else None for number in numbers], pa.int64())
    in_time = pc.and_(pc.greater_equal(found, -LAST_MS), pc.less_equal(found, LAST_MS))
    return found if pc.all(in_time).as_py() else pc.if_else(in_time, found, None)


def _all_numbers(texts: pa.Array) -> pa.Array | None:
    """Return the numbers where each text is plainly one, as nearly always; else None."""
    octets = texts.buffers()[2]
    if octets is None or any(sign in octets.to_pybytes() for sign in (b"x", b"X")):
        # Arrow would read 0x10, too.
        return None
    try:
        return texts.cast(pa.string()).cast(pa.int64())
    except pa.ArrowInvalid:
        return None


COUNTS = Each(change=count_each, combine=add_up, schema="ip binary, event_time timestamp, records bigint")
"""Counting where records are read leaves Spark a tenth of the rows, and less."""


def ip_count(counts: DataFrame) -> DataFrame:
    """Add up counts per IP and 5 s tumbling event-time window, 5 s lateness; each window once, when the watermark passes it.

    Input: what ``count_each`` makes of values ``ip,event time in epoch ms``. Output: key ``ip|window_start_ms``, value JSON
    with ip, window_start_ms, window_end_ms, count. A record that cannot be read is left out and counted (observed metric
    ``malformed``).
    """
    malformed = F.coalesce(F.sum(F.when(F.col("ip").isNull(), F.col("records"))), F.lit(0))
    windows = (
        counts.observe("malformed", malformed.alias("rows"))
        .where("ip is not null")
        .withWatermark("event_time", LATENESS)
        .groupBy(F.window("event_time", WINDOW), F.col("ip").cast("string").alias("ip"))
        .agg(F.sum("records").alias("count"))
    )
    start, end = _epoch_ms("window.start"), _epoch_ms("window.end")
    return windows.select(
        F.concat_ws("|", "ip", start.cast("string")).alias("key"),
        F.to_json(F.struct("ip", start.alias("window_start_ms"), end.alias("window_end_ms"), "count")).alias("value"),
    )


def _epoch_ms(column: str) -> Column:
    return F.unix_millis(F.col(column))
