"""Finishing prepared branches: many at a time over a few connections, each retried until it is final or time is up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from indoubt.lifecycle.backoff import Backoff
from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.errors import ResourceManagerError, SettingsError
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.lifecycle.outcomes import (
    AlreadyCommitted,
    CommitOutcome,
    Committed,
    Lost,
    RetryLater,
    RollbackOutcome,
    RolledBack,
    Unknown,
)
from indoubt.resource_managers.database import markers
from indoubt.resource_managers.database.errors import BranchBusy, DuplicateKey, LockTimeout, NoSuchBranch
from indoubt.resource_managers.database.markers import MarkerState
from indoubt.resource_managers.database.session import DatabaseSession

CONNECTIONS = 4
"""Servers write the commits of several connections to disk together: more of them did not make it faster."""
RETRY = Backoff(first_s=0.01, max_s=0.5)


class Closable(Protocol):
    """A connection, or what stands for one."""

    def close(self) -> None:
        """Close it; never raises."""


Session = TypeVar("Session", bound=Closable)
Item = TypeVar("Item")
Answer = TypeVar("Answer")


class NotYet(Exception):
    """No final answer: ask again, on the same connection."""


def each(
    items: Sequence[Item],
    limit_s: float,
    open_session: Callable[[float], Session],
    settle: Callable[[Session, Item], Answer],
    give_up: Callable[[Item, str], Answer],
    at_once: int = CONNECTIONS,
) -> list[Answer]:
    """Return ``settle`` of every item, in order, over up to ``at_once`` connections side by side.

    NotYet and errors of the database are tried again (on a new connection) until ``limit_s`` has passed; then the answer
    is ``give_up`` with the reason. ``open_session`` takes the seconds that an answer may take.
    """
    if not items:
        return []
    deadline = time.monotonic() + limit_s
    answers: dict[int, Answer] = {}
    queue = iter(range(len(items)))
    lock = threading.Lock()

    def work() -> None:
        session: Session | None = None
        try:
            while True:
                with lock:
                    index = next(queue, None)
                if index is None:
                    return
                session, answers[index] = _one(items[index], session, deadline, open_session, settle, give_up)
        finally:
            if session is not None:
                session.close()

    workers = min(at_once, len(items))
    with ThreadPoolExecutor(workers, thread_name_prefix="settle") as pool:
        for worker in [pool.submit(work) for _ in range(workers)]:
            worker.result()
    return [answers[index] for index in range(len(items))]


def _one(
    item: Item,
    session: Session | None,
    deadline: float,
    open_session: Callable[[float], Session],
    settle: Callable[[Session, Item], Answer],
    give_up: Callable[[Item, str], Answer],
) -> tuple[Session | None, Answer]:
    pauses = RETRY.pauses()
    while True:
        try:
            session = session or open_session(max(1.0, deadline - time.monotonic()))
            return session, settle(session, item)
        except (NotYet, BranchBusy, LockTimeout) as error:
            reason = str(error)
        except (ResourceManagerError, SettingsError) as error:
            reason = str(error)
            if session is not None:
                session.close()
            session = None
        pause_s = next(pauses)
        if time.monotonic() + pause_s > deadline:
            return session, give_up(item, reason)
        time.sleep(pause_s)


def retry_later(handle: Handle, reason: str) -> RetryLater:
    """Give up on a handle for now."""
    return RetryLater(handle=handle, reason=reason)


def still_open(transaction: str, reason: str) -> str:
    """Give up on a transaction for now: return an error text."""
    return f"{transaction}: {reason}"


def commit(session: DatabaseSession, decided: tuple[Handle, Marker]) -> CommitOutcome:
    """Commit one decided branch, or say what became of it. Raises NotYet, ResourceManagerError."""
    handle, marker = decided
    return _committed(session, handle) or _judge(session, handle, marker)


def commit_listed(session: DatabaseSession, handle: Handle) -> CommitOutcome:
    """Commit one decided branch if the server has it, else say what its marker proves. Raises NotYet, ResourceManagerError.

    It puts no tombstone, so it never finds that a branch without a marker is lost: that one is unknown here.
    """
    if (done := _committed(session, handle)) is not None:
        return done
    proof = markers.proofs(session, [handle.transaction]).get(handle.transaction)
    not_proven = (
        f"{session.branch_table} does not list it and no marker names it: the recovery of its pipeline's next start "
        "finds out"
    )
    return outcome_of(handle, proof, not_proven)


def commit_foreign(session: DatabaseSession, transaction: str) -> str:
    """Commit one prepared branch of others; return an error text, empty: it is committed. Raises ResourceManagerError.

    It is not repeated while the connection that prepared it closes: MariaDB may then answer OK and commit nothing, and there is
    no marker to tell.
    """
    try:
        session.commit_prepared(transaction)
    except NoSuchBranch:
        if is_listed(session, transaction):
            return (
                f"{transaction} is listed by {session.branch_table} and cannot be committed yet: the connection that prepared it "
                "is still open. End that connection, then order again"
            )
        return f"{transaction}: {session.branch_table} does not list it any more: its owner knows how it ended"
    return ""


def outcome_of(handle: Handle, proof: MarkerState | None, not_proven: str) -> CommitOutcome:
    """Return what its marker says became of a decided branch that no database lists; ``not_proven``: why, without one."""
    match proof:
        case MarkerState.COMMITTED:
            return AlreadyCommitted(handle=handle)
        case MarkerState.TOMBSTONE:
            return Lost(handle=handle, reason="it was rolled back: a tombstone stands in its marker's place")
        case None:
            return Unknown(handle=handle, reason=not_proven)


def _committed(session: DatabaseSession, handle: Handle) -> Committed | None:
    """Commit one branch; None: the server has none of that name. Raises NotYet while its connection is open, or it was forgotten.

    That one of ours was committed is what its marker says, not what the server answers.
    """
    try:
        session.commit_prepared(handle.transaction)
    except NoSuchBranch as error:
        if is_listed(session, handle.transaction):
            raise NotYet(
                f"{handle.transaction} is listed by {session.branch_table} and cannot be committed yet: the connection "
                "that prepared it is still open"
            ) from error
        _refuse_if_forgotten(session, handle.transaction)
        return None
    if BranchId.parse(handle.transaction) is None or markers.is_committed(session, handle.transaction):
        return Committed(handle=handle)
    _refuse_if_forgotten(session, handle.transaction)
    return None


def _judge(session: DatabaseSession, handle: Handle, marker: Marker) -> CommitOutcome:
    """Say how a branch ended that the server does not have any more: by its marker, else by a tombstone in its place."""
    branch = BranchId.parse(handle.transaction)
    if branch is None:
        return Unknown(handle=handle, reason=f"{handle.transaction!r} is not a branch of ours, so it has no marker")
    outcome = _by_marker(session, handle, marker, branch)
    if outcome is not None:
        return outcome
    if markers.may_be_pruned(markers.newest(session, marker.checkpoint_id, branch.slot), marker):
        return Unknown(handle=handle, reason="its marker, had there been one, may have been deleted: it is long ago")
    if not markers.saw_run(session, marker):
        return Unknown(
            handle=handle,
            reason=f"{session.connection.address} did not see run {marker.attempt} of this pipeline: it is another database than "
            "the one where this was prepared, or indoubt_markers was not restored with it",
        )
    _roll_back_rivals(session, branch)
    try:
        markers.insert(session, marker, branch, MarkerState.TOMBSTONE)
    except DuplicateKey:
        return _by_marker(session, handle, marker, branch) or RetryLater(
            handle=handle, reason="its marker came and went"
        )
    except LockTimeout as error:
        raise NotYet(f"an open transaction holds the marker's key of {handle.transaction}: {error}") from error
    return Lost(
        handle=handle,
        reason=f"it was rolled back: {session.branch_table} does not list it, and a tombstone could be put in its "
        "marker's place",
    )


def _by_marker(session: DatabaseSession, handle: Handle, marker: Marker, branch: BranchId) -> CommitOutcome | None:
    found = markers.read(session, marker, branch.slot)
    if found is None:
        return None
    by, state = found
    if state is MarkerState.COMMITTED and by != handle.transaction:
        return Unknown(handle=handle, reason=f"another branch of the same slot, batch and attempt was committed: {by}")
    return outcome_of(handle, state, "")


def _roll_back_rivals(session: DatabaseSession, branch: BranchId) -> None:
    """Roll back what other tries of the same task left prepared: they hold the marker's key, and no decision lists them."""
    for other in session.prepared():
        parsed = BranchId.parse(other.transaction)
        if parsed is not None and parsed != branch and parsed.same_task(branch):
            end_prepared(session, other.transaction)


def roll_back(session: DatabaseSession, handle: Handle) -> RollbackOutcome:
    """Roll one prepared branch back. Raises NotYet, ResourceManagerError."""
    end_prepared(session, handle.transaction)
    if markers.is_committed(session, handle.transaction):
        return AlreadyCommitted(handle=handle)
    return RolledBack(handle=handle)


def fence(session: DatabaseSession, transaction: str) -> str:
    """Roll one prepared branch back, ours or foreign; return an error text, empty when it is gone. Raises NotYet."""
    end_prepared(session, transaction)
    if BranchId.parse(transaction) and markers.is_committed(session, transaction):
        return f"{transaction}: it was committed meanwhile"
    return ""


def end_prepared(session: DatabaseSession, transaction: str) -> None:
    """Return when no prepared branch of that name is left. Raises NotYet while its connection is there, or it was forgotten."""
    try:
        session.rollback_prepared(transaction)
    except NoSuchBranch as error:
        if is_listed(session, transaction):
            raise NotYet(
                f"{transaction} is listed by {session.branch_table} and cannot be rolled back yet: the connection that "
                "prepared it is still open"
            ) from error
    _refuse_if_forgotten(session, transaction)


def _refuse_if_forgotten(session: DatabaseSession, transaction: str) -> None:
    branch = BranchId.parse(transaction)
    if branch is not None and session.list_again(branch):
        raise NotYet(
            f"{transaction}: {session.branch_table} did not list it, and yet its marker's row is held: it was listed again, "
            "to be finished; if this stays, an open transaction holds the marker's key"
        )


def is_listed(session: DatabaseSession, transaction: str) -> bool:
    """Say whether the server lists a prepared branch of that name."""
    return any(branch.transaction == transaction for branch in session.prepared())
