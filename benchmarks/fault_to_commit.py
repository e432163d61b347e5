"""Claim: a decided batch that its driver does not commit has its card in 2 s, and two clicks and a reason commit it.

    python -m benchmarks.fault_to_commit [--rounds 10] [--json]

It starts its own broker, a collector and the app, and opens Overview in Chromium. In each round a writer prepares two
transactions and is killed, and a commit decision lists them. They are overdue 2 s after the decision. To the card: from then
until Chromium shows it with its button. To the commit: from the first click to the result in the dialog; the clicks that
Chromium counts are all that was done beside typing a reason.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from playwright.sync_api import Page, expect, sync_playwright

from benchmarks import machine
from benchmarks.figures import row
from benchmarks.pages import ARGUMENTS, IS_SHOWN, LIMIT_MS, running_app
from benchmarks.prepared import BATCH, leave_prepared
from benchmarks.running_collector import RunningCollector
from benchmarks.topics import make_topic
from demo.broker import Broker
from demo.prerequisites import find_chromium
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Ruling, RunStarted
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog

TRANSACTIONS = 2
OVERDUE_S = 2.0
"""INDOUBT_COMMIT_OVERDUE_MS, which the collector runs with."""
OPERATOR = "a-token-of-the-operator-of-this-benchmark"
COUNT_CLICKS = (
    "window.clicks = 0; window.addEventListener('click', event => { window.clicks += event.isTrusted }, true)"
)
HAS_CARD = """prefix => [...document.querySelectorAll(".st-key-overview article")].some(card =>
    card.textContent.includes(prefix) && card.querySelector("[data-order=commit]:not(:disabled)"))"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Seconds from overdue to the card, seconds from the first click to the result, and clicks."""

    card_s: float
    commit_s: float
    clicks: int


def decide_and_die(connection: KafkaConnection, topic: str) -> tuple[str, float]:
    """Leave a decided batch whose writer is dead; return its prefix, and when its decision was made (monotonic)."""
    prefix, checkpoint_id = f"fault-{uuid4().hex[:8]}", uuid4().hex
    log = DecisionLog(connection)
    run = RunStarted(prefix=prefix, checkpoint_id=checkpoint_id, run=uuid4().hex[:6], at_ms=time.time_ns() // 1_000_000)
    attempt = log.start_run(run)
    handles = leave_prepared(
        connection, topic, prefix=prefix, checkpoint_id=checkpoint_id, attempt=attempt, count=TRANSACTIONS
    )
    decided_s = time.monotonic()
    log.decide(
        Decision(
            prefix=prefix,
            batch_attempt=BatchAttempt(checkpoint_id=checkpoint_id, batch=BATCH, attempt=attempt),
            ruling=Ruling.COMMIT,
            handles=tuple(handles),
            who="run",
            at_ms=time.time_ns() // 1_000_000,
        )
    )
    return prefix, decided_s


def commit_by_clicks(page: Page, prefix: str) -> tuple[float, int]:
    """Commit the batch on its card; return the seconds that took, and the clicks."""
    before: int = page.evaluate("window.clicks")
    started = time.monotonic()
    card = page.locator(".st-key-overview article").filter(has_text=prefix)
    card.locator("[data-order=commit]").click()
    page.locator(".st-key-order-reason input").fill("its driver is gone")
    page.locator(".st-key-order-go button").click()
    expect(page.locator(".st-key-order-result")).to_contain_text("committed", timeout=LIMIT_MS)
    took, clicks = time.monotonic() - started, page.evaluate("window.clicks") - before
    page.locator(".st-key-order-close button").click()
    expect(page.get_by_role("dialog")).to_have_count(0, timeout=LIMIT_MS)
    return took, clicks


def measure(page: Page, connection: KafkaConnection, topic: str, rounds: int) -> list[Round]:
    """Return each round, one after another."""
    measured = []
    for _ in range(rounds):
        prefix, decided_s = decide_and_die(connection, topic)
        page.wait_for_function(HAS_CARD, arg=prefix, timeout=LIMIT_MS)
        card_s = time.monotonic() - decided_s - OVERDUE_S
        commit_s, clicks = commit_by_clicks(page, prefix)
        measured.append(Round(card_s=card_s, commit_s=commit_s, clicks=clicks))
    return measured


def report(measured: Sequence[Round], as_json: bool) -> None:
    """Print what was measured."""
    cards, commits = [one.card_s for one in measured], [one.commit_s for one in measured]
    print(row(f"{len(measured)} rounds, s", "median", "worst"))
    print(row("overdue to its card", f"{statistics.median(cards):.2f}", f"{max(cards):.2f}"))
    print(row("first click to committed", f"{statistics.median(commits):.2f}", f"{max(commits):.2f}"))
    print(f"clicks to committed: {max(one.clicks for one in measured)}, and a reason")
    if as_json:
        figures = {"card_s_median": statistics.median(cards), "card_s_max": max(cards), "commit_s_max": max(commits)}
        rounded = {name: round(value, 2) for name, value in figures.items()}
        clicks = max(one.clicks for one in measured)
        print(json.dumps({**rounded, "clicks": clicks, "rounds": len(measured), "machine": machine.describe()}))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    arguments = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        parser.error("there is no Chromium: run 'make setup-tests'")
    print(machine.describe())
    with tempfile.TemporaryDirectory() as directory, Broker(Path(directory) / "broker") as broker:
        connection, topic = KafkaConnection(broker.bootstrap_servers), "fault_to_commit"
        make_topic(connection, topic)
        DecisionLog(connection).ensure_topic()
        home = Path(directory) / "collector"
        home.mkdir()
        with RunningCollector(
            broker.bootstrap_servers, home, {"INDOUBT_OPERATOR_TOKEN": f"anna:{OPERATOR}"}
        ) as collector:
            # The app orders; the benchmark itself only reads.
            collector.token = OPERATOR
            with (
                running_app(collector, Path(directory) / "app.log") as (url, _),
                sync_playwright() as playwright,
                playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS) as browser,
                browser.new_context(viewport={"width": 1440, "height": 1000}) as context,
            ):
                context.add_init_script(COUNT_CLICKS)
                page = context.new_page()
                page.goto(url)
                page.wait_for_function(IS_SHOWN, arg="", timeout=LIMIT_MS)
                measured = measure(page, connection, topic, arguments.rounds)
    report(measured, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
