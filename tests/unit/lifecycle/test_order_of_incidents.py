"""The one order of incidents: whose turn it is, then deadline, severity and age; what is over stands last."""

from __future__ import annotations

import random
from typing import Any

from indoubt.lifecycle.rows.incidents import Incident, IncidentState, place


def incident(key: str, state: IncidentState, **changes: Any) -> Incident:
    known: dict[str, Any] = {"severity": "warning", "since_ms": None, "deadline_ms": None, **changes}
    return Incident(
        key=key, state=state, application="", headline="", consequence="", steps=(), parts=(), alerts=(), **known
    )


def test_what_a_person_must_do_first_stands_first() -> None:
    ordered = [
        incident("soon", IncidentState.ACT, deadline_ms=10),
        incident("later", IncidentState.ACT, deadline_ms=20, severity="critical"),
        incident("severe", IncidentState.ACT, severity="critical", since_ms=9),
        incident("old", IncidentState.ACT, since_ms=1),
        incident("young", IncidentState.ACT, since_ms=2),
        incident("unknown age", IncidentState.ACT),
        incident("waits", IncidentState.WAIT, deadline_ms=5, severity="critical"),
        incident("just over", IncidentState.OVER, over_at_ms=90, deadline_ms=1),
        incident("long over", IncidentState.OVER, over_at_ms=80, severity="critical"),
    ]
    mixed = random.Random(1).sample(ordered, len(ordered))
    assert sorted(mixed, key=place) == ordered
