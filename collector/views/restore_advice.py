"""Restore advice: a Flink job's transactions of memory and history, judged for each checkpoint it may be restored from."""

from __future__ import annotations

from collections.abc import Iterable

from indoubt.collector.facts.state import State
from indoubt.collector.history import row_coding, transaction_sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.application_ids import FlinkId
from indoubt.collector.records.branches import BranchFacts
from indoubt.collector.records.facts import BrokerIdentity, BrokerTransaction, merged
from indoubt.collector.records.formats.flink_records import Committable, FlinkCommittables, Listed, ListedFile
from indoubt.collector.records.formats.pending_files import Standing, resource_manager_of
from indoubt.collector.records.observations import BranchProof
from indoubt.collector.records.xids import listed_of
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.flink_cases import flink_xid
from indoubt.collector.verdicts.flink_restores import End, RestoreOutcome, Written, outcomes
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.past_of_identities import MOST_RECORDS
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.durations import HOUR_MS
from indoubt.lifecycle.resource_manager_kinds import WATCHED
from indoubt.lifecycle.rows.restores import AfterRestore, RestoreRow
from indoubt.lifecycle.verdicts import Certainty

KEYS_SHOWN = 100
_END_OF_FILE = {Standing.VISIBLE: End.COMMITTED, Standing.HIDDEN: End.OPEN, Standing.MISSING: End.UNDONE}


def jobs_named(current: CurrentState, job: str) -> list[tuple[str, str]]:
    """Return (cluster, job id) of the jobs that a text names: an id, a name, or ``cluster/name``; the newest of a name only."""
    with current.reading() as state:
        flink = state.flink
        known = [(cluster, id_) for cluster, id_ in flink.lists.committables if id_ == job]
        known += [(facts.job.cluster, id_) for id_, facts in flink.jobs.items() if id_ == job]
        named = [facts for facts in flink.jobs.values() if job in (facts.job.name, facts.pipeline)]
    if known:
        return list(dict.fromkeys(known))
    newest: dict[str, tuple[int, tuple[str, str]]] = {}
    for facts in named:
        at = (facts.job.started_ms, (facts.job.cluster, facts.job.job))
        newest[facts.pipeline] = max(at, newest.get(facts.pipeline, at))
    return [job for _, job in newest.values()]


def restore_rows(current: CurrentState, store: Store, cluster: str, job: str) -> list[RestoreRow]:
    """Return what a restore from each retained checkpoint of a job would do, the newest first. Raises StoreFailed."""
    with current.reading() as state:
        lists = list(state.flink.lists.committables.get((cluster, job), {}).values())
    if not lists:
        return []
    prefixes = frozenset(prefix for each in lists for prefix in each.prefixes)
    since_ms = min(each.written_ms for each in lists) - HOUR_MS
    past, is_all = _past(store, prefixes, since_ms)
    with current.reading() as state:
        written = list(_written(state, cluster, job, lists, prefixes, past))
        found = outcomes(state.flink, cluster, job, written, is_all=is_all)
        pipeline = state.flink.pipeline_of(job) or f"{cluster}/{job}"
    return [_row(each, pipeline, is_newest=not number) for number, each in enumerate(found)]


def _past(store: Store, prefixes: frozenset[str], since_ms: int) -> tuple[list[BrokerTransaction], bool]:
    """Return the transactions of history that began since then under these prefixes, and whether these are all."""
    if not prefixes:
        return [], True
    store.catch_up()
    stems = [f"{prefix}-" for prefix in sorted(prefixes)]
    wanted = (stems, since_ms, now_ms(), MOST_RECORDS)
    ((records,),) = store.rows(transaction_sql.records_of_beginnings(len(stems)), *wanted[:3], since_ms=since_ms)
    rows = store.rows(transaction_sql.transactions_of_beginnings(len(stems)), *wanted, since_ms=since_ms)
    return list(row_coding.transactions(rows)), records <= MOST_RECORDS


def _written(
    state: State,
    cluster: str,
    job: str,
    lists: Iterable[FlinkCommittables],
    prefixes: frozenset[str],
    past: Iterable[BrokerTransaction],
) -> Iterable[Written]:
    """Yield the transactions of a job's sinks: those that it lists, and those under its prefixes."""
    missing: set[Listed] = {listed for each in lists for listed in each.committables}
    known: dict[BrokerIdentity, BrokerTransaction] = {each.identity: each for each in past}
    for identity, transaction in state.broker.items():
        if identity in known:
            known[identity] = merged(known[identity], transaction)
        elif _committable(transaction) in missing or _prefix(identity.transaction) in prefixes:
            known[identity] = transaction
    for transaction in known.values():
        listed, is_ours = _committable(transaction), _prefix(transaction.identity.transaction) in prefixes
        if is_ours or listed in missing:
            if listed is not None:
                missing.discard(listed)
            timeout_ms = transaction.timeout_ms
            yield Written(
                key=transaction.key,
                listed=listed,
                start_ms=transaction.identity.start_ms,
                end=_end(transaction),
                deadline_ms=transaction.identity.start_ms + timeout_ms if timeout_ms is not None else None,
            )
    files = state.flink.files_seen.get(cluster, {})
    left_out = {target for target, seen in files.items() if seen.standing is Standing.HIDDEN and seen.why}
    for branch in state.branches.values():
        one, found = listed_of(branch.resource_manager, branch.transaction), flink_xid(branch)
        if one is not None and (one in missing or (found is not None and found.job == job)):
            missing.discard(one)
            end = End.UNDONE if branch.transaction in left_out else _end_of_branch(branch)
            is_left = not WATCHED[branch.resource_manager].takes_commits
            yield Written(key=branch.key, listed=one, start_ms=branch.since_ms or 0, end=end, is_left_to_job=is_left)
    for left in missing:
        if isinstance(left, ListedFile):
            seen = files.get(left.target)
            end = _END_OF_FILE.get(seen.standing, End.UNSEEN) if seen is not None else End.UNSEEN
            end = End.UNDONE if left.target in left_out else end
            is_left = not WATCHED[resource_manager_of(left.target)].takes_commits
            yield Written(key=left.target, listed=left, start_ms=0, end=end, is_left_to_job=is_left)
        else:
            yield Written(key=str(left), listed=left, start_ms=0, end=End.UNSEEN)


def _committable(transaction: BrokerTransaction) -> Committable | None:
    id_, producer_id, epoch = transaction.handle_identity
    return Committable(id_, producer_id, epoch) if producer_id is not None and epoch is not None else None


def _prefix(transaction: str) -> str | None:
    parsed = FlinkId.parse(transaction)
    return parsed.prefix if parsed is not None else None


def _end(transaction: BrokerTransaction) -> End:
    if transaction.is_committing:
        return End.COMMITTED
    if transaction.is_aborting:
        return End.UNDONE
    return End.UNSEEN if transaction.gone_ms is not None else End.OPEN


def _end_of_branch(branch: BranchFacts) -> End:
    if branch.is_listed:
        return End.OPEN
    by_proof: dict[BranchProof | None, End] = {
        BranchProof.COMMITTED: End.COMMITTED,
        BranchProof.TOMBSTONE: End.UNDONE,
        BranchProof.MISSING: End.UNDONE,
    }
    return by_proof.get(branch.proof, End.UNSEEN)


def _row(outcome: RestoreOutcome, pipeline: str, *, is_newest: bool) -> RestoreRow:
    seen, keys = outcome.checkpoint, outcome.keys
    count = {kind: len(keys.get(kind, ())) for kind in AfterRestore}
    bad = count[AfterRestore.LOST] + count[AfterRestore.TWICE] + count[AfterRestore.UNKNOWN]
    return RestoreRow(
        pipeline=pipeline,
        cluster=seen.cluster,
        job=seen.job,
        checkpoint=seen.number,
        path=seen.path,
        kind=seen.kind.value if seen.kind is not None else None,
        written_at_ms=seen.written_ms,
        is_newest=is_newest,
        is_safe=not bad and not seen.error,
        # What a restore will do is never read from anyone: that Flink reads the same input again is assumed.
        certainty=Certainty.GUESS if outcome.doubts or count[AfterRestore.UNKNOWN] else Certainty.LIKELY,
        lost=count[AfterRestore.LOST],
        twice=count[AfterRestore.TWICE],
        commits=count[AfterRestore.COMMITTED_BY_IT],
        rolled_back=count[AfterRestore.ROLLED_BACK],
        unknown=count[AfterRestore.UNKNOWN],
        deadline_ms=outcome.deadline_ms,
        advice=_advice(count),
        doubts=outcome.doubts,
        keys={kind.value: tuple(sorted(of_kind)[:KEYS_SHOWN]) for kind, of_kind in keys.items()},
    )


def _advice(count: dict[AfterRestore, int]) -> str:
    """Return what a restore from here does, and what to do before it."""
    said = []
    if not (count[AfterRestore.LOST] or count[AfterRestore.TWICE] or count[AfterRestore.UNKNOWN]):
        said.append("Nothing is lost or written twice.")
    if lost := count[AfterRestore.LOST]:
        said.append(
            f"Loses {counted(lost, 'transaction')}: listed, but undone. A restore from before them writes them again."
        )
    if twice := count[AfterRestore.TWICE]:
        said.append(f"Writes {counted(twice, 'committed transaction')} a second time: a later checkpoint has them.")
    if commits := count[AfterRestore.COMMITTED_BY_IT]:
        them = "it" if commits == 1 else "them"
        said.append(
            f"Commit {counted(commits, 'open transaction')} first, or restore before the first of {them} times out."
        )
    if open_ := count[AfterRestore.ROLLED_BACK]:
        said.append(
            f"Leave {counted(open_, 'open transaction')} to the restore, which writes their rows again: commit none."
        )
    if unknown := count[AfterRestore.UNKNOWN]:
        said.append(f"Of {counted(unknown, 'transaction')} the end is not known: look in the sink.")
    return " ".join(said)
