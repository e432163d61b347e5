"""Values reach SQL as bound parameters alone: every place that executes SQL is given fixed text, or a known table's name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

COLLECTOR = Path(__file__).parents[4] / "collector"
EXECUTES = {"execute", "executemany", "sql", "query", "rows", "named_rows", "_one", "from_query"}
"""Methods that take SQL as their first text: DuckDB's, the databases' cursors', and the store's own."""
TABLE_NAMES = {"name", "table"}
"""What a query may be put together with: in these places a key of a constant table of names (ruff's S608 marks each)."""


def sql_texts(tree: ast.AST) -> Iterator[tuple[int, ast.expr]]:
    """Yield (line, argument) of everything that could be SQL in a call that executes SQL."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in EXECUTES:
            yield from ((node.lineno, argument) for argument in node.args[:2])


def is_put_together(argument: ast.expr, source: str) -> bool:
    """Say whether text is made up at run time, from anything but the name of a known table on a line that says so."""
    match argument:
        case ast.JoinedStr(values=values):
            names = [v.value for v in values if isinstance(v, ast.FormattedValue)]
            marked = "S608" in source.splitlines()[argument.lineno - 1]
            return not (marked and all(isinstance(n, ast.Name) and n.id in TABLE_NAMES for n in names))
        case ast.BinOp(op=ast.Add() | ast.Mod()):
            return any(isinstance(side, ast.Constant | ast.JoinedStr) for side in (argument.left, argument.right))
        case ast.Call(func=ast.Attribute(attr="format" | "join" | "replace")):
            return True
        case _:
            return False


def findings(source: str) -> list[int]:
    return [line for line, argument in sql_texts(ast.parse(source)) if is_put_together(argument, source)]


@pytest.mark.parametrize("path", sorted(COLLECTOR.rglob("*.py")), ids=lambda path: str(path.relative_to(COLLECTOR)))
def test_no_value_is_written_into_sql(path: Path) -> None:
    assert findings(path.read_text()) == []


def test_the_scan_sees_the_places_that_execute_sql() -> None:
    paths = COLLECTOR.rglob("*.py")
    seen = {str(p.relative_to(COLLECTOR)): sum(1 for _ in sql_texts(ast.parse(p.read_text()))) for p in paths}
    assert seen["history/store.py"] >= 10
    assert seen["views/replay.py"] >= 6


@pytest.mark.parametrize(
    "statement",
    [
        'c.execute(f"select * from audit where who = {who}")',
        'c.execute(f"select * from {name}")',
        'c.execute(f"select {who} from {name}")  # noqa: S608',
        'c.execute("select * from audit where who = " + who)',
        'c.execute("select * from audit where who = %s" % who)',
        'c.execute("select * from audit where who = {}".format(who))',
        'store.rows(" ".join(parts), 3)',
        '_one(connection, f"select {who}")',
    ],
)
def test_a_value_in_sql_is_found(statement: str) -> None:
    assert findings(statement) == [1]


def test_bound_values_and_known_tables_pass() -> None:
    assert findings('c.execute("select ?", [who])\nc.execute(f"insert into {name} select ?")  # noqa: S608') == []
