"""The program: every command in its help, in groups; what it says of a word or a variable that it does not know."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from indoubt.collector.serve.cli.main import COMMANDS
from indoubt.lifecycle.version import VERSION
from indoubt.program import main

ROOT = Path(__file__).parents[3]
EVERY = {*main.BEGIN, *main.PARTS, *COMMANDS}
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["indoubt", *words])
    return main.main()


def test_help_lists_each_command_once_in_groups() -> None:
    text = main.help_text()
    named = re.findall(r"^  ([a-z-]+) {2,}\S", text, re.MULTILINE)
    assert sorted(named) == sorted(EVERY)
    titles = ["To begin:", "Parts, each a process of its own:", "Ask a collector:", "Give it orders:"]
    assert re.findall(r"^\S.*:$", text, re.MULTILINE) == titles


@pytest.mark.parametrize(("words", "code"), [(["--help"], 0), (["help"], 0), ([], 2)])
def test_help_is_printed_without_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], code: int
) -> None:
    assert run(monkeypatch, *words) == code
    assert capsys.readouterr().out == main.help_text() + "\n"


def test_a_module_of_the_checkout_is_the_program() -> None:
    done = subprocess.run([sys.executable, "-m", "indoubt", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == (f"indoubt {VERSION}\n", 0)


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("transactoins", "there is no command 'transactoins'; is it 'transactions'? 'indoubt --help' lists all"),
        ("serve\n", "there is no command 'serve\\u000a'; 'indoubt --help' lists all"),
        ("xyzzy", "there is no command 'xyzzy'; 'indoubt --help' lists all"),
    ],
)
def test_an_unknown_command_is_wrong_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str, says: str
) -> None:
    assert run(monkeypatch, word) == 2
    assert capsys.readouterr().err == f"indoubt: {says}\n"


@pytest.mark.parametrize(
    ("part", "usage"),
    [
        (["watch"], "usage: indoubt watch "),
        (["collector"], "usage: indoubt collector "),
        (["app"], "usage: indoubt app "),
        (["pipeline", "run"], "usage: indoubt pipeline run "),
        (["token", "add"], "usage: indoubt token add "),
        (["mcp"], "usage: indoubt mcp "),
        (["commit"], "usage: indoubt commit "),
    ],
)
@pytest.mark.slow
def test_each_usage_names_the_program(part: list[str], usage: str) -> None:
    command = [sys.executable, "-m", "indoubt", *part, "--help"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.startswith(usage)


def test_where_there_is_no_checkout_the_demo_says_where_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(main, "_CHECKOUT", tmp_path)
    assert run(monkeypatch, "demo") == 2
    assert "run 'make demo' in a checkout" in capsys.readouterr().err


def test_an_unknown_variable_is_told_once_with_the_one_that_was_meant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INDOUBT_OPERATER_TOKEN", "anna:secret-secret")
    assert run(monkeypatch, "xyzzy") == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == (
        "indoubt: INDOUBT_OPERATER_TOKEN is no setting and changes nothing: is it INDOUBT_OPERATOR_TOKEN?"
    )
    assert len(said) == 2


def test_known_variables_are_not_told() -> None:
    known = {"INDOUBT_TOKEN": "x", "INDOUBT_COMMIT_OVERDUE_MS": "1", "INDOUBT_KAFKA_SASL_PASSWORD": "x", "HOME": "/"}
    assert main.unknown_variables(known) == []
    assert main.unknown_variables({**known, "INDOUBT_PORT": "tcp://10.0.0.1:8650"}) == [], "of a Kubernetes Service"


def test_documents_name_commands_that_there_are() -> None:
    code = [
        found
        for document in DOCUMENTS
        for found in re.findall(r"`([^`\n]+)`|^    (.+)$", document.read_text(), re.MULTILINE)
    ]
    named = {
        word
        for pair in code
        for word in re.findall(r"(?:^|\s|\.venv/bin/|python -m )indoubt ([a-z][a-z-]*)", "".join(pair))
    }
    assert named <= EVERY
    assert {"watch", "collector", "app", "pipeline", "demo", "transactions", "commit"} <= named
