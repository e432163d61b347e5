"""Flink's Kafka transactions: whose they are by their ids, and whether the checkpoint that holds them was completed. Pure.

KafkaSink names them ``<prefix>-<subtask>-<number>`` (TransactionalIdFactory). Under TransactionNamingStrategy.INCREMENTING the
number is the checkpoint to come: each checkpoint has new ids, and a job restored from checkpoint q takes the ids from q + 1 on
again. Under POOLING it counts free ids from 0, which are used again and again. A transaction is committed by the first checkpoint
that completes after its own, unless the job is restored in between; a savepoint of a job that goes on commits nothing (FLIP-203).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from collector.facts import BrokerTransaction, Init
from collector.flink_facts import FlinkJobFacts, FlinkState, Restore
from collector.flink_records import FlinkStatus
from collector.time_text import utc

_ID = re.compile(r"(?P<prefix>.+)-(?P<subtask>0|[1-9][0-9]{0,8})-(?P<number>0|[1-9][0-9]{0,17})")
COMMIT_DELAY_MS = 10_000
"""A sink's commits follow the end of their checkpoint within this, when its job is looked for."""
CLOCK_SKEW_MS = 1_000
COMMITS_COMPARED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkId:
    """A transactional id of the form that KafkaSink builds; others build such ids too."""

    prefix: str
    subtask: int
    number: int

    @classmethod
    def parse(cls, text: str) -> FlinkId | None:
        """Return the parsed id, or None for one of another form. Parsed whole."""
        match = _ID.fullmatch(text)
        if match is None:
            return None
        return cls(prefix=match["prefix"], subtask=int(match["subtask"]), number=int(match["number"]))


class Naming(Enum):
    """How a sink names its transactions."""

    INCREMENTING = "incrementing"
    POOLING = "pooling"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class SubtaskIds:
    """What is known of the ids of one subtask of a sink, by their number."""

    taken_ms: dict[int, int] = field(default_factory=dict)
    """When a producer took the id last, or opened a transaction under it."""
    committed: dict[int, int] = field(default_factory=dict)
    """How many of its transactions were committed."""

    def take(self, number: int, at_ms: int) -> None:
        """Note that an id was used."""
        self.taken_ms[number] = max(at_ms, self.taken_ms.get(number, at_ms))


@dataclass(slots=True)
class Sink:
    """What is known of one transactional id prefix."""

    prefix: str
    subtasks: dict[int, SubtaskIds] = field(default_factory=dict)
    commits: list[tuple[int, int, int]] = field(default_factory=list)
    """Start, begin of the commit, and number of committed transactions; none where nobody asked when they were."""
    _naming: Naming | None = field(default=None, init=False, compare=False)

    @property
    def naming(self) -> Naming:
        """Return how it names its transactions, as far as was known when it was asked for first."""
        if self._naming is None:
            self._naming = self._found_naming()
        return self._naming

    def _found_naming(self) -> Naming:
        # Most pooled ids have committed more than one, others seldom (after a restore).
        counts = [count for ids in self.subtasks.values() for count in ids.committed.values()]
        if 2 * sum(1 for count in counts if count > 1) > len(counts):
            return Naming.POOLING
        numbers = max((len(ids.committed) for ids in self.subtasks.values()), default=0)
        return Naming.INCREMENTING if numbers >= 3 else Naming.UNKNOWN


def sinks(
    starts: Mapping[str, int],
    commits: Mapping[str, int],
    inits: Mapping[str, Sequence[Init]],
    prefixes: Collection[str],
    timed: Iterable[BrokerTransaction] = (),
) -> dict[str, Sink]:
    """Return what is known of each of these prefixes.

    ``starts``: when the newest transaction of each id began; ``commits``: how many of an id's were committed, where any was;
    ``timed``: transactions of which it matters when they were committed, which tells nothing where no Flink is watched.
    """
    found = {prefix: Sink(prefix) for prefix in prefixes}
    places: dict[str, tuple[Sink, SubtaskIds, int] | None] = {}
    for id_, start_ms in starts.items():
        place = places[id_] = _place_of(id_, found)
        if place is not None:
            _, ids, number = place
            ids.take(number, start_ms)
            if (count := commits.get(id_)) is not None:
                ids.committed[number] = count
    for id_, taken in inits.items():
        place = places[id_] if id_ in places else _place_of(id_, found)
        if place is not None and taken:
            place[1].take(place[2], taken[-1].at_ms)
    for transaction in timed:
        place = places.get(transaction.identity.transaction)
        ended_ms = transaction.ended_ms
        if place is not None and transaction.is_committing and ended_ms is not None:
            place[0].commits.append((transaction.identity.start_ms, ended_ms, place[2]))
    return found


def _place_of(id_: str, among: Mapping[str, Sink]) -> tuple[Sink, SubtaskIds, int] | None:
    """Return the sink and the subtask that an id belongs to, with the id's number; None for one of no sink among these."""
    parsed = FlinkId.parse(id_)
    sink = among.get(parsed.prefix) if parsed is not None else None
    if parsed is None or sink is None:
        return None
    return sink, sink.subtasks.setdefault(parsed.subtask, SubtaskIds()), parsed.number


class Fate(Enum):
    """What became of the checkpoint that holds a transaction."""

    COMPLETED = "completed"
    """The job goes on from behind it: what it holds must be in Kafka."""
    REPLAYED = "replayed"
    """The job was set back to before it: what it holds is written again."""
    NOT_COMPLETED = "not completed"
    """Its job ended without completing it, and nothing was restored since."""
    PENDING = "pending"
    """It has not ended."""
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The fate, how it is known, and of which checkpoint of which job; ``sure``: no other reading is left."""

    fate: Fate
    why: str
    sure: bool = False
    checkpoint: int | None = None
    pipeline: str = ""


def evidence(transaction: BrokerTransaction, sink: Sink, flink: FlinkState) -> Evidence:
    """Return what became of the checkpoint that holds an aborted transaction: from Flink's REST API, else from the ids alone."""
    parsed = FlinkId.parse(transaction.identity.transaction)
    if parsed is None:
        return Evidence(fate=Fate.UNSEEN, why="its id is not of the form that Flink's KafkaSink builds")
    job, unknown = job_of(transaction, sink, flink)
    by_ids = _by_ids(transaction, parsed, sink)
    if job is None:
        return by_ids or Evidence(fate=Fate.UNSEEN, why=unknown)
    proven = flink.restored_from(job.job.job)
    pooled = sink.naming is Naming.POOLING
    by_job = _by_job(transaction, parsed, job, proven, pooled=pooled, sure=not pooled and _fits(sink, job))
    if sink.naming is Naming.UNKNOWN:
        otherwise = _by_job(transaction, parsed, job, proven, pooled=True, sure=False)
        if by_job.fate is not otherwise.fate:
            why = f"whether the numbers in its ids are {job.pipeline}'s checkpoints is not known after so few commits"
            by_job = Evidence(fate=Fate.UNSEEN, why=why, pipeline=job.pipeline)
    if by_ids is None:
        return by_job
    if by_job.fate in (Fate.COMPLETED, Fate.REPLAYED):
        return replace(by_job, sure=by_job.sure or by_job.fate is by_ids.fate)
    return replace(by_ids, pipeline=job.pipeline)


def job_of(transaction: BrokerTransaction, sink: Sink, flink: FlinkState) -> tuple[FlinkJobFacts | None, str]:
    """Return the job that wrote a transaction, or None and why it cannot be told: its times are those of the sink's commits."""
    start_ms = transaction.identity.start_ms
    ran = [facts for facts in flink.jobs.values() if _ran_at(facts, start_ms)]
    if not ran:
        known = "no Flink job that ran then is known" if flink.jobs else "no Flink is watched (--flink NAME=URL)"
        return None, f"{known}: whether its checkpoint was completed cannot be told"
    if len(ran) == 1:
        return ran[0], ""
    fitting = [facts for facts in ran if _fits(sink, facts)]
    if len(fitting) == 1:
        return fitting[0], ""
    names = ", ".join(sorted(facts.pipeline for facts in ran))
    return None, f"{len(ran)} Flink jobs ran then ({names}), and its sink's commits do not say whose it is"


def _ran_at(facts: FlinkJobFacts, at_ms: int) -> bool:
    job = facts.job
    ended_ms = (job.ended_ms or job.changed_ms) if job.is_over else None
    return job.started_ms - CLOCK_SKEW_MS <= at_ms and (ended_ms is None or at_ms <= ended_ms + CLOCK_SKEW_MS)


def _fits(sink: Sink, facts: FlinkJobFacts) -> bool:
    """Say whether most of the sink's commits came just after the end of a checkpoint of this job (of their number)."""
    ran = [commit for commit in sink.commits if _ran_at(facts, commit[0])]
    compared = sorted(ran)[-COMMITS_COMPARED:]
    ends = {
        number: seen.ended_ms
        for number, seen in facts.checkpoints.items()
        if seen.status is FlinkStatus.COMPLETED and seen.ended_ms is not None and seen.kind.commits
    }
    matching = sum(1 for commit in compared if _follows(commit, ends, sink.naming))
    return 2 * matching > len(compared) > 0


def _follows(commit: tuple[int, int, int], ends: Mapping[int, int], naming: Naming) -> bool:
    _, committed_ms, number = commit
    wanted = ends.values() if naming is Naming.POOLING else [ends[number]] if number in ends else []
    return any(-CLOCK_SKEW_MS <= committed_ms - ended_ms <= COMMIT_DELAY_MS for ended_ms in wanted)


def _by_job(
    transaction: BrokerTransaction,
    parsed: FlinkId,
    facts: FlinkJobFacts,
    proven: Mapping[int, Restore],
    *,
    pooled: bool,
    sure: bool,
) -> Evidence:
    """Tell from the job's checkpoints. ``proven``: those that some job was restored from; ``pooled``: numbers say nothing."""
    start_ms = transaction.identity.start_ms
    first = 0 if pooled else parsed.number
    restored = min((r for r in facts.restores if r.at_ms > start_ms), key=lambda r: r.at_ms, default=None)
    held: list[int] = []
    for number, seen in facts.checkpoints.items():
        before_restore = restored is None or seen.triggered_ms < restored.at_ms
        named = not pooled and number == parsed.number and (seen.ended_ms or start_ms) >= start_ms
        if number >= first and seen.kind.commits and before_restore and (named or seen.triggered_ms >= start_ms):
            held.append(number)
    unseen = [
        n for n in proven if n not in facts.checkpoints and n >= first and not pooled and proven[n].at_ms > start_ms
    ]
    if restored is not None:
        unseen = [n for n in unseen if n == restored.number]  # the others were taken after the job was set back
    completed = [n for n in held if facts.checkpoints[n].status is FlinkStatus.COMPLETED or n in proven] + unseen
    name = facts.pipeline
    if completed:
        number = min(completed)
        return Evidence(
            fate=Fate.COMPLETED, why=_completed(facts, number, proven), sure=sure or number in unseen,
            checkpoint=number, pipeline=name,
        )  # fmt: skip
    back = restored or max(proven.values(), key=lambda r: r.number, default=None)
    if (
        back is not None
        and back.at_ms > start_ms
        and _is_before(facts, back.number, start_ms, None if pooled else parsed.number)
    ):
        why = f"{name} was set back to checkpoint {back.number}, before it: it is written again"
        return Evidence(fate=Fate.REPLAYED, why=why, sure=sure, checkpoint=back.number, pipeline=name)
    running = [n for n in held if facts.checkpoints[n].status is FlinkStatus.IN_PROGRESS]
    if not facts.job.is_over:
        why = f"no checkpoint of {name} that holds it has ended, as far as Flink told"
        return Evidence(fate=Fate.PENDING, why=why, checkpoint=min(running, default=None), pipeline=name)
    if back is not None and back.at_ms > start_ms and pooled:
        why = f"a job was restored from checkpoint {back.number}, but when that was taken was not seen, and pooled ids do not tell"
        return Evidence(fate=Fate.UNSEEN, why=why, checkpoint=min(running, default=None), pipeline=name)
    if running or not held:
        why = f"{name} is {facts.job.state}; the end of its checkpoint was not seen: what a job is restored from will tell"
        return Evidence(fate=Fate.UNSEEN, why=why, checkpoint=min(running, default=None), pipeline=name)
    why = f"{name} is {facts.job.state}, and no checkpoint that holds it was completed: a restored job writes it again"
    return Evidence(fate=Fate.NOT_COMPLETED, why=why, checkpoint=min(held), pipeline=name)


def _completed(facts: FlinkJobFacts, number: int, proven: Mapping[int, Restore]) -> str:
    seen = facts.checkpoints.get(number)
    what = f"checkpoint {number} of {facts.pipeline} holds it and was completed"
    if seen is not None and seen.status is FlinkStatus.COMPLETED and seen.ended_ms is not None:
        return f"{what} at {utc(seen.ended_ms)}"
    return f"{what}: a job was restored from it at {utc(proven[number].at_ms)}"


def _is_before(facts: FlinkJobFacts, number: int, start_ms: int, own: int | None) -> bool:
    """Say whether checkpoint ``number`` was taken before a transaction began; ``own`` is the number in its id."""
    if own is not None:
        return number < own
    seen = facts.checkpoints.get(number)
    return seen is not None and (seen.ended_ms or seen.triggered_ms) < start_ms


def _by_ids(transaction: BrokerTransaction, parsed: FlinkId, sink: Sink) -> Evidence | None:
    """Tell from what happened to the ids of its subtask afterwards, or return None where that says nothing.

    A job set back to before a transaction takes its id again; one that goes on behind it takes later ones only.
    """
    ended_ms, ids = transaction.ended_ms, sink.subtasks.get(parsed.subtask)
    if sink.naming is not Naming.INCREMENTING or ids is None or ended_ms is None:
        return None
    if ids.taken_ms.get(parsed.number, ended_ms) > ended_ms:
        again = utc(ids.taken_ms[parsed.number])
        why = f"its id was taken again at {again}: the job was set back to before it and writes it again"
        return Evidence(fate=Fate.REPLAYED, why=why)
    later = [number for number, at_ms in ids.taken_ms.items() if number > parsed.number and at_ms > ended_ms]
    if not later:
        return None
    why = f"the job went on with {parsed.prefix}-{parsed.subtask}-{min(later)} and never took its id again: it counts it as written"
    return Evidence(fate=Fate.COMPLETED, why=why, checkpoint=parsed.number)
