"""What the jobs of other projects import, under a short name."""

from indoubt.pipeline.source.committed_topic import Each
from indoubt.pipeline.spark import read, start

__all__ = ["Each", "read", "start"]
