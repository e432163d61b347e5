"""What a pipeline has in production, on loopback: three brokers, Spark's standalone cluster, checkpoints in an object store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

from demo.checkpoint_directory import CheckpointDirectory
from demo.kafka_cluster import KafkaCluster, Node
from demo.object_store import ObjectStore
from demo.spark_cluster import SparkCluster, SparkNode

BROKERS, MIN_ISR = 3, 2


class WholeCluster:
    """A context manager of all of them: ``kafka``, ``spark`` and ``store``."""

    pipeline_environment: Mapping[str, str] = {"SPARK_LOCAL_IP": "127.0.0.1"}
    """Where the driver listens: Spark would choose an address of the network."""

    def __init__(self, directory: Path) -> None:
        self.kafka = KafkaCluster(directory / "kafka", BROKERS, MIN_ISR)
        self.spark = SparkCluster(directory / "spark")
        self.store = ObjectStore(directory / "store")
        self._stack = contextlib.ExitStack()

    def checkpoint(self, name: str) -> CheckpointDirectory:
        """Return the checkpoint directory of this name."""
        return CheckpointDirectory(f"{self.store.uri}/{name}", self.store.spark_properties)

    def pipeline_settings(self, **properties: str) -> dict[str, str]:
        """Return the settings of a pipeline with an executor on each worker; ``properties``: more of Spark's, ``_`` for ``.``."""
        more = {f"spark.{name.replace('_', '.')}": value for name, value in properties.items()}
        given: Mapping[str, str] = {
            "spark.executor.cores": "1",
            "spark.cores.max": str(len(self.spark.workers)),
            "spark.executor.memory": "600m",
            **more,
            **self.store.spark_properties,
        }
        pairs = ",".join(f"{name}={value}" for name, value in given.items())
        return {"spark_master": self.spark.master, "spark_jars": str(self.store.jars), "spark_properties": pairs}

    def keep(self) -> Iterator[str]:
        """Start each broker and each of Spark's machines that has ended again; yield a sentence for each. Raises as start does."""
        brokers: dict[str, Node | SparkNode] = {f"broker {broker.node}": broker for broker in self.kafka.brokers}
        for name, node in {**brokers, **{f"Spark's {node.name}": node for node in self.spark.nodes}}.items():
            if node.pid is None:
                yield f"{name} has ended and starts again"
                node.start()

    def start(self) -> WholeCluster:
        """Start all of it. Raises DemoFailed."""
        with contextlib.ExitStack() as stack:
            for part in (self.kafka, self.spark, self.store):
                stack.enter_context(part)
            self._stack = stack.pop_all()
        return self

    def stop(self) -> None:
        """End all of it; safe to call twice."""
        self._stack.close()

    def __enter__(self) -> WholeCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
