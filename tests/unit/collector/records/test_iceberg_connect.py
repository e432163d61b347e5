"""Where the files of a sink for Kafka Connect are: in the table, twice, not yet, not, left out, not known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from indoubt.collector.records.formats.iceberg_events import ControlEvent, EventKind
from indoubt.collector.records.iceberg_connect import (
    CLOCKS_MS,
    CoordinatorGroup,
    Place,
    TableSeen,
    Written,
    coordinator_group,
    place_of,
)
from indoubt.collector.records.iceberg_snapshots import Snapshot, TableHistory
from indoubt.lifecycle.verdicts import Certainty

T0 = 1_796_000_000_000
TABLE_UUID, OTHER_UUID = "e4d6c8e0-1b71-456d-b569-7c27665893ac", "00000000-1b71-456d-b569-7c27665893ac"
EVENT = ControlEvent(
    kind=EventKind.DATA_WRITTEN,
    group="connect-lake",
    commit="c1",
    at_ms=T0,
    table="db.orders",
    table_uuid=TABLE_UUID,
    files=frozenset({"/a", "/b"}),
    rows=7,
)
WRITTEN = Written("control", 0, 17, EVENT)
ALIVE, GONE, NEVER = (
    CoordinatorGroup(members=1, offsets={0: 17}),
    CoordinatorGroup(members=0, offsets={0: 17}),
    CoordinatorGroup(members=0, offsets={}),
)


def snapshot(
    id_: int, parent: int | None, offset: int | None = None, *, at: int = 0, key: str = "control.connect-lake"
) -> Snapshot:
    """Return a snapshot ``at`` ms after the event, by which the control topic is done up to ``offset``."""
    told = {f"kafka.connect.offsets.{key}": json.dumps({"0": offset}), "kafka.connect.commit-id": f"c{id_}"}
    return Snapshot(id=id_, parent=parent, at_ms=T0 + at, summary={} if offset is None else told)


def table(
    *snapshots: Snapshot, adds: Mapping[int, set[str]] | None = None, uuid: str = TABLE_UUID, **branches: int
) -> TableSeen:
    return TableSeen(uuid, TableHistory(snapshots={each.id: each for each in snapshots}, branches=branches), adds or {})


BEFORE, LONG_AGO = snapshot(1, None, 4, at=-90_000), snapshot(1, 0, 4, at=-90_000)
ADDING, OTHERS = snapshot(2, 1, 21), snapshot(3, 2)
BOTH = {"/a", "/b"}


@pytest.mark.parametrize(
    ("why", "found", "group", "place", "says"),
    [
        ("added", table(BEFORE, ADDING, adds={2: BOTH}, main=2), ALIVE, Place.ADDED, "snapshot 2 adds them"),
        ("by one without offsets", table(BEFORE, OTHERS, ADDING, adds={3: BOTH}, main=3), GONE, Place.ADDED, "3 adds"),
        ("on a branch", table(BEFORE, ADDING, adds={2: BOTH}, main=1, audit=2), GONE, Place.ADDED, "snapshot 2 adds"),
        ("twice", table(BEFORE, ADDING, snapshot(3, 2, 22), adds={2: BOTH, 3: BOTH}, main=3), ALIVE, Place.TWICE,
         "snapshots 2 (commit c2) and 3 (commit c3) add the same files"),
        ("one file twice", table(BEFORE, ADDING, OTHERS, adds={2: BOTH, 3: {"/b", "/c"}}, main=3), ALIVE, Place.TWICE,
         "snapshots 2 (commit c2) and 3 (commit unknown)"),
        ("once on each of two branches", table(BEFORE, ADDING, snapshot(3, 1, 21), adds={2: BOTH, 3: BOTH}, main=2, b=3),
         GONE, Place.ADDED, "adds them"),
        ("a coordinator is there", table(BEFORE, main=1), ALIVE, Place.WAITING, "1 coordinator in group connect-lake-coord"),
        ("no snapshot at all", table(), ALIVE, Place.WAITING, "no snapshot adds them"),
        ("none is there", table(BEFORE, main=1), GONE, Place.LEFT, "restart the connector, its coordinator adds them"),
        ("none ever was", table(), NEVER, Place.LEFT, "leaves them out, unless it has iceberg.kafka.auto.offset.reset"),
        ("its offset is the next", table(BEFORE, snapshot(2, 1, 17), main=2), GONE, Place.LEFT, "restart"),
        ("passed", table(BEFORE, snapshot(2, 1, 18), main=2), ALIVE, Place.PASSED, "done up to offset 18: a coordinator"),
        ("passed, then others wrote", table(BEFORE, ADDING, OTHERS, main=3), GONE, Place.PASSED, "snapshot 2 says"),
        ("passed by another connector", table(BEFORE, snapshot(2, 1, 18, key="control.connect-b"), main=2), GONE,
         Place.LEFT, "restart"),
        ("passed on another topic", table(BEFORE, snapshot(2, 1, 18, key="c2.connect-lake"), main=2), GONE,
         Place.LEFT, "restart"),
        ("the offsets of a fork are behind", table(BEFORE, ADDING, main=1, audit=2), GONE, Place.PASSED, "snapshot 2"),
        ("another table of that name", table(BEFORE, adds={1: BOTH}, uuid=OTHER_UUID, main=1), ALIVE, Place.PASSED,
         "was created again"),
        ("rolled back", table(BEFORE, ADDING, adds={2: BOTH}, main=1), GONE, Place.UNCLEAR, "rolled back behind it"),
        ("what is older is expired", table(LONG_AGO, main=1), GONE, Place.LEFT, "restart"),
        ("so is what may have added it", table(snapshot(5, 4, 21, at=1 - CLOCKS_MS), main=5), GONE, Place.UNCLEAR,
         "older ones are expired"),
        ("offsets that are none", table(snapshot(1, None, key="control.connect-lake")._replace(
            summary={"kafka.connect.offsets.control.connect-lake": "[1]"}), main=1), GONE, Place.LEFT, "restart"),
    ],
)  # fmt: skip
def test_where_files_are(why: str, found: TableSeen, group: CoordinatorGroup, place: Place, says: str) -> None:
    placed = place_of(WRITTEN, found, group)
    assert placed.place is place, why
    assert says in placed.why, why
    # That no snapshot adds them rests on clocks, and is said only with that.
    rests_on_clocks = place in (Place.PASSED, Place.LEFT) and "was created again" not in placed.why
    assert placed.certainty is (Certainty.LIKELY if rests_on_clocks else Certainty.CERTAIN), why
    assert ("assumed: the clocks" in placed.why) is rests_on_clocks, why


def test_what_only_the_group_has_passed_is_likely_left_out() -> None:
    placed = place_of(WRITTEN, table(BEFORE, main=1), CoordinatorGroup(members=1, offsets={0: 18}))
    assert (placed.place, placed.certainty) == (Place.PASSED, Certainty.LIKELY)
    assert "read up to offset 18" in placed.why
    assert "and none that runs still has them to add" in placed.why


def test_of_a_group_that_is_not_of_the_classic_protocol_no_members_are_known() -> None:
    unknown = place_of(WRITTEN, table(BEFORE, main=1), CoordinatorGroup(members=None, offsets={0: 17}))
    assert (unknown.place, unknown.certainty) == (Place.UNCLEAR, Certainty.CERTAIN)
    assert "who is in group connect-lake-coord is not known" in unknown.why
    none = place_of(WRITTEN, table(BEFORE, main=1), CoordinatorGroup(members=None, offsets={}))
    assert (none.place, none.certainty) == (Place.LEFT, Certainty.LIKELY)
    assert "has no offset (assumed: and no member)" in none.why


def test_before_iceberg_1_11_an_event_does_not_say_which_table_of_its_name() -> None:
    old = Written("control", 0, 17, replace(EVENT, table_uuid=""))
    assert place_of(old, table(BEFORE, main=1, uuid=OTHER_UUID), GONE).place is Place.LEFT


def test_coordinators_have_a_group_of_their_own() -> None:
    assert coordinator_group("connect-lake") == "connect-lake-coord"
