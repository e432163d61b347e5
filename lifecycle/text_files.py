"""Files that people write: UTF-8 text, whichever editor wrote it."""

from __future__ import annotations

from pathlib import Path

from lifecycle.errors import SettingsError


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
