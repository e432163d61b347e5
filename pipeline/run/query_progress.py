"""What Spark says of each finished batch: its progress, as the JSON that the JVM makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession


def follow_progress(spark: SparkSession, note: Callable[[Mapping[str, Any]], None]) -> None:
    """Have ``note`` called with the progress of each batch of any query, in the order of the batches.

    pyspark's own listener makes Python objects of it by a hundred calls, some of which search every jar for a class: 50 ms
    of the JVM's processor time a batch, just when readers get what the batch committed. The JSON is one call.
    """
    gateway: Any = SparkContext._gateway
    ensure_callback_server_started(gateway)
    streaming = gateway.jvm.org.apache.spark.sql.streaming
    spark.streams._jsqm.addListener(streaming.PythonStreamingQueryListenerWrapper(_Listener(note)))


class _Listener:
    """The Java interface PythonStreamingQueryListener."""

    def __init__(self, note: Callable[[Mapping[str, Any]], None]) -> None:
        self._note = note

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryProgress(self, event: Any) -> None:
        """Hand it over."""
        self._note(json.loads(event.progress().json()))

    def onQueryIdle(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:
        """Nothing to do."""

    class Java:
        """What py4j asks for."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
