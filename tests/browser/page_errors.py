"""What went wrong on any page of a browser: each error in a console, each exception, each request of ours that failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, Response, WebError

LEFT = "net::ERR_ABORTED"
"""A page that is left takes back what it has asked for."""
LOCAL = ("127.0.0.1", "localhost")


class PageErrors:
    """Takes up what goes wrong in every context that it watches, until ``take``."""

    def __init__(self) -> None:
        self._contexts: list[BrowserContext] = []
        self._found: list[str] = []

    def watch(self, context: BrowserContext) -> None:
        """Take up what goes wrong on the pages of this context from now on."""
        self._contexts.append(context)
        context.on("console", self._said)
        context.on("weberror", self._raised)
        context.on("requestfailed", self._failed)
        context.on("response", self._answered)
        context.on("close", lambda _: self._contexts.remove(context))

    def take(self, expected: Sequence[str] = ()) -> list[str]:
        """Return what went wrong since the last time, but what one of these expressions matches."""
        shown = [text for context in self._contexts for page in context.pages for text in exceptions(page)]
        found, self._found = [*self._found, *shown], []
        return [text for text in found if not any(re.search(pattern, text) for pattern in expected)]

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._found.append(f"console: {message.text} {message.location.get('url', '')}")

    def _raised(self, error: WebError) -> None:
        self._found.append(f"exception: {error.error}")

    def _failed(self, request: Request) -> None:
        if _is_ours(request.url) and request.failure != LEFT:
            self._found.append(f"request: {request.method} {request.url}: {request.failure}")

    def _answered(self, response: Response) -> None:
        if _is_ours(response.url) and response.status >= 400:
            self._found.append(f"request: {response.request.method} {response.url}: {response.status}")


def exceptions(page: Page) -> list[str]:
    """Return what Streamlit shows in place of a part of the page that failed."""
    shown: list[str] = page.locator("[data-testid=stException], .lost").all_inner_texts()
    return [f"shown: {text}" for text in shown]


def _is_ours(url: str) -> bool:
    return urlsplit(url).hostname in LOCAL
