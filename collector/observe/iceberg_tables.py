"""Commits of Flink's sink to Iceberg tables: looks whether the table has one, and adds its files by an order.

An order adds the files by a snapshot of the name that Flink would have given it: a restored job finds it and does not add them
again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from indoubt.collector.observe.iceberg_catalogs import IcebergCatalogs, asking, history_of, plain_location, pyiceberg
from indoubt.collector.records.formats.pending_files import (
    LACKED,
    FileSeen,
    IcebergCommit,
    IcebergManifest,
    PendingFile,
    Standing,
)
from indoubt.collector.records.iceberg_snapshots import (
    CHECKPOINT,
    JOB,
    OPERATOR,
    Place,
    Placed,
    Snapshot,
    place_of,
)
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.errors import ResourceManagerError


class IcebergTables:
    """What a table has is read anew each time."""

    def __init__(self) -> None:
        self._catalogs = IcebergCatalogs()
        self._added: dict[str, frozenset[str]] = {}
        """Target -> the data files that a commit adds, as its manifests said while they were there; until it is visible or gone."""

    def look(self, file: PendingFile) -> FileSeen:
        """Return how its table has a commit. Raises ResourceManagerError where that cannot be asked."""
        commit = _commit_of(file)
        with asking(_place(commit)):
            table = self._catalogs.table(_place(commit))
            return self._seen(file, commit, table, place_of(commit, history_of(table)))

    def add(self, file: PendingFile) -> None:
        """Add the files of a commit that its table lacks. Raises ResourceManagerError: nothing was done, or what went wrong."""
        commit = _commit_of(file)
        with asking(_place(commit)):
            table = self._catalogs.table(_place(commit))
            history = history_of(table)
            placed = place_of(commit, history)
            seen = self._seen(file, commit, table, placed)
            if seen != LACKED:
                raise ResourceManagerError(f"{file.target} is {seen.standing.value} now{_because(seen.why)}")
            _append(table, commit, placed, only_appends=history.only_appends(commit.operator))
            after = place_of(commit, history_of(self._catalogs.table(_place(commit))))
        if after.place is not Place.ADDED:
            raise ResourceManagerError(f"{file.target} is {after.place.value} after that")

    def _seen(self, file: PendingFile, commit: IcebergCommit, table: Any, placed: Placed) -> FileSeen:
        """Return the standing of a commit; what its manifests list is kept, for when they are gone."""
        there = [manifest for manifest in commit.manifests if table.io.new_input(manifest.path).exists()]
        is_whole = bool(there) and len(there) == len(commit.manifests)
        if is_whole and file.target not in self._added:
            self._added[file.target] = _files(table, there)
        seen = self._standing(file, commit, table, placed, there, is_whole=is_whole)
        if seen.standing in (Standing.VISIBLE, Standing.MISSING):
            self._added.pop(file.target, None)
        return seen

    def _standing(
        self,
        file: PendingFile,
        commit: IcebergCommit,
        table: Any,
        placed: Placed,
        there: list[IcebergManifest],
        *,
        is_whole: bool,
    ) -> FileSeen:
        ids = ", ".join(str(each.id) for each in placed.snapshots)
        match placed.place:
            case Place.ADDED if len(placed.snapshots) > 1:
                why = f"snapshots {ids} add it: its rows may be there {len(placed.snapshots)} times"
                return FileSeen(Standing.VISIBLE, why)
            case Place.ADDED:
                # Flink removes the manifests of what it has added.
                left = _files(table, there) if there else frozenset()
                lacking = left - _added_by(table, placed.snapshots[0])
                if not lacking:
                    return FileSeen(Standing.VISIBLE)
                why = f"snapshot {ids} names this checkpoint, without {counted(len(lacking), 'file')} of its"
                return FileSeen(Standing.HIDDEN, why)
            case Place.PASSED:
                return self._passed(file, table, placed.snapshots[0], is_whole)
            case Place.ROLLED_BACK:
                return FileSeen(Standing.MISSING, f"snapshot {ids} added it, and the table was rolled back behind it")
            case Place.ABSENT if is_whole:
                return LACKED
            case Place.ABSENT if not commit.manifests:
                return FileSeen(Standing.UNCLEAR, "no checkpoint that is left lists it: its files are not known")
            case Place.ABSENT:
                return FileSeen(Standing.MISSING, "no snapshot adds it, and the manifests that Flink wrote are gone")
            case Place.EXPIRED:
                return FileSeen(Standing.UNCLEAR, "no snapshot that is kept adds it, and older ones are not kept")

    def _passed(self, file: PendingFile, table: Any, later: Snapshot, is_whole: bool) -> FileSeen:
        """Return the standing where a later number of the same sink is in the table: by the files which that snapshot adds."""
        files = self._added.get(file.target)
        if files:
            lacking = files - _added_by(table, later)
            if not lacking:
                return FileSeen(Standing.VISIBLE)
            if lacking == files and is_whole:
                return FileSeen(
                    Standing.HIDDEN,
                    f"snapshot {later.id} names checkpoint {later.checkpoint} of the same job and sink, without its files",
                )
        return FileSeen(
            Standing.UNCLEAR,
            f"snapshot {later.id} names a later checkpoint, {later.checkpoint}: whether it adds this one is not known",
        )


def _commit_of(file: PendingFile) -> IcebergCommit:
    assert isinstance(file.commit, IcebergCommit)
    return file.commit


def _place(commit: IcebergCommit) -> str:
    return commit.table or plain_location(commit.location)


def _files(table: Any, manifests: Iterable[IcebergManifest]) -> frozenset[str]:
    """Return the data files that manifests of Flink list."""
    return frozenset(each.data_file.file_path for each in _entries(table, manifests))


def _added_by(table: Any, snapshot: Snapshot) -> frozenset[str]:
    """Return the data files in the manifests that a snapshot wrote: those that it adds."""
    return frozenset(
        entry.data_file.file_path
        for manifest in table.snapshot_by_id(snapshot.id).manifests(table.io)
        if manifest.added_snapshot_id == snapshot.id
        for entry in manifest.fetch_manifest_entry(table.io)
    )


def _entries(table: Any, listed: Iterable[IcebergManifest]) -> list[Any]:
    """Return the entries of manifests that Flink wrote for a commit."""
    manifests = pyiceberg("manifest")
    return [
        entry
        for each in listed
        for entry in manifests.ManifestFile.from_args(
            manifest_path=each.path,
            manifest_length=each.size,
            partition_spec_id=each.spec,
            content=manifests.ManifestContent.DELETES if each.holds_deletes else manifests.ManifestContent.DATA,
            sequence_number=0,
            min_sequence_number=0,
            added_snapshot_id=0,
        ).fetch_manifest_entry(table.io)
    ]


def _append(table: Any, commit: IcebergCommit, placed: Placed, *, only_appends: bool) -> None:
    """Add the files by one snapshot, unless the table changes meanwhile. Raises ResourceManagerError."""
    instead = "restore the job from the checkpoint that lists it, which adds them"
    if any(manifest.holds_deletes for manifest in commit.manifests):
        raise ResourceManagerError(f"it deletes rows besides, which only Flink's own commit does right: {instead}")
    if not only_appends:
        raise ResourceManagerError(f"no snapshot shows that its sink only adds rows: it may replace some. {instead}")
    if table.catalog.name == "static-table":
        raise ResourceManagerError(f"its table has no catalog that would refuse a second writer: {instead}")
    if not placed.branch:
        raise ResourceManagerError(f"which branch of the table its sink writes to is not known: {instead}")
    entries = _entries(table, commit.manifests)
    rows = sum(entry.data_file.record_count for entry in entries)
    if (len(entries), rows) != (sum(m.files for m in commit.manifests), sum(m.rows for m in commit.manifests)):
        raise ResourceManagerError(
            f"its manifests hold {counted(len(entries), 'file')} with {rows} rows now: {instead}"
        )
    # Whoever added a snapshot meanwhile may have added this one: nothing is tried a second time.
    properties = {**table.metadata.properties, "commit.retry.num-retries": "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    named = {JOB: commit.job, OPERATOR: commit.operator, CHECKPOINT: str(commit.checkpoint_id)}
    with (
        table.transaction() as transaction,
        transaction.update_snapshot(snapshot_properties=named, branch=placed.branch).fast_append() as append,
    ):
        for entry in entries:
            append.append_data_file(entry.data_file)


def _because(why: str) -> str:
    return f": {why}" if why else ""
