"""A module binds each of its names once: a second constant of one name would change what the code above it means."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("app", "collector", "lifecycle", "pipeline", "program", "resource_managers", "demo", "benchmarks")


def bound(module: ast.Module) -> Counter[str]:
    """Return how often each name is assigned at the top of a module, outside conditions."""
    targets = [target for node in module.body if isinstance(node, ast.Assign) for target in node.targets]
    targets += [node.target for node in module.body if isinstance(node, ast.AnnAssign)]
    names = (name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
    return Counter(name.id for name in names if isinstance(name.ctx, ast.Store))


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_of_a_module_is_bound_twice(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    twice = {str(file): names for file in files if (names := bound(ast.parse(file.read_text())) - bound_once(file))}
    assert twice == {}


def bound_once(file: Path) -> Counter[str]:
    """Return one for each name that a module binds."""
    return Counter(bound(ast.parse(file.read_text())).keys())
