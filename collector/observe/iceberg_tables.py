"""Commits of Flink's sink to Iceberg tables: looks whether the table has one, and adds its files where nobody will.

Tables are found in the catalogs that PyIceberg's own configuration names (``~/.pyiceberg.yaml`` or ``PYICEBERG_CATALOG__…``); one
without a catalog by the ``version-hint.text`` that a Hadoop catalog leaves. An order adds the files by a snapshot of the name that
Flink would have given it: a restored job finds it and does not add them again.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from indoubt.collector.records.formats.pending_files import FileSeen, IcebergCommit, PendingFile, Standing
from indoubt.collector.records.iceberg_snapshots import (
    CHECKPOINT,
    JOB,
    OPERATOR,
    Place,
    Placed,
    Snapshot,
    TableHistory,
    place_of,
)
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.errors import ResourceManagerError

LISTED_EVERY_S = 60.0
"""So often at most the catalogs are listed again for a table that none of them had."""

_LACKED = FileSeen(standing=Standing.HIDDEN)


class IcebergTables:
    """Keeps its catalogs and where their tables lie; what a table has is read anew each time. For one thread."""

    def __init__(self) -> None:
        self._catalogs: dict[str, Any] = {}
        self._identifiers: dict[str, tuple[str, Any]] = {}
        """Location -> (catalog, identifier)."""
        self._listed_s: float | None = None
        self._added: dict[str, frozenset[str]] = {}
        """Target -> the data files that a commit adds, as its manifests said while they were there."""

    def look(self, file: PendingFile) -> FileSeen:
        """Return how its table has a commit. Raises ResourceManagerError where that cannot be asked."""
        commit = _commit_of(file)
        with _asking(commit):
            table = self._table(commit)
            return self._seen(file, commit, table, place_of(commit, _history(table)))

    def add(self, file: PendingFile) -> None:
        """Add the files of a commit that its table lacks. Raises ResourceManagerError: nothing was done, or what went wrong."""
        commit = _commit_of(file)
        with _asking(commit):
            table = self._table(commit)
            placed = place_of(commit, _history(table))
            seen = self._seen(file, commit, table, placed)
            if seen != _LACKED:
                raise ResourceManagerError(f"{file.target} is {seen.standing.value} now{_because(seen.why)}")
            _append(table, commit, placed)
            after = place_of(commit, _history(self._table(commit)))
        if after.place is not Place.ADDED:
            raise ResourceManagerError(f"{file.target} is {after.place.value} after that")

    def _seen(self, file: PendingFile, commit: IcebergCommit, table: Any, placed: Placed) -> FileSeen:
        """Return the standing of a commit; what its manifests list is kept, for when they are gone."""
        there = bool(commit.manifests) and all(
            table.io.new_input(manifest.path).exists() for manifest in commit.manifests
        )
        if there and file.target not in self._added:
            self._added[file.target] = frozenset(each.data_file.file_path for each in _entries(table, commit))
        ids = ", ".join(str(each.id) for each in placed.snapshots)
        match placed.place:
            case Place.ADDED if len(placed.snapshots) > 1:
                why = f"snapshots {ids} add it: its rows may be there {len(placed.snapshots)} times"
                return FileSeen(standing=Standing.VISIBLE, why=why)
            case Place.ADDED:
                return FileSeen(standing=Standing.VISIBLE)
            case Place.PASSED:
                return self._passed(file, table, placed.snapshots[0], there)
            case Place.ROLLED_BACK:
                return FileSeen(
                    standing=Standing.MISSING, why=f"snapshot {ids} added it, and the table was rolled back behind it"
                )
            case Place.ABSENT if there:
                return _LACKED
            case Place.ABSENT if not commit.manifests:
                return FileSeen(
                    standing=Standing.UNCLEAR, why="no checkpoint that is left lists it: its files are not known"
                )
            case Place.ABSENT:
                return FileSeen(
                    standing=Standing.MISSING, why="no snapshot adds it, and the manifests that Flink wrote are gone"
                )
            case Place.EXPIRED:
                return FileSeen(
                    standing=Standing.UNCLEAR, why="no snapshot that is kept adds it, and older ones are not kept"
                )

    def _passed(self, file: PendingFile, table: Any, later: Snapshot, there: bool) -> FileSeen:
        """Return the standing where a later number of the same sink is in the table: by the files which that snapshot adds."""
        files = self._added.get(file.target)
        if files:
            added = {
                entry.data_file.file_path
                for manifest in table.snapshot_by_id(later.id).manifests(table.io)
                for entry in manifest.fetch_manifest_entry(table.io)
                if entry.data_file.file_path in files
            }
            if added == files:
                return FileSeen(standing=Standing.VISIBLE)
            if not added and there:
                return FileSeen(
                    standing=Standing.HIDDEN,
                    why=f"snapshot {later.id} names checkpoint {later.checkpoint} of the same job and sink, without its files",
                )
        return FileSeen(
            standing=Standing.UNCLEAR,
            why=f"snapshot {later.id} names a later checkpoint, {later.checkpoint}: whether it adds this one is not known",
        )

    def _table(self, commit: IcebergCommit) -> Any:
        """Return the table of a commit as it is now. Raises ResourceManagerError."""
        found = self._identifiers.get(_place(commit))
        if found is None and (self._listed_s is None or time.monotonic() - self._listed_s >= LISTED_EVERY_S):
            self._list()
            found = self._identifiers.get(_place(commit))
        if found is not None:
            catalog, identifier = found
            return self._catalog(catalog).load_table(identifier)
        if not commit.table and (hinted := _hinted(commit.location)) is not None:
            return hinted
        raise ResourceManagerError(
            f"no catalog of PyIceberg's configuration ({', '.join(_names()) or 'which names none'}) has a table at "
            f"{_place(commit)}: name its catalog in ~/.pyiceberg.yaml"
        )

    def _list(self) -> None:
        """Note where each table of each catalog lies."""
        self._listed_s = time.monotonic()
        for name in _names():
            catalog = self._catalog(name)
            for identifier in _tables_of(catalog, ()):
                self._identifiers[".".join(identifier)] = (name, identifier)
                location = catalog.load_table(identifier).location()
                self._identifiers[_plain(location)] = (name, identifier)

    def _catalog(self, name: str) -> Any:
        if name not in self._catalogs:
            # Its own copy of the configuration is as old as the process.
            properties = _pyiceberg("utils.config").Config().get_catalog_config(name) or {}
            self._catalogs[name] = _pyiceberg("catalog").load_catalog(name, **properties)
        return self._catalogs[name]


def _commit_of(file: PendingFile) -> IcebergCommit:
    assert file.commit is not None, "it is a commit to an Iceberg table"
    return file.commit


def _place(commit: IcebergCommit) -> str:
    return commit.table or _plain(commit.location)


def _plain(location: str) -> str:
    """Return a location in one spelling: Flink and catalogs write it with and without a scheme."""
    scheme, colon, rest = location.rstrip("/").partition(":")
    if not colon or scheme == "file":
        return "/" + (rest if colon else scheme).lstrip("/")
    return f"s3:{rest}" if scheme in ("s3a", "s3n") else f"{scheme}:{rest}"


def _pyiceberg(module: str) -> Any:
    try:
        return importlib.import_module(f"pyiceberg.{module}")
    except ImportError:
        raise ResourceManagerError(
            "Iceberg tables are read with the package pyiceberg: install indoubt with the extra 'iceberg'"
        ) from None


def _names() -> list[str]:
    """Return the catalogs that PyIceberg's configuration names."""
    found = _pyiceberg("utils.config").Config().config.get("catalog")
    return list(found) if isinstance(found, dict) else []


def _tables_of(catalog: Any, namespace: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if namespace:
        yield from catalog.list_tables(namespace)
    for below in catalog.list_namespaces(namespace):
        yield from _tables_of(catalog, below)


def _hinted(location: str) -> Any:
    """Return the table of a Hadoop catalog, None where there is no hint which of its metadata is the newest."""
    static = _pyiceberg("table").StaticTable
    io = _pyiceberg("io").load_file_io({}, location)
    if not io.new_input(f"{location}/metadata/version-hint.text").exists():
        return None
    newest = static.from_metadata(location).metadata_location
    # The hint is written after the metadata: it may be one behind.
    head, _, number = newest.removesuffix(".metadata.json").rpartition("/v")
    while number.isdecimal() and io.new_input(f"{head}/v{int(number) + 1}.metadata.json").exists():
        number = str(int(number) + 1)
    return static.from_metadata(f"{head}/v{number}.metadata.json" if number.isdecimal() else newest)


def _history(table: Any) -> TableHistory:
    snapshots = {
        each.snapshot_id: Snapshot(
            id=each.snapshot_id,
            parent=each.parent_snapshot_id,
            at_ms=each.timestamp_ms,
            summary=each.summary.additional_properties if each.summary is not None else {},
        )
        for each in table.metadata.snapshots
    }
    references = table.metadata.refs.items()
    branches = {name: ref.snapshot_id for name, ref in references if ref.snapshot_ref_type.value == "branch"}
    return TableHistory(snapshots=snapshots, branches=branches)


def _entries(table: Any, commit: IcebergCommit) -> list[Any]:
    """Return the entries of the manifests that Flink wrote for a commit."""
    manifests = _pyiceberg("manifest")
    return [
        entry
        for each in commit.manifests
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


def _append(table: Any, commit: IcebergCommit, placed: Placed) -> None:
    """Add the files by one snapshot, unless the table changes meanwhile. Raises ResourceManagerError."""
    instead = "restore the job from the checkpoint that lists it, which adds them"
    if any(manifest.holds_deletes for manifest in commit.manifests):
        raise ResourceManagerError(f"it deletes rows besides, which only Flink's own commit does right: {instead}")
    if table.catalog.name == "static-table":
        raise ResourceManagerError(f"its table has no catalog that would refuse a second writer: {instead}")
    if not placed.branch:
        raise ResourceManagerError(f"which branch of the table its sink writes to is not known: {instead}")
    entries = _entries(table, commit)
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


@contextmanager
def _asking(commit: IcebergCommit) -> Iterator[None]:
    """Raise ResourceManagerError for whatever a catalog or store raises: each has errors of its own, without a common base."""
    try:
        yield
    except ResourceManagerError:
        raise
    except Exception as error:
        # Its text may hold parts of an address or a login.
        raise ResourceManagerError(f"table {_place(commit)} cannot be asked: {type(error).__name__}") from error


def _because(why: str) -> str:
    return f": {why}" if why else ""
