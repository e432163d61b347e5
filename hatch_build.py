"""Builds the distribution ``indoubt``: the packages of this checkout, moved below one name.

In the checkout they are top-level packages, each in a folder of its own. Installed so, ``app`` or ``pipeline`` would collide
with others. The wheel holds ``indoubt.app``, ``indoubt.pipeline`` and so on: imports and the ``python -m`` of messages are
rewritten. Another way of naming a module ends the build with its place and what to do.
"""

from __future__ import annotations

import ast
import re
import shutil
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "indoubt"
PACKAGES = ("app", "collector", "lifecycle", "pipeline", "resource_managers")
SPARK = f"""from {NAME}.pipeline.spark import start

__all__ = ["start"]
"""
"""The module ``indoubt.spark``: what the jobs of other projects import, under a short name."""
_OURS = "|".join(PACKAGES)
_FROM = re.compile(rf"(from\s+)(?=(?:{_OURS})\b)")
_IMPORT = re.compile(rf"import\s+(?=(?:{_OURS})$)")
_RUN_AS_MODULE = re.compile(rf"(\bpython3? -m )(?=(?:{_OURS})\b)")


class CannotRewrite(Exception):
    """A source names a module in a way that is not understood; the message says where and what to do."""


def rewrite(source: str, file: str, modules: frozenset[str]) -> str:
    """Return a module's text as the distribution has it; lines stay where they are. Raises CannotRewrite.

    ``modules``: the names of all modules of ours.
    """
    lines = source.encode().splitlines(keepends=True)
    # From the end on: what is before it on a line keeps its place.
    for node in reversed(list(ast.walk(ast.parse(source, file)))):
        if why := _not_understood(node, modules):
            raise CannotRewrite(f"{file}:{getattr(node, 'lineno', 0)}: {why}")
        if isinstance(node, ast.ImportFrom) and not node.level and _is_ours(node.module or ""):
            pattern, moved = _FROM, rf"\1{NAME}."
        elif isinstance(node, ast.Import) and _is_ours(node.names[0].name):
            pattern, moved = _IMPORT, f"from {NAME} import "
        else:
            continue
        line, column, end = node.lineno - 1, node.col_offset, node.end_col_offset
        statement = lines[line][column : end if node.end_lineno == node.lineno else None].decode()
        changed = pattern.sub(moved, statement, count=1).encode()
        lines[line] = lines[line][:column] + changed + lines[line][column + len(statement.encode()) :]
    return _RUN_AS_MODULE.sub(rf"\1{NAME}.", b"".join(lines).decode())


def _not_understood(node: ast.AST, modules: frozenset[str]) -> str:
    match node:
        case ast.Import(names=names) if any(_is_ours(alias.name) for alias in names):
            if len(names) > 1 or "." in names[0].name or names[0].asname:
                return f"import one package, or write from {names[0].name.partition('.')[0]} import …"
        case ast.Constant(value=str(text)) if "." in text and text.partition(":")[0] in modules:
            return f"{text!r} is the name of a module that is moved: take it from __name__"
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), ast.FormattedValue(), *_]):
            if text.endswith(".") and (text.removesuffix(".") in modules):
                return f"a module's name is put together behind {text!r}: take it from __name__"
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            words = [element.value if isinstance(element, ast.Constant) else None for element in elements]
            if any(word == "-m" and after in PACKAGES for word, after in pairwise(words)):
                return "the module behind -m is moved: take it from __name__"
        case ast.Call(func=ast.Attribute(attr=function) | ast.Name(id=function), args=[ast.Constant(value=text), *_]):
            if text in PACKAGES and function in ("getLogger", "import_module", "find_spec", "run_module", "files"):
                return f"{function} is given the name of a package as a text: give it __name__ or __package__"
    return ""


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def write_package(root: Path, into: Path, version: str) -> None:
    """Write the package ``indoubt`` of the checkout ``root`` as ``into``. Raises CannotRewrite, FileNotFoundError."""
    files = [file for package in PACKAGES for file in package_files(root / package)]
    modules = frozenset(name for file in files if file.suffix == ".py" for name in _names(file.relative_to(root)))
    into.mkdir(parents=True)
    (into / "__init__.py").write_text(f'"""indoubt {version}: see its README."""\n\n__version__ = "{version}"\n')
    (into / "spark.py").write_text(SPARK)
    (into / "py.typed").touch()
    for file in files:
        place = into / file.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".py":
            place.write_text(rewrite(file.read_text(), str(file.relative_to(root)), modules))
        else:
            shutil.copyfile(file, place)


def package_files(package: Path) -> list[Path]:
    """Return what belongs to a package of the checkout. Raises FileNotFoundError when it is none."""
    if not (package / "__init__.py").exists():
        raise FileNotFoundError(f"{package} is no package: the list PACKAGES in hatch_build.py names it")
    found = (path for path in sorted(package.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return [path for path in found if not path.name.startswith(".")]


def _names(file: Path) -> Iterator[str]:
    parts = file.with_suffix("").parts
    yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Distribution(BuildHookInterface[Any]):
    """Hatchling's hook: hands the package, made in a directory aside, to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the package. Raises CannotRewrite."""
        if version == "editable":
            raise CannotRewrite("an editable install is not possible, because modules are renamed: use 'make setup'")
        self._directory = Path(tempfile.mkdtemp(prefix="indoubt-build-"))
        write_package(Path(self.root), self._directory / NAME, self.metadata.version)
        build_data["force_include"][str(self._directory / NAME)] = NAME

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made aside."""
        shutil.rmtree(self._directory)
