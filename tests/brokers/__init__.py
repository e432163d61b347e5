"""Runs what rests on a broker's behaviour against other releases of Kafka and other transaction versions."""
