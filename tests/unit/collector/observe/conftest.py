"""A collector's state for polls without a pause, patience with stores of checkpoints, and a table of Iceberg."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from indoubt.collector.observe import flink_committables
from indoubt.collector.views import current_flink
from indoubt.collector.views.current_state import CurrentState
from tests.unit.collector.observe.flink_checkpoint_files import LIMIT_S

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


@pytest.fixture
def current(current: CurrentState, monkeypatch: pytest.MonkeyPatch) -> CurrentState:
    # Tests poll at once again.
    monkeypatch.setattr(current_flink, "IN_USE_S", -1.0)
    return current


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a poll wait for whatever answers at all."""
    monkeypatch.setattr(flink_committables, "PATIENCE_S", LIMIT_S)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """Return a catalog of Iceberg tables that PyIceberg's configuration names."""
    # Imported here: it costs half a second.
    from pyiceberg.catalog import load_catalog

    monkeypatch.setenv("HOME", str(tmp_path))
    given = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    for name, value in given.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name.upper()}", value)
    (tmp_path / "lake").mkdir()
    made = load_catalog("lake", **given)
    made.create_namespace("db")
    yield made
    made.close()


@pytest.fixture
def orders(lake: Catalog) -> Table:
    """Return a table of that catalog, with a column ``id``."""
    return lake.create_table("db.orders", pa.schema([("id", pa.string())]))
