"""Several resource managers under one decision: a global transaction has a branch in each (X/Open DTP).

What waits for an answer is asked of all at once. Every handle is tried before a failure is reported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.lifecycle.identity import Fingerprint, Handle
from indoubt.lifecycle.outcomes import RolledBack
from indoubt.resource_managers.dispatch import Settlers, side_by_side
from indoubt.resource_managers.protocol import (
    OpenTransaction,
    OpenTransactionView,
    PlainWriter,
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


class GlobalTransaction:
    """One slot's part of a global transaction: an open branch in each resource manager."""

    def __init__(self, branches: Mapping[str, OpenTransaction], managers: ResourceManagers) -> None:
        self._branches, self._managers = dict(branches), managers

    @property
    def provisional_handle(self) -> tuple[Handle, ...]:
        """Return the handles of the branches as they stand: not prepared yet."""
        return tuple(branch.provisional_handle for branch in self._branches.values())

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
        answers = side_by_side(prepare)
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


class PlainWriters:
    """Writes the same rows to several sinks without a transaction."""

    def __init__(self, writers: Mapping[str, PlainWriter]) -> None:
        self._writers = dict(writers)

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows to every sink. Raises ResourceManagerError, SettingsError."""
        for writer in self._writers.values():
            writer.write(rows)

    def finish(self) -> None:
        """Return when the guarantee holds everywhere. Raises the first error after all were waited for."""
        _or_raise(side_by_side({name: writer.finish for name, writer in self._writers.items()}))

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


COMMIT_LIMIT_S = 30.0
"""How long transient answers to a commit of a batch are retried."""


class ResourceManagers(Settlers[ResourceManager]):
    """The resource managers of one pipeline, in the order in which its sinks were given."""

    def verify(self, columns: Sequence[tuple[str, pa.DataType]]) -> frozenset[str]:
        """Return the columns that are written somewhere: all of them.

        Raises SettingsError naming what does not fit and the columns that no sink takes, Unreachable.
        """
        taken = frozenset[str]().union(*(manager.verify(columns) for manager in self._managers.values()))
        left = [name for name, _ in columns if name not in taken]
        if left:
            raise SettingsError(
                f"no sink ({', '.join(self._managers)}) takes the job's column {', '.join(map(repr, left))}: add the "
                "column to a table, or choose another job"
            )
        return taken

    def identities(self) -> dict[str, str]:
        """Return what each topic or table is (ResourceManager.identity), by resource manager. Raises the first error."""
        return _or_raise(side_by_side({name: manager.identity for name, manager in self._managers.items()}))

    def begin(self, slot: SlotAttempt, names: Collection[str] | None = None) -> GlobalTransaction:
        """Open a branch in each resource manager, or in those of ``names``; when one refuses, abort all.

        Raises ZombieWriter, ResourceManagerError.
        """
        wanted = {name: m for name, m in self._managers.items() if names is None or name in names}
        return GlobalTransaction(_all_opened({name: partial(m.begin, slot) for name, m in wanted.items()}), self)

    def begin_without_transaction(self, guarantee: DeliveryGuarantee) -> PlainWriters:
        """Return a writer to all sinks for at_least_once or none. Raises ResourceManagerError."""
        return PlainWriters(
            _all_opened({name: partial(m.begin_without_transaction, guarantee) for name, m in self._managers.items()})
        )

    def recover(self, prefix: str, names: Collection[str] | None = None) -> list[OpenTransactionView]:
        """Return what this prefix left open anywhere, or in those of ``names``. Raises the first error after all were asked."""
        wanted = {name: m for name, m in self._managers.items() if names is None or name in names}
        answers = side_by_side({name: partial(manager.recover, prefix) for name, manager in wanted.items()})
        return [view for views in _or_raise(answers).values() for view in views]

    def list_transactions(self) -> list[OpenTransactionView]:
        """Return every transaction that any of them knows. Raises the first error after all were asked."""
        answers = side_by_side({name: manager.list_transactions for name, manager in self._managers.items()})
        return [view for views in _or_raise(answers).values() for view in views]


def _all_opened(begin: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Return what was opened in each resource manager; when one refuses, abort all and raise the first error."""
    answers = side_by_side(begin)
    opened = {name: answer for name, answer in answers.items() if not isinstance(answer, Exception)}
    if len(opened) < len(answers):
        _abort(opened)
    return _or_raise(answers)


def _or_raise(answers: Mapping[str, T | Exception]) -> dict[str, T]:
    """Return the answers. Raises the first error among them; the others are logged."""
    errors = [answer for answer in answers.values() if isinstance(answer, Exception)]
    for error in errors[1:]:
        log.error("%s: %s", type(error).__name__, error)
    if errors:
        raise errors[0]
    return {name: answer for name, answer in answers.items() if not isinstance(answer, Exception)}


def _abort(opened: Mapping[str, Any]) -> None:
    for name, error in side_by_side({name: branch.abort for name, branch in opened.items()}).items():
        if isinstance(error, Exception):
            log.warning("a branch in %s was not aborted by its task: %s", name, error)
