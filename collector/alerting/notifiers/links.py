"""Links from a notification to the app's pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def linked(notification: Mapping[str, Any], public_url: str) -> dict[str, Any]:
    """Return a notification (its JSON) with the address of its object's page in each alert, as ``url``.

    Without an app's address, and in an alert that was written by an earlier version, ``url`` is None.
    """

    def with_url(alert: Mapping[str, Any]) -> dict[str, Any]:
        path = alert.get("path")
        return {**alert, "url": f"{public_url}{path}" if public_url and path else None}

    return {**notification, **{of: [with_url(alert) for alert in notification[of]] for of in ("firing", "resolved")}}
