"""Whose a transaction is: the application's name, its kind, and the link to its page."""

from __future__ import annotations

from app.components.cut_name import cut
from app.components.links_and_buttons import link
from app.components.markup import Html, el
from lifecycle import page_paths
from lifecycle.application import Application, ApplicationKind


def application_name(application: Application | None) -> Html:
    """Return the application as a link, with its kind where one is known; nothing without an application."""
    if application is None:
        return el("small")
    known = application.kind is not ApplicationKind.OTHER
    kind = f" {application.kind.value}" if known else ""
    return el("small", "of ", link(page_paths.pipeline(application.name), cut(application.name, "span")), kind)
