"""The API's part about backups: an operator has history copied beside itself while everything goes on."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, HTTPException

from collector.api.auth.authentication import Caller
from collector.api.dependencies import ApiDependencies, KnownCaller
from collector.history.store import StoreFailed
from collector.runtime.clock import now_ms
from lifecycle.orders import Role

DIRECTORY = "backups"


def serve(app: FastAPI, dependencies: ApiDependencies) -> None:
    """Add the route."""
    one_at_a_time = threading.Lock()

    @app.post("/api/v1/backup")
    def backup(caller: KnownCaller) -> dict[str, Any]:
        if caller.role is not Role.OPERATOR:
            why = f"{caller.name} is a viewer: a backup needs an operator"
            raise HTTPException(403, f"{why} (audit {_audit(dependencies, caller, 'refused', why)})")
        with one_at_a_time:
            return _backup(dependencies, caller)


def _backup(dependencies: ApiDependencies, caller: Caller) -> dict[str, Any]:
    started = time.monotonic()
    try:
        made = dependencies.store.back_up(dependencies.store.path.parent / DIRECTORY, datetime.now(UTC))
    except StoreFailed as error:
        _audit(dependencies, caller, "failed", str(error))
        raise
    took_ms = round((time.monotonic() - started) * 1000)
    audit = _audit(dependencies, caller, "accepted", f"{made.path.name}, {made.bytes} bytes")
    return {"audit": audit, "file": f"{DIRECTORY}/{made.path.name}", "bytes": made.bytes, "took_ms": took_ms}


def _audit(dependencies: ApiDependencies, caller: Caller, outcome: str, detail: str) -> int:
    return dependencies.store.append_audit((now_ms(), caller.name, "backup", "[]", "", outcome, detail, "[]"))
