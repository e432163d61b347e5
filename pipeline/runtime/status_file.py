"""What a driver says of itself: its exit code to its supervisor, and how the pipeline stands in a small JSON file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

STOPPED, FAILED, WRONG_SETTINGS, SUPERSEDED = 0, 1, 2, 3
"""Exit codes: stopped on request; failed (a restart may help); wrong settings or a checkpoint directory that takes a person (it
will not); superseded by a newer run of the same prefix (a restart would supersede that one in turn)."""


class StatusFile:
    """Written by supervisor and driver in turn, replaced at once; an empty path writes nothing."""

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
