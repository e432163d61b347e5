"""Topics that hold the offsets of what applications read."""

CONSUMER_OFFSETS = "__consumer_offsets"
CONNECT_OFFSETS = "connect-offsets"
"""Where Kafka Connect's workers keep the offsets of source connectors, in the configuration that Kafka ships."""
