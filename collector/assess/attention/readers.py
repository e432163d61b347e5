"""Who waits behind what, and cards about readers that no transaction's card speaks of."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from collector.assess.attention.cards import card
from collector.assess.findings import Severity
from collector.assess.situation import Situation
from collector.verdicts.blocked_readers import Reader, ReaderKind
from collector.verdicts.hanging_transactions import partition_name
from collector.verdicts.partition_state import Blocked
from lifecycle.counted_nouns import counted
from lifecycle.durations import steady_duration
from lifecycle.rows.attention import Attention, AttentionKind, WaitingGroup
from lifecycle.verdicts import Verdict

A4_BLOCKED_CONSUMERS = "A4"


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


def reader_cards(situation: Situation, covered: Collection[str]) -> list[Attention]:
    """Return cards about groups that wait behind what no card is about (``covered``: partitions of cards), and stalled ones."""
    return [*_waiting_cards(situation, covered), *_stalled_cards(situation)]


def _waiting_cards(situation: Situation, covered: Collection[str]) -> list[Attention]:
    alerted = {a.labels.get("partition") for a in situation.alerts if a.rule == A4_BLOCKED_CONSUMERS}
    in_progress = _in_progress(situation) if situation.partitions.blocked else frozenset()
    found: dict[str, list[tuple[Blocked, Reader]]] = {}
    for blocked in situation.partitions.blocked:
        name = partition_name(blocked.snapshot.partition)
        # A group without members may be abandoned.
        waiting = [reader for reader in blocked.waiting if not reader.is_without_members]
        if not waiting or name in covered:
            continue
        holder = blocked.holder.key if blocked.holder is not None else ""
        waited_ms = situation.now_ms - min(reader.since_ms for reader in waiting)
        # A transaction that goes on by itself ends, and with it the wait: the alert's limit says when that is too long.
        is_too_long = waited_ms >= situation.limits.blocked_ms and holder not in in_progress
        if name in alerted or is_too_long:
            found.setdefault(holder or name, []).extend((blocked, reader) for reader in waiting)
    return [_waiting_card(of_it) for of_it in found.values()]


def _in_progress(situation: Situation) -> frozenset[str]:
    return frozenset(item.view.key for item in situation.judged if item.judgement.verdict is Verdict.IN_PROGRESS)


def _waiting_card(waiting: list[tuple[Blocked, Reader]]) -> Attention:
    first = waiting[0][0]
    groups = waiting_groups(waiting)
    partitions = tuple(sorted({partition_name(one.snapshot.partition) for one, _ in waiting}))
    holder = first.holder
    behind = f"transaction {holder.transaction}" if holder is not None and holder.transaction else "an open transaction"
    some = groups[0].group if len(groups) == 1 else counted(len(groups), "consumer group")
    return card(
        AttentionKind.READERS,
        f"readers:waiting|{holder.key if holder is not None and holder.key else partitions[0]}",
        "waiting",
        severity=Severity.WARNING,
        keys=(holder.key,) if holder is not None and holder.key else (),
        headline=f"{some} {'waits' if len(groups) == 1 else 'wait'} behind {behind} on {counted(len(partitions), 'partition')}.",
        waits=groups,
        since_ms=groups[0].since_ms,
        consequence="These readers see nothing new until it ends.",
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
        AttentionKind.READERS,
        f"readers:stalled|{group}",
        "stalled",
        severity=Severity.WARNING,
        headline=(
            f"{group} has not read on for {steady_duration(max(0, now_ms - since_ms))}, although there are records for it on "
            f"{counted(len(partitions), 'partition')}."
        ),
        waits=(waiting,),
        since_ms=since_ms,
        consequence="Its lag grows: no transaction holds it back, so only its owner can help.",
        target=partitions[0],
        partitions=partitions,
    )
