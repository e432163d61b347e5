"""What the command line says of a reason that the collector would not take."""

from __future__ import annotations

import pytest

from indoubt.collector.serve.cli.main import main

NOWHERE = {"INDOUBT_TOKEN": "x" * 32, "INDOUBT_COLLECTOR_URL": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("", "--reason is missing"),
        ("  ", "--reason is missing"),
        ("t", "--reason is too short (1 characters; it takes 3 to 2000)"),
        ("x" * 2_001, "--reason is too long (2001 characters; it takes 3 to 2000)"),
    ],
)
def test_what_is_wrong_with_a_reason_is_said(reason: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["abort", "kafka:a:1:2", "--yes", "--reason", reason], NOWHERE) == 2
    assert said in capsys.readouterr().err


def test_a_control_character_of_an_argument_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["abort", "kafka:a:1:2", "--filter", "state=\x1b[2J\nopen"], NOWHERE) != 0
    error = capsys.readouterr().err
    assert "\x1b" not in error
    assert error.count("\n") == 1
