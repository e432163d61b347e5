"""The demo's topics: their names, partitions and settings."""

from __future__ import annotations

import argparse
import sys

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

SOURCE = "ip_count_source"
SINK = "ip_count_sink"
LIFECYCLE = "transaction_lifecycle"
DECISIONS = "transaction_decisions"
LIMIT_S = 30.0
"""How long the broker may take. The client's own limit comes first and says what it waited for."""
LAST_WORD_S = 5.0
_FOUR_WEEKS_MS = str(28 * 24 * 3_600_000)

TOPICS: tuple[NewTopic, ...] = (
    NewTopic(SOURCE, 4, 1),
    NewTopic(SINK, 4, 1),
    NewTopic(LIFECYCLE, 1, 1),
    # One partition: its order is the truth. Kept for weeks: a handle may wait that long for its outcome.
    NewTopic(DECISIONS, 1, 1, config={"retention.ms": _FOUR_WEEKS_MS}),
)


def create_topics(bootstrap_servers: str) -> None:
    """Create every topic of the demo; those that exist are left alone. Raises KafkaException.

    A request that a broker just started leaves unanswered is sent once more, by a client of its own.
    """
    try:
        _create_topics(bootstrap_servers)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._TIMED_OUT:
            raise
        _create_topics(bootstrap_servers)


def _create_topics(bootstrap_servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})
    for future in admin.create_topics(list(TOPICS), request_timeout=LIMIT_S).values():
        try:
            future.result(LIMIT_S + LAST_WORD_S)
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
        print(f"the topics could not be created: {error.args[0].str()}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
