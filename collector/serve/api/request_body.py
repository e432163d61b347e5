"""Bodies that are read by hand, so that what is wrong with them can be said in words."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from starlette.exceptions import HTTPException

from indoubt.lifecycle.errors import MalformedRecord
from indoubt.lifecycle.json_record import read_object


async def json_object(request: Request, what: str) -> dict[str, Any]:
    """Return a request's body; ``what`` is what it should be ("an order"). Raises HTTPException 400 when it is no JSON object."""
    try:
        return read_object(await request.body(), "the body")
    except MalformedRecord as error:
        raise HTTPException(400, f"{error}: send {what} as docs/api.md describes it") from None
