"""The demo's topics: their names and partitions. The pipeline makes the decision log itself."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

SOURCE = "ip_count_source"
SINK = "ip_count_sink"
LIFECYCLE = "transaction_lifecycle"
LIMIT_S = 30.0
"""How long the broker may take. The client's own limit ends first, because its error says what it waited for."""
EXTRA_WAIT_S = 5.0

TOPICS: tuple[NewTopic, ...] = (
    NewTopic(SOURCE, 4),
    NewTopic(SINK, 4),
    NewTopic(LIFECYCLE, 1),
)


def create_topics(bootstrap_servers: str, others: Sequence[str] = ()) -> None:
    """Create the missing topics of the demo, and ``others`` with two partitions each. Raises KafkaException.

    A new client sends the request once more if a broker that has just started does not answer.
    """
    try:
        _create_topics(bootstrap_servers, others)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._TIMED_OUT:
            raise
        _create_topics(bootstrap_servers, others)


def _create_topics(bootstrap_servers: str, others: Sequence[str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})
    for future in admin.create_topics(
        [*TOPICS, *(NewTopic(name, 2) for name in others)], request_timeout=LIMIT_S
    ).values():
        try:
            future.result(LIMIT_S + EXTRA_WAIT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def main() -> int:
    """Create the topics; return the exit code."""
    parser = argparse.ArgumentParser(description="Create the demo's topics on a cluster.")
    parser.add_argument("--bootstrap-servers", required=True)
    try:
        create_topics(parser.parse_args().bootstrap_servers)
    except KafkaException as error:
        print(f"the broker did not create the demo's topics: {error.args[0].str()}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
