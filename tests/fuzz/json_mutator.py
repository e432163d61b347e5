"""Changes JSON by its structure: bytes that are changed at random seldom stay JSON, and so never reach the fields' own checks."""

from __future__ import annotations

import json
import random
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    4,
    2**31,
    2**53,
    2**53 + 1,
    -(2**63),
    2**64,
    1.5,
    float("inf"),
    "",
    "0",
    "²",
    "\0",
    "\ud800",
    "kafka",
    "commit",
    "p-0-1",
    "x" * 300,
    [],
    {},
    [[]],
    {"a": None},
)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return the record with one to three of its values replaced, copied or left out; unchanged when it is not JSON."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    for _ in range(rng.randint(1, 3)):
        value = _changed(value, rng)
    return json.dumps(value).encode()


def _changed(value: Any, rng: random.Random) -> Any:
    """Return the value with one change somewhere inside it."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.05:
        return rng.choice(ODD_VALUES)
    at = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    changed = value.copy()
    match rng.randrange(6):
        case 0:
            del changed[at]
        case 1:
            changed[at] = rng.choice(list(value.values()) if isinstance(value, dict) else value)
        case _:
            changed[at] = _changed(value[at], rng)
    return changed
