"""Partitions by their names, each with a link to its page."""

from __future__ import annotations

from collections.abc import Iterable

from app.components.links_and_buttons import link
from app.components.markup import Html, el, join
from lifecycle import page_paths


def partition_link(name: str) -> Html:
    """Return a link to the page of a partition that is called ``topic-number``."""
    topic, _, number = name.rpartition("-")
    is_one = topic and number.isascii() and number.isdecimal()
    return link(page_paths.partition(topic, int(number)), name) if is_one else el("code", name)


def partition_links(names: Iterable[str]) -> Html:
    """Return links to several, with commas between them."""
    return join([part for name in names for part in (", ", partition_link(name))][1:])
