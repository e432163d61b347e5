"""Writes docs/openapi.json: the document of the API, as a collector serves it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.unit.collector.serve.api.served_api import VIEWER
from tests.unit.collector.serve.api.test_alert_routes import AlertApi

FILE = Path(__file__).parents[1] / "docs" / "openapi.json"


def text(document: dict[str, Any]) -> str:
    """Return the file's text; one value a line, so that a change of the API is a readable difference."""
    return json.dumps(document, indent=1) + "\n"


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as directory:
        api = AlertApi(Path(directory))
        FILE.write_text(text(api.client.get("/api/v1/openapi.json", headers=VIEWER).json()))
        api.store.close()


if __name__ == "__main__":
    main()
