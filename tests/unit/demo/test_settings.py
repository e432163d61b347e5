"""docs/settings.md names every option of the demo, and none that it does not have."""

from __future__ import annotations

from demo.__main__ import command_line
from tests.unit.settings_page import documented


def test_each_option_has_its_line_in_the_settings() -> None:
    options = {
        option for action in command_line()._actions for option in action.option_strings if option.startswith("--")
    }
    assert documented("demo").keys() == options - {"--help"}
