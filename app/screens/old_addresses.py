"""The addresses that pages had before several became sections of one, and that of Overview, which is the start page."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Route

from lifecycle import page_paths

_NOW: dict[str, tuple[str, dict[str, str]]] = {
    "overview": (".", {}),
    "pending-commits": ("transactions", {}),
    "batches": ("transactions", {"show": "batches"}),
    "blocked-readers": ("readers", {}),
    "timeout-risk": ("pipelines", {"show": "timeouts"}),
    "checkpoints": ("pipelines", {"show": "checkpoints"}),
    "abort-history": ("history", {}),
    "data-loss": ("history", {"show": "losses"}),
    "ids": ("history", {"show": "ids"}),
}
"""Old path -> the page's path and what is added to the query."""


def routes() -> list[Route]:
    """Return a redirect for each old address; it keeps the query."""
    return [Route(f"/{path}", _redirect) for path in _NOW]


async def _redirect(request: Request) -> RedirectResponse:
    path, added = _NOW[request.url.path.rpartition("/")[2]]
    if opened := request.query_params.get("open"):
        # So pending commits named the transaction whose evidence was open.
        return RedirectResponse(page_paths.transaction(opened).removeprefix("/"))
    query = urlencode([*added.items(), *request.query_params.multi_items()])
    # Relative: a proxy may serve the app below a path of its own.
    return RedirectResponse(f"{path}?{query}" if query else path)
