"""Whose silence about a branch is its end."""

from __future__ import annotations

import pytest

from indoubt.resource_managers.database.servers import Silence, silence, with_timeline

FIRST, SECOND, OTHER = with_timeline("system 7", 1), with_timeline("system 7", 2), with_timeline("system 8", 2)
MYSQL, REPLICA = "server_uuid 3e11fa47", "server_uuid 3e11fa48"


@pytest.mark.parametrize(
    ("listed_by", "answered_by", "worth"),
    [
        (FIRST, FIRST, Silence.PROVES),
        (MYSQL, MYSQL, Silence.PROVES),
        (FIRST, SECOND, Silence.ASSUMED),
        (with_timeline("system 7", 9), with_timeline("system 7", 10), Silence.ASSUMED),
        # An old primary that nobody stopped.
        (SECOND, FIRST, Silence.SAYS_NOTHING),
        (FIRST, OTHER, Silence.SAYS_NOTHING),
        (MYSQL, REPLICA, Silence.SAYS_NOTHING),
        (MYSQL, FIRST, Silence.SAYS_NOTHING),
        ("", FIRST, Silence.ASSUMED),
        (FIRST, "", Silence.ASSUMED),
        ("", "", Silence.ASSUMED),
    ],
)
def test_only_the_server_that_listed_a_branch_proves_its_end(listed_by: str, answered_by: str, worth: Silence) -> None:
    assert silence(listed_by, answered_by) is worth
