"""The jobs as Spark alone has them: its own Kafka source, and its own operators."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from indoubt.pipeline.config.settings import PipelineSettings

WINDOW = LATENESS = "5 seconds"


def rows(spark: SparkSession, settings: PipelineSettings) -> DataFrame:
    """Return the rows of job passthrough or ip_count."""
    source = read_topic(spark, settings)
    return ip_count(source) if settings.job == "ip_count" else source.select("key", "value")


def read_topic(spark: SparkSession, settings: PipelineSettings) -> DataFrame:
    """Return the source topic as Spark's Kafka source reads it, tuned for throughput."""
    reader = spark.readStream.format("kafka")
    return reader.options(
        **{
            "kafka.bootstrap.servers": settings.bootstrap_servers,
            "subscribe": settings.source,
            "startingOffsets": settings.starting_offsets,
            "maxOffsetsPerTrigger": str(settings.max_offsets_per_trigger),
            "kafka.isolation.level": "read_committed",
            "kafka.max.poll.records": "50000",
            "kafka.max.partition.fetch.bytes": str(16 << 20),
            "kafka.fetch.max.bytes": str(64 << 20),
            "kafka.receive.buffer.bytes": str(1 << 20),
            "kafka.fetch.max.wait.ms": "10",
        }
    ).load()


def ip_count(source: DataFrame) -> DataFrame:
    """Return what indoubt.pipeline.jobs.ip_count returns, from the records themselves."""
    parts = F.split(F.col("value").cast("string"), ",")
    rows = (
        source.select(parts.alias("parts"))
        .select(F.expr("get(parts, 0)").alias("ip"), F.expr("try_cast(get(parts, 1) as bigint)").alias("event_ms"))
        .observe("malformed", F.count_if(F.col("event_ms").isNull() | (F.col("ip") == "")).alias("rows"))
        .where("event_ms is not null and ip != ''")
        .withColumn("event_time", F.timestamp_millis("event_ms"))
    )
    counted = (
        rows.withWatermark("event_time", LATENESS)
        .groupBy(F.window("event_time", WINDOW), "ip")
        .agg(F.count("*").alias("count"))
    )
    start, end = F.unix_millis("window.start"), F.unix_millis("window.end")
    return counted.select(
        F.concat_ws("|", "ip", start.cast("string")).alias("key"),
        F.to_json(F.struct("ip", start.alias("window_start_ms"), end.alias("window_end_ms"), "count")).alias("value"),
    )
