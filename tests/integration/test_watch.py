"""``indoubt watch`` as the README has it, with a real broker: pages, commands beside it, deaths of its parts and its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from demo.broker import Broker
from demo.prerequisites import ROOT
from indoubt.program import watch_settings
from indoubt.program.access import user_name
from indoubt.program.processes import WRONG_SETTINGS, Processes
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.kafka_fixtures import wait_until
from tests.integration.watch_process import LIMIT_S, PROGRAM, UNKNOWN_VARIABLE, WatchProcess, of_readme

pytestmark = [pytest.mark.integration, pytest.mark.long]

OPENS_THE_PAGE = """
from streamlit.testing.v1 import AppTest
page = AppTest.from_file("app/page.py", default_timeout=60).run()
print([error.message for error in page.exception], page.session_state["may_order"], page.session_state["why_no_orders"])
"""


@pytest.fixture
def watch(broker: Broker, connection: KafkaConnection, tmp_path: Path) -> Iterator[WatchProcess]:
    DecisionLog(connection).ensure_topic()
    process = WatchProcess(of_readme(broker), tmp_path)
    yield process
    if process.process.is_running():
        process.end(signal.SIGKILL)


def test_pages_and_commands_over_the_deaths_of_parts_until_ctrl_c(watch: WatchProcess) -> None:
    assert httpx.get(f"{watch.page}/_stcore/health").text == "ok"
    listed = wait_until(
        "history is loaded", lambda: (found := watch.command("transactions")).returncode == 0 and found, LIMIT_S
    )
    assert listed.returncode == 0
    status = json.loads(watch.command("status", "--json").stdout)
    assert (status["name"], status["role"]) == (user_name(), "operator")

    parts = watch.parts()
    assert parts.keys() == {"collector", "app"}
    (collector,) = (word.partition("=")[2] for word in parts["app"].cmdline() if word.startswith("--collector="))
    of_page = {"Authorization": f"Bearer {parts['app'].environ()['INDOUBT_TOKEN']}"}
    seen = httpx.get(f"{collector}/api/v1/status", headers=of_page).json()
    assert (seen["name"], seen["role"]) == ("everyone", "viewer")
    order = {"action": "abort", "keys": ["kafka:x:1:0@1"], "seen": {"kafka:x:1:0@1": "r"}, "reason": "a test"}
    assert httpx.post(f"{collector}/api/v1/orders", headers=of_page, json=order).status_code == 403
    opened = subprocess.run(
        [sys.executable, "-c", OPENS_THE_PAGE],
        cwd=ROOT,
        env={**parts["app"].environ(), "INDOUBT_COLLECTOR_URL": collector},
        capture_output=True,
        text=True,
    )
    assert opened.stdout.startswith("[] False You may look here, not order: run 'indoubt commit KEY'"), opened.stderr

    for name in ("collector", "app"):
        parts[name].kill()
        wait_until(
            f"the {name} is started again",
            lambda name=name: watch.parts().get(name) not in (None, parts[name]),
            LIMIT_S,
        )
        assert f"indoubt watch: the {name} ended by SIGKILL; it starts again in 0.5 s" in watch.err.read_text()
    wait_until("the collector answers again", lambda: watch.command("transactions").returncode == 0, LIMIT_S)
    wait_until("the pages answer again", lambda: answers(f"{watch.page}/_stcore/health"), LIMIT_S)

    said = watch.err.read_text()
    assert said.count(f"{UNKNOWN_VARIABLE} is no setting") == 1, "by the parent alone, also after restarts"
    assert watch.end(signal.SIGINT) == 0
    after = watch.command("transactions")
    assert (after.returncode, after.stdout) == (2, "")
    assert "run 'indoubt watch' as this user" in after.stderr


def test_kill_9_of_the_parent_leaves_no_process_and_no_session(watch: WatchProcess) -> None:
    assert watch.end(signal.SIGKILL) == -signal.SIGKILL
    left = list(Path(watch.environment["XDG_RUNTIME_DIR"]).rglob("watch-*.json"))
    assert len(left) == 1
    assert watch.command("transactions").returncode == 2, "what it left counts no more"


def wrong(broker: Broker, directory: Path) -> tuple[list[str], dict[str, str]]:
    """Return words and environment with which pages work, and no collector."""
    ports = ["--port", "0", "--collector-port", "0"]
    words = ["--bootstrap-servers", broker.bootstrap_servers, *ports, "--nonsense"]
    return words, {**os.environ, "XDG_RUNTIME_DIR": str(directory), "XDG_STATE_HOME": str(directory)}


def test_what_never_worked_is_not_tried_again(broker: Broker, tmp_path: Path) -> None:
    words, environment = wrong(broker, tmp_path)
    done = subprocess.run(
        [*PROGRAM, "watch", *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--nonsense; see indoubt collector --help" in done.stderr
    assert "indoubt watch: the collector ended with code 2 before it answered" in done.stderr


def test_pages_alone_are_no_answer_where_the_collector_ended_first(broker: Broker, tmp_path: Path) -> None:
    words, environment = wrong(broker, tmp_path)
    settings = watch_settings.read(words, environment)
    with Processes(settings, environment) as processes:
        wait_until("the collector has ended", lambda: processes.never_worked() == WRONG_SETTINGS, LIMIT_S)
        wait_until("the pages answer", lambda: answers(f"{settings.local_url}/_stcore/health"), LIMIT_S)
        assert not processes.answer()


def answers(url: str) -> bool:
    """Say whether this address answers well."""
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False
