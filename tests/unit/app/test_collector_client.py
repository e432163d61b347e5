"""The client against a server that answers by docs/api.md: typed rows, or one error that says what to do."""

from __future__ import annotations

import socket
from pathlib import Path
from threading import Thread

import pytest

from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_errors import CollectorError, Failure
from indoubt.app.settings import COLLECTOR_URL, LOOK_ONLY, TOKEN_FILE, Settings
from indoubt.app.settings import TOKEN as TOKEN_VARIABLE
from indoubt.lifecycle.orders import Action, Role
from indoubt.lifecycle.verdicts import Verdict
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_knowledge import TOKEN
from tests.unit.app.contract_rows import batch, foreign
from tests.unit.app.contract_server import ContractServer


@pytest.fixture
def answers():
    return Answers(transactions=batch())


@pytest.fixture
def client(answers):
    with ContractServer(answers) as server:
        client = CollectorClient(Settings.from_environment({COLLECTOR_URL: server.url, TOKEN_VARIABLE: TOKEN}))
        yield client
        client.close()


def failing(ask) -> CollectorError:
    with pytest.raises(CollectorError) as raised:
        ask()
    return raised.value


def test_every_table_is_read(client, answers):
    assert client.status().role is Role.OPERATOR
    assert client.overview().incidents[0].verdict is Verdict.COMMIT_IT
    assert [one.slot for one in client.transactions()] == [0, 1, 2, 3]
    detail = client.transaction(answers.transactions[0]["key"])
    assert [moment.what for moment in detail.timeline] == ["opened", "prepared", "decided: commit"]
    assert len(detail.siblings) == 3


def test_a_key_with_any_character_is_one_part_of_the_path(client, answers):
    answers.transactions = [foreign("a/b?c#d %2F é")]
    key = answers.transactions[0]["key"]
    assert client.transaction(key).key == key


def test_an_order_sends_the_revisions_that_were_shown(client, answers):
    shown = client.transactions()
    result = client.check(Action.COMMIT, shown, reason="driver frozen")
    assert (answers.orders[0]["seen"], answers.orders[0]["dry_run"]) == ({one.key: "r1" for one in shown}, True)
    assert [step.outcome for step in result.steps] == ["dry run"] * 4
    run = client.begin_run(Action.COMMIT, shown, subject="batch 7", reason="driver frozen", idempotency_key="once")
    answers.runs.end()
    assert answers.orders[1]["seen"] == answers.orders[0]["seen"]
    assert [step.outcome for step in client.run(run.run, steps=True).steps] == ["committed"] * 4
    assert [(one.run, one.what, one.steps) for one in client.runs()] == [(run.run, "batch 7", ())]
    assert client.answer("once") is not None


def test_an_order_on_what_has_changed_is_refused_with_the_collectors_words(client, answers):
    shown = client.transactions()
    answers.transactions[2] |= {"revision": "r2", "state": "committing"}
    error = failing(lambda: client.check(Action.COMMIT, shown, reason="driver frozen"))
    assert error.failure is Failure.REFUSED
    assert "it is committing now" in str(error)
    assert not error.is_lost


def test_a_wrong_token_is_said_and_over_when_the_file_holds_the_right_one(tmp_path: Path, answers):
    file = tmp_path / "token"
    file.write_text("wrong\n")
    with ContractServer(answers) as server:
        client = CollectorClient(Settings.from_environment({COLLECTOR_URL: server.url, TOKEN_FILE: str(file)}))
        error = failing(client.status)
        assert error.failure is Failure.TOKEN
        assert error.is_lost
        file.write_text(TOKEN + "\n")
        assert client.status().name == "anna"
        file.unlink()
        assert failing(client.status).failure is Failure.TOKEN
        client.close()


def test_a_viewer_may_not_order(client, answers):
    shown, answers.role = client.transactions(), "viewer"
    assert failing(lambda: client.check(Action.ABORT, shown, reason="because")).failure is Failure.NOT_ALLOWED


def test_pages_that_only_look_send_nothing_that_changes_something_whatever_the_token_may(answers):
    with ContractServer(answers) as server:
        given = {COLLECTOR_URL: server.url, TOKEN_VARIABLE: TOKEN, LOOK_ONLY: "true"}
        client = CollectorClient(Settings.from_environment(given))
        assert client.status().role is Role.VIEWER
        shown = client.transactions()
        for ask in (
            lambda: client.begin_run(Action.COMMIT, shown, subject="all", reason="driver frozen"),
            lambda: client.silence({"rule": "A2"}, reason="known", duration_ms=60_000),
            lambda: client.end_silence(1, reason="known"),
            lambda: client.switch_standing_orders(stopped=False, reason="go on"),
        ):
            assert failing(ask).failure is Failure.NOT_ALLOWED
        assert answers.orders == []
        client.close()


def test_a_collector_that_loads_its_history_is_not_ready(client, answers):
    answers.loading = True
    assert failing(client.overview).failure is Failure.NOT_READY


def test_a_key_that_is_not_known(client):
    assert failing(lambda: client.transaction("nobody")).failure is Failure.UNKNOWN_KEY


def test_rows_say_how_many_more_there_are(client):
    shown = client.transactions(limit=1)
    assert (len(shown), shown.more) == (1, 3)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"null", b'{"rows": 5, "more": 0}', b'{"rows": []}', b'{"rows": [{"key": 1}], "more": 0}'],
)
def test_an_answer_outside_the_contract_is_an_error_with_the_address(client, answers, body):
    answers.raw["transactions"] = body
    assert failing(client.transactions).failure is Failure.UNEXPECTED


def test_a_verdict_unknown_to_the_app_is_an_error(client, answers):
    answers.transactions[0]["verdict"] = "commit it twice"
    assert "same version" in str(failing(client.transactions))


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_nobody_listens(answers, client):
    shown = client.transactions()
    gone = CollectorClient(
        Settings.from_environment({COLLECTOR_URL: f"http://127.0.0.1:{closed_port()}", TOKEN_VARIABLE: TOKEN})
    )
    assert failing(gone.status).failure is Failure.UNREACHABLE
    # No connection was made, so the order cannot have been carried out.
    assert (
        failing(lambda: gone.begin_run(Action.COMMIT, shown, subject="s", reason="xyz")).failure is Failure.UNREACHABLE
    )
    gone.close()


@pytest.mark.parametrize("said", [b"[]", b"{}", b'{"refused": null, "answer": 3}'])
def test_an_unexpected_word_on_an_order_is_an_error_that_says_so(client, answers, said):
    answers.raw["orders"] = said
    assert failing(lambda: client.answer("key")).failure is Failure.UNEXPECTED


def test_an_order_whose_answer_never_came_may_have_been_carried_out(client):
    shown = client.transactions()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def read_and_hang_up() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)

        Thread(target=read_and_hang_up, daemon=True).start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        half = CollectorClient(Settings.from_environment({COLLECTOR_URL: address, TOKEN_VARIABLE: TOKEN}))
        error = failing(lambda: half.begin_run(Action.COMMIT, shown, subject="s", reason="xyz"))
        half.close()
    assert error.failure is Failure.NO_ANSWER_TO_ORDER
    assert "may have been carried out" in str(error)
