"""The app's address as people reach it: what notifications link to."""

from __future__ import annotations

from urllib.parse import urlsplit

from lifecycle.errors import SettingsError

OPTION, VARIABLE = "--public-url", "INDOUBT_PUBLIC_URL"


def read(url: str) -> str:
    """Return the address without a slash at its end; empty: there is none. Raises SettingsError."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if url and not (
        is_address and url.isascii() and url.isprintable() and not any(sign in url for sign in " <>|\"'\\")
    ):
        raise SettingsError(
            f"{OPTION} is {url!r}; it takes http:// or https:// with the host at which people open the app"
        )
    if url and (parts.username is not None or "?" in url or "#" in url):
        raise SettingsError(
            f"{OPTION} takes the app's address without a user, a query or a fragment: pages are added to it"
        )
    if parts.path.strip("/"):
        raise SettingsError(
            f"{OPTION} is {url!r}; it takes no path: the app's pages lie at the root of their host, "
            "so give them a host name of their own"
        )
    return url.rstrip("/")
