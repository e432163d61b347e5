"""Every module and file of ours that a docstring, a comment or a document names is there: a rename leaves no name behind."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from indoubt.lifecycle.events import EventType

ROOT = Path(__file__).parents[2]
FILE = re.compile(r"(?<![\w./<>*{}-])(?:[\w-]+/)*[\w-]+\.(?:py|sql|js|css)\b(?![/\w])")
MODULE = re.compile(
    r"(?<![\w./-])(?:indoubt\.)?(?:app|benchmarks|collector|demo|lifecycle|pipeline|resource_managers|tests)(?:\.(?!py\b)\w+)+\b"
)
NO_FILES = frozenset({"pyspark.sql", "spark.sql"})
OF_OTHERS = frozenset({"killwatch.py", "my_jobs.py"})
"""Of the scripts around Flink that benchmarks start, and of a user of the sink."""
EVENTS = {type_.value for type_ in EventType}


@cache
def files() -> frozenset[str]:
    """Return the paths of all files, from the root."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return frozenset(name for name in listed.splitlines() if (ROOT / name).exists())


@cache
def known() -> frozenset[str]:
    """Return what may be named as a file: each path, whole or without its first folders."""
    parts = (name.split("/") for name in files())
    return frozenset("/".join(some[n:]) for some in parts for n in range(len(some))) | NO_FILES | OF_OTHERS


def said_in(source: str) -> Iterator[str]:
    """Yield the docstrings and comments of a Python file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def is_module(name: str) -> bool:
    """Say whether a dotted name is a module or package of ours, or a name that stands in one."""
    parts = name.removeprefix("indoubt.").split(".")
    for length in range(len(parts), 0, -1):
        path, rest = "/".join(parts[:length]), parts[length : length + 1]
        if f"{path}.py" in files():
            return not rest or re.search(rf"\b{rest[0]}\b", (ROOT / f"{path}.py").read_text()) is not None
        if f"{path}/__init__.py" in files():
            return not rest
    return False


def missing_files(text: str) -> set[str]:
    """Return the files that a text names and that are not there; NAME stands for any."""
    return {name for name in FILE.findall(text) if name not in known() and "NAME" not in name}


def missing(text: str) -> set[str]:
    """Return the same of modules too."""
    modules = {name for name in MODULE.findall(text) if name not in EVENTS and not is_module(name)}
    return missing_files(text) | modules


def test_what_docstrings_and_comments_name_is_there() -> None:
    sources = [
        name for name in sorted(files()) if name.endswith((".py", ".sql", ".js", ".css")) and "/vendor/" not in name
    ]
    assert len(sources) > 500
    found = {}
    for name in sources:
        source = (ROOT / name).read_text()
        # To tell apart what is said and what is done takes long: only where something is missing at all.
        if gone := missing(source):
            said = said_in(source) if name.endswith(".py") else [source]
            found[name] = gone & {one for text in said for one in missing(text)}
    assert {name: gone for name, gone in found.items() if gone} == {}


@pytest.mark.parametrize("name", sorted(name for name in files() if name.endswith(".md")))
def test_files_that_a_document_names_are_there(name: str) -> None:
    quoted = re.findall(r"`([^`\n]+)`", (ROOT / name).read_text())
    assert {one for text in quoted for one in missing_files(text)} == set()


def test_a_name_that_is_gone_is_found() -> None:
    text = "see facts/no_such_thing.py and collector.views.no_such_view; event pipeline.started, collector.views.search"
    assert missing(text) == {"facts/no_such_thing.py", "collector.views.no_such_view"}
