"""``python -m app --collector http://127.0.0.1:8650 --port 8651``: serve the pages until Ctrl-C.

The process becomes Streamlit's (same process id), so whoever started it can end it by that id.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from app.settings import COLLECTOR_URL, TOKEN, TOKEN_FILE, TROUBLE_URL, Settings
from lifecycle.errors import SettingsError

PAGE = Path(__file__).with_name("page.py")

STREAMLIT_SETTINGS = {
    "browser.gatherUsageStats": "false",
    "client.showErrorDetails": "none",
    "client.showErrorLinks": "false",
    "client.toolbarMode": "minimal",
    "server.headless": "true",
    "server.fileWatcherType": "none",
    "server.runOnSave": "false",
    "theme.light.primaryColor": "#1f5fbf",
    "theme.dark.primaryColor": "#3b7ddd",
    "theme.light.backgroundColor": "#ffffff",
    "theme.dark.backgroundColor": "#11151c",
    "theme.light.secondaryBackgroundColor": "#f3f5f8",
    "theme.dark.secondaryBackgroundColor": "#1a202a",
    "theme.baseRadius": "6px",
    "theme.baseFontSize": "15",
    "logger.level": "warning",
}
"""Passed to Streamlit as they are: nothing is sent to its makers, and a page never shows a stack trace."""


def main(arguments: list[str] | None = None) -> None:
    """Check the settings, then become Streamlit. Exits with 2 and one line when a setting is wrong."""
    parser = argparse.ArgumentParser(prog="python -m app", description="Serve the pages of indoubt.")
    parser.add_argument("--collector", help=f"address of the collector's API (or {COLLECTOR_URL})")
    parser.add_argument("--token-file", type=Path, help=f"file that holds the bearer token (or {TOKEN}, {TOKEN_FILE})")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8651, help="port to listen on (default: %(default)s)")
    given = parser.parse_args(arguments)
    environment = dict(os.environ)
    if given.collector:
        environment[COLLECTOR_URL] = given.collector
    if given.token_file:
        environment[TOKEN_FILE] = str(given.token_file.absolute())
    try:
        settings = Settings.from_environment(environment)
        settings.token()
    except SettingsError as error:
        parser.error(str(error))
    root = str(PAGE.parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH")]))
    flags = {**STREAMLIT_SETTINGS, "server.address": given.host, "server.port": str(given.port)}
    command = [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        str(PAGE),
        *(f"--{name}={value}" for name, value in flags.items()),
    ]
    print(f"indoubt's pages: http://{given.host}:{given.port}", file=sys.stderr, flush=True)
    print(f"they show what {settings.collector_url} tells them ({TROUBLE_URL} set: {settings.trouble_url is not None})",
          file=sys.stderr, flush=True)  # fmt: skip
    os.execve(sys.executable, command, environment)


if __name__ == "__main__":
    main()
