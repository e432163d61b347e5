"""The collector's API over a small history, for the tests of its routes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.property_tests  # noqa: F401
from tests.unit.collector.serve.api.served_api import Api


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Return one for all tests that leave the transactions as they are; audit rows are newest first."""
    made = Api(tmp_path_factory.mktemp("api"))
    yield made
    made.store.close()


@pytest.fixture
def fresh_api(tmp_path: Path) -> Iterator[Api]:
    made = Api(tmp_path)
    yield made
    made.store.close()
