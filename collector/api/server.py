"""How uvicorn serves the API: no banner, its log lines in ours, callers' addresses as they are unless a proxy is trusted."""

from __future__ import annotations

from collections.abc import Sequence

import uvicorn
from starlette.types import ASGIApp

from collector.config.tls import TlsFiles


def config(app: ASGIApp, tls: TlsFiles | None, trusted_proxies: Sequence[str]) -> uvicorn.Config:
    """Return uvicorn's settings. ``trusted_proxies``: addresses or networks whose X-Forwarded-For says who calls."""
    return uvicorn.Config(
        app,
        # Not whichever is installed: the collector's tests run on this one.
        loop="asyncio",
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        ssl_certfile=tls.certificate if tls is not None else None,
        ssl_keyfile=tls.key if tls is not None else None,
    )
