"""Orders by filter on the command line: what is typed for each condition, how the run is followed, and what is shown of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from indoubt.collector.serve.cli import arguments, filter_orders, main
from indoubt.collector.serve.cli.client import Client, Refused, Unanswered

ABORT = ("abort", "--filter", "verdict=foreign")
COMMIT = ("commit", "--filter", "verdict=commit it")
YES = ("--yes", "--reason", "because", "--fingerprint", "f-", "--idempotency-key", "once")
PART = 250


class Known(Client):
    """Stands for a collector that knows transactions by what must be typed for each, and answers as docs/api.md says."""

    def __init__(self, takes: Mapping[str, str]) -> None:
        self.url = "http://known"
        self.takes = dict(takes)
        self.changed: set[str] = set()
        self.halts_at = self.loses_look = 0
        self.looks = 0
        self.sent: list[Mapping[str, Any]] = []
        self.rows: dict[str, Any] = {}

    def _conditions(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for key, confirm in self.takes.items():
            found.setdefault(confirm, []).append(key)
        return found

    def preview(self, action: str, wanted: Mapping[str, Any]) -> Any:
        return {
            "action": action,
            "filter": wanted,
            "keys": list(self.takes),
            "conditions": [
                {"confirm": confirm, "keys": keys, "fingerprint": f"f-{confirm}"}
                for confirm, keys in self._conditions().items()
            ],
            "rows": [{"key": key} for key in self.takes][:1000],
            "left_out": [],
            "left_out_total": 0,
        }

    def begin_run(self, body: Mapping[str, Any]) -> Any:
        self.sent.append(body)
        confirm = body["fingerprint"].removeprefix("f-")
        if (run := self.rows.get(body.get("idempotency_key", ""))) is not None:
            return run
        if not body.get("dry_run") and body["confirm"] != confirm:
            raise Refused(f"this order takes {confirm!r} in 'confirm'")
        keys = self._conditions()[confirm]
        run = {
            "run": str(len(self.sent)), "keys": keys, "word": "dry run" if body.get("dry_run") else "aborted",
            "transactions": len(keys), "parts": -(-len(keys) // PART), "parts_sent": 0, "sent": 0, "done": 0,
            "audits": [], "outcome": "", "took_ms": 0, "halted": "", "is_over": False, "steps": [],
        }  # fmt: skip
        self.rows[body.get("idempotency_key", run["run"])] = run
        return run

    def run(self, run: str, **parameters: str) -> Any:
        self.looks += 1
        if self.looks == self.loses_look:
            raise Unanswered("no answer")
        row = next(one for one in self.rows.values() if one["run"] == run)
        if not row["is_over"]:
            sent = min(row["transactions"], row["sent"] + PART)
            row |= {"sent": sent, "parts_sent": row["parts_sent"] + 1, "took_ms": row["took_ms"] + 5}
            row["audits"] = [*row["audits"], 11 + len(row["audits"])]
            row["steps"] = [
                {
                    "key": k,
                    "description": "it",
                    "outcome": "refused" if k in self.changed else row["word"],
                    "detail": "",
                }
                for k in row["keys"][:sent]
            ]
            row["done"] = sum(step["outcome"] == row["word"] for step in row["steps"])
            row["outcome"] = "failed" if row["done"] < sent else "accepted" if row["word"] == "aborted" else "dry_run"
            row["halted"] = "The disk is full." if row["parts_sent"] == self.halts_at else ""
            row["is_over"] = bool(row["halted"]) or sent == row["transactions"]
        return row


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands look without a pause."""
    monkeypatch.setattr(filter_orders, "LOOK_S", 0.0)


def many(number: int = 1_001, confirm: str = "") -> dict[str, str]:
    return {f"k{n}": confirm for n in range(number)}


def run(known: Client, *words: str) -> int:
    return main.execute(known, arguments.parser().parse_args(words))


def test_an_order_by_filter_is_one_request_that_is_followed(capsys: pytest.CaptureFixture[str]) -> None:
    known = Known(many(confirm="bank-"))
    words = (*YES[:4], "f-bank-", *YES[5:], "--confirm", "bank-")
    assert run(known, *ABORT, *words, "--json") == 0
    (body,) = known.sent
    assert body == {
        "action": "abort", "filter": {"verdict": "foreign"}, "fingerprint": "f-bank-", "reason": "because",
        "confirm": "bank-", "idempotency_key": "once",
    }  # fmt: skip
    out, said = capsys.readouterr()
    answer = json.loads(out)
    assert (answer["audits"], answer["outcome"], len(answer["steps"])) == ([11, 12, 13, 14, 15], "accepted", 1_001)
    assert "part 4 of 5: 1,000 of 1,001 transactions, audit 14" in said
    assert "audit 11 to 15: accepted" in said
    assert run(known, *ABORT, *words, "--json") == 0, "under its key it is the same"
    assert json.loads(capsys.readouterr().out) == answer


def test_without_yes_each_is_checked_and_what_must_be_typed_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    known = Known(many(confirm="bank-"))
    assert run(known, *ABORT) == 0
    assert [(body["dry_run"], "idempotency_key" in body) for body in known.sent] == [(True, False)]
    said = capsys.readouterr().err
    assert "1,001 transactions: data may be lost: --confirm takes 'bank-'" in said
    assert "and 1 other: --json names all" in said
    assert "1,001 transactions: fingerprint: f-bank-" in said
    assert "add --yes to do it" in said


@pytest.mark.parametrize("is_dry", [True, False])
def test_what_is_refused_alone_is_not_done(is_dry: bool, capsys: pytest.CaptureFixture[str]) -> None:
    known = Known(many())
    known.changed = {"k7"}
    assert run(known, *ABORT, *(() if is_dry else YES), "--json") == 1
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [step["key"] for step in steps if step["outcome"] == "refused"] == ["k7"]


def test_a_run_that_halts_says_what_was_not_sent(capsys: pytest.CaptureFixture[str]) -> None:
    known = Known(many())
    known.halts_at = 2
    assert run(known, *ABORT, *YES) == 1
    assert "501 transactions not sent: The disk is full." in capsys.readouterr().err


def test_a_run_that_cannot_be_followed_goes_on_and_is_found_by_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    known = Known(many())
    known.loses_look = 2
    with pytest.raises(Unanswered):
        run(known, *ABORT, *YES)
    assert "the same command with --idempotency-key once shows how" in capsys.readouterr().err
    assert run(known, *ABORT, *YES) == 0
    assert len(known.rows) == 1


def test_commits_that_take_different_texts_take_an_order_each(capsys: pytest.CaptureFixture[str]) -> None:
    takes = {"a": "", "b": "chk-3", "c": "chk-4", "d": "chk-3"}
    known = Known(takes)
    assert run(known, *COMMIT) == 0
    said = capsys.readouterr().err
    assert (
        "2 transactions: right only if the job is then restored from this checkpoint or a later one: --confirm takes 'chk-3'"
        in said
    )
    assert "2 transactions: fingerprint: f-chk-3" in said
    assert "--confirm takes 'chk-4'" in said
    assert [body["fingerprint"] for body in known.sent] == ["f-", "f-chk-3", "f-chk-4"]
    words = (*YES[:4], "f-chk-3", *YES[5:])
    with pytest.raises(Refused, match="takes 'chk-3'"):
        run(known, *COMMIT, *words)
    assert run(known, *COMMIT, *words, "--confirm", "chk-3") == 0
    assert known.rows["once"]["keys"] == ["b", "d"]


def test_a_terminal_is_asked_for_what_must_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    known, asked = Known({"c": "chk-4"}), list[str]()
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda words: asked.append(words) or "chk-4")
    assert run(known, *COMMIT, *YES[:4], "f-chk-4") == 0
    assert "type 'chk-4' to do it" in asked[0]


def test_a_filter_that_means_nothing_is_refused() -> None:
    with pytest.raises(Refused, match="the filter means no transaction that may be committed"):
        run(Known({}), *COMMIT)


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
