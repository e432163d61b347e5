"""Which Flink job wrote under a transactional id prefix, and whether two do by mistake: an id then does not say whose it is. Pure.

Its checkpoints name it, else its commits' times tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from indoubt.collector.facts.flink_sinks import Naming, Sink
from indoubt.collector.records.facts import BrokerTransaction
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS, FlinkJobFacts
from indoubt.collector.records.formats.flink_records import FlinkStatus
from indoubt.collector.verdicts.flink_line import has_ended_by, related

COMMIT_DELAY_MS = 10_000
"""A sink's commits follow the end of their checkpoint within this, when its job is looked for."""
COMMITS_COMPARED = 50
_ITS_OWNER = "only its owner knows whether it writes these rows again"


def ran_at(facts: FlinkJobFacts, at_ms: int) -> bool:
    """Say whether a job ran at a time (epoch ms), as far as REST told."""
    job = facts.job
    ended_ms = (job.ended_ms or job.changed_ms) if job.is_over else None
    return job.started_ms - CLOCK_SKEW_MS <= at_ms and (ended_ms is None or at_ms <= ended_ms + CLOCK_SKEW_MS)


def rival(flink: FlinkState, facts: FlinkJobFacts, prefix: str, at_ms: int) -> str:
    """Return the name of another job that may have written under a prefix then, and that is of another line of work; or nothing.

    Its checkpoints name the prefix; or one was completed since, and none of its lists was read.
    """
    for other, is_named in others_that_ran(flink, facts, prefix, at_ms):
        if is_named or (is_named is None and _has_completed(other, at_ms)):
            return other.pipeline
    return known_by_lists(flink, facts, prefix, at_ms)


def may_share_prefix(flink: FlinkState, facts: FlinkJobFacts, prefix: str, at_ms: int) -> bool:
    """Say whether any other job that ran since then may use a prefix: its lists name it, or none of them was read whole."""
    others = (each for id_, each in flink.jobs.items() if id_ != facts.job.job and not has_ended_by(each, at_ms))
    return any(flink.lists.names_prefix(each, prefix) is not False for each in others) or any(
        job != facts.job.job and job not in flink.jobs and each.written_ms >= at_ms - CLOCK_SKEW_MS
        for (_, job), lists in flink.lists.committables.items()
        for each in lists.values()
        if prefix in each.prefixes and not each.is_gone
    )


def known_by_lists(flink: FlinkState, facts: FlinkJobFacts, prefix: str, at_ms: int) -> str:
    """Return such a job that REST did not tell of, and that wrote a checkpoint since which names the prefix; or nothing."""
    for (cluster, job), lists in flink.lists.committables.items():
        if job in flink.jobs or job == facts.job.job:
            continue
        named = (each.written_ms for each in lists.values() if prefix in each.prefixes)
        if max(named, default=0) >= at_ms - CLOCK_SKEW_MS and job not in related(flink, facts.job.job):
            return f"{cluster}/{job}"
    return ""


def others_that_ran(
    flink: FlinkState, facts: FlinkJobFacts, prefix: str, at_ms: int
) -> Iterator[tuple[FlinkJobFacts, bool | None]]:
    """Yield the jobs that ran then, of another line of work, with whether their checkpoints name a prefix; None: not known."""
    line: frozenset[str] | None = None
    for other in flink.jobs.values():
        if other.job.job == facts.job.job or not ran_at(other, at_ms):
            continue
        is_named = flink.lists.names_prefix(other, prefix)
        if is_named is False:
            continue
        line = line if line is not None else related(flink, facts.job.job)
        if other.job.job not in line:
            yield other, is_named


def _has_completed(facts: FlinkJobFacts, since_ms: int) -> bool:
    return any(
        seen.status is FlinkStatus.COMPLETED and (seen.ended_ms or 0) >= since_ms for seen in facts.checkpoints.values()
    )


def job_of(transaction: BrokerTransaction, sink: Sink, flink: FlinkState) -> tuple[FlinkJobFacts | None, str]:
    """Return the job that wrote a transaction, or None and why that is unknown.

    A job is it where its checkpoints name the prefix; where no list names it, the times of its commits tell. A job whose lists were
    read whole and never name it is not it, and neither is any but the job that has the prefix and those that it goes on from.
    """
    if not flink.jobs:
        # Its id only looks like Flink's: nothing says that it is.
        return None, f"{_ITS_OWNER}; of a Flink job, --flink NAME=URL tells"
    ran = [facts for facts in flink.jobs.values() if ran_at(facts, transaction.identity.start_ms)]
    told = [(facts, _is_named(transaction, sink, facts, flink)) for facts in ran]
    named, may_be = (
        [facts for facts, is_named in told if is_named],
        [facts for facts, is_named in told if is_named is None],
    )
    owner = flink.lists.job_of_prefix(sink.prefix)
    if len(named) == 1 and not any(fits(sink, facts) for facts in may_be):
        return named[0], ""
    if named:
        return _fitting(named, ran, sink)
    if owner is not None:
        related = [facts for facts in may_be if _is_related(facts, owner, flink)]
        if not related:
            known = flink.jobs.get(owner[1])
            name = known.pipeline if known is not None else "/".join(owner)
            why = f"its prefix is that of {name}, of which no job is known that ran then"
            return None, f"{why}: whether its checkpoint was completed is unknown"
        return (related[0], "") if len(related) == 1 else _fitting(related, ran, sink)
    if not ran:
        return None, f"{_ITS_OWNER}: no Flink job that ran then is known"
    if not may_be:
        return None, f"{_ITS_OWNER}: no checkpoint of a Flink job that ran then names its prefix"
    # That the others' lists leave it out does not make it this one's, where several ran.
    return (ran[0], "") if len(ran) == 1 else _fitting(may_be, ran, sink)


def _is_named(transaction: BrokerTransaction, sink: Sink, facts: FlinkJobFacts, flink: FlinkState) -> bool | None:
    """Say whether a job's checkpoints name the prefix, or list the transaction; None: none of its lists was read whole."""
    return flink.lists.have(facts, transaction.handle_identity) or flink.lists.names_prefix(facts, sink.prefix)


def _fitting(
    among: Iterable[FlinkJobFacts], ran: Collection[FlinkJobFacts], sink: Sink
) -> tuple[FlinkJobFacts | None, str]:
    fitting = [facts for facts in among if fits(sink, facts)]
    if len(fitting) == 1:
        return fitting[0], ""
    names = ", ".join(sorted(facts.pipeline for facts in ran))
    return None, f"{len(ran)} Flink jobs ran then ({names}), and its sink's commits do not say whose it is"


def _is_related(facts: FlinkJobFacts, owner: tuple[str, str], flink: FlinkState) -> bool:
    """Say whether a job has the name of the one that has the prefix, or one of them was restored from the other."""
    known = flink.jobs.get(owner[1])
    if known is None:
        return any(restore.of_job == owner[1] for restore in facts.restores)
    if (known.job.cluster, known.job.name) == (facts.job.cluster, facts.job.name):
        return True
    goes_on = any(restore.of_job == facts.job.job for restore in known.restores)
    return goes_on or any(restore.of_job == owner[1] for restore in facts.restores)


def fits(sink: Sink, facts: FlinkJobFacts) -> bool:
    """Say whether most of the sink's commits came just after the end of a checkpoint of this job (of their number)."""
    ran = [commit for commit in sink.commits if ran_at(facts, commit[0])]
    compared = sorted(ran)[-COMMITS_COMPARED:]
    ends = {
        number: seen.ended_ms
        for number, seen in facts.checkpoints.items()
        if seen.status is FlinkStatus.COMPLETED and seen.ended_ms is not None and seen.kind.commits
    }
    matching = sum(1 for commit in compared if _follows(commit, ends, sink.naming))
    return 2 * matching > len(compared)


def _follows(commit: tuple[int, int, int], ends: Mapping[int, int], naming: Naming) -> bool:
    _, committed_ms, number = commit
    wanted = ends.values() if naming is Naming.POOLING else [ends[number]] if number in ends else []
    return any(-CLOCK_SKEW_MS <= committed_ms - ended_ms <= COMMIT_DELAY_MS for ended_ms in wanted)
