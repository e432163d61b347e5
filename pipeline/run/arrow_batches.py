"""How Spark cuts the Arrow batches that it hands to Python, from the size of the source's records.

Spark cuts them by rows (``maxRecordsPerBatch``) and by bytes (``maxBytesPerBatch``). For the bytes it asks for the size of the
whole batch after every row (BatchedPythonArrowInput.writeSizedBatch), which is an eighth of the JVM's time where rows have 100
bytes; only the largest limit ends that. So it is lifted where records are small, and the rows are as many as fill 2 MB: Python
has the same work for a batch of many rows as for one of few.
"""

from __future__ import annotations

import logging
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from indoubt.pipeline.config.settings import PipelineSettings
from indoubt.pipeline.config.sink_settings import connect, pairs
from indoubt.resource_managers.kafka.connection import KafkaConnection

log = logging.getLogger(__name__)

MAX_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
MAX_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
UNLIMITED = str(2**31 - 1)
SMALL_BYTES = 2_000
"""The largest mean of a place in the source up to which records are small."""
BATCH_BYTES = 2_000_000
MOST_ROWS = 20_000
PLACES = (0.0, 0.25, 0.5, 0.75)
"""Where each partition is looked at, as shares of its length, besides its end."""
PARTITIONS = 16
"""So many of them are looked at, at most."""
RECORDS_EACH = 50
LIMIT_S = 5.0


def batch_limits(settings: PipelineSettings) -> dict[str, str]:
    """Return the Spark properties by which a pipeline's Arrow batches are cut; none where Spark's defaults are to stay.

    What ``spark_properties`` gives is kept. Looks at the source for about 5 s at most.
    """
    given = pairs(settings.spark_properties)
    if not settings.source or MAX_BYTES in given:
        return {}
    mean = largest_mean(connect(settings), settings.source)
    if mean is None or mean > SMALL_BYTES:
        return {}
    rows = min(MOST_ROWS, int(BATCH_BYTES / max(mean, 1.0)))
    return {MAX_BYTES: UNLIMITED, **({} if MAX_ROWS in given else {MAX_ROWS: str(rows)})}


def largest_mean(connection: KafkaConnection, topic: str) -> float | None:
    """Return the mean size (bytes) of the records at that of five places of up to 16 partitions where they are largest.

    None where there are no records, or where no answer comes in about 5 s.
    """
    consumer = Consumer(
        connection.for_librdkafka(
            **{
                "group.id": "unused",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # An open transaction at the end of a partition must not hold this up.
                "isolation.level": "read_uncommitted",
                "fetch.message.max.bytes": 65_536,
                "queued.max.messages.kbytes": 1_024,
                "log_level": 2,
            }
        ),
        logger=log,
    )
    try:
        means = _means(consumer, topic, time.monotonic() + LIMIT_S)
    except KafkaException as error:
        log.info("the size of records in %s is not known: %s", topic, error)
        return None
    finally:
        consumer.close()
    return max(means, default=None)


def _means(consumer: Consumer, topic: str, deadline_s: float) -> list[float]:
    """Return the mean size (bytes) at each place; none where one could not be read in time. Raises KafkaException."""
    partitions = sorted(consumer.list_topics(topic, timeout=_left_s(deadline_s)).topics[topic].partitions)
    means = []
    for partition in partitions[:: -(-len(partitions) // PARTITIONS) or 1]:
        place = TopicPartition(topic, partition)
        begin, end = consumer.get_watermark_offsets(place, timeout=_left_s(deadline_s))
        starts = {begin + int((end - begin) * share) for share in PLACES} | {max(begin, end - RECORDS_EACH)}
        for start in sorted(starts) if end > begin else ():
            sizes = _sizes(consumer, TopicPartition(topic, partition, start), deadline_s)
            if sizes is None:
                return []
            if sizes:
                means.append(sum(sizes) / len(sizes))
    return means


def _sizes(consumer: Consumer, start: TopicPartition, deadline_s: float) -> list[int] | None:
    """Return the sizes of some records from an offset on; None where they do not come in time. Raises KafkaException."""
    consumer.assign([start])
    sizes: list[int] = []
    while len(sizes) < RECORDS_EACH and (left_s := deadline_s - time.monotonic()) > 0:
        for message in consumer.consume(RECORDS_EACH, timeout=min(left_s, 0.2)):
            if (error := message.error()) is None:
                sizes.append(_size(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                return sizes
            else:
                raise KafkaException(error)
    return sizes or None


def _size(message: Message) -> int:
    return len(message.key() or b"") + len(message.value() or b"")


def _left_s(deadline_s: float) -> float:
    return max(0.1, deadline_s - time.monotonic())
