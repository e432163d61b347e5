"""The command that starts a pipeline: a process without a shell, without secrets, and with a limit."""

from __future__ import annotations

import os
import sys

import pytest

from indoubt.collector.act.orders import pipelines
from indoubt.collector.act.orders.pipelines import run_start_command
from indoubt.lifecycle import private_files


def test_a_started_program_has_the_umask_that_the_collector_was_started_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_files, "_given", [])
    before = os.umask(0o027)
    try:
        private_files.close_to_others()
        command = [sys.executable, "-c", "import os; exit(oct(os.umask(0)))"]
        assert run_start_command(command) == "the start command ended with 1: 0o27"
    finally:
        os.umask(before)


def test_a_command_that_ends_well_has_nothing_to_say() -> None:
    assert run_start_command([sys.executable, "-c", "pass"]) == ""


def test_a_command_that_fails_says_what_it_wrote() -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such unit')"]
    assert run_start_command(command) == "the start command ended with 1: no such unit"
    assert run_start_command(["/nowhere/start"]) == "the start command cannot be run: No such file or directory"


def test_a_command_gets_no_secret_of_the_collector() -> None:
    secrets = {
        "INDOUBT_OPERATOR_TOKEN": "anna:secret",
        "INDOUBT_MYSQL_PASSWORD": "secret",
        "INDOUBT_SLACK_URL": "https://hooks.slack.com/services/secret",
        "INDOUBT_WEBHOOK_SECRET": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "secret",
        "PGPASSWORD": "secret",
    }
    needed = {"PATH": "/bin", "HOME": "/home/indoubt", "LC_ALL": "C.UTF-8", "XDG_RUNTIME_DIR": "/run/user/1"}
    command = [sys.executable, "-c", "import os, sys; sys.exit(' '.join(sorted(os.environ)))"]
    assert run_start_command(command, secrets | needed).endswith(": HOME LC_ALL PATH XDG_RUNTIME_DIR")


def test_a_command_that_does_not_return_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "START_LIMIT_S", 0.2)
    assert "did not return" in run_start_command([sys.executable, "-c", "import time; time.sleep(60)"])
