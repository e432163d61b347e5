"""The job word_count: how often each word was seen so far."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

LONGEST = 255
"""Characters: what an indexed VARCHAR column takes everywhere."""


def word_count(source: DataFrame, *, records: bool) -> DataFrame:
    """Running count per word; in each batch a row for every word that was seen in it, with its count so far.

    Input: value is text. Words are what stands between characters that are no letter, digit or '_' in any script, in
    lower case. Output: word (string), count (int64); with ``records`` also key (the word) and value (JSON with word and
    count), for a topic. A word longer than 255 characters is left out and counted (observed metric ``too_long``): cut, it
    would be counted as another word, and failing would stop the pipeline for one bad word.

    Counts are absolute, so that a row may be written over; rows come partitioned by word, so that two slots never touch
    the same row and wait for each other's prepared locks. The key column of a table must tell apart what Spark tells
    apart: in MySQL and MariaDB give it a binary collation (``collate utf8mb4_bin``), else ``cafe`` and ``café`` share a row.
    """
    words = source.select(F.explode(F.split(F.lower(F.col("value").cast("string")), r"(?U)\W+")).alias("word"))
    counted = (
        words.where("word != ''")
        .observe("too_long", F.count_if(F.length("word") > LONGEST).alias("rows"))
        .where(F.length("word") <= LONGEST)
        .groupBy("word")
        .agg(F.count("*").alias("count"))
    )
    if not records:
        return counted.select("word", "count")
    value = F.to_json(F.struct("word", "count"))
    return counted.select("word", "count", F.col("word").alias("key"), value.alias("value"))
