"""Calls that would change or remove what an API keeps if any route let them: made from its own OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
BODIES: tuple[Any, ...] = (
    {"audit": 1, "outcome": "accepted", "detail": "changed", "who": "nobody"},
    {"action": "delete", "keys": ["1"], "seen": {}, "reason": "remove the row"},
    {
        "action": "commit",
        "keys": ["'; delete from audit; --"],
        "seen": {},
        "reason": "'; update audit set who = 'x'; --",
    },
)
VALUES = ("1", "1; delete from audit", "' or '1'='1")


def hostile_calls(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, str], Any]]:
    """Yield (method, path, query, body) of every path with every method, but streams, which never end."""
    for path, operations in document["paths"].items():
        for method in METHODS:
            operation = operations.get(method.lower(), {})
            if "text/event-stream" in str(operation.get("responses", {}).get("200", {})):
                continue
            names = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
            for value, body in zip(VALUES, BODIES, strict=True):
                filled = path
                while "{" in filled:
                    filled = filled[: filled.index("{")] + value + filled[filled.index("}") + 1 :]
                query = dict.fromkeys(names, value)
                yield method, filled, query, body
            yield method, path + "/1", {}, BODIES[0]
