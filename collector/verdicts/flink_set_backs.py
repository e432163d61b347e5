"""Whether the records of a Flink transaction are written again, where no path of a restore names the job that wrote them. Pure.

A restored job says which checkpoint it began from. Its path names the job that took it, unless it is a savepoint's, or a cluster
that is not watched restored it. Two other facts show a set-back. Under TransactionNamingStrategy.INCREMENTING a job that is
restored from checkpoint q takes the ids from q + 1 on again, and no other does; a pooled id is taken again at any time, so that
this tells nothing. And a job that uses the prefix of a transaction was restored from a checkpoint of a lower number, or from one
that ended before the transaction began.
"""

from __future__ import annotations

from collections.abc import Iterator

from indoubt.collector.facts.flink_sinks import Naming, Sink
from indoubt.collector.records.application_ids import FlinkId
from indoubt.collector.records.facts import BrokerTransaction
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS, FlinkJobFacts, Restore
from indoubt.collector.runtime.time_format import utc
from indoubt.collector.verdicts.flink_prefixes import fits


def taken_again_ms(
    transaction: BrokerTransaction, sink: Sink, *, after_ms: int = 0, restored_ms: int = 0, held_ms: int = 0
) -> int | None:
    """Return when the id of an ended transaction was taken again, later than ``after_ms`` (epoch ms); None: it was not.

    Not between ``held_ms`` and ``restored_ms``: a job was restored then from a checkpoint that was triggered at ``held_ms`` and
    holds what its id had at that time. Of pooled ids a take tells nothing.
    """
    parsed, ended_ms = FlinkId.parse(transaction.identity.transaction), transaction.ended_ms
    if parsed is None or ended_ms is None:
        return None
    ids = sink.subtasks.get(parsed.subtask)
    taken = ids.takes.get(parsed.number, ()) if ids is not None else ()
    again = [at_ms for at_ms in taken if at_ms > max(ended_ms, after_ms) and not held_ms <= at_ms <= restored_ms]
    return max(again, default=None)


def set_back(
    transaction: BrokerTransaction,
    sink: Sink,
    flink: FlinkState,
    *,
    restored_ms: int = 0,
    held_ms: int = 0,
    taken_ms: int = 0,
    counts_takes: bool = True,
) -> str | None:
    """Return what shows that an ended transaction is written again, in one sentence, or None.

    Only restores later than ``restored_ms`` (epoch ms) count, and only takes of its id that are later than ``taken_ms`` and not
    between ``held_ms`` and ``restored_ms``, where ``counts_takes``.
    """
    again_ms = taken_again_ms(transaction, sink, after_ms=taken_ms, restored_ms=restored_ms, held_ms=held_ms)
    if again_ms is not None and counts_takes and sink.naming is Naming.INCREMENTING:
        return taken_again(again_ms)
    parsed = FlinkId.parse(transaction.identity.transaction)
    if parsed is None:
        return None
    start_ms = transaction.identity.start_ms
    after_ms = max(start_ms + CLOCK_SKEW_MS, restored_ms)
    number = parsed.number if sink.naming is Naming.INCREMENTING else None
    found = [
        (restore.at_ms, restore.number, facts)
        for facts in flink.jobs.values()
        for restore in facts.restores
        if restore.at_ms > after_ms and _is_before(flink, facts, restore, number, start_ms)
    ]
    found = [each for each in found if _uses(flink, each[2], sink)]
    if not found:
        return None
    at_ms, restored, facts = max(found, key=lambda each: each[0])
    return (
        f"{facts.pipeline}, which uses the prefix {sink.prefix}, was restored from checkpoint {restored} at {utc(at_ms)}, before "
        "it: it is written again"
    )


def taken_again(at_ms: int) -> str:
    """Return the sentence about an id that was taken again then (epoch ms)."""
    return f"its id was taken again at {utc(at_ms)}: the job was set back to before it and writes it again"


def sources(flink: FlinkState, facts: FlinkJobFacts, restore: Restore) -> Iterator[FlinkJobFacts]:
    """Yield the jobs that may have taken the checkpoint that a job was restored from: that of its path, else those of its name."""
    if restore.of_job:
        if (source := flink.jobs.get(restore.of_job)) is not None:
            yield source
        return
    for other in flink.jobs.values():
        if (other.job.cluster, other.job.name) == (facts.job.cluster, facts.job.name) and (
            other.job.started_ms < restore.at_ms
        ):
            yield other


def _is_before(flink: FlinkState, facts: FlinkJobFacts, restore: Restore, number: int | None, start_ms: int) -> bool:
    """Say whether a job was restored from a checkpoint that a transaction began after; ``number``: its own, None: pooled ids."""
    if number is not None:
        return restore.number < number
    seen = [each for each in (one.checkpoints.get(restore.number) for one in sources(flink, facts, restore)) if each]
    return len(seen) == 1 and (seen[0].ended_ms or start_ms) < start_ms - CLOCK_SKEW_MS


def _uses(flink: FlinkState, facts: FlinkJobFacts, sink: Sink) -> bool:
    """Say whether a job's sink uses a prefix: its checkpoints say so, or the times of the commits."""
    return flink.lists.job_of_prefix(sink.prefix) == (facts.job.cluster, facts.job.job) or fits(sink, facts)
