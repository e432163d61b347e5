"""Several resource managers under one decision: a global transaction has a branch in each (X/Open DTP).

What waits for an answer is asked of all at once. Every handle is tried before anybody hears of a failure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lifecycle.errors import IndoubtError, SettingsError
from lifecycle.guarantees import DeliveryGuarantee
from lifecycle.identity import Fingerprint, Handle, Marker
from lifecycle.outcomes import CommitOutcome, RetryLater, RollbackOutcome, RolledBack
from resource_managers.protocol import (
    OpenTransaction,
    OpenTransactionView,
    PlainWriter,
    Readiness,
    ResourceManager,
    SlotAttempt,
    nothing,
)

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

ROLLBACK_LIMIT_S = 30.0
"""How long a slot that could not prepare everywhere tries to roll back what it did prepare; recovery does the rest."""

T = TypeVar("T")
R = TypeVar("R")


class _Held(Protocol):
    @property
    def resource_manager(self) -> str: ...


H = TypeVar("H", bound=_Held)


class SlotTransaction:
    """One slot's part of a global transaction: an open branch in each resource manager."""

    def __init__(self, branches: Mapping[str, OpenTransaction], managers: ResourceManagers) -> None:
        self._branches, self._managers = dict(branches), managers

    @property
    def so_far(self) -> tuple[Handle, ...]:
        """Return the handles of the branches as they stand: not prepared yet."""
        return tuple(branch.so_far for branch in self._branches.values())

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows into every branch. Raises what the first branch that fails raises."""
        for branch in self._branches.values():
            branch.write(rows)

    def skip(self, names: Collection[str]) -> None:
        """Abort the branches of these resource managers; ``prepare`` then prepares the others."""
        _abort({name: self._branches.pop(name) for name in names if name in self._branches})

    def prepare(self, fingerprint: Fingerprint, *, flushed: Callable[[], None] = nothing) -> tuple[Handle, ...]:
        """Prepare every branch and return their handles; when one fails, undo all and raise the first error."""
        prepare = {
            name: partial(branch.prepare, fingerprint, flushed=flushed) for name, branch in self._branches.items()
        }
        answers = _side_by_side(prepare)
        handles = [answer for answer in answers.values() if not isinstance(answer, Exception)]
        if len(handles) < len(answers):
            for outcome in self._managers.rollback(handles, ROLLBACK_LIMIT_S):
                if not isinstance(outcome, RolledBack):
                    log.warning("%s stays for recovery to roll back: %s", outcome.handle.transaction, outcome)
            self.abort()
        return tuple(_or_raise(answers).values())

    def abort(self) -> None:
        """Undo every branch that is not prepared; safe to call twice. What fails here, recovery undoes."""
        _abort(self._branches)


class SeveralPlainWriters:
    """Writes the same rows to several sinks without a transaction."""

    def __init__(self, writers: Mapping[str, PlainWriter]) -> None:
        self._writers = dict(writers)

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows to every sink. Raises ResourceManagerError, SettingsError."""
        for writer in self._writers.values():
            writer.write(rows)

    def finish(self) -> None:
        """Return when the guarantee holds everywhere. Raises the first error after all were waited for."""
        _or_raise(_side_by_side({name: writer.finish for name, writer in self._writers.items()}))

    def abort(self) -> None:
        """Drop what is queued."""
        _abort(self._writers)

    @property
    def rows(self) -> int:
        """Return the rows written so far, each counted once."""
        return max(writer.rows for writer in self._writers.values())

    @property
    def bytes(self) -> int:
        """Return the bytes written so far, to all sinks together."""
        return sum(writer.bytes for writer in self._writers.values())


class ResourceManagers:
    """The resource managers of one pipeline by name; each handle finds its own by ``Handle.resource_manager``."""

    def __init__(self, managers: Mapping[str, ResourceManager]) -> None:
        self._managers = dict(managers)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names, in the order in which the sinks were given."""
        return tuple(self._managers)

    def verify(self, columns: Sequence[tuple[str, pa.DataType]]) -> frozenset[str]:
        """Return the columns that are written somewhere: all of them.

        Raises SettingsError naming what does not fit and the columns that nobody takes, Unreachable.
        """
        taken = frozenset[str]().union(*(manager.verify(columns) for manager in self._managers.values()))
        left = [name for name, _ in columns if name not in taken]
        if left:
            raise SettingsError(
                f"no sink ({', '.join(self._managers)}) takes the job's column {', '.join(map(repr, left))}: add the "
                "column to a table, or choose another job"
            )
        return taken

    def begin(self, slot: SlotAttempt, names: Collection[str] | None = None) -> SlotTransaction:
        """Open a branch in each resource manager, or in those of ``names``; when one refuses, abort all.

        Raises ZombieWriter, ResourceManagerError.
        """
        wanted = {name: m for name, m in self._managers.items() if names is None or name in names}
        answers = _side_by_side({name: partial(manager.begin, slot) for name, manager in wanted.items()})
        opened = {name: answer for name, answer in answers.items() if not isinstance(answer, Exception)}
        if len(opened) < len(answers):
            _abort(opened)
        return SlotTransaction(_or_raise(answers), self)

    def begin_without_transaction(self, guarantee: DeliveryGuarantee) -> SeveralPlainWriters:
        """Return a writer to all sinks for at_least_once or none. Raises ResourceManagerError."""
        answers = _side_by_side(
            {name: partial(manager.begin_without_transaction, guarantee) for name, manager in self._managers.items()}
        )
        opened = {name: answer for name, answer in answers.items() if not isinstance(answer, Exception)}
        if len(opened) < len(answers):
            _abort(opened)
        return SeveralPlainWriters(_or_raise(answers))

    def check(self, handles: Sequence[Handle]) -> list[Readiness]:
        """Say for each handle, in order, whether a commit would succeed now."""
        return self._dispatch(
            handles,
            lambda manager, own: manager.check(own),
            lambda handle, why: Readiness(handle=handle, ready=False, time_left_ms=0, reason=why),
        )

    def commit(self, handles: Sequence[Handle], markers: Sequence[Marker], limit_s: float) -> list[CommitOutcome]:
        """Commit prepared branches; one outcome per handle, in order. ``markers`` are the proofs inside them."""
        proofs = {handle.key: marker for handle, marker in zip(handles, markers, strict=True)}

        def commit(manager: ResourceManager, own: Sequence[Handle]) -> list[CommitOutcome]:
            return manager.commit(own, [proofs[handle.key] for handle in own], limit_s)

        return self._dispatch(handles, commit, lambda handle, why: RetryLater(handle=handle, reason=why))

    def rollback(self, handles: Sequence[Handle], limit_s: float) -> list[RollbackOutcome]:
        """Abort exactly these branches; one outcome per handle, in order."""
        return self._dispatch(
            handles,
            lambda manager, own: manager.rollback(own, limit_s),
            lambda handle, why: RetryLater(handle=handle, reason=why),
        )

    def recover(self, prefix: str) -> list[OpenTransactionView]:
        """Return what this prefix left open anywhere. Raises the first error after all were asked."""
        answers = _side_by_side({name: partial(m.recover, prefix) for name, m in self._managers.items()})
        return [view for views in _or_raise(answers).values() for view in views]

    def fence(self, transactions: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Abort open branches and shut out their writers; return an error text per transaction, empty = done."""
        return self._dispatch(
            transactions,
            lambda manager, own: manager.fence(own, limit_s),
            lambda view, why: f"{view.transaction}: {why}",
        )

    def list_transactions(self) -> list[OpenTransactionView]:
        """Return every transaction that any of them knows. Raises the first error after all were asked."""
        answers = _side_by_side({name: manager.list_transactions for name, manager in self._managers.items()})
        return [view for views in _or_raise(answers).values() for view in views]

    def _dispatch(
        self,
        items: Sequence[H],
        ask: Callable[[ResourceManager, Sequence[H]], list[R]],
        failed: Callable[[H, str], R],
    ) -> list[R]:
        """Ask each item's own resource manager; one answer per item, in order, ``failed`` where it could not be asked."""
        groups: dict[str, list[int]] = {}
        for index, item in enumerate(items):
            groups.setdefault(item.resource_manager, []).append(index)
        calls = {
            name: partial(ask, self._managers[name], [items[index] for index in indexes])
            for name, indexes in groups.items()
            if name in self._managers
        }
        answers = _side_by_side(calls)
        found: dict[int, R] = {}
        for name, indexes in groups.items():
            answer = answers.get(name)
            if answer is None:
                why = f"it is held by {name!r}, which no sink of this pipeline names"
                found |= {index: failed(items[index], why) for index in indexes}
            elif isinstance(answer, IndoubtError):
                found |= {index: failed(items[index], str(answer)) for index in indexes}
            elif isinstance(answer, Exception):
                raise answer
            else:
                found |= dict(zip(indexes, answer, strict=True))
        return [found[index] for index in range(len(items))]


def _side_by_side(calls: Mapping[str, Callable[[], T]]) -> dict[str, T | Exception]:
    """Return what each call returned or raised, when all have ended; they run at the same time."""
    if len(calls) < 2:
        return {name: _outcome(call) for name, call in calls.items()}
    with ThreadPoolExecutor(len(calls), thread_name_prefix="branch") as pool:
        return dict(zip(calls, pool.map(_outcome, calls.values()), strict=True))


def _outcome(call: Callable[[], T]) -> T | Exception:
    try:
        return call()
    except Exception as error:
        return error


def _or_raise(answers: Mapping[str, T | Exception]) -> dict[str, T]:
    """Return the answers. Raises the first error among them; the others are logged."""
    errors = [answer for answer in answers.values() if isinstance(answer, Exception)]
    for error in errors[1:]:
        log.error("%s: %s", type(error).__name__, error)
    if errors:
        raise errors[0]
    return {name: answer for name, answer in answers.items() if not isinstance(answer, Exception)}


def _abort(opened: Mapping[str, Any]) -> None:
    for name, error in _side_by_side({name: branch.abort for name, branch in opened.items()}).items():
        if isinstance(error, Exception):
            log.warning("a branch in %s was not aborted by its task: %s", name, error)
