"""The contract on files, on this machine and in an S3-compatible store, and what files promise beyond it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.object_store import ObjectStore
from tests.integration.files_fixtures import LocalFiles, S3Files, running_store
from tests.integration.resource_manager_contract import ResourceManagerContract

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    yield from running_store(tmp_path_factory.mktemp("store"))


class TestLocalFiles(ResourceManagerContract):
    @pytest.fixture
    def sink(self, tmp_path: Path) -> LocalFiles:
        return LocalFiles(tmp_path)


class TestS3Files(ResourceManagerContract):
    @pytest.fixture
    def sink(self, store: ObjectStore) -> S3Files:
        return S3Files(store)
