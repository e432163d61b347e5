"""What ``--start-command`` takes."""

from __future__ import annotations

import pytest

from collector.config import start_commands
from lifecycle.errors import SettingsError


def test_a_command_is_read_as_words_by_its_prefix() -> None:
    given = ["ip-count=systemctl start ip-count", "words=kubectl scale 'deploy/word count' --replicas=1"]
    assert start_commands.read(given) == {
        "ip-count": ("systemctl", "start", "ip-count"),
        "words": ("kubectl", "scale", "deploy/word count", "--replicas=1"),
    }
    assert start_commands.read([]) == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["ip-count"], "takes NAME=COMMAND"),
        (["=start"], "takes NAME=COMMAND"),
        (["ip-count= "], "takes NAME=COMMAND"),
        (["ip-count='start"], "cannot be read: no closing quotation"),
        (["ip-count=a", "ip-count=b"], "given twice"),
    ],
)
def test_what_is_no_command_is_refused(given: list[str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        start_commands.read(given)
