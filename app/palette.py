"""The search over everything: what fits the words typed after ``/`` or Ctrl-K, and what a press on it asks for.

The browser's part is static/palette.js. Nothing here gives an order: an action opens its dialog.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components import shown_cluster
from indoubt.app.components.bar import ALL
from indoubt.app.components.links_and_buttons import AskOrder, OpenPage, click_text
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.attention import Attention, Remedy
from indoubt.lifecycle.rows.order_request import OF_TRANSACTIONS

MOST_OF_A_KIND = 6
MAX_CARDS = 100
MAX_WORDS = 200
SHARED_FOR_S = 5.0
"""What does not depend on the words is asked for once while somebody types."""
_PAGES = {
    "Overview": "/overview",
    "Transactions › Pending": "/transactions",
    "Transactions › Batches": "/transactions?show=batches",
    "Readers": "/readers",
    "Pipelines": "/pipelines",
    "Pipelines › Checkpoints": "/pipelines?show=checkpoints",
    "Pipelines › Timeouts": "/pipelines?show=timeouts",
    "Alerts": page_paths.ALERTS,
    "History › Aborts": "/history",
    "History › Losses": "/history?show=losses",
    "History › Ids": "/history?show=ids",
    "History › Search": page_paths.SEARCH,
    "Audit": "/audit",
    "Collector": page_paths.COLLECTOR,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One thing that fits; ``kind``: a word for it, ``more``: what else is said of it, ``click``: as of a link or button."""

    kind: str
    text: str
    more: str
    click: str


Find = Callable[[CollectorClient, str], list[Found]]


def clusters(names: Sequence[str], shown: str, words: str) -> list[Found]:
    """Return the other clusters that fit as places to go, and the page over all; none where there is one alone."""
    if len(names) < 2:
        return []
    places = {name: page_paths.within(page_paths.OVERVIEW, name) for name in names if name != shown}
    if shown:
        places[ALL] = page_paths.CLUSTERS
    wanted = words.casefold().split()
    return _fitting([_page("cluster", name, path) for name, path in places.items()], wanted, most=len(places))


def find(client: CollectorClient, words: str) -> list[Found]:
    """Return what the collector knows now and has all words in it: actions, pages, applications, ids, topics, groups.

    Of no words: the actions and the pages. Raises CollectorError.
    """
    wanted = words.casefold().split()
    found = [*_fitting(_actions(client), wanted), *_fitting(_pages(), wanted, most=len(_PAGES))]
    if wanted:
        found += _fitting(_applications(client), wanted)
        found += _transactions(client, words)
        found += _fitting(_topics_and_groups(client), wanted)
        more = "transactional ids of all time"
        found.append(
            _page("history", f"Search all of history for {words!r}", page_paths.search(transaction=words), more)
        )
    return found


def find_in_history(client: CollectorClient, words: str) -> list[Found]:
    """Return the newest transactions of all history whose id has these words in it, each id once. Raises CollectorError."""
    rows = {row.transaction: row for row in reversed(client.search(transaction=words.strip(), limit=50))}
    newest = list(reversed(rows.values()))[:MOST_OF_A_KIND]
    return [
        _page("id", row.transaction, page_paths.transaction(row.key), f"{row.pipeline} · {row.state.value}")
        for row in newest
    ]


def as_json(found: Sequence[Found]) -> str:
    """Return what the browser is sent."""
    return json.dumps({"found": [asdict(one) for one in found]})


def _fitting(found: Iterable[Found], wanted: Sequence[str], most: int = MOST_OF_A_KIND) -> list[Found]:
    """Return those that have every word, those first that begin with the first one."""
    fits = [one for one in found if all(word in f"{one.text} {one.kind}".casefold() for word in wanted)]
    return sorted(fits, key=lambda one: not one.text.casefold().startswith(wanted[0] if wanted else ""))[:most]


def _page(kind: str, text: str, path: str, more: str = "") -> Found:
    return Found(kind=kind, text=text, more=more, click=click_text(OpenPage(path=shown_cluster.within(path))))


def _pages() -> list[Found]:
    return [_page("page", title, path) for title, path in _PAGES.items()]


def _actions(client: CollectorClient) -> list[Found]:
    if not client.status().may_order:
        return []
    actions = (_action(part) for part in client.parts()[:MAX_CARDS])
    # Several parts may have the same remedy.
    return list({action.click: action for action in actions if action is not None}.values())


def _action(part: Attention) -> Found | None:
    if part.remedy is Remedy.OPEN or part.keys_total is not None:
        # An order for more than a part lists is given on its page, which says how many they are.
        return None
    action = Action(part.remedy.value)
    subject = "transactions" if action in OF_TRANSACTIONS else "pipeline"
    keys = part.keys if subject == "transactions" else (part.target,)
    is_batch = part.batch is not None and subject == "transactions"
    what = f"batch {part.batch} of {part.pipeline}" if is_batch else part.pipeline
    asked = AskOrder(action=action, subject=subject, keys=tuple(keys), cluster=shown_cluster.name())
    return Found(
        kind="action", text=f"{action.value.capitalize()} {what} …", more="opens its dialog", click=click_text(asked)
    )


def _applications(client: CollectorClient) -> list[Found]:
    names = dict.fromkeys(row.pipeline for row in client.pipelines())
    names |= dict.fromkeys(row.pipeline for row in client.transaction_counts())
    names |= dict.fromkeys(row.prefix for row in client.ids())
    return [_page("application", name, page_paths.pipeline(name)) for name in names if name]


def _transactions(client: CollectorClient, words: str) -> list[Found]:
    found = []
    for row in client.transactions(words=words, limit=MOST_OF_A_KIND):
        batch = f" · batch {row.batch}" if row.batch is not None else ""
        more = f"{row.pipeline}{batch} · {row.state.value} · {row.verdict.value}"
        found.append(_page("transaction", row.transaction, page_paths.transaction(row.key), more))
    return found


def _topics_and_groups(client: CollectorClient) -> list[Found]:
    rows = client.blocked(lagging_too=True)
    topics = {
        row.topic: _page("topic", row.topic, page_paths.search(topic=row.topic), "its transactions") for row in rows
    }
    partitions = [
        _page("partition", row.topic_partition, page_paths.partition(row.topic, row.partition)) for row in rows
    ]
    names = dict.fromkeys(reader.group for row in rows for reader in row.groups)
    groups = [_page("group", name, page_paths.search(group=name), "transactions that it reads") for name in names]
    return [*topics.values(), *groups, *partitions]
