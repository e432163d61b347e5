"""Who is in a consumer group, and whose offsets a transaction holds: asked for in group_questions.py."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    count: int = 0
    """How many members there are: several may have one client id."""
    is_simple: bool = False
    """It never had members: offsets alone are committed under its name (isSimpleConsumerGroup)."""

    @property
    def is_left(self) -> bool:
        """Say whether it had members once, and has none now."""
        return self.state == EMPTY and not self.is_simple


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOffsets:
    """Whose offsets an open transaction holds on one partition of ``__consumer_offsets``. Times are epoch ms, by our clock.

    ``producers``: (producer id, epoch) of each transaction that is open there, as the partition's leader says. ``groups``: those
    kept there with offsets that a transaction holds (UNSTABLE_OFFSET_COMMIT, KIP-447). ``written``: (partition, first offset, time
    of the last record by the producer's clock) of all that these producers have open where the transactions write.
    ``since_ms``: since when every answer is the same; ``at_ms``: when it was asked last.
    """

    producers: frozenset[tuple[int, int]]
    groups: tuple[GroupMembers, ...]
    written: frozenset[tuple[str, int, int | None]]
    since_ms: int
    at_ms: int

    def following(self, before: HeldOffsets | None) -> HeldOffsets:
        """Return it with the time since which ``before`` said the same, where it did."""
        if before is None:
            return self
        groups = tuple(replace(now, at_ms=then.at_ms) for now, then in zip(self.groups, before.groups, strict=False))
        is_same = replace(self, groups=groups, since_ms=before.since_ms, at_ms=before.at_ms) == before
        return replace(self, since_ms=before.since_ms) if is_same and len(self.groups) == len(before.groups) else self
