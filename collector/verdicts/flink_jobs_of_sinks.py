"""Which Flink job wrote under a transactional id prefix: the times of its sink's commits tell, where several jobs ran. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from collector.records.facts import BrokerTransaction
from collector.records.flink_facts import CLOCK_SKEW_MS, FlinkJobFacts, FlinkState
from collector.records.formats.flink_records import FlinkStatus
from collector.state.flink_sinks import Naming, Sink

COMMIT_DELAY_MS = 10_000
"""A sink's commits follow the end of their checkpoint within this, when its job is looked for."""
COMMITS_COMPARED = 50


def job_of(transaction: BrokerTransaction, sink: Sink, flink: FlinkState) -> tuple[FlinkJobFacts | None, str]:
    """Return the job that wrote a transaction, or None and why that is unknown: its times are those of the sink's commits."""
    start_ms = transaction.identity.start_ms
    ran = [facts for facts in flink.jobs.values() if _ran_at(facts, start_ms)]
    if not ran:
        if not flink.jobs:
            # Its id only looks like Flink's: nothing says that it is.
            return None, "only its owner knows whether it writes it again; of a Flink job, --flink NAME=URL tells"
        return None, "no Flink job that ran then is known: whether its checkpoint was completed is unknown"
    if len(ran) == 1:
        return ran[0], ""
    fitting = [facts for facts in ran if fits(sink, facts)]
    if len(fitting) == 1:
        return fitting[0], ""
    names = ", ".join(sorted(facts.pipeline for facts in ran))
    return None, f"{len(ran)} Flink jobs ran then ({names}), and its sink's commits do not say whose it is"


def _ran_at(facts: FlinkJobFacts, at_ms: int) -> bool:
    job = facts.job
    ended_ms = (job.ended_ms or job.changed_ms) if job.is_over else None
    return job.started_ms - CLOCK_SKEW_MS <= at_ms and (ended_ms is None or at_ms <= ended_ms + CLOCK_SKEW_MS)


def fits(sink: Sink, facts: FlinkJobFacts) -> bool:
    """Say whether most of the sink's commits came just after the end of a checkpoint of this job (of their number)."""
    ran = [commit for commit in sink.commits if _ran_at(facts, commit[0])]
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
