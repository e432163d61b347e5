"""Observes partitions: last stable offsets, who holds them back, which consumer groups wait, and what hangs (KIP-664).

Each look asks for the partitions where something is open or hidden, and for a share of all others, so that a round through
everything is spread over many small polls. Nothing of it goes to history: it is what brokers say now.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from indoubt.collector.observe.pace import Sweep, share
from indoubt.collector.observe.source import Observer
from indoubt.collector.observe.tail_reader import TailReader
from indoubt.collector.records.application_ids import StreamsId
from indoubt.collector.records.facts import BrokerTransaction
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.clock import CLOCK, now_ms
from indoubt.collector.verdicts.hanging_transactions import OVERDUE_MS, Suspect, followed, key_of, partition_name
from indoubt.collector.verdicts.partition_state import Holder, PartitionFindings, PartitionTracker, SeenGroup
from indoubt.collector.verdicts.streams_restores import find_restores
from indoubt.collector.views.coordinators import Coordinators
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import Unreachable
from indoubt.lifecycle.offsets_topics import CONSUMER_OFFSETS
from indoubt.resource_managers.kafka.answers import BrokerAnswer
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.group_members import DEAD, GroupMembers, HeldOffsets
from indoubt.resource_managers.kafka.group_questions import held_offsets, kept_groups, members
from indoubt.resource_managers.kafka.partitions import KafkaPartitions, Layout, OpenProducer, Partition
from indoubt.resource_managers.kafka.share_groups import read_committed, read_to

POLL_MS = 1_000
PARTITIONS_PER_POLL = 2_000
"""Those where something is open or hidden, and as many others, at most; with more, a round takes longer."""
HANGING_CONFIRM_MS = 2_000
"""A transaction that its coordinator does not know hangs if it is still open on the partition after this long."""
LAYOUT_MS = 10_000
LAYOUT_SOON_MS = 2_000
"""How old it must be at least to be asked for again after an error."""
GROUPS_PER_POLL = 500
TAILS_PER_POLL = 50
REACH_LIMIT_S = 1.0
POLLS_TO_DOUBT = 3
"""A partition hides records, its offset stands, its producer is doubted."""
SHOWN_MISSING = 3


class Partitions(Observer):
    """One poll a second; ``findings`` is what the last one saw. In ``round_ms`` all partitions and groups are polled once."""

    kind = ObserverKind.PARTITIONS

    def __init__(
        self,
        current: CurrentState,
        connection: KafkaConnection,
        decisions_topic: str,
        *,
        round_ms: int,
        reader_stalled_ms: int,
    ) -> None:
        super().__init__(current)
        self._connection = connection
        self._brokers = KafkaPartitions(connection, decisions_topic)
        self._coordinators = Coordinators(self._brokers, current)
        self._tails = TailReader(connection)
        self._round_ms = round_ms
        self._tracker = PartitionTracker(reader_stalled_ms)
        self._suspects: dict[str, Suspect] = {}
        self._groups: dict[str, str] = {}
        self._share: frozenset[str] = frozenset()
        """Share groups among them."""
        self._unknown_share: dict[str, BrokerAnswer] = {}
        """Share groups that may wait, since it is not told whether they do; asked each round."""
        self._members: Mapping[str, GroupMembers] = {}
        self._member_counts: dict[str, int | None] = {}
        self._held: dict[int, HeldOffsets] = {}
        self._layout: Layout | None = None
        self._watched: Sequence[Partition] = ()
        self._by_name: Mapping[str, Partition] = {}
        """Those of the layout that are watched, in order, and the same by their names."""
        self._layout_s = self._groups_s = -math.inf
        self._shifted_ms = CLOCK.shifted_ms
        self._layout_is_old = False
        self._partition_sweep: Sweep[Partition] = Sweep()
        self._open_sweep: Sweep[Partition] = Sweep()
        self._group_sweep: Sweep[str] = Sweep()
        self._polls = 0
        self._polls_needed: int | None = None
        self._missing: dict[str, str] = {}
        self._shown: object = None
        self.findings = PartitionFindings(at_ms=now_ms())

    @property
    def has_caught_up(self) -> bool:
        """Say whether every partition was polled once, and what hangs for long enough to be proven."""
        return self._polls_needed is not None and self._polls >= self._polls_needed

    def observe(self) -> None:
        """Poll until stopped. Raises Unreachable."""
        # Quicker to say no than a new admin client, which a stop would have to wait for.
        self._connection.reach(REACH_LIMIT_S)
        try:
            while not self.stopping.is_set():
                started_s = time.monotonic()
                self._poll()
                self._polls += 1
                self.polled()
                self.stopping.wait(max(0.05, POLL_MS / 1000 - (time.monotonic() - started_s)))
        finally:
            self._tails.close()
            # What was answered before this source went blind proves nothing of now.
            self.current.see_groups({}, {})

    def _poll(self) -> None:
        self._missing = {}
        self._follow_the_clock()
        layout = self._known_layout()
        open_ = self.current.transactions.open_at_coordinators()
        swept = self._poll_groups(layout)
        self._poll_members(open_, layout, swept)
        partitions = self._due(layout, open_, swept)
        self._poll_partitions(partitions, layout)
        self._poll_producers(self._tracker.held(partitions), layout, open_)
        find_restores(self._tracker, open_, self._groups, self._members, now_ms())
        for read in self._tails.read(self._tracker.unread_tails(TAILS_PER_POLL)):
            self._tracker.read_tail(read.wanted, has_record=read.has_record, read_to=read.read_to)
        self.limit = _missing_text(self._missing)
        self._show()

    def _follow_the_clock(self) -> None:
        """Move all times by which waits are measured with a step of the clock."""
        by_ms, self._shifted_ms = CLOCK.shifted_ms - self._shifted_ms, CLOCK.shifted_ms
        if by_ms:
            self._tracker.shift(by_ms)
            self._suspects = {key: suspect.shifted(by_ms) for key, suspect in self._suspects.items()}

    def _known_layout(self) -> Layout:
        at_s = time.monotonic()
        age_ms = (at_s - self._layout_s) * 1000
        if self._layout is None or age_ms >= LAYOUT_MS or (self._layout_is_old and age_ms >= LAYOUT_SOON_MS):
            self._layout, self._layout_s, self._layout_is_old = self._brokers.layout(), at_s, False
            there = {*self._layout.leaders, *self._layout.leaderless}
            self._tracker.keep_only(there)
            self._watched = sorted(
                partition for partition in self._layout.leaders if _is_watched(partition, self._layout)
            )
            self._by_name = {partition_name(partition): partition for partition in self._watched}
            self._suspects = {key: s for key, s in self._suspects.items() if s.producer.partition in there}
        for partition in self._layout.leaderless:
            if _is_watched(partition, self._layout):
                self._missing[partition_name(partition)] = "no leader"
        return self._layout

    def _due(self, layout: Layout, open_: Collection[BrokerTransaction], swept: Collection[str]) -> set[Partition]:
        """Return what to poll: what is open, hidden or read by a group with a lag, and a share of everything else."""
        watched = self._watched
        named: set[str] = set().union(*(transaction.partitions for transaction in open_))
        by_name = self._by_name
        if named - by_name.keys():
            self._layout_is_old = True
        now = {by_name[name] for name in named & by_name.keys()} | self._tracker.hiding()
        now |= self._tracker.not_up_to_date(swept)
        count = share(len(watched), POLL_MS, self._round_ms, PARTITIONS_PER_POLL)
        if self._polls_needed is None:
            proving = -(-HANGING_CONFIRM_MS // POLL_MS) + POLLS_TO_DOUBT
            self._polls_needed = -(-len(watched) // max(1, count)) + proving
        return {
            *self._open_sweep.take(now & layout.leaders.keys(), PARTITIONS_PER_POLL),
            *self._partition_sweep.take(watched, count),
        }

    def _poll_groups(self, layout: Layout) -> list[str]:
        """Poll the groups that read partitions that are held back, and a share of all groups; return the latter."""
        at_s = time.monotonic()
        if (at_s - self._groups_s) * 1000 >= self._round_ms:
            answers = self._brokers.groups(layout)
            self._failed({f"groups of broker {node}": error for node, error in answers.failed.items()})
            groups = [group for found in answers.found.values() for group in found]
            waiting = self._share_that_wait([group.name for group in groups if group.is_share])
            listed = {group.name: group.state for group in groups if not group.is_share or group.name in waiting}
            # Groups of a broker that did not answer are kept as they were.
            self._groups = (self._groups if answers.failed else {}) | listed
            self._share = (self._share if answers.failed else frozenset()) | waiting
            self._tracker.keep_only_groups(self._groups)
            self._member_counts = {group: self._member_counts.get(group) for group in self._groups}
            self._groups_s = at_s
        self._failed(self._unknown_share)
        count = share(len(self._groups), POLL_MS, self._round_ms, GROUPS_PER_POLL)
        swept = self._group_sweep.take(self._groups, count)
        readers = self._tracker.readers_of(self._tracker.held(self._tracker.hiding()))
        wanted: dict[str, list[Partition] | None] = {
            group: readers[group] for group in readers if group in self._groups
        }
        wanted |= dict.fromkeys(swept)
        asked_ms = now_ms()
        consumers = {group: partitions for group, partitions in wanted.items() if group not in self._share}
        share_ = {group: partitions for group, partitions in wanted.items() if group in self._share}
        for offsets in (
            self._brokers.group_offsets(consumers),
            read_to(self._connection, self._brokers, share_, layout),
        ):
            self._failed({f"group {group}": error for group, error in offsets.failed.items()})
            for group, found in offsets.found.items():
                is_whole = wanted[group] is None
                self._tracker.saw_group(group, self._groups[group], found, asked_ms, is_whole=is_whole)
        return swept

    def _share_that_wait(self, groups: Sequence[str]) -> frozenset[str]:
        """Return those of these share groups that read only what is committed; which of them is not told is noted."""
        answers = read_committed(self._connection, groups)
        self._unknown_share = {f"isolation level of share group {name}": why for name, why in answers.failed.items()}
        return frozenset(name for name, waits in answers.found.items() if waits)

    def _poll_members(self, open_: Collection[BrokerTransaction], layout: Layout, swept: Collection[str]) -> None:
        """Ask whose offsets open transactions hold, and who is in the groups of Kafka Streams: is the owner still there?

        Of ``swept`` only the number of members is kept.
        """
        parsed = (StreamsId.parse(transaction.identity.transaction) for transaction in open_)
        groups = sorted({streams.application for streams in parsed if streams is not None} & self._groups.keys())
        owners = groups[:GROUPS_PER_POLL]
        answers = members(self._connection, {*owners, *swept}, now_ms())
        self._failed(
            {f"members of group {group}": answers.failed[group] for group in owners if group in answers.failed}
        )
        for group, seen in answers.found.items():
            self._member_counts[group] = seen.count if seen.state != DEAD else None
        self._members = {group: answers.found[group] for group in owners if group in answers.found}
        self._held = self._poll_held_offsets(open_, layout)
        named = {f"{CONSUMER_OFFSETS}-{number}": held for number, held in self._held.items()}
        self.current.see_groups(self._members, named)

    def _poll_held_offsets(self, open_: Collection[BrokerTransaction], layout: Layout) -> dict[int, HeldOffsets]:
        """Return whose offsets are held on each partition of ``__consumer_offsets``, of as many as one poll may ask for."""
        at_ms = now_ms()
        # Most commit before the next poll: those are not asked about.
        old = (each for each in open_ if not 0 <= at_ms - each.identity.start_ms < POLL_MS)
        by_name = self._by_name
        held: dict[int, set[Partition]] = {}
        for transaction in sorted(old, key=lambda each: each.identity.start_ms):
            partitions = {by_name[name] for name in transaction.partitions if name in by_name}
            for topic, number in partitions:
                if topic == CONSUMER_OFFSETS:
                    held.setdefault(number, set()).update(partitions)
        if not held:
            return {}
        count = sum(topic == CONSUMER_OFFSETS for topic, _ in (*layout.leaders, *layout.leaderless))
        kept_in = kept_groups(self._groups, held, count)
        # A partition of which one group was not asked proves nothing: whole partitions, the oldest transactions first.
        groups_of, left = Counter(kept_in.values()), GROUPS_PER_POLL
        asked: dict[int, set[Partition]] = {}
        for number, partitions in held.items():
            left -= groups_of[number]
            if left < 0 and asked:
                break
            asked[number] = partitions
        kept_in = {group: number for group, number in kept_in.items() if number in asked}
        answers = held_offsets(self._connection, layout, asked, kept_in, self._held, at_ms)
        self._failed({f"{CONSUMER_OFFSETS}-{number}": error for number, error in answers.failed.items()})
        return answers.found

    def _poll_partitions(self, partitions: Collection[Partition], layout: Layout) -> None:
        asked_ms = now_ms()
        # In this order: what is above the last stable offset then was there before, so it is hidden indeed.
        high = self._brokers.high_watermarks(partitions, layout)
        stable = self._brokers.last_stable_offsets(high.found.keys(), layout)
        self._failed({partition_name(p): error for p, error in (high.failed | stable.failed).items()})
        if partitions and not stable.found:
            self._layout = None
            failure = next(iter((high.failed | stable.failed).values()))
            raise Unreachable(f"none of {len(partitions)} partitions returned its offsets: {failure}")
        for partition, offset in stable.found.items():
            self._tracker.saw_partition(partition, offset, high.found[partition], asked_ms)

    def _poll_producers(
        self, held: Collection[Partition], layout: Layout, open_: Collection[BrokerTransaction]
    ) -> None:
        """Find who holds these partitions' last stable offsets back, and what of it hangs."""
        polled_ms = now_ms()
        suspected = {suspect.producer.partition for suspect in self._suspects.values()}
        answers = self._brokers.open_producers({*held, *suspected} & layout.leaders.keys(), layout)
        self._failed({partition_name(partition): error for partition, error in answers.failed.items()})
        seen = [producer for producers in answers.found.values() for producer in producers]
        known = _explained(seen, open_, polled_ms)
        strangers = [producer for producer in seen if key_of(producer) not in known]
        try:
            doubts = self._coordinators.doubts(strangers, layout)
            if strangers and not self._coordinators.sees_all:
                self._missing["transaction coordinators"] = "may not describe every transactional id"
        except Unreachable as error:
            self._missing["transaction coordinators"] = str(error)
            doubts = {}
        self._suspects = followed(
            self._suspects,
            answers.found.keys(),
            seen,
            {**dict.fromkeys(known), **doubts},
            polled_ms=polled_ms,
            answered_ms=now_ms(),
            confirm_ms=HANGING_CONFIRM_MS,
        )
        for partition, producers in answers.found.items():
            self._tracker.saw_holder(partition, self._holder(producers[0], known) if producers else None)

    def _holder(self, producer: OpenProducer, known: Mapping[str, BrokerTransaction]) -> Holder:
        key = key_of(producer)
        transaction, suspect = known.get(key), self._suspects.get(key)
        if transaction is not None:
            identity = transaction.identity
            return Holder(
                producer=producer, key=transaction.key, transaction=identity.transaction, opened_ms=identity.start_ms
            )
        is_proven = suspect is not None and suspect.found_ms is not None
        name = suspect.doubt.transaction if suspect is not None else ""
        return Holder(producer=producer, key=key if is_proven else "", transaction=name, opened_ms=None)

    def _failed(self, errors: Mapping[str, BrokerAnswer]) -> None:
        self._missing |= {name: answer.name for name, answer in errors.items()}
        self._layout_is_old |= any(answer.asks_for_layout for answer in errors.values())

    def _show(self) -> None:
        hanging = tuple(suspect for suspect in self._suspects.values() if suspect.found_ms is not None)
        self.findings = PartitionFindings(
            at_ms=now_ms(),
            blocked=self._tracker.blocked(),
            hanging=hanging,
            read_by=self._tracker.read_by(),
            snapshots=self._tracker.snapshots(),
            groups={
                group: SeenGroup(state=state, members=self._member_counts.get(group))
                for group, state in self._groups.items()
            },
        )
        shown = (
            [
                (
                    b.snapshot.partition,
                    b.snapshot.last_stable_offset,
                    b.holder,
                    [(r.group, r.kind, r.certainty) for r in b.readers],
                )
                for b in self.findings.blocked
            ],
            [suspect.revision for suspect in hanging],
        )
        if shown != self._shown:
            self._shown = shown
            self.current.changed()


def _is_watched(partition: Partition, layout: Layout) -> bool:
    return partition[0] == CONSUMER_OFFSETS or partition[0] not in layout.internal


def _explained(
    seen: Collection[OpenProducer], open_: Collection[BrokerTransaction], at_ms: int
) -> dict[str, BrokerTransaction]:
    """Return by key which of these belong to a transaction that its coordinator has open there and will end."""
    by_producer: dict[int, list[BrokerTransaction]] = {producer.producer_id: [] for producer in seen}
    for transaction in open_ if seen else ():
        if (of_it := by_producer.get(transaction.identity.producer_id)) is not None:
            of_it.append(transaction)
    found: dict[str, BrokerTransaction] = {}
    for producer in seen:
        for transaction in by_producer[producer.producer_id]:
            ends_ms = transaction.identity.start_ms + (transaction.timeout_ms or 0) + OVERDUE_MS
            is_due = transaction.timeout_ms != 0 and at_ms > ends_ms
            if partition_name(producer.partition) in transaction.partitions and not is_due:
                found[key_of(producer)] = transaction
    return found


def _missing_text(missing: Mapping[str, str]) -> str:
    if not missing:
        return ""
    shown = [f"{name} ({why})" for name, why in sorted(missing.items())[:SHOWN_MISSING]]
    more = f" and {len(missing) - SHOWN_MISSING} more" if len(missing) > SHOWN_MISSING else ""
    return f"no answer from {', '.join(shown)}{more}"
