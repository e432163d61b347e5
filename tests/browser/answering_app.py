"""The app over a collector that answers by docs/api.md what a test sets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.integration.app_process import running_app
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_knowledge import TOKEN
from tests.unit.app.contract_server import ContractServer


@contextlib.contextmanager
def answering_app(answers: Answers, directory: Path, *options: str) -> Iterator[str]:
    """Yield the address of the pages until the block ends."""
    with (
        ContractServer(answers) as server,
        running_app(directory, *options, INDOUBT_TOKEN=TOKEN, INDOUBT_COLLECTOR_URL=server.url) as port,
    ):
        yield f"http://127.0.0.1:{port}"
