"""Share groups (KIP-932) that read read_committed: how far they have got, as other groups' committed offsets say it.

Its isolation level is a setting of the group, which brokers hold: one of the default (read_uncommitted) never waits for a
transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka.admin import ConfigResourceType
from kafka.protocol.admin.configs import DescribeConfigsRequest
from kafka.protocol.api_message import ApiMessage

from indoubt.resource_managers.kafka import messages
from indoubt.resource_managers.kafka.answers import AnswerKind, BrokerAnswer, answer_of
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.partitions import (
    POLL_LIMIT_MS,
    Answers,
    KafkaPartitions,
    Layout,
    Partition,
    by_topic,
    of_groups,
)
from indoubt.resource_managers.kafka.wire import wire

ISOLATION, READ_COMMITTED = "share.isolation.level", "read_committed"
NO_LAG = -1


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=messages):  # type: ignore[misc, call-arg]
    """A request that brokers with share groups take."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=messages):  # type: ignore[misc, call-arg]
    """Its response: kafka-python finds it by its number."""


def read_committed(connection: KafkaConnection, groups: Sequence[str]) -> Answers[str, bool]:
    """Return of each share group whether it reads only what is committed (DescribeConfigs)."""
    if not groups:
        return Answers(found={}, failed={})
    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            resource(resource_type=ConfigResourceType.GROUP.value, resource_name=group, configuration_keys=[ISOLATION])
            for group in groups
        ]
    )
    (response,) = wire(connection).send([(None, request)], POLL_LIMIT_MS)
    rows = {} if isinstance(response, BrokerAnswer) else {row.resource_name: row for row in response.results}
    found: dict[str, bool] = {}
    failed: dict[str, BrokerAnswer] = {}
    for group in groups:
        answer = response if isinstance(response, BrokerAnswer) else answer_of(rows.get(group))
        told = {entry.name: entry.value for entry in rows[group].configs} if answer.is_done else {}
        if ISOLATION in told:
            found[group] = told[ISOLATION] == READ_COMMITTED
        else:
            failed[group] = _not_told(ISOLATION) if answer.is_done else answer
    return Answers(found=found, failed=failed)


def read_to(
    connection: KafkaConnection,
    brokers: KafkaPartitions,
    wanted: Mapping[str, Collection[Partition] | None],
    layout: Layout,
) -> Answers[str, dict[Partition, int]]:
    """Return how far each share group that reads read_committed has got, as ``KafkaPartitions.group_offsets`` does for others.

    The start offset alone will not do: brokers keep it as it was before the records that were finished last. The high watermark
    less the lag (KIP-1226) has them; at most the last stable offset, since records may have come between the questions.
    """
    nothing: dict[Partition, int] = {}
    told = of_groups(
        connection,
        list(wanted),
        lambda bundle: _request({group: wanted[group] for group in bundle}),
        _lags,
        of_unknown=nothing,
    )
    partitions = {partition for lags in told.found.values() for partition in lags}
    high = brokers.high_watermarks(partitions, layout)
    stable = brokers.last_stable_offsets(high.found.keys(), layout).found
    found = {
        group: {
            partition: min(stable[partition], high.found[partition] - lag)
            for partition, lag in lags.items()
            if partition in stable
        }
        for group, lags in told.found.items()
        if NO_LAG not in lags.values()
    }
    failed = dict.fromkeys(told.found.keys() - found.keys(), _not_told("its lag"))
    return Answers(found=found, failed=told.failed | failed)


def _request(wanted: Mapping[str, Collection[Partition] | None]) -> Any:
    group_ = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    topic_ = group_.DescribeShareGroupOffsetsRequestTopic
    groups = []
    for group, partitions in wanted.items():
        topics = None
        if partitions is not None:
            topics = [topic_(topic_name=name, partitions=numbers) for name, numbers in by_topic(partitions).items()]
        groups.append(group_(group_id=group, topics=topics))
    return DescribeShareGroupOffsetsRequest(groups=groups)


def _lags(group: Any) -> dict[Partition, int]:
    rows = (((topic.topic_name, row.partition_index), row) for topic in group.topics for row in topic.partitions)
    return {partition: int(row.lag) for partition, row in rows if not row.error_code and row.start_offset >= 0}


def _not_told(what: str) -> BrokerAnswer:
    return BrokerAnswer(kind=AnswerKind.UNSUPPORTED, name=f"this broker does not tell {what}")
