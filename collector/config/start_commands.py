"""``--start-command NAME=COMMAND``: what starts a pipeline whose supervisor has ended, when an operator orders it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from lifecycle.errors import SettingsError

OPTION = "--start-command"


def read(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the words of each command, by the pipeline's prefix. Raises SettingsError that never shows a command."""
    found: dict[str, tuple[str, ...]] = {}
    for text in given:
        name, _, command = text.partition("=")
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise SettingsError(f"{OPTION} {name} cannot be read: {str(error).lower()}") from None
        if not name or not words:
            # The command itself stays out of the message: it may hold a password.
            raise SettingsError(f"{OPTION} {name} takes NAME=COMMAND, such as ip-count=systemctl start ip-count")
        if name in found:
            raise SettingsError(f"{OPTION} {name} is given twice")
        found[name] = words
    return found
