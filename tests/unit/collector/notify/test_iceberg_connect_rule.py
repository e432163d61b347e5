"""What the rule about sinks for Kafka Connect finds: by connector, table and where the files are; and several coordinators."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.collector.assess import rules
from indoubt.collector.assess.findings import Finding, Severity
from indoubt.collector.records.formats.iceberg_events import ControlEvent, EventKind
from indoubt.collector.records.iceberg_connect import ConnectSeen, Place, Placed, Written
from indoubt.lifecycle.verdicts import Certainty, Evidence
from tests.unit.collector.assessments import look
from tests.unit.collector.observations import T0

GROUP, TABLE, TOPIC = "connect-lake", "db.orders", "control"
EVENT = ControlEvent(
    kind=EventKind.DATA_WRITTEN, group=GROUP, commit="c1", at_ms=T0, table=TABLE, files=frozenset({"/a", "/b"}), rows=7
)


def written(place: Place, offset: int = 17, table: str = TABLE, certainty: Certainty = Certainty.CERTAIN) -> Placed:
    event = replace(EVENT, table=table, at_ms=T0 + offset)
    return Placed(written=Written(TOPIC, 0, offset, event), place=place, certainty=certainty, why="w")


def found(*placed: Placed, coordinators: int = 1, unasked: frozenset[tuple[str, str]] = frozenset()) -> list[Finding]:
    seen = ConnectSeen(at_ms=T0, placed=placed, coordinators={GROUP: coordinators}, unasked=unasked)
    return rules.findings(look(now_ms=T0 + 50_000, iceberg_connect={TOPIC: seen}))


@pytest.mark.parametrize(
    ("place", "severity", "says"),
    [
        (Place.LEFT, Severity.WARNING, "not in the table"),
        (Place.PASSED, Severity.CRITICAL, "left out of the table"),
        (Place.TWICE, Severity.CRITICAL, "in the table twice"),
    ],
)
def test_what_is_not_once_in_its_table_is_found(place: Place, severity: Severity, says: str) -> None:
    (finding,) = found(written(place), written(Place.ADDED, 4))
    assert finding == Finding(
        rule="A18",
        subject=f"control|connect-lake|db.orders|{place.name}",
        group="application connect-lake",
        severity=severity,
        summary=f"connect-lake wrote 2 files with 7 rows for db.orders: {says} (certain)",
        evidence=(
            Evidence(
                fact="commit c1: 2 files with 7 rows, the first of them /a; w", source="control-0@17", at_ms=T0 + 17
            ),
        ),
        subject_labels={"pipeline": GROUP},
        for_ms=60_000,
    )


@pytest.mark.parametrize("place", [Place.ADDED, Place.WAITING, Place.UNCLEAR])
def test_nothing_is_found_of_what_is_right_under_way_or_not_known(place: Place) -> None:
    assert not found(written(place))


def test_many_writes_of_one_table_are_one_finding_with_the_newest_as_evidence() -> None:
    many = [written(Place.PASSED, offset) for offset in range(12)]
    likely = written(Place.PASSED, 12, certainty=Certainty.LIKELY)
    first, other = found(*many, likely, written(Place.PASSED, table="db.other"))
    assert first.summary == "connect-lake wrote 26 files with 91 rows for db.orders: left out of the table (likely)"
    assert [each.source for each in first.evidence] == [f"control-0@{offset}" for offset in range(12, 2, -1)]
    assert other.subject == "control|connect-lake|db.other|PASSED"


def test_several_coordinators_are_found_and_are_evidence() -> None:
    several, twice = found(written(Place.TWICE), coordinators=2)
    assert (several.subject, several.severity) == ("control|connect-lake|coordinators", Severity.WARNING)
    assert several.summary.startswith("connect-lake has 2 coordinators: each may add the same files")
    assert twice.evidence[-1] == several.evidence[0]
    assert twice.evidence[-1].fact.startswith("group connect-lake-coord, which reads control, has 2 members")


def test_of_a_table_that_cannot_be_asked_nothing_ends() -> None:
    seen = ConnectSeen(at_ms=T0, placed=(), coordinators={}, unasked=frozenset({(GROUP, TABLE)}))
    held = rules.held(look(now_ms=T0, iceberg_connect={TOPIC: seen}))
    assert held == {f"A18|control|connect-lake|db.orders|{place}" for place in ("LEFT", "PASSED", "TWICE")}
