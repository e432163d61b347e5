"""A collector whose classes have other defaults: for what no setting says and no test can wait for.

``python -m tests.integration.changed_defaults JSON ARGUMENTS``; JSON is ``{"MODULE:CLASS.PARAMETER": number}``.
"""

from __future__ import annotations

import importlib
import json
import sys

from indoubt.collector.__main__ import main


def change(name: str, value: int) -> None:
    """Change the default of a keyword parameter. Raises AssertionError when there is none."""
    place, _, parameter = name.rpartition(".")
    module, _, class_ = place.partition(":")
    defaults = getattr(importlib.import_module(module), class_).__init__.__kwdefaults__
    assert parameter in defaults, f"{name} is no keyword parameter with a default"
    defaults[parameter] = value


if __name__ == "__main__":
    for name, value in json.loads(sys.argv.pop(1)).items():
        change(name, value)
    main(sys.argv[1:])
