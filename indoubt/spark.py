"""What the jobs of other projects import, under a short name."""

from indoubt.pipeline.source.topic_options import Each
from indoubt.pipeline.spark import read, start

__all__ = ["Each", "read", "start"]
