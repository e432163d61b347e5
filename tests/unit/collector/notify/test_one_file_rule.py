"""A new alert rule is one file: it is found, fires, is named, and stands in an incident, and nothing else mentions it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from indoubt.collector.assess import rules
from indoubt.collector.assess.incidents import incidents
from indoubt.collector.notify.state_machine import AlertState
from indoubt.collector.serve.api.alert_routes import firing_rows
from tests.unit.collector.assess.situations import decided_and_open, one
from tests.unit.collector.assessments import changed, look
from tests.unit.collector.notify.test_evaluator import Stage
from tests.unit.collector.observations import T0

NAME, NUMBER = "young_and_decided", "A900"
SOURCE = """
from indoubt.collector.assess.findings import Severity, of_transaction
from indoubt.collector.assess.rule import Rule, Source
from indoubt.lifecycle.verdicts import Evidence


def decided(situation):
    return [judged.view for judged in situation.judged if judged.view.listing is not None]


def a900_decided(situation):
    for view in situation.read(decided):
        evidence = (Evidence(fact="it is listed", source="decision log"),)
        yield of_transaction(view, severity=Severity.WARNING, summary="it is decided", evidence=evidence)


A900 = Rule(
    number="A900",
    name="young and decided",
    find=a900_decided,
    consequence="It is committed in a moment.",
    sources=(Source.DECISIONS,),
    for_ms=1_000,
)
"""


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    (tmp_path / f"{NAME}.py").write_text(SOURCE)
    monkeypatch.setattr(rules, "__path__", [*rules.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    more = rules.discovered()
    assert [number for number in more if number not in rules.RULES] == [NUMBER] == list(more)[-1:]
    monkeypatch.setitem(rules.RULES, NUMBER, more[NUMBER])
    made = Stage(tmp_path)
    yield made
    made.close()
    del sys.modules[f"{rules.__name__}.{NAME}"]
    delattr(rules, NAME)


def test_a_rule_of_one_file_fires_and_stands_in_the_incident_of_its_application(stage: Stage) -> None:
    judged = one(5_000, decided_and_open())
    stage.snapshot = look(T0 + 5_000, judged=(judged,))
    stage.judge(0)
    stage.judge(1_000)
    (row,) = firing_rows(stage.evaluator)
    assert (row.rule, row.name, row.state) == (NUMBER, "young and decided", AlertState.FIRING.value)
    delivery = stage.kept.next_delivery("webhook")
    assert delivery is not None
    assert [alert["summary"] for alert in delivery.body["firing"]] == ["it is decided"]
    (incident,) = incidents(changed(stage.snapshot, alerts=(row,)), (), ())
    assert (incident.key, incident.alerts, incident.headline, incident.consequence) == (
        f"application {judged.view.pipeline}",
        (row.key,),
        "It is decided.",
        "It is committed in a moment.",
    )
