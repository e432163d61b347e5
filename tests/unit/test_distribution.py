"""How the build renames modules: what is understood is rewritten, what is not ends the build with its place."""

from __future__ import annotations

import compileall
import re
from pathlib import Path

import pytest

import hatch_build
from demo.prerequisites import ROOT
from hatch_build import CannotRewrite, rewrite
from lifecycle.version import VERSION

pytestmark = pytest.mark.slow


MODULES = frozenset({"app", "collector", "collector.service", "lifecycle", "pipeline", "pipeline.sink"})
REWRITTEN = {
    "from pipeline.sink import a": "from indoubt.pipeline.sink import a",
    "from pipeline import (  # why\n    a,\n    b,\n)": "from indoubt.pipeline import (  # why\n    a,\n    b,\n)",
    "if x: from app import y": "if x: from indoubt.app import y",
    "é = 'ü'; from app import y; from pipeline import z": "é = 'ü'; from indoubt.app import y; from indoubt.pipeline import z",
    "import pipeline  # why": "from indoubt import pipeline  # why",
    "from . import a": "from . import a",
    "import os, application, appdirs": "import os, application, appdirs",
    "from pipeline_tools import a": "from pipeline_tools import a",
    "x = {'pipeline': 'pipeline.started'}": "x = {'pipeline': 'pipeline.started'}",
    "run([exe, '-m', 'streamlit'])": "run([exe, '-m', 'streamlit'])",
    "say(f'{n}: run python -m app --help')": "say(f'{n}: run python -m indoubt.app --help')",
    "logging.getLogger(__name__)": "logging.getLogger(__name__)",
}
REFUSED = {
    "import pipeline.sink": "write from pipeline import",
    "import pipeline as p": "write from pipeline import",
    "import os, app": "import one package",
    "x = 'pipeline.sink'": "take it from __name__",
    "serve('collector.service:run')": "take it from __name__",
    "x = f'pipeline.{name}'": "put together",
    "logging.getLogger('collector')": "give it __name__",
    "import_module('pipeline')": "give it __name__",
    "run([exe, '-m', 'pipeline'])": "behind -m",
}


@pytest.mark.parametrize("source", REWRITTEN)
def test_a_name_of_ours_is_moved_and_no_other(source: str) -> None:
    assert rewrite(f"x = 0\n{source}\n", "m.py", MODULES) == f"x = 0\n{REWRITTEN[source]}\n"


@pytest.mark.parametrize("source", REFUSED)
def test_what_is_not_understood_ends_the_build_with_its_place(source: str) -> None:
    with pytest.raises(CannotRewrite, match=rf"^m\.py:2: .*{REFUSED[source]}"):
        rewrite(f"x = 0\n{source}\n", "m.py", MODULES)


def test_the_whole_project_is_moved(tmp_path: Path) -> None:
    package = tmp_path / "indoubt"
    hatch_build.write_package(ROOT, package, VERSION)
    assert compileall.compile_dir(package, quiet=1)
    ours = "|".join(hatch_build.PACKAGES)
    left = re.compile(
        rf"^\s*(from|import) ({ours})\b(?!.*\bindoubt\b)|-m\"?,? \"?({ours})\b(?!\.__name__)", re.MULTILINE
    )
    assert {
        file.name: left.findall(file.read_text()) for file in package.rglob("*.py") if left.search(file.read_text())
    } == {}
    for name in ("py.typed", "app/static/style.css", "collector/history/schema.sql"):
        assert list(package.glob(f"**/{name.rpartition('/')[2]}")), name
    files = {
        str(file.relative_to(ROOT)) for name in hatch_build.PACKAGES for file in hatch_build.package_files(ROOT / name)
    }
    made = {str(file.relative_to(package)) for file in package.rglob("*") if "__pycache__" not in file.parts}
    assert files <= made
