"""What is said of a branch in a database beside its verdict: who lists it, what it holds up, what its end left behind."""

from __future__ import annotations

from indoubt.collector.records.branches import BranchDetail, BranchFacts
from indoubt.collector.records.observations import BranchProof
from indoubt.collector.records.xids import owner_of
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.resource_manager_kinds import FILE_SINK, FLINK_SINKS, PAIMON
from indoubt.lifecycle.verdicts import Evidence
from indoubt.resource_managers.database.session import WaitingSession

MAX_NAMED = 3
"""So many of the locked relations and waiting sessions are named; the others are counted."""


def listed(
    branch: BranchFacts, detail: BranchDetail | None, polled_ms: int | None, not_asked: str = ""
) -> tuple[Evidence, ...]:
    """Return the facts about a branch that its server lists: that it does, who waits, what it locks, what vacuum leaves.

    ``not_asked``: why it is not known whether it still does.
    """
    if branch.resource_manager in FLINK_SINKS:
        return _hidden(branch, polled_ms, not_asked)
    owner = f" by {branch.owner}" if branch.owner else ""
    since = (
        ""
        if branch.prepared_ms is not None
        else "; the server keeps no start time: its age counts from when it was first seen"
    )
    found = [Evidence(fact=f"prepared{owner}{since}", source=branch.listed_by, at_ms=polled_ms)]
    if not_asked:
        found.append(Evidence(fact=not_asked, source=branch.listed_by))
    made_by = owner_of(branch.resource_manager, branch.transaction)
    if made_by is not None:
        told = f" ({made_by.detail})" if made_by.detail else ""
        found.append(Evidence(fact=f"its xid is one of {made_by.program}{told}", source=branch.listed_by))
    if detail is None:
        return tuple(found)
    if detail.locks.waiting:
        first = min((w.since_ms for w in detail.locks.waiting if w.since_ms is not None), default=None)
        found.append(Evidence(fact=_waiting(detail.locks.waiting), source=branch.listed_by, at_ms=first))
    if detail.locks.held:
        locks = [f"{lock.relation} ({lock.mode})" for lock in detail.locks.held]
        found.append(Evidence(fact=f"it holds locks on {_some(locks)}", source=branch.listed_by, at_ms=polled_ms))
    if detail.transaction_age is not None:
        fact = f"vacuum keeps everything since its start, {counted(detail.transaction_age, 'transaction')} ago"
        found.append(Evidence(fact=fact, source=branch.listed_by, at_ms=polled_ms))
    return tuple(found)


def ended(branch: BranchFacts) -> Evidence:
    """Return what is known of the end of a branch that its server lists no more."""
    fact, source = f"{branch.listed_by} lists it no more, and ", source_of_proof(branch)
    if branch.resource_manager in FLINK_SINKS:
        return _of_file(branch)
    match branch.proof:
        case BranchProof.COMMITTED:
            return Evidence(fact="its marker row is there: committed", source=source, at_ms=branch.gone_ms)
        case BranchProof.TOMBSTONE:
            fact = "a tombstone replaced its marker: it was rolled back"
            return Evidence(fact=fact, source=source, at_ms=branch.gone_ms)
        case BranchProof.NO_MARKER:
            return Evidence(fact=f"{fact}no marker row proves a commit", source=source, at_ms=branch.gone_ms)
        case BranchProof.NOT_READ:
            fact = f"{fact}its marker cannot be read: grant select on indoubt_markers"
            return Evidence(fact=fact, source=source, at_ms=branch.gone_ms)
        case BranchProof.MISSING | None:
            fact = f"{fact}the server does not keep how it ended: ask its owner"
            return Evidence(fact=fact, source=branch.listed_by, at_ms=branch.gone_ms)


def source_of_proof(branch: BranchFacts) -> str:
    """Return what proves the end of a branch: its marker, of a file the store itself."""
    return branch.listed_by if branch.resource_manager in FLINK_SINKS else f"markers of {branch.instance}"


def _hidden(branch: BranchFacts, polled_ms: int | None, not_asked: str) -> tuple[Evidence, ...]:
    """Return the facts about what is written whole and not visible."""
    fact = "it is written whole, and not visible under its name; its age counts from when that was first seen"
    if branch.resource_manager != FILE_SINK.name:
        fact = "its files are written, and no snapshot of the table adds them; its age counts from when that was first seen"
    found = [Evidence(fact=fact, source=branch.listed_by, at_ms=polled_ms)]
    return (*found, Evidence(fact=not_asked, source=branch.listed_by)) if not_asked else tuple(found)


def _of_file(branch: BranchFacts) -> Evidence:
    if branch.resource_manager != FILE_SINK.name:
        fact = "no snapshot of the table adds it, and its manifests are gone, or the table was rolled back behind it"
        if branch.resource_manager == PAIMON.name:
            fact = "no snapshot of the table adds it, and its data files are gone"
        if branch.proof is BranchProof.COMMITTED:
            fact = "a snapshot of the table adds it"
        return Evidence(fact=fact, source=branch.listed_by, at_ms=branch.gone_ms)
    fact = "neither the file nor what would become it is there: removed, or made visible and taken away since"
    if branch.proof is BranchProof.COMMITTED:
        fact = "it is visible under its name, with as many bytes as were written"
    return Evidence(fact=fact, source=branch.listed_by, at_ms=branch.gone_ms)


def _waiting(sessions: tuple[WaitingSession, ...]) -> str:
    named = [
        f"process {session.process} ({', '.join(filter(None, (session.user, session.application)))}) "
        f"for {session.relation or 'a row'}"
        for session in sessions
    ]
    return f"{counted(len(sessions), 'session')} {'waits' if len(sessions) == 1 else 'wait'} behind it: {_some(named)}"


def _some(names: list[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
