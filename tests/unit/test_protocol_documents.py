"""The rules that settings keep, and docs/protocol.md kept honest: every test and every place in the code that it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from indoubt.lifecycle.errors import SettingsError
from indoubt.pipeline.config.settings import ROOT, PipelineSettings

DOCUMENT = ROOT / "docs" / "protocol.md"
MODEL = ROOT / "docs" / "model"
TEST = re.compile(r"`(?:(?P<file>[\w/]+\.py)::)?(?P<name>test_\w+)`")
PLACE = re.compile(r"`(?P<file>[a-z_]+/[\w/]+\.py)(?:: (?P<name>[\w.]+))?`")
GOOD = {
    "job": "passthrough",
    "bootstrap_servers": "127.0.0.1:9092",
    "checkpoint": "/nowhere",
    "prefix": "p",
    "source": "in",
    "sink": "out",
}


@pytest.mark.parametrize("value", ["true", "TRUE", " true "])
def test_speculative_execution_is_refused_with_a_reason(value):
    with pytest.raises(SettingsError, match=r"spark\.speculation is on: two attempts of one task would .* fence"):
        PipelineSettings.read(GOOD | {"spark_properties": f"spark.ui.enabled=false,spark.speculation={value}"})
    PipelineSettings.read(GOOD | {"spark_properties": "spark.speculation=false"})


@pytest.mark.parametrize("value", ["0", "-1"])
def test_no_max_offsets_per_trigger_is_refused_with_a_reason(value):
    with pytest.raises(SettingsError, match="without a bound one batch can outlive its timeout"):
        PipelineSettings.read(GOOD | {"max_offsets_per_trigger": value})
    assert PipelineSettings.read(GOOD).max_offsets_per_trigger > 0, "bound, too, when nothing is given"


def rules() -> list[list[str]]:
    """Return the cells of every rule's row: rule, why, tests, code."""
    lines = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if row[0] != "rule" and not set(row[0]) <= {"-", " "}]


@cache
def definitions(file: Path) -> frozenset[str]:
    """Return the functions, classes, methods and constants that a file defines; methods as ``Class.method``."""
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
            found.add(node.name)
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return frozenset(found)


def test_every_rule_names_its_reason_its_tests_and_its_place_in_the_code():
    found = rules()
    assert len(found) > 30
    for row in found:
        assert len(row) == 4, row
        rule, why, tests, code = row
        assert why, rule
        assert TEST.search(tests), f"no test: {rule}"
        assert PLACE.search(code), f"no place in the code: {rule}"
        assert not re.sub(r"[,;\s]|<br>", "", TEST.sub("", tests)), f"not a test's name in: {tests}"
        assert not re.sub(r"[,;\s]|<br>", "", PLACE.sub("", code)), f"not a place in the code in: {code}"


def test_every_test_that_the_protocol_names_exists():
    known = {name.rpartition(".")[2] for file in (ROOT / "tests").rglob("*.py") for name in definitions(file)}
    named = [match["name"] for match in TEST.finditer(DOCUMENT.read_text())]
    assert named
    assert not [name for name in named if name not in known]


def test_every_place_in_the_code_that_the_protocol_names_exists():
    named = [(match["file"], match["name"]) for match in PLACE.finditer(DOCUMENT.read_text())]
    assert named
    for file, name in named:
        assert (ROOT / file).is_file(), file
        assert name is None or name in definitions(ROOT / file), f"{file}: {name}"


def test_the_models_files_are_those_that_its_document_names():
    named = re.findall(r"`(\w+\.pml)`", (MODEL / "README.md").read_text())
    assert sorted(named) == sorted(file.name for file in MODEL.glob("*.pml"))
