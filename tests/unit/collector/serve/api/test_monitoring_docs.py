"""docs/monitoring against the code: every metric, label and label value that rules and dashboard name is exported."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import yaml
from prometheus_client.core import Metric

from indoubt.collector.assess import rules as alert_rules
from indoubt.collector.assess.findings import Severity
from indoubt.collector.notify.evaluator import ShownAlert
from indoubt.collector.notify.notifiers.delivery import Outcome
from indoubt.collector.notify.state_machine import Alert, AlertState
from indoubt.collector.notify.store import ReceiverStatus
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.log_settings import LogSettings
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.records.standing_orders import OrderReport, StandingReport
from indoubt.collector.serve.api import metrics
from indoubt.collector.serve.api.application_metrics import PipelineLabels, gauge
from indoubt.collector.serve.api.metrics import Seen
from indoubt.collector.serve.api.partition_metrics import SeenDatabase, SeenPartitions
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.verdicts.verdict_rules import judge
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Verdict
from tests.unit.collector.notify.test_state_machine import finding
from tests.unit.collector.observations import PREFIX, T0, broker_record, case, only_view, pipeline, run_started
from tests.unit.collector.partition_sightings import partition_findings

DIRECTORY = Path(__file__).parents[5] / "docs" / "monitoring"
RULES = yaml.safe_load((DIRECTORY / "alert_rules.yml").read_text())
DASHBOARD = json.loads((DIRECTORY / "grafana_dashboard.json").read_text())
README = (DIRECTORY / "README.md").read_text()
ALERTS = (DIRECTORY.parent / "alerts.md").read_text()
PROMETHEUS_OWN = {"up": {"job", "instance"}}
ADDED = {"job", "instance", "cluster"}
"""By Prometheus, and by the collector to every metric."""
VALUES = {
    "state": {state.value for state in TransactionState} | {state.value for state in AlertState},
    "verdict": {verdict.value for verdict in Verdict},
    "severity": {severity.value for severity in Severity},
}


FOUND = partition_findings()


def one_of_everything() -> Seen:
    view = only_view(run_started(), broker_record(BrokerStatus.ONGOING, 0))
    judged = Judged(view=view, judgement=judge(case(view, 0)), pipeline=pipeline())
    status = ObserverStatus(
        kind=ObserverKind.PARTITIONS, state=ObserverState.UP, delay_ms=5, since_ms=T0, error="", records=3
    )
    firing = Alert(finding=finding(), state=AlertState.FIRING, since_ms=T0, found_ms=T0, fired_ms=T0)
    completed = CheckpointFacts(pipeline=PREFIX, number=7, started_ms=T0, completed_ms=T0 + 10)
    return Seen(
        lost_forgotten=0,
        now_ms=T0 + 1_000,
        transactions=[judged],
        ends=(1, 1),
        ends_of_applications={("flink", "eu/orders"): (1, 1)},
        counts=(2, 1),
        checkpoints=[completed],
        observers=[status],
        alerts=[ShownAlert(alert=firing, silence=None)],
        receiver_statuses=[ReceiverStatus(receiver="webhook", waiting=1, oldest_ms=T0, given_up=0, error="")],
        attempts={("webhook", Outcome.FAILED): 1},
        history_waiting=0,
        history_error="",
        log_settings=LogSettings(topic="t", wrong=(), at_ms=T0),
        partitions=SeenPartitions(
            findings=FOUND,
            holders={one.snapshot.partition: view.application for one in FOUND.blocked},
            hanging={one.key: view.application for one in FOUND.hanging},
        ),
        databases=[SeenDatabase(instance="postgres", prepared=1, since_ms=T0, xmin_age=7)],
        standing=StandingReport(orders=(OrderReport(name="save", act=Action.COMMIT),)),
        leads=True,
    )


SEEN = one_of_everything()


def everything() -> dict[str, set[str]]:
    """Return every metric of that scrape: name -> labels."""
    found: dict[str, set[str]] = {}
    shown: list[Metric] = list(metrics.families(SEEN, PipelineLabels(10)))
    for family in shown:
        assert family.samples, f"{family.name} has no sample"
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


EXPORTED = everything()
KNOWN = EXPORTED | PROMETHEUS_OWN


def expressions() -> Iterator[str]:
    """Yield every expression of the rules and the dashboard."""
    for group in RULES["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if isinstance(variable["query"], dict):
            yield variable["query"]["query"]


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_an_expression_names_metrics_labels_and_values_that_exist(expression: str) -> None:
    names = re.findall(r"\b(indoubt_\w+|up)\b", expression)
    assert names, "it asks for nothing"
    labels = set().union(*(KNOWN[name] for name in names)) | ADDED
    assert expression.count("(") == expression.count(")")
    for name, matchers in re.findall(r"(indoubt_\w+|up)\{([^}]*)\}", expression):
        for label, value in re.findall(r'(\w+)\s*=~?\s*"([^"]*)"', matchers):
            assert label in KNOWN[name] | ADDED, f"{name} has no label {label}"
            known = VALUES.get(label)
            if known is not None:
                assert set(value.split("|")) <= known, f"{label} is never {value}"
    for by in re.findall(r"by \(([^)]*)\)", expression):
        assert {label.strip() for label in by.split(",")} <= labels
    for metric, label in re.findall(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", expression):
        assert label in KNOWN[metric] | ADDED


def test_rules_have_what_prometheus_asks_for() -> None:
    rules = [rule for group in RULES["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1s"))
        names = set(re.findall(r"\b(?:indoubt_\w+|up)\b", rule["expr"]))
        labels = set().union(*(KNOWN[name] for name in names)) | ADDED
        used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert used <= labels, f"{rule['alert']} tells labels that its metric lacks"


def test_every_rule_leads_to_what_to_do() -> None:
    for rule in (rule for group in RULES["groups"] for rule in group["rules"]):
        path, _, place = rule["annotations"]["runbook_url"].partition("#")
        text = (DIRECTORY.parent.parent / path).read_text()
        headings = {
            re.sub(r"[^a-z0-9 -]", "", line.lower()).replace(" ", "-") for line in re.findall(r"^#+ (.*)$", text, re.M)
        }
        wanted = [rule.number for rule in alert_rules.RULES.values()] if "{{" in place else [place]
        assert set(wanted) <= headings | set(re.findall(r'<a id="([^"]+)">', text)), rule["alert"]


def test_every_variable_is_defined_and_every_look_is_of_the_chosen_clusters() -> None:
    defined = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(DASHBOARD)))
    assert used == defined
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            assert not re.search(r"\bindoubt_\w+(?![\w{])", target["expr"])
            assert target["expr"].count('{cluster=~"$cluster"') == len(re.findall(r"\bindoubt_\w+", target["expr"]))


def test_legends_show_labels_that_exist() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            names = re.findall(r"\bindoubt_\w+", target["expr"])
            labels = set().union(*(KNOWN[name] for name in names)) | ADDED
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed: Debian's package prometheus")
def test_promtool_finds_nothing_to_say(tmp_path: Path) -> None:
    rules = subprocess.run(
        ["promtool", "check", "rules", DIRECTORY / "alert_rules.yml"], capture_output=True, text=True
    )
    assert rules.returncode == 0, rules.stderr
    text = metrics.exposition(metrics.families(SEEN, PipelineLabels(10)))
    shown = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    assert (shown.returncode, shown.stdout + shown.stderr) == (0, b""), shown.stderr


def test_the_dashboard_fits_grafanas_schema() -> None:
    schema = json.loads((Path(__file__).parent / "vendor" / "grafana_dashboard.schema.json").read_text())
    jsonschema.Draft7Validator(schema).validate(DASHBOARD)
    wrong = {**DASHBOARD, "panels": [{**DASHBOARD["panels"][0], "gridPos": {"x": 0, "y": 0, "width": 6}}]}
    assert not jsonschema.Draft7Validator(schema).is_valid(wrong)


def test_panels_do_not_overlap_and_their_ids_differ() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        own = {(at["x"] + dx, at["y"] + dy) for dx in range(at["w"]) for dy in range(at["h"])}
        assert not own & cells
        cells |= own
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_every_metric_is_documented_with_its_labels_and_nothing_else_is() -> None:
    rows = re.findall(r"^\| (`indoubt_.*?) \| (.*?) \|", README, re.MULTILINE)
    documented = {
        name: set(re.findall(r"`(\w+)`", labels)) for names, labels in rows for name in re.findall(r"`(\w+)`", names)
    }
    assert documented == EXPORTED


def test_every_rule_is_documented_in_order_with_its_name() -> None:
    rows = re.findall(r"^\| <a id=\"A\d+\"></a>\*\*(A\d+)\*\* ([a-z ]+)((?: \| [^|]+){5}) \|$", ALERTS, re.MULTILINE)
    assert [row[:2] for row in rows] == [(rule.number, rule.name) for rule in alert_rules.RULES.values()]
    assert "| rule | fires when | severity | check | do | else |" in ALERTS


def test_how_long_a_rule_waits_is_documented() -> None:
    (told,) = re.findall(r"found for as long as its rule says: (.*?), the others at once", " ".join(ALERTS.split()))
    waits = {rule.number: rule.for_ms // 1000 for rule in alert_rules.RULES.values() if rule.for_ms}
    documented: dict[str, int] = {}
    for rules, seconds in re.findall(r"((?:A\d+(?: and )?)+) (\d+) s", told):
        documented |= dict.fromkeys(re.findall(r"A\d+", rules), int(seconds))
    assert documented == waits


def test_a_label_is_the_application_and_many_of_them_never_take_a_pipelines() -> None:
    labels, uuid = PipelineLabels(2), "6c7e1f0a-91b4-4a55-8f0e-0123456789ab"

    def label(transaction: str) -> str:
        return labels.of_transaction(only_view(broker_record(BrokerStatus.ONGOING, 0, transaction=transaction)))

    assert {label(f"shop-{uuid}-{thread}") for thread in range(2_000)} == {"shop"}
    assert [label(f"app{name}-{uuid}-1") for name in "abc"] == ["appa", "other", "other"]
    assert label("somebody-7") == "foreign"
    assert [labels.of(name) for name in ("wc", "wc-2", "wc-3")] == ["wc", "wc-2", "other"]


def test_all_metrics_of_a_cluster_with_a_name_say_it() -> None:
    gauges = [
        gauge("a", "words", ("cluster",), {("flink",): 1.0}),
        gauge("b", "words", (), {(): 2.0}),
    ]
    lines = metrics.exposition(gauges, "eu").decode().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ['a{cluster="flink"} 1.0', 'b{cluster="eu"} 2.0']
