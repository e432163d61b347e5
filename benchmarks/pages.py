"""Claim: pages come in 2 s cold and 0.5 s warm, and a viewer costs under 8 % of a core, twenty under 20 %.

    python -m benchmarks.pages [--events 10000000] [--open 10000] [--visits 3] [--seconds 20] [--json]

It starts its own broker, a collector on a synthetic history with open transactions, and the app, and opens the pages in
Chromium. Cold: a new browser session, from the request until every live region has its rows and Streamlit rests. Warm: the same
after a click on another page in an open tab, each seen before. Both: the median of --visits to each page, and the slowest. Then
transaction states come in at a few a second, and Overview stays open in one and in twenty tabs: processor time of app and
collector together, beyond what they take without a viewer (the mean of before and after), and the largest message of a live
region after its first.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, WebSocket, sync_playwright

from benchmarks import coordinator_log, machine
from benchmarks.coordinator_load import CoordinatorLoad
from benchmarks.cpu import used_s
from benchmarks.figures import row
from benchmarks.running_collector import ROOT, RunningCollector
from benchmarks.synthetic_history import write_history
from demo.broker import Broker
from demo.ports import free_port
from demo.prerequisites import find_chromium
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.resource_managers.kafka.connection import KafkaConnection

PAGES = ("overview", "transactions", "readers", "pipelines", "alerts", "history", "audit")
VIEWERS = (0, 1, 0, 20, 0)
IDS, RATE = 1_000, 5
LIMIT_MS = 60_000
SETTLING_S = 5.0
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,WebUIOmniboxAim",
]
"""A session of Playwright's is a window of its own, for whose address bar Chromium loads 260 files of its own meanwhile."""
IS_SHOWN = """path => location.pathname.replace("/", "") === path
    && document.querySelector("[data-testid=stApp]")?.dataset.testScriptState === "notRunning"
    && [...document.querySelectorAll(".region-blocks")].length > 0
    && [...document.querySelectorAll(".region-blocks")].every(blocks => blocks.childElementCount > 0)"""
"""Overview is the start page: its address is empty as well."""


@contextmanager
def running_app(collector: RunningCollector, log: Path) -> Iterator[tuple[str, int]]:
    """Run the app and give its address and process id. Raises RuntimeError when it does not start."""
    port = free_port()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("INDOUBT_")}
    own = {"INDOUBT_TOKEN": collector.token, "INDOUBT_COLLECTOR_URL": collector.url}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "indoubt.app", "--port", str(port)],
            cwd=ROOT,
            env=inherited | own,
            stdout=out,
            stderr=out,
            preexec_fn=die_with_parent,
        )
    try:
        url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + LIMIT_MS / 1000
        while not _answers(f"{url}/_stcore/health"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the app did not start: {log.read_text()[-1000:]}")
            time.sleep(0.1)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).is_success
    except httpx.HTTPError:
        return False


def _is_shown(page: Page, path: str) -> None:
    page.wait_for_function(IS_SHOWN, arg="" if path == PAGES[0] else path, timeout=LIMIT_MS, polling=20)


def cold_s(browser: Browser, url: str, visits: int) -> dict[str, list[float]]:
    """Return how long each page takes in so many new sessions."""
    took: dict[str, list[float]] = {path: [] for path in PAGES}
    for path in PAGES * visits:
        with browser.new_context() as context:
            page = context.new_page()
            started = time.monotonic()
            page.goto(f"{url}/{'' if path == PAGES[0] else path}")
            _is_shown(page, path)
            took[path].append(time.monotonic() - started)
    return took


def warm_s(browser: Browser, url: str, visits: int) -> dict[str, list[float]]:
    """Return how long each page takes after so many clicks on its name, each seen before."""
    took: dict[str, list[float]] = {path: [] for path in PAGES}
    with browser.new_context(viewport={"width": 1440, "height": 1000}) as context:
        page = context.new_page()
        page.goto(url)
        _is_shown(page, PAGES[0])
        for path in (*PAGES[1:], *PAGES * visits):
            link = page.locator("[data-testid=stTopNavLink]", has_text=path.capitalize()).first
            started = time.monotonic()
            link.click()
            _is_shown(page, path)
            took[path].append(time.monotonic() - started)
    return {path: times[-visits:] for path, times in took.items()}


def viewers_cost(
    context: BrowserContext, url: str, viewers: int, pids: Sequence[int], seconds: float
) -> tuple[float, int]:
    """Return the cores that the processes take with so many tabs open, and the bytes of the largest message after a first."""
    sizes: list[list[int]] = []

    def follow(socket: WebSocket) -> None:
        if "/live/" in socket.url:
            of_socket: list[int] = []
            sizes.append(of_socket)
            socket.on("framereceived", lambda frame: of_socket.append(len(frame)))

    for _ in range(viewers):
        page = context.new_page()
        page.on("websocket", follow)
        page.goto(url)
        _is_shown(page, PAGES[0])
    time.sleep(SETTLING_S)
    before, started = sum(map(used_s, pids)), time.monotonic()
    time.sleep(seconds)
    cores = (sum(map(used_s, pids)) - before) / (time.monotonic() - started)
    for page in context.pages:
        page.close()
    return cores, max((size for of_socket in sizes for size in of_socket[1:]), default=0)


def cores_beyond(cores: Sequence[float], place: int) -> float:
    """Return the cores at a place beyond the mean of the two beside it: without viewers they take less from minute to minute."""
    return cores[place] - (cores[place - 1] + cores[place + 1]) / 2


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--open", type=int, default=10_000, help="open transactions")
    parser.add_argument("--visits", type=int, default=3, help="to each page, cold and warm")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each number of viewers")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    arguments = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        parser.error("there is no Chromium: run 'make setup-tests'")
    print(machine.describe())
    with tempfile.TemporaryDirectory() as directory, Broker(Path(directory) / "broker") as broker:
        home = Path(directory) / "collector"
        home.mkdir()
        write_history(home / "history.duckdb", arguments.events, IDS, open_transactions=arguments.open)
        coordinator_log.make_state_topic(KafkaConnection(broker.bootstrap_servers))
        with (
            RunningCollector(broker.bootstrap_servers, home) as collector,
            running_app(collector, Path(directory) / "app.log") as (url, app),
            sync_playwright() as playwright,
            playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS) as browser,
        ):
            machine.settle()
            cold, warm = cold_s(browser, url, arguments.visits), warm_s(browser, url, arguments.visits)
            with CoordinatorLoad(broker.bootstrap_servers, RATE, IDS), browser.new_context() as context:
                pids = (app, collector.pid)
                costs = [viewers_cost(context, url, n, pids, arguments.seconds) for n in VIEWERS]
    print(row("page, s", "cold", "slowest", "warm", "slowest"))
    for path in PAGES:
        times = (statistics.median(cold[path]), max(cold[path]), statistics.median(warm[path]), max(warm[path]))
        print(row(path, *(f"{time_s:.2f}" for time_s in times)))
    print(row("viewers", "cores", "beyond none", "largest message, B"))
    beyond = {
        viewers: cores_beyond([cores for cores, _ in costs], place) for place, viewers in enumerate(VIEWERS) if viewers
    }
    for viewers, (cores, size) in zip(VIEWERS, costs, strict=True):
        print(row(str(viewers), f"{cores:.3f}", f"{beyond[viewers]:.3f}" if viewers else "", f"{size:,}"))
    if arguments.json:
        figures = {
            "cold_s_max": round(max(map(statistics.median, cold.values())), 2),
            "warm_s_max": round(max(map(statistics.median, warm.values())), 2),
            "tick_bytes_max": max(size for _, size in costs),
            "one_viewer_core": round(beyond[1], 4),
            "twenty_viewers_core": round(beyond[20], 4),
        }
        print(json.dumps({**figures, "events": arguments.events, "machine": machine.describe()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
