"""Files that people write: UTF-8 text, whichever editor wrote it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from indoubt.lifecycle.errors import SettingsError


def text_of(file: Path | str, what: str) -> str:
    """Return a file's text, without the byte order mark that some editors begin with.

    Raises SettingsError, which begins with ``what`` and names the file, and the line that is no UTF-8.
    """
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise SettingsError(f"{what} {file} cannot be read: {error.strerror}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{what} {file}, line {line} is no UTF-8 text: save the file as UTF-8") from None


def key_values(file: Path | str, what: str) -> Iterator[tuple[str, str, str]]:
    """Yield where it stands, key and value of each line ``key=value`` of a file; ``#`` begins a line that is none.

    Raises SettingsError as ``text_of`` does, and for a line of another kind.
    """
    for number, line in enumerate(text_of(file, what).splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        where = f"{file}, line {number}"
        key, separator, value = text.partition("=")
        if not separator:
            raise SettingsError(f"{where}: not key=value")
        yield where, key.strip(), value.strip()


def known_properties(file: Path | str, what: str, known: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the same of a file whose keys are all ``known``, each given once. Raises SettingsError, which never shows a value."""
    seen: set[str] = set()
    for where, key, value in key_values(file, what):
        if key not in known:
            raise SettingsError(f"{where}: property {key!r} is unknown; known are: {', '.join(known)}")
        if key in seen:
            raise SettingsError(f"{where}: {key} is given twice")
        seen.add(key)
        yield where, key, value
