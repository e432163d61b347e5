"""Whether a committed transaction of a Flink job is written a second time: the job was set back to before it since. Pure.

A job goes on from the newest checkpoint that counts, so a restore from an older one is a person's choice, or follows a commit
by hand of a checkpoint that Flink never recorded. Either way what was committed behind it is in Kafka twice.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from indoubt.collector.facts.flink_sinks import Naming, Sink
from indoubt.collector.records.application_ids import FlinkId
from indoubt.collector.records.branches import BranchFacts
from indoubt.collector.records.facts import BrokerTransaction
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS, FlinkJobFacts, Restore
from indoubt.collector.records.formats.flink_records import Committable, FlinkStatus
from indoubt.collector.runtime.time_format import utc
from indoubt.collector.verdicts import flink_cases
from indoubt.collector.verdicts.flink_checkpoints import Evidence, Fate
from indoubt.collector.verdicts.flink_known import Answer, FlinkCase
from indoubt.collector.verdicts.flink_prefixes import job_of
from indoubt.collector.verdicts.flink_set_backs import set_back, sources


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBack:
    """A restore from a checkpoint behind which others had completed; it undid the work since ``undone_ms``."""

    undone_ms: int
    restore: Restore


def set_backs(flink: FlinkState, since_ms: int = 0) -> list[SetBack]:
    """Return the restores since then of jobs that are known, by whichever job, from a checkpoint that was not the newest."""
    found = []
    for facts in flink.jobs.values():
        for restore in facts.restores:
            if restore.at_ms < since_ms:
                continue
            for source in sources(flink, facts, restore):
                if _is_older(restore, source):
                    taken = source.checkpoints.get(restore.number)
                    undone_ms = taken.triggered_ms if taken is not None else source.job.started_ms
                    found.append(SetBack(undone_ms=undone_ms, restore=restore))
    return found


def _is_older(restore: Restore, source: FlinkJobFacts) -> bool:
    """Say whether a later checkpoint of the same job had completed by then."""
    return any(
        seen.number > restore.number
        and seen.status is FlinkStatus.COMPLETED
        and seen.kind.commits
        and seen.triggered_ms < restore.at_ms
        for seen in (*reversed(source.checkpoints.values()), *source.earlier.values())
    )


def may_be_twice(
    transaction: BrokerTransaction, flink: FlinkState, known: Collection[SetBack], since_ms: int = 0
) -> bool:
    """Say whether a committed transaction is worth the question: its job was set back, since then, to before it."""
    start_ms = transaction.identity.start_ms
    if any(each.undone_ms - CLOCK_SKEW_MS <= start_ms < each.restore.at_ms for each in known):
        return FlinkId.parse(transaction.identity.transaction) is not None
    case = _listed(transaction, flink)
    return case is not None and any(restore.at_ms >= since_ms for restore in case.restores_from_before())


def evidence(
    transaction: BrokerTransaction, sink: Sink, flink: FlinkState, *, by_order: bool = False
) -> Evidence | None:
    """Return which restore has a committed transaction written again, or None where none is known to.

    ``by_order``: an order committed it. Its job may have been set back before, and that its id was taken again since says so too.
    Of one that its job committed it does not: a job that is started anew under the same prefix takes every id again.
    """
    case, parsed, ended_ms = (
        _listed(transaction, flink),
        FlinkId.parse(transaction.identity.transaction),
        transaction.ended_ms,
    )
    found = _by_listing(case) if case is not None else _by_job(transaction, sink, flink)
    if found is not None or parsed is None or ended_ms is None:
        return found
    since_ms = 0 if by_order else ended_ms
    again = set_back(transaction, sink, flink, restored_ms=since_ms, counts_takes=by_order)
    if again is None:
        return None
    number = case.first.number if case is not None else parsed.number if sink.naming is Naming.INCREMENTING else None
    return Evidence(fate=Fate.REPLAYED, why=again, checkpoint=number)


def evidence_of_branch(branch: BranchFacts, flink: FlinkState) -> Evidence | None:
    """Return the same of a branch of Flink's JDBC sink that an order committed: what lists it tells."""
    case = flink_cases.case_of_branch(flink, branch)
    return _by_listing(case) if case is not None and case.listings else None


def _by_listing(case: FlinkCase) -> Evidence | None:
    """Tell as the verdict about it does while it is open; set back and restored again, its work may rest on it or not."""
    known, back = case.known(), case.restores_from_before()
    if known.answer is Answer.SET_BACK:
        return Evidence(fate=Fate.REPLAYED, why=known.why, sure=not known.assumes, checkpoint=case.first.number)
    is_by_others = case.is_alive and not any(each in case.restores for each in back)
    return None if is_by_others else _evidence(case.name, back, case.first.number, "that lists it")


def _by_job(transaction: BrokerTransaction, sink: Sink, flink: FlinkState) -> Evidence | None:
    parsed = FlinkId.parse(transaction.identity.transaction)
    ended_ms = transaction.ended_ms
    if parsed is None or ended_ms is None or sink.naming is Naming.UNKNOWN:
        return None
    job, _ = job_of(transaction, sink, flink)
    if job is None:
        return None
    since = [restore for restore in flink.restores_from(job.job.job) if restore.at_ms > ended_ms]
    if sink.naming is Naming.INCREMENTING:
        back = [restore for restore in since if restore.number < parsed.number]
        return _evidence(job.pipeline, back, parsed.number, "that holds it")
    taken = {number: seen.ended_ms or seen.triggered_ms for number, seen in job.checkpoints.items()}
    start_ms = transaction.identity.start_ms
    back = [restore for restore in since if taken.get(restore.number, start_ms) < start_ms]
    return _evidence(job.pipeline, back, None, "")


def _listed(transaction: BrokerTransaction, flink: FlinkState) -> FlinkCase | None:
    id_, producer_id, epoch = transaction.handle_identity
    if producer_id is None or epoch is None or not flink.lists.listings(Committable(id_, producer_id, epoch)):
        return None
    case = flink_cases.case_of(flink, transaction)
    return case if case is not None and case.listings else None


def _evidence(name: str, back: Collection[Restore], holds: int | None, how: str) -> Evidence | None:
    if not back:
        return None
    last = max(back, key=lambda restore: restore.at_ms)
    before = f"before checkpoint {holds} {how}" if holds is not None else "which was taken before it"
    why = (
        f"{name} was restored from checkpoint {last.number} at {utc(last.at_ms)}, {before}: its rows are written again"
    )
    return Evidence(fate=Fate.REPLAYED, why=why, checkpoint=holds)
