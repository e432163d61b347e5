"""Prints every sentence that the pages can show as one text, to be read aloud: ``python -m tests.sentences [folder ...]``.

A sentence is a text in the source with three words at least that is no docstring: pages, verdicts, cards, answers to orders.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHOWN = (
    "app", "collector/assess", "collector/verdicts", "collector/views", "collector/act", "collector/notify",
    "collector/serve/api", "lifecycle",
)  # fmt: skip
"""What the pages show is written here."""
_WORDS = re.compile(r"[A-Za-z…]{2,}(?:[ ,:;.]+\S+){2,}")
_NOT_SAID = re.compile(r"^\s*(select|with|insert|M\{)|[{}]:[a-z-]+;|rem\b|[\w-]+=\w", re.IGNORECASE)
_LOGS = frozenset({"debug", "info", "warning", "error", "exception", "getLogger"})


def sentences(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each sentence in a module, in its order; what is put in is ``…``."""
    tree = ast.parse(source)
    silent = {id(each) for node in ast.walk(tree) if _is_silent(node) for each in ast.walk(node)}
    parts = {id(each) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for each in node.values}
    found = []
    for node in ast.walk(tree):
        if id(node) not in silent and id(node) not in parts and (text := _text(node)) and _is_sentence(text):
            found.append((node.lineno, text))
    yield from sorted(found)


def _is_silent(node: ast.AST) -> bool:
    """Say whether nobody is told: a text that stands alone is a docstring, and logs are no page."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOGS


def _text(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_text(each) or "…" for each in values)
    return ""


def _is_sentence(text: str) -> bool:
    return bool(_WORDS.search(text)) and not _NOT_SAID.search(text)


def main(folders: Sequence[str] = SHOWN) -> None:
    """Print each file's name and under it its sentences."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            found = list(sentences(path.read_text()))
            if found:
                print(f"\n{path.relative_to(ROOT)}")
                print("\n".join(f"  {line}: {' '.join(text.split())}" for line, text in found))


if __name__ == "__main__":
    main(sys.argv[1:] or SHOWN)
