"""Which server answered: an address may lead to another one, whose silence about a branch says nothing.

A server goes by a text: ``system 7713129215312987566, timeline 1`` (PostgreSQL), ``server_uuid 3e11fa47-…`` (MySQL). It is empty
where the server does not tell.
"""

from __future__ import annotations

from enum import Enum

_TIMELINE = ", timeline "


class Silence(Enum):
    """What it is worth that a server does not list a branch."""

    PROVES = "proves"
    """The very server that listed it says so."""
    ASSUMED = "assumed"
    """It may be that server, which does not say; or a standby that was promoted since, which may not have received the branch."""
    SAYS_NOTHING = "says nothing"
    """It is another server."""


def with_timeline(name: str, timeline: int) -> str:
    """Return what a server goes by whose timeline changes when a standby takes over from it."""
    return f"{name}{_TIMELINE}{timeline}"


def without_timeline(server: str) -> str:
    """Return what a server goes by that its standbys share, and keep when one of them takes over."""
    return server.partition(_TIMELINE)[0]


def silence(listed_by: str, answered_by: str) -> Silence:
    """Return what it is worth that ``answered_by`` does not list a branch that ``listed_by`` listed last."""
    if not (listed_by and answered_by):
        return Silence.ASSUMED
    if listed_by == answered_by:
        return Silence.PROVES
    (name, _, before), (other, _, now) = listed_by.partition(_TIMELINE), answered_by.partition(_TIMELINE)
    # The lower timeline is the old primary's, which nobody stopped.
    is_promoted = name == other and before.isdigit() and now.isdigit() and int(now) > int(before)
    return Silence.ASSUMED if is_promoted else Silence.SAYS_NOTHING
