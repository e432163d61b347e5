"""Links from a notification to the app's pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def linked(notification: Mapping[str, Any], public_url: str) -> dict[str, Any]:
    """Return a notification (its JSON) with the address of its object's page in each alert, as ``url``.

    Without an app's address ``url`` is None.
    """

    def with_url(alert: Mapping[str, Any]) -> dict[str, Any]:
        return {**alert, "url": f"{public_url}{alert['path']}" if public_url else None}

    return {**notification, **{of: [with_url(alert) for alert in notification[of]] for of in ("firing", "resolved")}}
