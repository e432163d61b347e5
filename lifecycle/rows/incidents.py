"""Incidents of GET /overview: whatever is wrong with one application, topic or source, from its first sign to its end.

Their order is the same in one cluster and over all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER
from indoubt.lifecycle.rows.attention import Attention, Remedy
from indoubt.lifecycle.verdicts import Verdict


class IncidentState(Enum):
    """Whether an incident needs a person; the value is the API's word."""

    ACT = "act"
    WAIT = "wait"
    """It goes on by itself: a restart is under way, or its driver is silent and not counted as frozen yet."""
    OVER = "over"


class StepState(Enum):
    """How far a step is; the value is the API's word."""

    TO_DO = "to do"
    UNDER_WAY = "under way"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that ends an incident, in the order in which they are done.

    ``part``: key of the part that it ends, which is gone once it is done. ``what``: in words, a command, or what was done.
    ``note``: how far it is, or by whom it was done; may be empty. ``who`` ordered it, where a person did. ``remedy``: its order,
    OPEN where it follows from another step. ``target``: the key of the pipeline to restart or start, or of
    its first transaction. ``since_ms``:
    since when it is under way, or when it was done. ``usually_ms``: how long it usually takes, where that was measured.
    ``lost``: what it may have lost, a sentence.
    """

    part: str
    what: str
    state: StepState
    note: str
    who: str
    remedy: Remedy
    target: str
    since_ms: int | None
    usually_ms: int | None
    lost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Whatever needs a person about one thing. ``key`` names that while it lasts, as the alerts' ``group`` does.

    ``application``: its name, or empty. ``headline``: what happened; ``consequence``: what follows if nobody acts, at
    ``deadline_ms`` where there is one; one or two sentences each. ``severity``: critical or warning. ``parts``: what stands now,
    the most urgent first. ``alerts``: keys of its firing alerts; ``alerts_total``: how many, where the list is cut.
    ``over_at_ms`` and ``outcome``: when it ended and what became of it, None and empty while it lasts.
    """

    key: str
    application: str
    state: IncidentState
    severity: str
    headline: str
    consequence: str
    since_ms: int | None
    deadline_ms: int | None
    steps: tuple[Step, ...]
    parts: tuple[Attention, ...]
    alerts: tuple[str, ...]
    alerts_total: int | None = None
    over_at_ms: int | None = None
    outcome: str = ""

    @property
    def is_over(self) -> bool:
        """True once nothing of it stands any more."""
        return self.state is IncidentState.OVER

    @property
    def leading(self) -> Attention | None:
        """Return the most urgent part; None where only alerts say it, and once it is over."""
        return self.parts[0] if self.parts else None

    @property
    def verdict(self) -> Verdict | None:
        """Return the verdict of its most urgent part."""
        return self.leading.verdict if self.leading is not None else None


def place(one: Incident) -> tuple[int, int, bool, int, str]:
    """Return its place among incidents: those to act on, those that wait, each by ``urgency``; what is over, the newest first."""
    if one.is_over:
        return (2, -(one.over_at_ms or 0), False, 0, one.key)
    return (int(one.state is not IncidentState.ACT), *urgency(one))


def urgency(one: Attention | Incident) -> tuple[int, bool, int, str]:
    """Return its place among those alike: by deadline, then severity, then age."""
    return (far(one.deadline_ms), one.severity != "critical", far(one.since_ms), one.key)


def far(at_ms: int | None) -> int:
    """Return a time by which to sort; one that is not known, or never comes, is the last."""
    return MAX_WHOLE_NUMBER if at_ms is None else at_ms
