"""Layouts of requests that kafka-python does not have, in the form in which it reads layouts (Apache Kafka's own)."""
