"""Lists of the past go on in the archive: each transaction once, with what memory would say of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indoubt.collector.views import past_transactions
from indoubt.collector.views.aborts_and_losses import abort_clues
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.search import SearchQuery, search
from indoubt.collector.views.undone_in_history import UndoneList, clues_of_past, undone_page
from indoubt.lifecycle.durations import DAY_MS
from indoubt.lifecycle.rows.search import SearchOutcome
from indoubt.lifecycle.states import TransactionState
from tests.unit.collector.history.archived_history import ABORTED, NOW, History

pytestmark = pytest.mark.slow
EVERY = 12


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """Return a history of twelve transactions, two a day, of which those of the last days alone are in the file."""
    made = History(tmp_path / "collector", tmp_path / "archive")
    for number in range(EVERY):
        start_ms = NOW - (5 - number // 2) * DAY_MS - 7_200_000 + number
        made.transaction(f"orders-{number}-x", start_ms, *([ABORTED] if number % 3 == 0 else []))
    made.retire(days=30)
    made.archive()
    made.retire(days=2)
    yield made
    made.store.close()


def loaded(history: History) -> CurrentState:
    current = CurrentState(history.store, settled_kept=1, checkpoints_kept=1)
    current.load()
    return current


def test_a_search_finds_each_once_in_order(history: History) -> None:
    assert 0 < history.in_file() < 3 * EVERY
    current = loaded(history)
    page = search(current, history.store, SearchQuery(limit=500))
    assert [found.view.transaction for found in page.found] == [f"orders-{n}-x" for n in reversed(range(EVERY))]
    first = search(current, history.store, SearchQuery(limit=5))
    rest = search(current, history.store, SearchQuery(limit=500, after=first.next_place))
    assert len(first.found) + len(rest.found) == EVERY
    aborted = search(current, history.store, SearchQuery(limit=500, outcome=SearchOutcome.ABORTED))
    assert {found.view.transaction for found in aborted.found} == {f"orders-{n}-x" for n in (0, 3, 6, 9)}


def test_aborts_go_on_in_the_archive(history: History) -> None:
    current = loaded(history)
    wanted = UndoneList(
        in_memory=lambda before, most: abort_clues(current, before=before, most=most),
        in_history=lambda identities: clues_of_past(current, history.store, identities),
        fits=lambda clues: True,
    )
    page = undone_page(current, history.store, wanted, before=None, limit=100)
    assert [clues.view.transaction for clues in page.found] == [f"orders-{n}-x" for n in (9, 6, 3, 0)]


def test_one_that_is_archived_alone_has_its_page(history: History) -> None:
    start_ms = NOW - 5 * DAY_MS - 7_200_000
    assert history.store.rows("select * from transaction_records where transaction_id = 'orders-0-x'") == []
    found = past_transactions.find(loaded(history), history.store, f"kafka:orders-0-x:7:0@{start_ms}")
    assert found is not None
    assert (found[0].view.state, found[0].view.opened_ms) == (TransactionState.ABORTED, start_ms)
