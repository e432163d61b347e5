"""Asks who is in a consumer group (DescribeGroups). It changes nothing."""

from __future__ import annotations

from collections.abc import Collection

from kafka.protocol.admin.groups import DescribeGroupsRequest

from resource_managers.kafka.answers import BrokerAnswer, answer_of
from resource_managers.kafka.connection import KafkaConnection
from resource_managers.kafka.group_members import GroupMembers
from resource_managers.kafka.partitions import GROUPS_PER_REQUEST, POLL_LIMIT_MS, Answers, bundles
from resource_managers.kafka.wire import wire


def members(connection: KafkaConnection, groups: Collection[str], at_ms: int) -> Answers[str, GroupMembers]:
    """Return the members of each group; ``at_ms``: now. One request per coordinator and 100 groups."""
    asked_of = wire(connection)
    nodes = asked_of.group_coordinators(list(groups))
    failed = {group: node for group, node in nodes.items() if isinstance(node, BrokerAnswer)}
    known = {group: node for group, node in nodes.items() if not isinstance(node, BrokerAnswer)}
    asked = list(bundles(known, GROUPS_PER_REQUEST))
    # Version 6 answers an unknown group with an error; to 5 it is Dead.
    requests = [(node, DescribeGroupsRequest(groups=names, max_version=5)) for node, names in asked]
    found: dict[str, GroupMembers] = {}
    for (_, names), response in zip(asked, asked_of.send(requests, POLL_LIMIT_MS), strict=True):
        rows = {} if isinstance(response, BrokerAnswer) else {row.group_id: row for row in response.groups}
        for group in names:
            answer = response if isinstance(response, BrokerAnswer) else answer_of(rows.get(group))
            if answer.is_done:
                client_ids = frozenset(member.client_id for member in rows[group].members)
                found[group] = GroupMembers(
                    group=group,
                    state=rows[group].group_state,
                    client_ids=client_ids,
                    at_ms=at_ms,
                    is_simple=not rows[group].protocol_type,
                )
            else:
                failed[group] = answer
                asked_of.forget_group_coordinator(group)
    return Answers(found=found, failed=failed)
