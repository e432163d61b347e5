"""One look for all who want it: shared while it is fresh or under way, never across an order, never a failure.

What a page shows by itself stays while the collector is away; a page that is opened then says why it shows nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from indoubt.app import live
from indoubt.app.client import kept_answers
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.kept_answers import KeptAnswers
from indoubt.app.dialogs import order_dialog
from indoubt.app.settings import COLLECTOR_URL, TOKEN, Settings
from indoubt.collector.serve.api.auth.authentication import Caller
from indoubt.collector.serve.api.auth.rate_limits import RequestLimits
from indoubt.lifecycle.orders import Action, Role
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_knowledge import TOKEN as ITS_TOKEN
from tests.unit.app.contract_pipeline_rows import pipeline
from tests.unit.app.contract_rows import batch, foreign
from tests.unit.app.contract_server import TABLES, ContractServer
from tests.unit.app.page_driver import answering, opened, said

TABS, LIMIT_S = 50, 20.0
APP = Caller(name="app", role=Role.OPERATOR)


class Clock:
    now_s = 5.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def answers() -> Answers:
    return Answers(transactions=batch())


@pytest.fixture
def client(answers: Answers) -> Iterator[CollectorClient]:
    with ContractServer(answers) as server:
        settings = Settings.from_environment({COLLECTOR_URL: server.url, TOKEN: ITS_TOKEN})
        client = CollectorClient(settings, shared_for_s=LIMIT_S)
        yield client
        client.close()


def test_an_answer_is_shared_while_it_is_fresh() -> None:
    clock = Clock()
    requests, numbers = KeptAnswers(0.25, clock), iter(range(10))
    seen = []
    for after_s in (0.0, 0.2, 0.04, 0.02, 0.0):
        clock.now_s += after_s
        seen.append(requests.get("a", lambda: next(numbers)))
    assert seen == [0, 0, 0, 1, 1]
    assert requests.get("b", lambda: next(numbers)) == 2, "another question"


def test_who_asks_while_a_request_is_under_way_waits_for_it() -> None:
    requests, asked, may_answer, calls = KeptAnswers(LIMIT_S), threading.Event(), threading.Event(), []

    def ask() -> int:
        calls.append(1)
        asked.set()
        assert may_answer.wait(LIMIT_S), "nobody let the look end"
        return 7

    with ThreadPoolExecutor(TABS) as pool:
        first = pool.submit(requests.get, "a", ask)
        assert asked.wait(LIMIT_S)
        others = [pool.submit(requests.get, "a", ask) for _ in range(TABS - 1)]
        may_answer.set()
        assert [one.result(LIMIT_S) for one in (first, *others)] == [7] * TABS
    assert len(calls) == 1


def test_a_failure_is_raised_and_not_kept() -> None:
    requests = KeptAnswers(LIMIT_S)

    def broken() -> int:
        raise ConnectionError("gone")

    for _ in range(2):
        with pytest.raises(ConnectionError, match="gone"):
            requests.get("a", broken)
    assert requests.get("a", lambda: 3) == 3


def test_fifty_tabs_ask_each_thing_once(client: CollectorClient, answers: Answers) -> None:
    barrier = threading.Barrier(TABS)

    def tab() -> int:
        barrier.wait(LIMIT_S)
        client.status()
        client.overview()
        return len(client.transactions())

    with ThreadPoolExecutor(TABS) as pool:
        assert [one.result(LIMIT_S) for one in [pool.submit(tab) for _ in range(TABS)]] == [4] * TABS
    assert sorted(answers.asked) == ["overview", "status", "transactions"]


def test_after_an_order_every_request_is_new(client: CollectorClient, answers: Answers) -> None:
    shown = client.transactions()
    client.begin_run(Action.COMMIT, shown, subject="batch 7", reason="driver frozen", idempotency_key="once")
    answers.runs.end()
    assert [one.state.value for one in client.transactions()] != [one.state.value for one in shown]
    assert answers.asked.count("transactions") == 2


def test_fifty_open_tabs_of_one_app_stay_within_the_limit_of_its_token() -> None:
    """Each tab looks at everything that pages look at, and at one transaction of its own, as often as the quickest page does."""
    clock = Clock()
    requests, limits = KeptAnswers(live.SHARED_FOR_S, clock), RequestLimits(clock=clock)
    paths = [*(f"/api/v1/{name}" for name in TABLES), "/api/v1/status", "/api/v1/overview"]
    asked = 0

    def ask() -> None:
        nonlocal asked
        asked += 1
        limits.admit(APP, changes_something=False)

    begin_s = clock.now_s
    while clock.now_s < begin_s + 60:
        for tab in range(TABS):
            clock.now_s += order_dialog.LOOK_S / TABS
            for path in (*paths, f"/api/v1/transactions/{tab}"):
                requests.get(path, ask)
    assert asked / 60 < 300


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    prefix = {"prefix": "bank", "ids": 7, "example": "bank-1", "growth_per_hour": 0.5, "stale_ids": 1,
              "checkpoint_ids": 0, "fenced_last_hour": 0, "newest_at_ms": 1, "oldest_at_ms": 1, "leaks": False, "shared": False,
              "why": "", "ids_by_hour": [7]}  # fmt: skip
    with answering(Answers(transactions=[foreign()], pipelines=[pipeline()], ids=[prefix]), monkeypatch) as known:
        yield known


@pytest.mark.slow
def test_a_table_stays_while_the_collector_is_away_and_is_of_now_again(shown: Answers) -> None:
    page = opened("ids")
    assert "<code" in said(page)
    assert "bank" in said(page)
    shown.loading = True
    page = page.run()
    assert "bank" in said(page)
    assert 'class="lost"' not in said(page)
    assert 'class="lost"' in said(opened("ids")), "whoever comes now is told"
    shown.loading = False
    shown.ids[0]["prefix"] = "shop"
    assert "shop" in said(page.run())


def test_only_what_was_kept_is_looked_back_at() -> None:
    last = KeptAnswers(0.0)
    asked = iter(range(10))
    assert last.get("a", lambda: next(asked)) == 0
    with last.keeping():
        assert last.get("a", lambda: next(asked)) == 1
    with last.looking_back():
        assert last.get("a", lambda: next(asked)) == 1
        assert last.get("b", lambda: next(asked)) == 2
    assert last.get("a", lambda: next(asked)) == 3


def test_no_more_answers_are_kept_than_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "MOST", 2)
    last = KeptAnswers(0.0)
    with last.keeping():
        for name in "abac":
            last.get(name, lambda name=name: name)
    with last.looking_back():
        assert [last.get(name, lambda: "asked") for name in "abc"] == ["a", "asked", "c"]
