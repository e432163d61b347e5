"""What is said beside a verdict: which part of which application wrote it; who lists a branch, what it holds up, how it ended."""

from __future__ import annotations

from indoubt.collector.records.branches import BranchDetail, BranchFacts
from indoubt.collector.records.facts import KAFKA
from indoubt.collector.records.observations import BranchProof
from indoubt.collector.records.xids import owner_of
from indoubt.collector.verdicts.flink_sink_words import SINKS
from indoubt.lifecycle.application import Application, ApplicationKind
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.verdicts import Evidence
from indoubt.resource_managers.database.session import WaitingSession

_NAMES = {
    ApplicationKind.PIPELINE: "pipeline",
    ApplicationKind.FLINK: "Flink job",
    ApplicationKind.STREAMS: "Kafka Streams application",
    ApplicationKind.CONNECT: "Kafka Connect connector",
}
MAX_NAMED = 3
"""So many of the locked relations and waiting sessions are named; the others are counted."""


def part_of_application(application: Application, resource_manager: str = KAFKA) -> tuple[Evidence, ...]:
    """Return the application and the part of it that an id names; nothing where the id names no part."""
    words = _words(application)
    if not words or application.kind not in _NAMES:
        return ()
    fact = f"by its id: {_NAMES[application.kind]} {application.name}, {words}"
    return (Evidence(fact, "transactional id" if resource_manager == KAFKA else "branch name"),)


def _words(application: Application) -> str:
    instance, task = application.instance, application.task
    match application.kind:
        case ApplicationKind.PIPELINE:
            parts = [task and f"slot {task}"]
        case ApplicationKind.FLINK:
            parts = [instance and f"sink {instance}", task and f"subtask {task}"]
        case ApplicationKind.STREAMS:
            # One producer a task, or one a thread of a process: then the id names the process.
            parts = [instance and f"process {instance}", task and f"{'thread' if instance else 'task'} {task}"]
        case _:
            parts = [task and f"task {task}"]
    return ", ".join(filter(None, parts))


def listed(
    branch: BranchFacts, detail: BranchDetail | None, polled_ms: int | None, not_asked: str = ""
) -> tuple[Evidence, ...]:
    """Return the facts about a branch that its server lists: that it does, who waits, what it locks, what vacuum leaves.

    ``not_asked``: why it is not known whether it still does.
    """
    hidden = SINKS.get(branch.resource_manager)
    owner = f" by {branch.owner}" if branch.owner else ""
    since = (
        ""
        if branch.prepared_ms is not None
        else "; the server keeps no start time: its age counts from when it was first seen"
    )
    fact = hidden.hidden if hidden is not None else f"prepared{owner}{since}"
    found = [Evidence(fact, branch.listed_by, polled_ms)]
    if not_asked:
        found.append(Evidence(not_asked, branch.listed_by))
    if hidden is not None:
        return tuple(found)
    made_by = owner_of(branch.resource_manager, branch.transaction)
    if made_by is not None:
        told = f" ({made_by.detail})" if made_by.detail else ""
        found.append(Evidence(f"its xid is one of {made_by.program}{told}", branch.listed_by))
    if detail is None:
        return tuple(found)
    if detail.locks.waiting:
        first = min((w.since_ms for w in detail.locks.waiting if w.since_ms is not None), default=None)
        found.append(Evidence(_waiting(detail.locks.waiting), branch.listed_by, first))
    if detail.locks.held:
        locks = [f"{lock.relation} ({lock.mode})" for lock in detail.locks.held]
        found.append(Evidence(f"it holds locks on {_some(locks)}", branch.listed_by, polled_ms))
    if detail.transaction_age is not None:
        fact = f"vacuum keeps everything since its start, {counted(detail.transaction_age, 'transaction')} ago"
        found.append(Evidence(fact, branch.listed_by, polled_ms))
    return tuple(found)


def ended(branch: BranchFacts) -> Evidence:
    """Return what is known of the end of a branch that its server lists no more."""
    fact, source = f"{branch.listed_by} lists it no more, and ", source_of_proof(branch)
    if (hidden := SINKS.get(branch.resource_manager)) is not None:
        fact = hidden.visible if branch.proof is BranchProof.COMMITTED else hidden.gone
        return Evidence(fact, branch.listed_by, branch.gone_ms)
    match branch.proof:
        case BranchProof.COMMITTED:
            return Evidence("its marker row is there: committed", source, branch.gone_ms)
        case BranchProof.TOMBSTONE:
            fact = "a tombstone replaced its marker: it was rolled back"
            return Evidence(fact, source, branch.gone_ms)
        case BranchProof.NO_MARKER:
            return Evidence(f"{fact}no marker row proves a commit", source, branch.gone_ms)
        case BranchProof.NOT_READ:
            return Evidence(f"{fact}its marker cannot be read: grant select on indoubt_markers", source, branch.gone_ms)
        case BranchProof.MISSING | None:
            fact = f"{fact}the server does not keep how it ended: ask its owner"
            return Evidence(fact, branch.listed_by, branch.gone_ms)


def source_of_proof(branch: BranchFacts) -> str:
    """Return what proves the end of a branch: its marker, of a file the store itself."""
    return branch.listed_by if branch.resource_manager in SINKS else f"markers of {branch.instance}"


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
