"""docs/settings.md names every option of the demo, and none that it does not have."""

from __future__ import annotations

import re

from demo.__main__ import command_line
from demo.prerequisites import ROOT


def test_each_option_has_its_line_in_the_settings() -> None:
    section = (ROOT / "docs" / "settings.md").read_text().split("\n## Demo\n")[1].split("\n## ")[0]
    documented = set(re.findall(r"^\| `(--[a-z-]+)` \|", section, re.MULTILINE))
    options = {
        option for action in command_line()._actions for option in action.option_strings if option.startswith("--")
    }
    assert documented == options - {"--help"}
