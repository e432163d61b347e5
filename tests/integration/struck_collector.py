"""A collector that stops for a test at one step of an order: ``python -m tests.integration.struck_collector MARK ARGUMENTS``.

What it does once a minute, as to archive, it does once a second: a test waits for several rounds.

The step is in the file MARK, once a test has written it; there the collector writes ``reached`` into it and waits until it is
gone. What is done to it meanwhile is the test's.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from indoubt.collector.__main__ import main
from indoubt.collector.act.orders import service
from indoubt.collector.act.orders.audit import OrderHistory
from indoubt.collector.history import archiver, retention
from indoubt.collector.history.archiver import Archiver
from indoubt.collector.notify.notifiers.delivery import NotificationDispatcher
from indoubt.collector.notify.store import AlertStore
from indoubt.resource_managers.history_archive import HistoryArchive
from indoubt.resource_managers.topics.collector_topic import CollectorTopicWriter

REACHED = "reached"
BEFORE, AFTER = "before", "after"
PLACES: dict[str, tuple[Any, str]] = {
    "the intent": (OrderHistory, "intend"),
    "the act": (service, "execute"),
    "the outcome": (OrderHistory, "conclude"),
    "a record of the journal": (CollectorTopicWriter, "_produce"),
    "the journal": (CollectorTopicWriter, "append"),
    "the delivery": (NotificationDispatcher, "_attempt"),
    "the note": (AlertStore, "note_delivery"),
    "the archived rows": (Archiver, "_write_chunk"),
    "the archived file": (HistoryArchive, "put"),
    "the list": (HistoryArchive, "publish"),
}
_thread = threading.local()


def strike_at(mark: Path) -> None:
    """Have each place look at the mark."""
    for name, (owner, attribute) in PLACES.items():
        setattr(owner, attribute, _wrapped(getattr(owner, attribute), name, mark))


def _wrapped(function: Callable[..., Any], name: str, mark: Path) -> Callable[..., Any]:
    @functools.wraps(function)
    def struck(*given: Any, **named: Any) -> Any:
        _thread.within = [*getattr(_thread, "within", ()), name]
        try:
            _wait(mark, BEFORE)
            answer = function(*given, **named)
            _wait(mark, AFTER)
            return answer
        finally:
            _thread.within.pop()

    return struck


def _wait(mark: Path, when: str) -> None:
    """Stop here where the mark names this place: ``before the act``, or ``after the journal within the intent``."""
    try:
        step = mark.read_text()
    except FileNotFoundError:
        return
    innermost, *around = reversed(_thread.within)
    if step not in (f"{when} {innermost}", *(f"{when} {innermost} within {name}" for name in around)):
        return
    mark.write_text(REACHED)
    while mark.exists():
        time.sleep(0.01)


if __name__ == "__main__":
    archiver.ROUND_S = retention.ROUND_S = 1.0
    strike_at(Path(sys.argv.pop(1)))
    main(sys.argv[1:])
