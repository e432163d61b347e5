"""Keeps pandas out of the process that imports this first: 35 MiB and half a second of start for nothing that is used here.

Arrow asks with its first array whether what it is given is one of pandas' objects, and imports it to ask.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not used in the collector", name=fullname)
        return None


sys.meta_path.insert(0, _NoPandas())
