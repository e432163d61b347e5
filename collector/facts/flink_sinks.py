"""Flink's sinks, known by the transactional ids that they use. Pure.

KafkaSink names them ``<prefix>-<subtask>-<number>`` (TransactionalIdFactory). Under TransactionNamingStrategy.INCREMENTING the
number is the checkpoint to come: each checkpoint has new ids, and a job restored from checkpoint q takes the ids from q + 1 on
again. Under POOLING it counts free ids from 0, which are used again and again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from indoubt.collector.records.application_ids import FlinkId
from indoubt.collector.records.facts import BrokerTransaction, Init


class Naming(Enum):
    """How a sink names its transactions."""

    INCREMENTING = "incrementing"
    POOLING = "pooling"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class SubtaskIds:
    """What is known of the ids of one subtask of a sink, by their number."""

    taken_ms: dict[int, int] = field(default_factory=dict)
    """When a producer took the id last, or opened a transaction under it."""
    takes: dict[int, list[int]] = field(default_factory=dict)
    """Every such time that is known, in no order."""
    committed: dict[int, int] = field(default_factory=dict)
    """How many of its transactions were committed."""

    def take(self, number: int, at_ms: int) -> None:
        """Note that an id was used."""
        self.taken_ms[number] = max(at_ms, self.taken_ms.get(number, at_ms))
        self.takes.setdefault(number, []).append(at_ms)


@dataclass(slots=True)
class Sink:
    """What is known of one transactional id prefix."""

    prefix: str
    subtasks: dict[int, SubtaskIds] = field(default_factory=dict)
    commits: list[tuple[int, int, int]] = field(default_factory=list)
    """Start, begin of the commit, and number of committed transactions; none where it was not asked for."""
    is_pooled: bool | None = None
    """Whether it uses its ids again, as its job's checkpoints say; None: they do not."""
    _naming: Naming | None = field(default=None, init=False, compare=False)

    @property
    def naming(self) -> Naming:
        """Return how it names its transactions, as far as was known when it was asked for first."""
        if self.is_pooled is not None:
            return Naming.POOLING if self.is_pooled else Naming.INCREMENTING
        if self._naming is None:
            self._naming = self._found_naming()
        return self._naming

    def _found_naming(self) -> Naming:
        # Most pooled ids have committed more than one, others seldom (after a restore).
        counts = [count for ids in self.subtasks.values() for count in ids.committed.values()]
        if 2 * sum(1 for count in counts if count > 1) > len(counts):
            return Naming.POOLING
        has_many = any(len(ids.committed) >= 3 for ids in self.subtasks.values())
        return Naming.INCREMENTING if has_many else Naming.UNKNOWN


def sinks(
    starts: Mapping[str, int],
    commits: Mapping[str, int],
    inits: Mapping[str, Sequence[Init]],
    prefixes: Collection[str],
    timed: Iterable[BrokerTransaction] = (),
) -> dict[str, Sink]:
    """Return what is known of each of these prefixes.

    ``starts``: when the newest transaction of each id began; ``commits``: how many of an id's were committed, where any was;
    ``timed``: transactions whose commit times are compared with checkpoints; without a watched Flink they are not needed.
    """
    found = {prefix: Sink(prefix) for prefix in prefixes}
    owners: dict[str, tuple[Sink, SubtaskIds, int] | None] = {}
    for id_, start_ms in starts.items():
        owner = owners[id_] = _owner_of(id_, found)
        if owner is not None:
            _, ids, number = owner
            ids.take(number, start_ms)
            if (count := commits.get(id_)) is not None:
                ids.committed[number] = count
    for id_, taken in inits.items():
        owner = owners[id_] if id_ in owners else _owner_of(id_, found)
        if owner is not None:
            for init in taken:
                owner[1].take(owner[2], init.at_ms)
    for transaction in timed:
        owner = owners.get(transaction.identity.transaction)
        ended_ms = transaction.ended_ms
        if owner is not None and transaction.is_committing and ended_ms is not None:
            owner[0].commits.append((transaction.identity.start_ms, ended_ms, owner[2]))
    return found


def _owner_of(id_: str, among: Mapping[str, Sink]) -> tuple[Sink, SubtaskIds, int] | None:
    """Return the sink and the subtask that an id belongs to, with the id's number; None for one of no sink among these."""
    parsed = FlinkId.parse(id_)
    if parsed is None or (sink := among.get(parsed.prefix)) is None:
        return None
    return sink, sink.subtasks.setdefault(parsed.subtask, SubtaskIds()), parsed.number
