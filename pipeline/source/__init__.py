"""Kafka topics as the stream that a job computes from."""
