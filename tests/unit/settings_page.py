"""What docs/settings.md says: the settings of its tables, each with its default."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()


def documented(part: str) -> dict[str, str]:
    """Return the default of each setting of a part, such as "collector", as its tables show it: sections are named after parts.

    A row may show several settings, with a default each or with one for all. NAME and what it takes are left out.
    """
    found: dict[str, str] = {}
    for title, text in re.findall(r"^### ([^\n]*)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL):
        if part not in title.lower().split():
            continue
        for first, default in re.findall(r"^\| (`.*?) \| (.*?) \|", text, re.MULTILINE):
            names = [name.split()[0] for name in re.findall(r"`([^`]+)`", first) if not name.startswith("NAME=")]
            defaults = [one.strip("`") for one in default.split(", ")]
            found |= zip(
                names, defaults if len(defaults) == len(names) else [default.strip("`")] * len(names), strict=True
            )
    return found
