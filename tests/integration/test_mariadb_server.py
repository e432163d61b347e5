"""A MariaDB server of the demo beside others on the same machine."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.mariadb_server import MariaDbServer

pytestmark = pytest.mark.integration


@pytest.fixture
def temporary_table() -> Iterator[Path]:
    """Return a file like those in which a server keeps a temporary table, where servers keep them unless they are told."""
    file = Path(tempfile.gettempdir()) / f"#sql-temptable-{uuid.uuid4().hex[:4]}-1-0.MAD"
    file.touch()
    yield file
    file.unlink(missing_ok=True)


def test_a_server_that_starts_leaves_the_temporary_tables_of_others_alone(
    tmp_path: Path, temporary_table: Path
) -> None:
    with MariaDbServer(tmp_path / "server"):
        assert temporary_table.exists()
