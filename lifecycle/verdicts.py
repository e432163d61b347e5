"""What is safe to do about a transaction, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
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


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact that a verdict rests on: what was seen, where, and when (epoch ms, None when the source has no times)."""

    fact: str
    source: str
    at_ms: int | None = None


class Assumption(Enum):
    """What an answer takes for granted because no source was asked about it, or none can tell; the value is what is shown."""

    EVENTS_ARE_TRUE = "what its events claim is true: nothing else knows this transaction"
    OWNER_ENDS_IT = "its owner lives and ends it: only time and signs of life say so"
    RECOVERY_AS_BEFORE = "recovery takes as long as is known so far"
    CLOCKS_AGREE = (
        "the clock of its driver agrees with its coordinator's: they tell which was first, it or the newer run"
    )
    SILENT_IS_GONE = "its driver is gone: a driver that is paused or cut off is silent, too"
    LATE_IS_GONE = "its owner is gone: it is only known to be open for longer than usual"
    STREAMS_BY_NAME = "it is Kafka Streams': its id, its topics and its group's client ids have that form"
    OFFSETS_FOLLOW = "its owner would have added the offsets of its input; if not, an abort loses its rows"
    SOURCE_REPLAYS = (
        "its connector reads its source again; from a source that cannot be read again, an abort loses its rows"
    )
    JOB_IS_GONE = "the Flink job is gone: its REST API does not answer"
    COMPLETED_IS_STORED = (
        "Flink has stored the checkpoint: before Flink 1.15 its REST API reports it as completed before that"
    )
    JOB_GOES_ON_FROM_IT = "the job goes on from the checkpoint that holds it, or from a later one"
    LIST_NAMES_IT = "the list that cannot be read names it"
    SAME_DATABASE = "the server that lists the branch no more has all that the one had which listed it"
    STILL_LISTED = "its database lists it still: the server that listed it does not answer now"
    NOT_TAKEN_AWAY = "the file was never made visible: no program has done so and taken it away since it was seen"
    NO_OTHER_NAMES_IT = (
        "no other job writes to that directory, and no checkpoint or savepoint that was not read names the file"
    )
    OWNER_KNOWS_ITS_END = "its owner knows how it ended: it was not seen here"
    ALL_IDS_ARE_LISTED = "coordinators list every transactional id: those that may not be described are left out"
    WRITES_HERE = (
        "the job that lists it writes to this Kafka cluster: other clusters give equal producer ids and epochs"
    )
    ITS_OWN = "the job that is named wrote it: it went on from another one's work, or another one may use the prefix"
    NO_OTHER_GOES_ON = "no other job that may do this work, or is a copy of it, goes on in place of its own"
    NO_RESTORE_UNSEEN = (
        "no job was restored since Flink's REST API answered last: it has not answered since the collector's start"
    )
    HEIR_GOES_ON = "the job that was restored last goes on in place of the one that wrote it: it is no copy"
    NOT_REPORTED_COMMITTED = "its owner was not told that it is committed"


ASSUMED = "assumed"
"""The source of an assumption where it is shown as evidence."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, the number of the rule that gave it, what it rests on, and the orders that are safe.

    ``rests_on``: facts that were read from their owners. ``assumes``: what was not read. ``loses_data`` is True when an abort
    would lose rows that no replay is known to bring back: it then takes a second, typed confirmation. ``commit_confirmation``:
    what must be typed to commit it, where a commit is right only under a condition.
    """

    verdict: Verdict
    rule: int
    rests_on: tuple[Evidence, ...]
    _: KW_ONLY
    assumes: tuple[Assumption, ...] = ()
    may_commit: bool = False
    may_abort: bool = False
    loses_data: bool = False
    commit_confirmation: str = ""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Return what it rests on, then what it assumes: the list that is shown."""
        return (*self.rests_on, *(Evidence(fact=f"assumed: {each.value}", source=ASSUMED) for each in self.assumes))

    @property
    def certainty(self) -> Certainty:
        """Return how sure it is that what the verdict asks for is right: certain where it assumes nothing."""
        if self.verdict in (Verdict.UNKNOWN, Verdict.FOREIGN):
            return Certainty.GUESS
        return Certainty.LIKELY if self.assumes else Certainty.CERTAIN


class AbortCause(Enum):
    """Who ended a transaction that was aborted, as far as it is known."""

    TIMEOUT = "timeout"
    FENCED = "fenced"
    CLIENT = "client"
    OPERATOR = "operator"
    UNKNOWN = "unknown"
