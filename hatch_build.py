"""Builds the distribution ``indoubt``: the packages of this checkout, moved below one name.

In the checkout they are top-level packages, each in a folder of its own. Installed so, ``app`` or ``pipeline`` would collide
with others. The wheel holds ``indoubt.app``, ``indoubt.pipeline`` and so on: imports, names of modules in strings, and the
``python -m`` of messages are rewritten. What cannot be rewritten for sure ends the build with its place and what to do.
"""

from __future__ import annotations

import ast
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "indoubt"
PACKAGES = ("app", "collector", "lifecycle", "pipeline", "resource_managers")
NO_MODULES = frozenset({"pipeline.", "pipeline.started", "pipeline.alive", "pipeline.restarting", "pipeline.stopped"})
"""Texts that look like a module of ours and are none: types of events, and how they begin."""
NAMES_A_MODULE = frozenset({"getLogger", "import_module", "find_spec", "run_module", "__import__", "files"})
"""Functions whose first argument is a module's name, or means one."""
SPARK = f"""from {NAME}.pipeline.spark import start

__all__ = ["start"]
"""
"""The module ``indoubt.spark``: what the jobs of other projects import, under a short name."""
_OURS = "|".join(PACKAGES)
_DOTTED = re.compile(rf"({_OURS})((?:\.\w+)*)((?:\.|:\w+)?)")
_RUN_AS_MODULE = re.compile(rf"(\bpython3? -m )({_OURS})\b")
_FROM = re.compile(rf"(from\s+)({_OURS})\b")


class CannotRewrite(Exception):
    """A source names a module in a way that is not understood; the message says where and what to do."""


class _Edit(NamedTuple):
    begin: int
    end: int
    text: str


class _Renaming(ast.NodeTransformer):
    """Turns a module's tree into that of the distribution, and collects what to change in its text."""

    def __init__(self, file: str, source: str, modules: frozenset[str]) -> None:
        self._file, self._modules = file, modules
        self._bytes = source.encode()
        self._lines = list(accumulate(map(len, self._bytes.splitlines(keepends=True)), initial=0))
        self.edits: list[_Edit] = []

    def visit_Import(self, node: ast.Import) -> Any:
        if not any(_is_ours(alias.name) for alias in node.names):
            return node
        made = [statement for alias in node.names for statement in _imports(alias)]
        return self._changed(node, made, "; ".join(ast.unparse(statement) for statement in made))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if node.level or not _is_ours(node.module or ""):
            return node
        made = ast.ImportFrom(module=f"{NAME}.{node.module}", names=node.names, level=0)
        return self._changed(node, made, _FROM.sub(rf"\1{NAME}.\2", self._text(node), count=1))

    def visit_Call(self, node: ast.Call) -> Any:
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if function in NAMES_A_MODULE and node.args and _constant(node.args[0]) in PACKAGES:
            self._fail(node, f"{function} is given the name of a package as a text: give it __name__ or __package__")
        return self.generic_visit(node)

    def visit_List(self, node: ast.List) -> Any:
        return self._visit_command(node)

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        return self._visit_command(node)

    def visit_Constant(self, node: ast.Constant) -> Any:
        if not isinstance(node.value, str):
            return node
        wanted = self._renamed(node, node.value)
        return node if wanted == node.value else self._changed_text(node, ast.Constant(value=wanted))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        made: list[ast.expr] = []
        for part in node.values:
            text = _constant(part)
            if text is None:
                made.append(part)
                continue
            if text.startswith(tuple(f"{package}." for package in PACKAGES)):
                self._fail(node, "a name of a module is put together: write it as one text")
            made.append(ast.Constant(value=_RUN_AS_MODULE.sub(rf"\1{NAME}.\2", text)))
        if [_constant(part) for part in made] != [_constant(part) for part in node.values]:
            return self._changed_text(node, ast.JoinedStr(values=made))
        node.values = [part if isinstance(part, ast.Constant) else self.visit(part) for part in node.values]
        return node

    def _visit_command(self, node: ast.List | ast.Tuple) -> Any:
        """Rewrite the module that stands behind ``-m``; all else as ever."""
        made: list[ast.expr] = []
        for before, element in zip([None, *node.elts], node.elts, strict=False):
            if before is None or _constant(before) != "-m":
                made.append(self.visit(element))
            elif (module := _constant(element)) is None:
                self._fail(element, "the module behind -m is not written out: it is unknown whether it is renamed")
            elif module in self._modules:
                made.append(self._changed_text(element, ast.Constant(value=f"{NAME}.{module}"), module))
            else:
                made.append(element)
        node.elts = made
        return node

    def _renamed(self, node: ast.AST, text: str) -> str:
        found = _DOTTED.fullmatch(text)
        if found is None or text in PACKAGES or text in NO_MODULES:
            return _RUN_AS_MODULE.sub(rf"\1{NAME}.\2", text)
        module = found[1] + found[2]
        if module in self._modules and found[3] != ".":
            return f"{NAME}.{text}"
        self._fail(
            node, f"{text!r} may mean a module that is renamed: take it from __name__, or put it into NO_MODULES"
        )

    def _changed_text(self, node: ast.expr, made: ast.expr, module: str | None = None) -> Any:
        text = self._text(node)
        changed = _RUN_AS_MODULE.sub(rf"\1{NAME}.\2", text)
        if changed == text:
            changed = re.sub(rf"(?<![\w.])(?=(?:{module or _OURS})\b)", f"{NAME}.", text, count=1)
        return self._changed(node, made, changed)

    def _changed(self, node: ast.expr | ast.stmt, made: Any, text: str) -> Any:
        self.edits.append(_Edit(*self._span(node), text))
        return made

    def _span(self, node: Any) -> tuple[int, int]:
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> str:
        begin, end = self._span(node)
        return self._bytes[begin:end].decode()

    def _fail(self, node: ast.AST, why: str) -> NoReturn:
        raise CannotRewrite(f"{self._file}:{getattr(node, 'lineno', 0)}: {why}")


def rewrite(source: str, file: str, modules: frozenset[str]) -> str:
    """Return a module's text as the distribution has it; lines stay where they are. Raises CannotRewrite.

    ``modules``: the names of all modules of ours. The result is read again and compared with the tree that was wanted.
    """
    renaming = _Renaming(file, source, modules)
    wanted = renaming.visit(ast.parse(source, file))
    if not renaming.edits:
        return source
    text = _edited(source, renaming.edits)
    if ast.dump(ast.parse(text, file)) != ast.dump(wanted):
        raise CannotRewrite(f"{file}: what was rewritten is not what was meant: write its names of modules plainly")
    return text


def _edited(source: str, edits: Iterable[_Edit]) -> str:
    text = source.encode()
    for begin, end, changed in sorted(edits, reverse=True):
        text = text[:begin] + changed.encode() + text[end:]
    return text.decode()


def _imports(alias: ast.alias) -> Iterator[ast.stmt]:
    """Yield what binds the same name in the distribution."""
    first, _, rest = alias.name.partition(".")
    if not _is_ours(alias.name):
        yield ast.Import(names=[alias])
        return
    if alias.asname and rest:
        yield ast.Import(names=[ast.alias(name=f"{NAME}.{alias.name}", asname=alias.asname)])
        return
    if rest:
        yield ast.Import(names=[ast.alias(name=f"{NAME}.{alias.name}")])
    yield ast.ImportFrom(module=NAME, names=[ast.alias(name=first, asname=alias.asname)], level=0)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def _constant(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


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
