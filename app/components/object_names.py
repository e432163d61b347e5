"""Names of applications, partitions and transactions as markup: cut where they are long, each with a link to its page.

A key is shown as people read it: the name that an application gave, with producer id and epoch small.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el, join
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.application import Application, ApplicationKind
from indoubt.lifecycle.orders import HANGING_KEY, PIPELINE_KEY
from indoubt.lifecycle.resource_manager_kinds import WATCHED

CUT_FROM = 24
TAIL = 12
"""Characters: of a name that is longer, the last ones always stay visible."""
_KAFKA = re.compile(r"kafka:(?P<name>.+):(?P<producer>\d+):(?P<epoch>-?\d+)(@\d+)?", re.DOTALL)
_HANGING = re.compile(rf"{HANGING_KEY}(?P<topic>.+)-(?P<number>\d+):(?P<producer>\d+):(?P<epoch>-?\d+):\d+", re.DOTALL)
_BATCH = re.compile(r"(?P<pipeline>[^/]+)/[^/]+/(?P<number>\d+)/(?P<attempt>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyName:
    """What a key says: the name, what tells it from others of that name, and the page of what it names (empty: none)."""

    name: str
    detail: str
    path: str


def read_key(key: str) -> KeyName:
    """Return what a key of a transaction, batch or pipeline says; any other text is a name of its own."""
    if match := _KAFKA.fullmatch(key):
        detail = f"producer {match['producer']}, epoch {match['epoch']}"
        return KeyName(name=match["name"], detail=detail, path=page_paths.transaction(key))
    if match := _HANGING.fullmatch(key):
        path = page_paths.partition(match["topic"], int(match["number"]))
        detail = f"hanging, producer {match['producer']}, epoch {match['epoch']}"
        return KeyName(name=f"{match['topic']}-{match['number']}", detail=detail, path=path)
    if match := _BATCH.fullmatch(key):
        path = page_paths.batch(match["pipeline"], int(match["number"]))
        name = f"batch {match['number']} of {match['pipeline']}"
        return KeyName(name=name, detail=f"run {match['attempt']}", path=path)
    if key.startswith(PIPELINE_KEY):
        name = key.removeprefix(PIPELINE_KEY)
        return KeyName(name=name, detail="pipeline", path=page_paths.pipeline(name))
    resource_manager, _, name = key.partition(":")
    if name and resource_manager in WATCHED:
        return KeyName(name=name, detail=resource_manager, path=page_paths.transaction(key))
    return KeyName(name=key, detail="", path="")


def key_text(key: str) -> Html:
    """Return the name that a key says, with what tells it from others of that name small behind it."""
    said = read_key(key)
    return el("span", el("code", said.name), said.detail and el("small", f" {said.detail}"))


def key_link(key: str) -> Html:
    """Return the same as ``key_text`` with a link to the page of what the key names."""
    said = read_key(key)
    if not said.path:
        return key_text(key)
    return el("span", link(said.path, el("code", said.name)), said.detail and el("small", f" {said.detail}"))


def cut(name: str, element: str) -> Html:
    """Return the name in an element of this kind; the style sheet cuts it where there is no room, its hint is the whole name."""
    if len(name) <= CUT_FROM:
        return el(element, name)
    begins, ends = el("span", name[:-TAIL], class_="begins"), el("span", name[-TAIL:], class_="ends")
    return el(element, begins, ends, class_="cut", title=name)


def application_name(application: Application | None) -> Html:
    """Return the application as a link, with its kind where one is known; nothing without an application."""
    if application is None:
        return el("small")
    known = application.kind is not ApplicationKind.OTHER
    kind = f" {application.kind.value}" if known else ""
    return el("small", "of ", link(page_paths.pipeline(application.name), cut(application.name, "span")), kind)


def partition_link(name: str) -> Html:
    """Return a link to the page of a partition that is called ``topic-number``."""
    path = partition_path(name)
    return link(path, name) if path else el("code", name)


def partition_path(name: str) -> str:
    """Return the page of a partition that is called ``topic-number``; empty: that is no such name."""
    topic, _, number = name.rpartition("-")
    return page_paths.partition(topic, int(number)) if topic and number.isascii() and number.isdecimal() else ""


def topics_of(partitions: Sequence[str]) -> Html:
    """Return each topic with how many of its partitions these are, where several; which, its hint says."""
    count = Counter(name.rpartition("-")[0] or name for name in partitions)
    named = [
        cut(topic, "span") if number == 1 else [cut(topic, "span"), f" × {number}"] for topic, number in count.items()
    ]
    return el("small", *[el("div", one) for one in named], title=", ".join(partitions))


def partition_links(names: Iterable[str]) -> Html:
    """Return links to several, with commas between them."""
    return join([part for name in names for part in (", ", partition_link(name))][1:])
