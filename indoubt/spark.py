"""What the jobs of other projects import, under a short name."""

from indoubt.pipeline.spark import start

__all__ = ["start"]
