"""A small JSON file that says how the pipeline stands, replaced at once whenever that changes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class StatusFile:
    """Written by supervisor and driver in turn; an empty path writes nothing."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None

    def update(self, **fields: Any) -> None:
        """Set these fields and keep the others."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        known = json.loads(self._path.read_text()) if self._path.exists() else {}
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        draft.write_text(json.dumps(known | fields))
        draft.rename(self._path)
