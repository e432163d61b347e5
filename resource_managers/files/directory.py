"""What stands below a sink's directory: branches that are open or prepared, their manifests, the markers of those that ended.

A marker is a file without content, whose name says all, in the folder of its slot: ``CHECKPOINT.BATCH.ATTEMPT.NONCE.STATE``. It is
written first, before the rows get their names (committed) or go (rolled back): with it the end is settled, and whoever comes next
finishes it.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, field
from urllib.parse import quote, unquote
from uuid import uuid4

from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.errors import IndoubtError, ResourceManagerError, Unreachable
from indoubt.lifecycle.identity import Marker
from indoubt.resource_managers.database.markers import KEPT_BATCHES, MarkerState
from indoubt.resource_managers.files import names
from indoubt.resource_managers.storage import Storage

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFile:
    """A file of rows: its number among the branch's, and where a commit puts it."""

    number: int
    target: str
    rows: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a prepared branch holds. Once it is there, the branch is prepared."""

    checkpoint_id: str
    files: tuple[RowFile, ...]

    def encode(self) -> bytes:
        """Return it as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, content: bytes, branch: BranchId) -> Manifest:
        """Return the manifest of this branch. Raises ValueError, KeyError, TypeError for what is none."""
        fields = json.loads(content)
        files = tuple(RowFile(**file) for file in fields["files"])
        for file in files:
            # It says what is moved where, by whoever commits: nothing but the branch's own files, and not out of the directory.
            if type(file.number) is not int or not names.is_visible_file(branch, file.number, file.target):
                raise ValueError(f"a file of it would be {file.target!r}")
        return cls(checkpoint_id=str(fields["checkpoint_id"]), files=files)


@dataclass(slots=True)
class FoundBranch:
    """A branch that has files below the directory; times are the storage's (epoch ms), ``prepared_ms`` None while it is not."""

    branch: BranchId
    began_ms: int
    prepared_ms: int | None = None
    files: list[str] = field(default_factory=list)
    """All that is there of it: names below the directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMarker:
    """One marker, and the branch that it is about."""

    marker: Marker
    nonce: str
    state: MarkerState
    file: str


class SinkDirectory:
    """One sink's directory. Its methods raise Unreachable and ResourceManagerError, as the storage does."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    @property
    def where(self) -> str:
        """Return path or URI."""
        return self.storage.where

    def close(self) -> None:
        """Do nothing: no connection is kept."""

    def id(self) -> str:
        """Return what the directory goes by. Raises Unreachable for one that no pipeline has written to, or that is away."""
        content = self.storage.read(names.ID)
        if not content:
            raise Unreachable(
                f"{self.where} has no {names.ID}, so this is not the directory that a pipeline wrote to: is its storage mounted, "
                "is the name right?"
            )
        return content.decode(errors="replace")

    def make(self) -> None:
        """Give the directory an id, unless it has one."""
        if not self.storage.read(names.ID):
            self.storage.write(names.ID, uuid4().hex.encode())

    def branches(self) -> dict[str, FoundBranch]:
        """Return all that is open or prepared, of whatever prefix, by name."""
        found: dict[str, FoundBranch] = {}
        for file in self.storage.files(names.BRANCHES):
            read = names.read_branch_file(file.name)
            if read is None:
                continue
            branch, what = read
            here = found.setdefault(str(branch), FoundBranch(branch, file.at_ms))
            here.began_ms = min(here.began_ms, file.at_ms)
            here.files.append(f"{names.BRANCHES}/{file.name}")
            if what == names.PREPARED:
                here.prepared_ms = file.at_ms
        return found

    def manifest(self, branch: BranchId) -> Manifest | None:
        """Return what a prepared branch holds, None for one that is not (any more)."""
        name = names.branch_file(branch, names.PREPARED)
        content = self.storage.read(name)
        if content is None:
            return None
        try:
            return Manifest.decode(content, branch)
        except (ValueError, KeyError, TypeError) as error:
            raise ResourceManagerError(f"{self.where}: {name} is not a manifest: {error!r}") from None

    def remove(self, files: list[str]) -> None:
        """Remove files, the sign that a writer is at work first: it cannot prepare from then on."""
        for file in sorted(files, key=lambda file: not file.endswith(f".{names.OPEN}")):
            self.storage.delete(file)

    def markers(self, prefix: str, slot: int) -> list[FoundMarker]:
        """Return the markers of a slot, oldest batch first."""
        folder = names.marker_folder(prefix, slot)
        found = [_read_marker(folder, file.name) for file in self.storage.files(folder)]
        return sorted(filter(None, found), key=lambda found: (found.marker.batch, found.marker.attempt))

    def state(self, branch: BranchId) -> MarkerState | None:
        """Return what is settled about a branch. Committed wins: it was written first, or nothing would have been moved."""
        states = {found.state for found in self.markers(branch.prefix, branch.slot) if _is_of(found, branch)}
        return next((state for state in (MarkerState.COMMITTED, MarkerState.TOMBSTONE) if state in states), None)

    def mark(self, branch: BranchId, checkpoint_id: str, state: MarkerState) -> None:
        """Settle how a branch ends."""
        parts = (quote(checkpoint_id, safe=""), branch.batch, branch.attempt, branch.nonce, state.value)
        self.storage.write(f"{names.marker_folder(branch.prefix, branch.slot)}/{'.'.join(map(str, parts))}", b"")

    def prune(self, found: list[FoundMarker], newest: Marker | None, mine: Marker) -> None:
        """Remove a slot's markers of batches that no run asks about any more, once in KEPT_BATCHES batches.

        Never the newest, by which a zombie is recognized. That it fails is logged and no more: the next one does it too.
        """
        if newest is None or newest.batch // KEPT_BATCHES == mine.batch // KEPT_BATCHES:
            return
        old = [m for m in found if m.marker.checkpoint_id == newest.checkpoint_id]
        old = [m for m in old if m.marker.batch < newest.batch - KEPT_BATCHES]
        try:
            self.remove([m.file for m in old])
        except IndoubtError as error:
            log.warning("old markers were not removed: %s", error)


def newest_committed(found: list[FoundMarker], checkpoint_id: str) -> Marker | None:
    """Return the highest (batch, attempt) that a slot has committed in this checkpoint id, None without any."""
    mine = [m.marker for m in found if m.marker.checkpoint_id == checkpoint_id and m.state is MarkerState.COMMITTED]
    return max(mine, default=None)


def _is_of(found: FoundMarker, branch: BranchId) -> bool:
    return (found.marker.batch, found.marker.attempt, found.nonce) == (branch.batch, branch.attempt, branch.nonce)


def _read_marker(folder: str, name: str) -> FoundMarker | None:
    checkpoint_id, *rest = name.rsplit(".", 4)
    try:
        batch, attempt, nonce, state = rest
        marker = Marker(batch=int(batch), attempt=int(attempt), checkpoint_id=unquote(checkpoint_id))
        return FoundMarker(marker=marker, nonce=nonce, state=MarkerState(state), file=f"{folder}/{name}")
    except ValueError:
        return None
