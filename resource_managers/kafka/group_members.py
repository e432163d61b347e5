"""Who is in a consumer group, as its coordinator said. Asked for in group_questions.py; here without a client of Kafka's."""

from __future__ import annotations

from dataclasses import dataclass

EMPTY, DEAD = "Empty", "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMembers:
    """A group's members by their client ids, as asked at ``at_ms`` (epoch ms). ``state`` is Kafka's word.

    A group that the coordinator does not know is Dead, and so is one of another protocol than the classic one: nothing is known
    of its members.
    """

    group: str
    state: str
    client_ids: frozenset[str]
    at_ms: int
    is_simple: bool = False
    """It never had members: offsets alone are committed under its name (isSimpleConsumerGroup)."""
