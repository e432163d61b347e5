"""What is safe to do about a transaction, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """One word per transaction for the engineer on call; the value is what a page shows."""

    IN_PROGRESS = "in progress"
    """Its owner is alive and there is time: leave it alone."""
    AT_RISK = "at risk"
    """The time left before the timeout is less than what recovery needs."""
    COMMIT_IT = "commit it"
    """Listed in a commit decision that counts and not committed: an abort would lose data."""
    ABORT_IT = "abort it"
    """Undecided and its driver is gone: the batch will be replayed, an abort loses nothing."""
    LOST = "lost"
    """Decided, but the resource manager aborted it: its batch must be replayed."""
    HANGING = "hanging"
    """Open on a partition while no coordinator will end it: it will never end by itself."""
    FOREIGN = "foreign"
    """No checkpoint evidence: only its owner can judge what an abort would lose."""
    UNKNOWN = "unknown"
    """Evidence is missing (decision log unreadable): nothing is offered."""
    SETTLED = "settled"
    """Committed or aborted as it should be: nothing to do."""

    # Enum's own makes the hash of a name in Python, and tens of thousands are grouped by their verdict each second.
    __hash__ = object.__hash__


URGENCY: tuple[Verdict, ...] = (
    Verdict.COMMIT_IT,
    Verdict.LOST,
    Verdict.HANGING,
    Verdict.ABORT_IT,
    Verdict.AT_RISK,
    Verdict.UNKNOWN,
    Verdict.FOREIGN,
    Verdict.IN_PROGRESS,
    Verdict.SETTLED,
)
"""Every verdict, most urgent first: the order of every list on every page."""


class Certainty(Enum):
    """How sure an answer is, the surest first; the value is the API's word."""

    CERTAIN = "certain"
    LIKELY = "likely"
    GUESS = "guess"


def least_sure(of: Iterable[Certainty]) -> Certainty:
    """Return how sure an answer is that rests on all of these, of which there is one at least."""
    return max(of, key=list(Certainty).index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One fact that a verdict rests on: what was seen, where, and when (epoch ms, None when the source has no times)."""

    fact: str
    source: str
    at_ms: int | None = None


ONLY_REPORTED = 4
"""The rule of transactions that only lifecycle events report: claims."""
END_ACCEPTED = 6
"""The rule of transactions whose coordinator has accepted the end: it ends them, whoever is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict, the number of the rule that gave it, the facts it rests on, and the orders that are safe.

    ``loses_data`` is True when an abort would lose rows that no replay is known to bring back: it then takes a second,
    typed confirmation. ``commit_confirmation``: what must be typed to commit it, where a commit is right only under a condition.
    """

    verdict: Verdict
    rule: int
    evidence: tuple[Evidence, ...]
    may_commit: bool = False
    may_abort: bool = False
    loses_data: bool = False
    commit_confirmation: str = ""

    @property
    def certainty(self) -> Certainty:
        """Return how sure it is that what the verdict asks for is right.

        Certain: it is, whatever else is true. Likely: it rests on something that was not seen, which the evidence names. Guess:
        no evidence says what is right.
        """
        match self.verdict:
            case Verdict.COMMIT_IT:
                is_certain = not self.commit_confirmation
            case Verdict.ABORT_IT | Verdict.HANGING:
                is_certain = not self.loses_data
            case Verdict.SETTLED:
                is_certain = self.rule != ONLY_REPORTED
            case Verdict.IN_PROGRESS:
                is_certain = self.rule == END_ACCEPTED
            case Verdict.LOST:
                is_certain = True
            case Verdict.AT_RISK:
                is_certain = False
            case Verdict.UNKNOWN | Verdict.FOREIGN:
                return Certainty.GUESS
        return Certainty.CERTAIN if is_certain else Certainty.LIKELY


class AbortCause(Enum):
    """Who ended a transaction that was aborted, as far as it is known."""

    TIMEOUT = "timeout"
    FENCED = "fenced"
    CLIENT = "client"
    OPERATOR = "operator"
    UNKNOWN = "unknown"
