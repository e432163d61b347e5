"""Whether what Iceberg's sink for Kafka Connect has written is in its table, and how often. Pure.

Tasks tell of the files they have written in the control topic. A coordinator, one of the tasks, adds them to the table by a
snapshot whose summary says up to which offset of the control topic it has read. A coordinator that is started goes on from the
offsets of its consumer group, and passes over what is below the offsets of the table's newest snapshot that has some. Source:
Coordinator, CommitState and Channel of iceberg-kafka-connect 1.9 to 1.11.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from indoubt.collector.records.formats.iceberg_events import ControlEvent
from indoubt.collector.records.iceberg_snapshots import Snapshot, TableHistory
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.verdicts import Certainty

COMMIT = "kafka.connect.commit-id"
CLOCKS_MS = 60_000
"""So far at most the clocks of the tasks and of who adds snapshots may be apart."""
CLOCKS_AGREE = "assumed: the clocks of its tasks and of who adds snapshots agree to within a minute"


class Written(NamedTuple):
    """A DATA_WRITTEN event, and where it stands in the control topic."""

    topic: str
    partition: int
    offset: int
    event: ControlEvent


def coordinator_group(group: str) -> str:
    """Return the consumer group by which the coordinators of a connector read the control topic; ``group``: the connector's own."""
    return f"{group}-coord"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorGroup:
    """The group of a connector's coordinators, as its owner says now; ``offsets``: partition of the control topic -> committed.

    ``members``: None where that is not told: there is no such group, or it is not of the classic protocol.
    """

    members: int | None
    offsets: Mapping[int, int]


class TableSeen:
    """A table as it is now; ``adds``: snapshot -> the data and delete files that it adds."""

    def __init__(self, uuid: str, history: TableHistory, adds: Mapping[int, Iterable[str]]) -> None:
        self.uuid, self.history = uuid, history
        self._lines = [frozenset(each.id for each in history.line(branch)) for branch in history.branches]
        self._by_file: dict[str, set[int]] = {}
        for snapshot, files in adds.items():
            for file in files:
                self._by_file.setdefault(file, set()).add(snapshot)

    def adding(self, files: Iterable[str]) -> tuple[Snapshot, ...]:
        """Return the snapshots that add one of these files and are part of one branch, the oldest first."""
        found = self._by(files)
        of_branch = max((found & line for line in self._lines), key=len, default=set())
        return self._snapshots(of_branch)

    def added_once(self, files: Iterable[str]) -> tuple[Snapshot, ...]:
        """Return the snapshots that add one of these files, part of a branch or not, the oldest first."""
        return self._snapshots(self._by(files))

    def is_kept_since(self, at_ms: int) -> bool:
        """Say whether every snapshot is kept that was added to a branch since then."""
        for branch in self.history.branches:
            oldest = [*self.history.line(branch)][-1:]
            if not oldest or (oldest[0].parent is not None and oldest[0].at_ms >= at_ms):
                return False
        return True

    def _by(self, files: Iterable[str]) -> set[int]:
        return {snapshot for file in files for snapshot in self._by_file.get(file, ())}

    def _snapshots(self, ids: Iterable[int]) -> tuple[Snapshot, ...]:
        return tuple(sorted((self.history.snapshots[each] for each in ids), key=lambda each: each.at_ms))


class Place(Enum):
    """Where the files of an event are; the value is what is shown."""

    ADDED = "in the table"
    TWICE = "in the table twice"
    WAITING = "not yet in the table"
    """A coordinator is there that adds them."""
    LEFT = "not in the table"
    """No coordinator is there; one that is started adds them."""
    PASSED = "left out of the table"
    """No coordinator will add them."""
    UNCLEAR = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where the files of an event are, how sure that is, and why; ``snapshots``: those that add them."""

    written: Written
    place: Place
    certainty: Certainty
    why: str
    snapshots: tuple[Snapshot, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSeen:
    """What was seen of the connectors that share a control topic; ``at_ms``: when (epoch ms).

    ``coordinators``: connector's group -> how many there are. ``unasked``: (group, table) of what could not be asked now, which
    ``placed`` does not have.
    """

    at_ms: int
    placed: tuple[Placed, ...]
    coordinators: Mapping[str, int]
    unasked: frozenset[tuple[str, str]] = frozenset()


def place_of(written: Written, table: TableSeen, coordinators: CoordinatorGroup) -> Placed:
    """Return where the files of an event are; the group was asked after the event was read, and the table after the group."""

    def placed(
        place: Place, why: str, snapshots: tuple[Snapshot, ...] = (), certainty: Certainty = Certainty.CERTAIN
    ) -> Placed:
        return Placed(written=written, place=place, certainty=certainty, why=why, snapshots=snapshots)

    event = written.event
    where = f"offset {written.offset} of {written.topic}-{written.partition}"
    if event.table_uuid and event.table_uuid != table.uuid:
        return placed(
            Place.PASSED, f"{event.table} was created again since: a coordinator passes over what was written before"
        )
    added = table.adding(event.files)
    if len(added) > 1:
        ids = " and ".join(f"{each.id} (commit {each.summary.get(COMMIT, 'unknown')})" for each in added)
        return placed(Place.TWICE, f"snapshots {ids} add the same files: their rows are read twice", added)
    if added:
        return placed(Place.ADDED, f"snapshot {added[0].id} adds them", added)
    if once := table.added_once(event.files):
        why = f"snapshot {once[0].id} added them and is part of no branch: the table was rolled back behind it"
        return placed(Place.UNCLEAR, why, once)
    if not table.is_kept_since(event.at_ms - CLOCKS_MS):
        return placed(Place.UNCLEAR, "no snapshot that is kept adds them, and older ones are expired")
    # What follows rests on clocks: a snapshot that seems older than the event is not looked into.
    newest = newest_offsets(written, table.history)
    if newest is not None and newest[1].get(written.partition, 0) > written.offset:
        return placed(
            Place.PASSED,
            f"no snapshot adds them, and snapshot {newest[0].id} says that the control topic is done up to offset "
            f"{newest[1][written.partition]}: a coordinator passes over {where}; {CLOCKS_AGREE}",
            certainty=Certainty.LIKELY,
        )
    read_to = coordinators.offsets.get(written.partition)
    if read_to is not None and read_to > written.offset:
        return placed(
            Place.PASSED,
            f"no snapshot adds them, and its coordinators have read up to offset {read_to}: one that is started passes over "
            f"{where}; {CLOCKS_AGREE}, and none that runs still has them to add",
            certainty=Certainty.LIKELY,
        )
    group = coordinator_group(event.group)
    if coordinators.members:
        return placed(
            Place.WAITING, f"no snapshot adds them; {counted(coordinators.members, 'coordinator')} in group {group}"
        )
    if read_to is None:
        # Without an offset it is a group that never was, or one of another protocol.
        there = "no member and no offset" if coordinators.members == 0 else "no offset (assumed: and no member)"
        why = (
            f"no snapshot adds them, and group {group} has {there}: a restarted connector reads the control topic from its end "
            "and leaves them out, unless it has iceberg.kafka.auto.offset.reset=earliest"
        )
        return placed(Place.LEFT, f"{why}; {CLOCKS_AGREE}", certainty=Certainty.LIKELY)
    if coordinators.members is None:
        return placed(
            Place.UNCLEAR, f"no snapshot adds them; who is in group {group} is not known: its protocol is not classic"
        )
    why = f"no snapshot adds them, and group {group} has no member: restart the connector, its coordinator adds them"
    return placed(Place.LEFT, f"{why}; {CLOCKS_AGREE}", certainty=Certainty.LIKELY)


def newest_offsets(written: Written, history: TableHistory) -> tuple[Snapshot, Mapping[int, int]] | None:
    """Return the newest snapshot with this connector's offsets, and these: partition -> next offset; None: there is none.

    Which branch the connector writes to no event says: of several that have its offsets it is the one that is furthest.
    """
    name = f"kafka.connect.offsets.{written.topic}.{written.event.group}"
    found = []
    for branch in history.branches:
        newest = next((each for each in history.line(branch) if name in each.summary), None)
        if newest is not None and (offsets := _offsets(newest.summary[name])) is not None:
            found.append((newest, offsets))
    return max(found, key=lambda each: each[1].get(written.partition, 0), default=None)


def _offsets(text: str) -> Mapping[int, int] | None:
    try:
        return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
