"""Finds Iceberg tables, and reads which snapshots they have.

Tables are found in the catalogs that PyIceberg's own configuration names (``~/.pyiceberg.yaml`` or ``PYICEBERG_CATALOG__…``); one
without a catalog by the ``version-hint.text`` that a Hadoop catalog leaves.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from indoubt.collector.records.iceberg_snapshots import Snapshot, TableHistory
from indoubt.lifecycle.errors import ResourceManagerError

LISTED_EVERY_S = 60.0
"""So often at most the catalogs are listed again for a table that none of them had."""


class IcebergCatalogs:
    """Keeps its catalogs and where their tables lie; what a table has is read anew each time."""

    def __init__(self) -> None:
        self._catalogs: dict[str, Any] = {}
        self._identifiers: dict[str, tuple[str, Any]] = {}
        """Location or name -> (catalog, identifier)."""
        self._listed_s: float | None = None

    def table(self, place: str) -> Any:
        """Return a table as it is now; ``place``: its name with dots, or its location. Raises ResourceManagerError."""
        found = self._identifiers.get(place)
        if found is None and (self._listed_s is None or time.monotonic() - self._listed_s >= LISTED_EVERY_S):
            self._list()
            found = self._identifiers.get(place)
        if found is not None:
            catalog, identifier = found
            return self._catalog(catalog).load_table(identifier)
        is_location = "/" in place
        if is_location and (hinted := _hinted(place)) is not None:
            return hinted
        raise ResourceManagerError(
            f"no catalog of PyIceberg's configuration ({', '.join(_names()) or 'which names none'}) has a table at "
            f"{place}: name its catalog in ~/.pyiceberg.yaml"
        )

    def _list(self) -> None:
        """Note where each table of each catalog lies."""
        self._listed_s = time.monotonic()
        for name in _names():
            catalog = self._catalog(name)
            for identifier in _tables_of(catalog, ()):
                self._identifiers[".".join(identifier)] = (name, identifier)
                location = catalog.load_table(identifier).location()
                self._identifiers[plain_location(location)] = (name, identifier)

    def _catalog(self, name: str) -> Any:
        if name not in self._catalogs:
            # Its own copy of the configuration is as old as the process.
            properties = pyiceberg("utils.config").Config().get_catalog_config(name) or {}
            self._catalogs[name] = pyiceberg("catalog").load_catalog(name, **properties)
        return self._catalogs[name]


def plain_location(location: str) -> str:
    """Return a location in one spelling: Flink and catalogs write it with and without a scheme."""
    scheme, colon, rest = location.rstrip("/").partition(":")
    if not colon or scheme == "file":
        return "/" + (rest if colon else scheme).lstrip("/")
    return f"s3:{rest}" if scheme in ("s3a", "s3n") else f"{scheme}:{rest}"


def pyiceberg(module: str) -> Any:
    """Return a module of the package pyiceberg. Raises ResourceManagerError where it is not installed."""
    try:
        return importlib.import_module(f"pyiceberg.{module}")
    except ImportError:
        raise ResourceManagerError(
            "Iceberg tables are read with the package pyiceberg: install indoubt with the extra 'iceberg'"
        ) from None


def history_of(table: Any) -> TableHistory:
    """Return the snapshots that a table has."""
    snapshots = {
        each.snapshot_id: Snapshot(
            id=each.snapshot_id,
            parent=each.parent_snapshot_id,
            at_ms=each.timestamp_ms,
            summary=each.summary.additional_properties if each.summary is not None else {},
            operation=each.summary.operation.value if each.summary is not None else "",
        )
        for each in table.metadata.snapshots
    }
    references = table.metadata.refs.items()
    branches = {name: ref.snapshot_id for name, ref in references if ref.snapshot_ref_type.value == "branch"}
    return TableHistory(snapshots=snapshots, branches=branches)


@contextmanager
def asking(place: str) -> Iterator[None]:
    """Raise ResourceManagerError for whatever a catalog or store raises: each has errors of its own, without a common base."""
    try:
        yield
    except ResourceManagerError:
        raise
    except Exception as error:
        # Its text may hold parts of an address or a login.
        raise ResourceManagerError(f"table {place} cannot be asked: {type(error).__name__}") from error


def _names() -> list[str]:
    """Return the catalogs that PyIceberg's configuration names."""
    found = pyiceberg("utils.config").Config().config.get("catalog")
    return list(found) if isinstance(found, dict) else []


def _tables_of(catalog: Any, namespace: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if namespace:
        yield from catalog.list_tables(namespace)
    for below in catalog.list_namespaces(namespace):
        yield from _tables_of(catalog, below)


def _hinted(location: str) -> Any:
    """Return the table of a Hadoop catalog, None where there is no hint which of its metadata is the newest."""
    static = pyiceberg("table").StaticTable
    io = pyiceberg("io").load_file_io({}, location)
    if not io.new_input(f"{location}/metadata/version-hint.text").exists():
        return None
    newest = static.from_metadata(location).metadata_location
    # The hint is written after the metadata: it may be one behind.
    head, _, number = newest.removesuffix(".metadata.json").rpartition("/v")
    while number.isdecimal() and io.new_input(f"{head}/v{int(number) + 1}.metadata.json").exists():
        number = str(int(number) + 1)
    return static.from_metadata(f"{head}/v{number}.metadata.json" if number.isdecimal() else newest)
