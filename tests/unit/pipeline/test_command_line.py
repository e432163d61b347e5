"""What ``indoubt pipeline`` makes of its words."""

from __future__ import annotations

from typing import Any

import pytest

from indoubt.lifecycle.decisions import Settled
from indoubt.pipeline.__main__ import main
from indoubt.pipeline.recovery import settle_command
from indoubt.pipeline.runtime.status_file import WRONG_SETTINGS

WORDS = ["--job", "passthrough", "--bootstrap-servers", "h:1", "--checkpoint", "/c", "--prefix", "p"]
WORDS += ["--source", "in", "--sink", "out"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], (None, "", [], False)),
        (["--outcome", "lost", "--who", "carla", "--yes"], (Settled.LOST, "carla", [], True)),
        (["--transaction", "a", "--transaction", "b"], (None, "", ["a", "b"], False)),
    ],
)
def test_settle_takes_the_settings_of_run_and_what_a_person_says(monkeypatch, words, said):
    calls: list[Any] = []

    def settle(settings, outcome, who, transactions, *, yes):
        calls.append((settings.checkpoint, (outcome, who, transactions, yes)))
        return 7

    monkeypatch.setattr(settle_command, "settle", settle)
    assert main(["settle", *WORDS, *words]) == 7
    assert calls == [("/c", said)]


def test_settle_needs_nothing_that_only_run_needs(monkeypatch):
    monkeypatch.setattr(settle_command, "settle", lambda settings, *_, yes: 7)
    assert main(["settle", *WORDS[2:8], "--sink", "out"]) == 7


def test_settle_without_its_settings_says_which(capsys):
    assert main(["settle", "--yes"]) == WRONG_SETTINGS
    assert "--bootstrap-servers" in capsys.readouterr().err
