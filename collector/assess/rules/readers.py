"""The rule about readers that wait behind an open transaction, who waits behind what, and cards of readers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from indoubt.collector.assess.attention.cards import card
from indoubt.collector.assess.findings import Finding, Severity, application_group, topic_group
from indoubt.collector.assess.remedies import remedy_of
from indoubt.collector.assess.rule import Rule, Source
from indoubt.collector.assess.rules.hanging import PARTITIONS, path_of, topic_of
from indoubt.collector.assess.situation import Situation
from indoubt.collector.runtime.time_format import seconds
from indoubt.collector.verdicts.blocked_readers import Reader, ReaderKind
from indoubt.collector.verdicts.hanging_transactions import partition_name
from indoubt.collector.verdicts.partition_state import Blocked, PartitionFindings
from indoubt.lifecycle.application import Application
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.durations import steady_duration
from indoubt.lifecycle.rows.attention import Attention, AttentionKind, Remedy, WaitingGroup
from indoubt.lifecycle.verdicts import Evidence, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedPartition:
    """Read_committed consumer ``groups`` wait on ``partition`` behind an open transaction; ``hidden`` records they may not see."""

    partition: str
    since_ms: int
    groups: tuple[str, ...]
    hidden: int | None = None
    transaction: str = ""
    holder: str = ""
    """The key of the transaction, empty while it is unknown."""


def blocked_partitions(findings: PartitionFindings) -> tuple[BlockedPartition, ...]:
    """Return the partitions on which groups with members or restores of theirs wait, since the first of them did."""
    found: list[BlockedPartition] = []
    for blocked in findings.blocked:
        waiting = _waiting(blocked)
        if waiting:
            found.append(
                BlockedPartition(
                    partition=partition_name(blocked.snapshot.partition),
                    since_ms=min(reader.since_ms for reader in waiting),
                    groups=tuple(reader.group for reader in waiting),
                    hidden=blocked.snapshot.hidden,
                    transaction=blocked.holder.transaction if blocked.holder is not None else "",
                    holder=blocked.holder.key if blocked.holder is not None else "",
                )
            )
    return tuple(found)


def _waiting(blocked: Blocked) -> list[Reader]:
    """Return who waits. A group without members may be abandoned, and its application stopped: neither needs a person."""
    return [reader for reader in blocked.waiting if not reader.is_without_members]


def blocked_readers(situation: Situation) -> tuple[BlockedPartition, ...]:
    """Return the partitions on which somebody waits."""
    return blocked_partitions(situation.partitions)


def a4_blocked_consumers(situation: Situation) -> Iterator[Finding]:
    """Read_committed consumer groups, or stores that are restored, wait behind an open transaction for longer than the limit.

    It is shown with that transaction's batch or application: what ends the transaction ends the wait.
    """
    waits = situation.read(blocked_readers)
    named = {blocked.transaction for blocked in waits}
    holders = {j.view.transaction: j for j in situation.judged if j.view.transaction in named and j.view.is_running}
    for blocked in waits:
        waited_ms = situation.now_ms - blocked.since_ms
        if not blocked.groups or waited_ms < situation.limits.blocked_ms:
            continue
        holder = holders.get(blocked.transaction)
        behind = f" behind transaction {blocked.transaction}" if blocked.transaction else ""
        readers = counted(len(blocked.groups), "reader")
        records = counted(blocked.hidden, "record") if blocked.hidden is not None else "records"
        hidden = f"{records} {'is' if blocked.hidden == 1 else 'are'} hidden"
        yield Finding(
            subject=blocked.partition,
            group=application_group(holder.view.pipeline)
            if holder is not None
            else _group(blocked.partition, blocked.holder, situation.applications),
            severity=Severity.WARNING,
            summary=f"{readers} of {blocked.partition} blocked for {seconds(waited_ms)}{behind}",
            evidence=(
                Evidence(f"its last stable offset stands still{behind}", PARTITIONS, blocked.since_ms),
                Evidence(f"{hidden} from: {', '.join(sorted(blocked.groups))}", PARTITIONS),
            ),
            subject_labels={"partition": blocked.partition}
            | ({"transaction": blocked.transaction} if blocked.transaction else {})
            | ({"pipeline": holder.view.pipeline} if holder is not None else {}),
            remedy=remedy_of(holder, situation) if holder is not None else Remedy.OPEN,
            object_path=path_of(blocked.partition),
        )


def _group(partition: str, holder: str, applications: Mapping[str, Application]) -> str:
    """Return the incident of a partition that the transaction of this key holds open: its application's, else the topic's."""
    found = applications.get(holder)
    return application_group(found.name) if found is not None else topic_group(topic_of(partition))


class Waits:
    """The partitions on which groups wait, found by who holds them and by their names."""

    def __init__(self, blocked: Iterable[Blocked]) -> None:
        self._of_holder: dict[str, list[Blocked]] = {}
        self._without_holder: dict[str, Blocked] = {}
        for one in blocked:
            if not one.waiting:
                continue
            if one.holder is not None and one.holder.key:
                self._of_holder.setdefault(one.holder.key, []).append(one)
            else:
                self._without_holder[partition_name(one.snapshot.partition)] = one

    def behind(self, keys: Collection[str], partitions: Collection[str]) -> tuple[WaitingGroup, ...]:
        """Return who waits behind these transactions; on ``partitions`` whose holder is not known, behind these too."""
        if not self._of_holder and not self._without_holder:
            return ()
        found = [one for key in keys for one in self._of_holder.get(key, ())]
        found += [one for name, one in self._without_holder.items() if name in partitions]
        return waiting_groups((one, reader) for one in found for reader in one.waiting)


def waiting_groups(readers: Iterable[tuple[Blocked, Reader]]) -> tuple[WaitingGroup, ...]:
    """Return each group once, the longest wait first."""
    by_group: dict[str, list[Reader]] = {}
    for _, reader in readers:
        by_group.setdefault(reader.group, []).append(reader)
    found = [
        WaitingGroup(
            group=group,
            lag=sum(reader.lag for reader in of_it),
            since_ms=min(reader.since_ms for reader in of_it),
            partitions=len(of_it),
        )
        for group, of_it in by_group.items()
    ]
    return tuple(sorted(found, key=lambda waiting: (waiting.since_ms or 0, waiting.group)))


def reader_cards(situation: Situation, before: Sequence[Attention]) -> list[Attention]:
    """Return cards about groups that wait behind what no card before is about, and stalled ones."""
    covered = {name for card in before if card.verdict is not Verdict.LOST for name in card.partitions}
    return [*_waiting_cards(situation, covered), *_stalled_cards(situation)]


def _waiting_cards(situation: Situation, covered: Collection[str]) -> list[Attention]:
    alerted = {a.labels.get("partition") for a in situation.alerts if a.rule == A4.number}
    in_progress = _in_progress(situation) if situation.partitions.blocked else frozenset()
    found: dict[str, list[tuple[Blocked, Reader]]] = {}
    for blocked in situation.partitions.blocked:
        name = partition_name(blocked.snapshot.partition)
        waiting = _waiting(blocked)
        if not waiting or name in covered:
            continue
        holder = blocked.holder.key if blocked.holder is not None else ""
        waited_ms = situation.now_ms - min(reader.since_ms for reader in waiting)
        # A transaction that goes on by itself ends, and with it the wait: the alert's limit says when that is too long.
        is_too_long = waited_ms >= situation.limits.blocked_ms and holder not in in_progress
        if name in alerted or is_too_long:
            found.setdefault(holder or name, []).extend((blocked, reader) for reader in waiting)
    running = {item.view.key: item.view.pipeline for item in situation.judged if item.view.key in found}
    return [_waiting_card(of_it, running, situation.applications) for of_it in found.values()]


def _in_progress(situation: Situation) -> frozenset[str]:
    return frozenset(item.view.key for item in situation.judged if item.judgement.verdict is Verdict.IN_PROGRESS)


def _waiting_card(
    waiting: list[tuple[Blocked, Reader]], running: Mapping[str, str], hanging: Mapping[str, Application]
) -> Attention:
    first = waiting[0][0]
    groups = waiting_groups(waiting)
    partitions = tuple(sorted({partition_name(one.snapshot.partition) for one, _ in waiting}))
    holder = first.holder
    behind = f"transaction {holder.transaction}" if holder is not None and holder.transaction else "an open transaction"
    key = holder.key if holder is not None else ""
    some = groups[0].group if len(groups) == 1 else counted(len(groups), "consumer group")
    return card(
        kind=AttentionKind.READERS,
        key=f"readers:waiting|{key or partitions[0]}",
        badge="waiting",
        group=application_group(running[key]) if key in running else _group(partitions[0], key, hanging),
        severity=Severity.WARNING.value,
        keys=(key,) if key else (),
        headline=f"{some} {'waits' if len(groups) == 1 else 'wait'} behind {behind} on {counted(len(partitions), 'partition')}.",
        waits=groups,
        since_ms=groups[0].since_ms,
        consequence=A4.consequence,
        target=partitions[0],
        partitions=partitions,
    )


def _stalled_cards(situation: Situation) -> list[Attention]:
    found: dict[str, list[tuple[Blocked, Reader]]] = {}
    for blocked in situation.partitions.blocked:
        for reader in blocked.readers:
            if reader.kind is ReaderKind.STALLED and not reader.is_without_members:
                found.setdefault(reader.group, []).append((blocked, reader))
    return [_stalled_card(group, of_it, situation.now_ms) for group, of_it in found.items()]


def _stalled_card(group: str, stalled: list[tuple[Blocked, Reader]], now_ms: int) -> Attention:
    (waiting,) = waiting_groups(stalled)
    partitions = tuple(sorted(partition_name(one.snapshot.partition) for one, _ in stalled))
    since_ms = waiting.since_ms if waiting.since_ms is not None else now_ms
    return card(
        kind=AttentionKind.READERS,
        key=f"readers:stalled|{group}",
        badge="stalled",
        group=f"consumer group {group}",
        severity=Severity.WARNING.value,
        headline=(
            f"{group} has stood still for {steady_duration(max(0, now_ms - since_ms))} with records waiting on "
            f"{counted(len(partitions), 'partition')}."
        ),
        waits=(waiting,),
        since_ms=since_ms,
        consequence="Its lag grows. No transaction blocks it: look at the consumer.",
        target=partitions[0],
        partitions=partitions,
    )


A4 = Rule(
    number="A4",
    name="blocked consumers",
    find=a4_blocked_consumers,
    consequence="These readers see nothing new until the transaction ends.",
    sources=(Source.PARTITIONS,),
    cards=reader_cards,
)
