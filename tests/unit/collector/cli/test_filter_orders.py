"""Orders by filter on the command line: their parts, what is typed for each condition, and what is shown of all together."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from collector.cli import arguments, main
from collector.cli.client import Client, Refused, Unanswered
from collector.cli.kept_orders import KEPT_S, STATE_HOME

ABORT = ("abort", "--filter", "verdict=foreign")
COMMIT = ("commit", "--filter", "verdict=commit it")
YES = ("--yes", "--reason", "because", "--fingerprint", "f-1", "--idempotency-key", "once")


class Known(Client):
    """Stands for a collector that knows transactions by what must be typed for each, and answers as docs/api.md says."""

    def __init__(self, takes: Mapping[str, str]) -> None:
        self.url = "http://known"
        self.takes = dict(takes)
        self.changed: set[str] = set()
        self.loses_part = self.loses_answer = self.refuses_part = 0
        self.fingerprint = "f-1"
        self.sent: list[Mapping[str, Any]] = []
        self.answers: dict[str, Any] = {}

    def preview(self, action: str, wanted: Mapping[str, Any]) -> Any:
        conditions: dict[str, list[str]] = {}
        for key, confirm in self.takes.items():
            conditions.setdefault(confirm, []).append(key)
        return {
            "action": action,
            "filter": wanted,
            "fingerprint": self.fingerprint,
            "keys": list(self.takes),
            "seen": dict.fromkeys(self.takes, "r"),
            "conditions": [{"confirm": confirm, "keys": keys} for confirm, keys in conditions.items()],
            "rows": [{"key": key} for key in self.takes][:1000],
            "left_out": [],
            "left_out_total": 0,
        }

    def answer(self, idempotency_key: str) -> Any:
        return {"answer": self.answers.get(idempotency_key), "refused": None}

    def order(self, body: Mapping[str, Any]) -> Any:
        self.sent.append(body)
        if len(self.sent) == self.loses_part:
            raise Unanswered("no answer")
        if len(self.sent) == self.refuses_part:
            raise Refused("none of these may be ordered so", 409)
        if not body["dry_run"] and (first := self.answers.get(body["idempotency_key"])):
            return first
        word = "dry run" if body["dry_run"] else {"abort": "aborted", "commit": "committed"}[body["action"]]
        steps = [
            {"key": key, "description": "it", "outcome": "refused" if key in self.changed else word, "detail": ""}
            for key in body["keys"]
        ]
        is_whole = not self.changed.intersection(body["keys"])
        outcome = "dry_run" if body["dry_run"] else "accepted" if is_whole else "failed"
        answer = {"audit": 10 + len(self.sent), "outcome": outcome, "took_ms": 5, "steps": steps}
        if not body["dry_run"]:
            self.answers[body["idempotency_key"]] = answer
            self.takes = {key: confirm for key, confirm in self.takes.items() if key not in body["keys"]}
        if len(self.sent) == self.loses_answer:
            raise Unanswered("no answer")
        return answer


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where orders without a whole answer are kept."""
    monkeypatch.setenv(STATE_HOME, str(tmp_path))
    return tmp_path / "indoubt" / "orders"


def many(number: int = 1_001, confirm: str = "") -> dict[str, str]:
    return {f"k{n}": confirm for n in range(number)}


def run(known: Client, *words: str) -> int:
    return main.carry_out(known, arguments.parser().parse_args(words))


def test_more_than_one_order_takes_is_sent_in_parts(capsys: pytest.CaptureFixture[str]) -> None:
    known = Known(many(confirm="bank-"))
    assert run(known, *ABORT, *YES, "--confirm", "bank-", "--json") == 0
    assert [(len(body["keys"]), body["each"], body["confirm"]) for body in known.sent] == [
        *[(250, True, "bank-")] * 4,
        (1, True, "bank-"),
    ]
    assert [body["idempotency_key"] for body in known.sent] == [f"once-part-{number}" for number in range(1, 6)]
    assert known.sent[0]["seen"] == dict.fromkeys(known.sent[0]["keys"], "r")
    out, said = capsys.readouterr()
    answer = json.loads(out)
    assert (answer["audits"], answer["outcome"], len(answer["steps"])) == ([11, 12, 13, 14, 15], "accepted", 1_001)
    assert "part 4 of 5: 1,000 of 1,001 transactions, audit 14" in said
    assert "audit 11 to 15: accepted" in said


def test_without_yes_each_part_is_checked_and_what_must_be_typed_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    known = Known(many(confirm="bank-"))
    assert run(known, *ABORT) == 0
    assert {body["dry_run"] for body in known.sent} == {True}
    assert not any("idempotency_key" in body for body in known.sent)
    said = capsys.readouterr().err
    assert "--confirm takes 'bank-'" in said
    assert "and 1 other: --json names all" in said
    assert "fingerprint: f-1" in said
    assert "add --yes to do it" in said


def test_a_filter_that_means_something_else_by_now_is_refused() -> None:
    known = Known(many())
    known.fingerprint = "f-2"
    with pytest.raises(Refused, match=r"1001 now; run the command without --yes again\. Nothing was aborted"):
        run(known, *ABORT, *YES)
    with pytest.raises(Refused, match="Nothing was committed"):
        run(known, *COMMIT, *YES)
    assert known.sent == []


@pytest.mark.parametrize("is_dry", [True, False])
def test_what_is_refused_alone_is_not_done(is_dry: bool, capsys: pytest.CaptureFixture[str]) -> None:
    known = Known(many())
    known.changed = {"k7"}
    assert run(known, *ABORT, *(() if is_dry else YES), "--json") == 1
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [step["key"] for step in steps if step["outcome"] == "refused"] == ["k7"]


def test_a_part_that_is_refused_as_a_whole_stops_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    known = Known(many())
    known.refuses_part = 2
    assert run(known, *ABORT, *YES, "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert (len(known.sent), answer["outcome"], len(answer["steps"])) == (5, "failed", 1_001)
    assert sum(step["outcome"] == "refused" for step in answer["steps"]) == 250


def halted(**how: int) -> Known:
    """Return a collector that got an order for five parts, of which one had no answer."""
    known = Known(many())
    for name, value in how.items():
        setattr(known, name, value)
    with pytest.raises(Unanswered):
        run(known, *ABORT, *YES, "--json")
    return known


@pytest.mark.parametrize("how", [{"loses_part": 3}, {"loses_answer": 3}])
def test_a_missing_answer_ends_it_and_the_same_command_goes_on(
    how: dict[str, int], state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = halted(**how)
    out, said = capsys.readouterr()
    assert len(json.loads(out)["steps"]) == 500
    assert "501 transactions not sent, or without an answer" in said
    assert "the same command with --idempotency-key once goes on from here" in said
    assert [file.stat().st_mode & 0o777 for file in state.iterdir()] == [0o600]
    known.takes |= {"new": ""}
    known.fingerprint = "f-2"
    before = len(known.sent)
    assert run(known, *ABORT, *YES, "--json") == 0
    out, said = capsys.readouterr()
    assert (json.loads(out)["outcome"], len(json.loads(out)["steps"])) == ("accepted", 1_001)
    assert "part 2 of 5: 500 of 1,001 transactions, audit 12, answered before" in said
    sent = [body["idempotency_key"] for body in known.sent[before:]]
    assert sent == [f"once-part-{number}" for number in ((3, 4, 5) if "loses_part" in how else (4, 5))]
    assert known.takes == {"new": ""}, "what was not shown is not ordered"
    assert list(state.iterdir()) == []
    if "loses_part" in how:
        assert known.sent[2] == known.sent[3], "the same body: its key gets its first answer"


def test_a_run_that_went_on_says_again_how_it_ended_and_sends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    known = halted(loses_part=3)
    assert run(known, *ABORT, *YES) == 0
    sent = len(known.sent)
    assert run(known, *ABORT, *YES) == 0
    assert len(known.sent) == sent
    assert "5 parts of this order had an answer before" in capsys.readouterr().err


def test_what_changed_since_is_refused_alone_when_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    known = halted(loses_part=3)
    known.changed = {"k600"}
    capsys.readouterr()
    assert run(known, *ABORT, *YES, "--json") == 1
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [step["key"] for step in steps if step["outcome"] == "refused"] == ["k600"]


@pytest.mark.parametrize(
    "words",
    [
        ("abort", "--filter", "verdict=abort it", *YES),
        (*COMMIT, *YES),
        (*ABORT, *YES, "--reason", "something else"),
        (*ABORT, *YES, "--fingerprint", "f-3"),
    ],
)
def test_another_command_under_the_key_of_one_that_halted_is_refused(words: tuple[str, ...]) -> None:
    known = halted(loses_part=3)
    with pytest.raises(Refused, match=r"not at its end: give the same command again, or another key\. Nothing was"):
        run(known, *words)
    assert len(known.sent) == 3


@pytest.mark.parametrize("what", ["elsewhere", "too old", "not readable"])
def test_what_is_not_kept_does_not_go_on(
    what: str, state: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = halted(loses_part=3)
    capsys.readouterr()
    (file,) = state.iterdir()
    if what == "elsewhere":
        monkeypatch.setenv(STATE_HOME, str(tmp_path / "another"))
    elif what == "too old":
        os.utime(file, (time.time() - KEPT_S - 1,) * 2)
    else:
        file.write_text('{"parts": 1}')
    assert run(known, *ABORT, *YES, "--json") == 1
    out, said = capsys.readouterr()
    assert json.loads(out)["audits"] == [11, 12]
    assert "2 parts of this order had an answer before" in said
    assert "501 transactions that the filter means may still be aborted: look again" in said
    assert len(known.sent) == 3, "nothing is done twice"
    known.takes = {}
    assert run(known, *ABORT, *YES) == 0


def test_an_order_that_cannot_be_kept_is_given_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(STATE_HOME, str(tmp_path / "file"))
    assert run(Known(many()), *ABORT, *YES) == 0
    assert "cannot go on from there" in capsys.readouterr().err


def test_commits_take_one_confirmation_for_each_condition(capsys: pytest.CaptureFixture[str]) -> None:
    takes = {"a": "", "b": "chk-3", "c": "chk-4", "d": "chk-3"}
    known = Known(takes)
    assert run(known, *COMMIT) == 0
    said = capsys.readouterr().err
    assert (
        "2 transactions: right only if the job is then restored from this checkpoint or a later one: --confirm takes 'chk-3'"
        in said
    )
    assert "--confirm takes 'chk-4'" in said
    known = Known(takes)
    assert run(known, *COMMIT, *YES, "--confirm", "chk-3") == 1, "chk-4 was not typed"
    assert [body["keys"] for body in known.sent] == [["a"], ["b", "d"]]
    assert "not ordered: 1 transaction for which --confirm takes 'chk-4'" in capsys.readouterr().err
    known = Known({"c": "chk-4"})
    with pytest.raises(Refused, match="nothing was committed"):
        run(known, *COMMIT, *YES)
    assert known.sent == []
    assert run(known, *COMMIT, *YES, "--confirm", "chk-4") == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["commit", "k", *COMMIT[1:]], "not both"),
        ([*COMMIT, "--verdict", "commit it"], "not both"),
        ([*COMMIT, "--yes", "--reason", "because"], "--fingerprint is missing"),
        (["commit", "--verdict", "commit it", "--fingerprint", "f"], "goes with --filter"),
        (["commit", "--filter", "color=red"], "--filter"),
    ],
)
def test_arguments_that_do_not_fit_are_wrong_use(words: list[str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        run(Known({"k": ""}), *words)
