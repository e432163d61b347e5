"""The reference exactly-once pipeline: Spark micro-batches committed by two-phase commit."""
