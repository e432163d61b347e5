"""The command line: its arguments, its tables, and its commands on the real API over a real history (no broker)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from indoubt.collector.serve.cli import arguments, main, overview, text_table
from indoubt.collector.serve.cli.client import Client, Refused, Unanswered
from indoubt.collector.serve.cli.listings import LISTINGS
from indoubt.lifecycle.errors import SettingsError
from tests.unit.collector.serve.api.served_api import VIEWER, Api
from tests.unit.collector.serve.api.test_alert_routes import AlertApi

pytestmark = pytest.mark.slow


NOW_MS = 1_795_000_000_000
DOCS = Path(__file__).parents[5] / "docs" / "command_line.md"
Run = Callable[..., int]


@pytest.mark.parametrize(
    ("text", "ago_ms"), [("90s", 90_000), ("15m", 900_000), ("2h", 7_200_000), ("7d", 604_800_000)]
)
def test_a_time_span_is_taken_back_from_now(text: str, ago_ms: int) -> None:
    assert arguments.moment_ms(text, NOW_MS) == NOW_MS - ago_ms


@pytest.mark.parametrize("text", ["2026-11-21T14:00:00+00:00", "2026-11-21T14:00:00Z"])
def test_a_time_is_taken_as_it_is(text: str) -> None:
    assert arguments.moment_ms(text, NOW_MS) == datetime.fromisoformat(text).timestamp() * 1000


@pytest.mark.parametrize("text", ["", "yesterday", "0m", "-5m", "5", "5w", "m"])
def test_what_is_no_time_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no time span|Invalid isoformat"):
        arguments.moment_ms(text, NOW_MS)


def test_a_filter_is_read_as_the_api_takes_it() -> None:
    parts = ["pipeline=ip-count", "verdict=abort it", "certainty=likely", "transaction-prefix=a=b", "open-for=15m"]
    assert arguments.read_filter(parts) == {
        "pipeline": "ip-count",
        "verdict": "abort it",
        "certainty": "likely",
        "transaction_prefix": "a=b",
        "open_for_ms": 900_000,
    }


@pytest.mark.parametrize(
    "parts", [["pipeline"], ["pipeline="], ["color=red"], ["pipeline=a", "pipeline=b"], ["open-for=15"]]
)
def test_a_wrong_filter_says_what_it_takes(parts: list[str]) -> None:
    with pytest.raises(ValueError, match=r"--filter|time span"):
        arguments.read_filter(parts)


def test_a_table_aligns_its_columns_and_leaves_out_what_no_row_has() -> None:
    rows = [
        {"key": "k1", "rows": 7, "opened_at_ms": None, "managed": True, "evidence": ["a", "b"]},
        {"key": "k" * 200, "rows": None, "opened_at_ms": 0, "managed": False, "evidence": []},
    ]
    text = text_table.table(rows, ("key", "rows", "opened_at_ms", "managed", "nobody_has_it", "evidence"))
    head, first, second = text.splitlines()
    assert head.split() == ["key", "rows", "opened", "managed", "evidence"]
    assert first.split() == ["k1", "7", "-", "yes", "a,", "b"]
    assert second.startswith("k" * 200), "a key is never cut: it is copied into an order"
    assert head.index("rows") == first.index("7") == second.index("-")


def test_what_is_not_known_to_the_table_is_shown_all_the_same() -> None:
    assert text_table.table([{"new": 1}], ("key",)).split() == ["new", "1"]
    assert text_table.table([], ("key",)) == ""


def test_text_from_outside_moves_no_cursor() -> None:
    assert text_table.cell("reason", "a\x1b[2Jb\nc") == r"a\u001b[2Jb\u000ac"
    assert text_table.cell("reason", "x" * 500).endswith("…")
    assert text_table.cell("duration_ms", 1234) == "1.2 s"
    assert text_table.cell("application", {"kind": "flink", "name": "eu/orders", "task": "1"}) == "eu/orders"
    assert text_table.cell("application", None) == "-"


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, "INDOUBT_TOKEN"),
        ({"INDOUBT_TOKEN_FILE": "/nowhere/token"}, "INDOUBT_TOKEN_FILE /nowhere/token cannot be read: No such file"),
        ({"INDOUBT_TOKEN_FILE": "/bin/true"}, "INDOUBT_TOKEN_FILE /bin/true, line 1 is no UTF-8 text"),
        ({"INDOUBT_TOKEN": "t", "INDOUBT_COLLECTOR_URL": "collector"}, "INDOUBT_COLLECTOR_URL"),
        ({"INDOUBT_TOKEN": "t", "INDOUBT_COLLECTOR_URL": "http://u:p@c"}, "INDOUBT_COLLECTOR_URL"),
        ({"INDOUBT_TOKEN": "t", "INDOUBT_COLLECTOR_CA": "/nowhere/ca"}, "INDOUBT_COLLECTOR_CA"),
    ],
)
def test_a_wrong_setting_is_wrong_use(
    environment: dict[str, str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SettingsError, match=named):
        Client.from_environment(environment)
    assert main.main(["audit"], environment) == 2
    assert named in capsys.readouterr().err


def test_a_missing_collector_has_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    environment = {"INDOUBT_TOKEN": "t", "INDOUBT_COLLECTOR_URL": "http://127.0.0.1:1"}
    for command in (["status"], ["commit", "k"], ["abort", "--filter", "pipeline=p"]):
        assert main.main(command, environment) == 3
        out, err = capsys.readouterr()
        assert out == ""
        assert "http://127.0.0.1:1 does not answer" in err


@pytest.mark.parametrize("command", [[], ["explode"], ["settle-batch", "p", "x"], ["audit", "--verdict", "x"]])
def test_wrong_arguments_end_with_2(command: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(command, {"INDOUBT_TOKEN": "t"})
    assert ended.value.code == 2


def alert_api(directory: Path) -> Iterator[Api]:
    """Yield the API of a collector whose alert rules were judged once."""
    made = AlertApi(directory)
    made.judge()
    yield made
    made.store.close()


def commands_on(api: Api) -> Run:
    """Return what carries out a command line on the API, as an operator unless told otherwise."""

    def command(*words: str, token: str = "operator-token") -> int:
        http = api.client
        http.headers["Authorization"] = f"Bearer {token}"
        return main.execute(Client("http://api", http), arguments.parser().parse_args(words))

    return command


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    yield from alert_api(tmp_path)


@pytest.fixture
def run(api: Api) -> Run:
    return commands_on(api)


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Return one for all tests that only list."""
    yield from alert_api(tmp_path_factory.mktemp("listed"))


@pytest.mark.parametrize("name", [listing.name for listing in LISTINGS])
def test_each_listing_that_the_api_has_can_be_asked_with_its_filters(
    listed: Api, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = commands_on(listed)
    (listing,) = (one for one in LISTINGS if one.name == name)
    values = {"since": "1h", "until": "1h", "outcome": "open", "all": None}
    if name == "search":
        values["cause"] = "timeout"
    # A search names the partitions that a group reads: a group without offsets is refused (test_search_routes.py).
    filters = [f for f in listing.filters if (name, f) != ("search", "group")]
    words = [word for f in filters for word in (f"--{f}", values.get(f, "nobody")) if word is not None]
    assert run(name, *words, "--limit", "5", token="viewer-token") == 0
    assert run(name, "--json", token="viewer-token") == 0
    assert "rows" in json.loads(capsys.readouterr().out.splitlines()[-1])


def test_a_listing_shows_keys_that_an_order_takes(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("transactions", "--verdict", "commit it") == 0
    out = capsys.readouterr().out
    assert "ip-count-0-1" in out
    assert "flink-orders-3" not in out
    assert run("transactions", "--pipeline", "nobody") == 0
    assert capsys.readouterr() == ("", "no transactions\n")


def test_a_listing_says_how_many_more_there_are_and_shows_the_next_page(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("ids", "--limit", "2") == 0
    first, said = capsys.readouterr()
    assert said.startswith("1 more: --limit 3, or for the next ones --after ")
    assert run("ids", "--limit", "2", "--after", said.split()[-1]) == 0
    second, said = capsys.readouterr()
    assert said == ""
    assert len(second.splitlines()) == 2
    assert not set(first.splitlines()[1:]) & set(second.splitlines()[1:])
    with pytest.raises(Refused, match="'after'"):
        run("ids", "--after", "nonsense")


def test_alerts_are_listed_by_how_severe_they_are_and_by_pipeline(
    run: Run, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    critical = [row for row in api.rows("alerts") if row["severity"] == "critical"]
    assert run("alerts", "--severity", "critical", "--state", critical[0]["state"]) == 0
    out = capsys.readouterr().out
    head, first, *others = out.splitlines()
    assert head.split()[:3] == ["severity", "state", "rule"]
    assert first.split()[:3] == ["critical", critical[0]["state"], critical[0]["rule"]]
    assert len(others) == len(critical) - 1
    assert "warning" not in out
    assert run("alerts", "--pipeline", critical[0]["labels"]["pipeline"], "--json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["labels"]["pipeline"] for row in rows} == {critical[0]["labels"]["pipeline"]}
    assert run("alerts", "--state", "resolved") == 0
    assert capsys.readouterr() == ("", "no alerts\n")


def test_status_shows_who_asks(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("status") == 0
    assert re.search(r"^role: operator$", capsys.readouterr().out, re.MULTILINE)


def test_the_overview_says_what_needs_a_person_and_how_it_is_done(
    run: Run, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("overview", token="viewer-token") == 4
    head, *lines = capsys.readouterr().out.splitlines()
    incidents = api.client.get("/api/v1/overview", headers=VIEWER).json()["incidents"]
    assert head.startswith(f"{len(incidents)} incidents need you, first deadline passed ")
    first = incidents[0]["parts"][0]
    assert f"1. {first['badge']} ({first['certainty']}): {incidents[0]['headline']}" in lines
    (commit,) = (part for one in incidents for part in one["parts"] if part["remedy"] == "commit")
    place = lines.index(f"   to do: Commit batch {commit['batch']}")
    assert lines[place + 1] == f"      indoubt commit {commit['keys'][0]}"
    assert "   without action: " + commit["consequence"] in lines
    assert run("overview", "--json") == 4
    assert len(json.loads(capsys.readouterr().out)["incidents"]) == len(incidents)


AWAITED = {
    "pipeline": "ip-count",
    "silent_since_ms": NOW_MS - 13_000,
    "counted_after_ms": 30_000,
    "restart": None,
}
RESTART = {"since_ms": NOW_MS - 14_000, "run": 7, "usually_ms": 40_000, "who": ""}
OVER = {"key": "application ip-count", "over_at_ms": NOW_MS, "outcome": "Nothing was lost."}


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({}, 0, "all well since "),
        ({"all_well_since_ms": None}, 4, "nothing is known to be wrong, but not every source"),
        ({"incidents": [OVER]}, 0, "all well since "),
        (
            {"all_well_since_ms": None, "awaited": [AWAITED]},
            4,
            "nothing is in doubt, and ip-count is silent for 13 s (counted as frozen at 30 s)",
        ),
        (
            {"all_well_since_ms": None, "awaited": [AWAITED | {"restart": RESTART}]},
            4,
            "nothing is in doubt, and ip-count starts run 7, 14 s of usually 40 s",
        ),
        (
            {
                "all_well_since_ms": None,
                "awaited": [AWAITED | {"restart": RESTART | {"run": None, "usually_ms": None}}],
            },
            4,
            "nothing is in doubt, and ip-count restarts, 14 s\n",
        ),
    ],
)
def test_the_overview_is_all_well_only_if_everything_was_seen_to_be(
    changes: dict[str, Any], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = {"now_ms": NOW_MS, "incidents": [], "incidents_total": 0, "awaited": [], "all_well_since_ms": NOW_MS - 5_000,
              "pipelines_alive": 1,
              "observers_up": 3, "observers": 3, "counts": {"open": 2, "waiting_groups": 0}}  # fmt: skip

    class Known(Client):
        def __init__(self) -> None:
            self.url, self.cluster = "http://known", ""

        def get(self, path: str, **parameters: str) -> Any:
            return answer | changes

    assert overview.execute(Known(), as_json=False) == code
    out = capsys.readouterr().out
    assert out.startswith(said)
    assert ("application ip-count. Nothing was lost." in out) is ("incidents" in changes)


def keys_of(api: Api) -> dict[str, str]:
    return {row["transaction"]: row["key"] for row in api.rows("transactions")}


def test_an_order_that_is_refused_says_why(run: Run, api: Api) -> None:
    with pytest.raises(Refused, match="neither in memory nor in history"):
        run("commit", "kafka:none:1:1")
    with pytest.raises(Refused, match="not known"):
        run("abort", "hanging:topic-0:1:1:0")
    with pytest.raises(Refused, match="may not be aborted"):
        run("abort", keys_of(api)["ip-count-0-1"])
    with pytest.raises(Refused, match="'confirm'"):
        run("abort", keys_of(api)["flink-orders-3"], "--yes", "--reason", "because")
    with pytest.raises(Refused, match="no run of a pipeline 'nobody'"):
        run("restart", "nobody")
    with pytest.raises(Refused, match="no batch 7"):
        run("settle-batch", "ip-count", "7")
    with pytest.raises(Refused, match="a viewer"):
        run("abort", keys_of(api)["flink-orders-3"], token="viewer-token")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["commit", "k", "--yes"], "--reason"),
        (["abort"], "KEYs"),
        (["abort", "k", "--filter", "pipeline=p"], "not both"),
        (["abort", "k", "--fingerprint", "f"], "--filter"),
        (["abort", "--filter", "pipeline=p", "--yes", "--reason", "because"], "--fingerprint"),
        (["abort", "--filter", "pipeline"], "--filter"),
        (["aborts", "--since", "yesterday"], "isoformat"),
        (["audit", "--limit", "0"], "--limit"),
    ],
)
def test_arguments_that_do_not_fit_are_wrong_use(run: Run, api: Api, words: list[str], says: str) -> None:
    known = [keys_of(api)["flink-orders-3"] if word == "k" else word for word in words]
    with pytest.raises(ValueError, match=says):
        run(*known)


def test_an_order_by_filter_is_about_what_a_preview_showed(run: Run) -> None:
    words = ["abort", "--filter", "transaction-prefix=flink-", "--yes", "--reason", "because"]
    with pytest.raises(Refused, match="this preview is not kept"):
        run(*words, "--fingerprint", "of another set")
    with pytest.raises(Refused, match="means no transaction"):
        run("abort", "--filter", "pipeline=nobody")


def test_an_order_given_before_is_answered_as_it_was(run: Run, api: Api) -> None:
    key = keys_of(api)["flink-orders-3"]
    words = ["abort", key, "--yes", "--reason", "because", "--idempotency-key", "once"]
    with pytest.raises(Refused, match="'confirm'"):
        run(*words)
    rows = len(api.rows("audit"))
    with pytest.raises(Refused, match="'confirm'"):
        run(*words, "--confirm", "flink-orders-3")
    assert len(api.rows("audit")) == rows, "the key has its answer: the order is not given again"


def test_an_order_without_an_answer_is_sent_again_with_the_same_key() -> None:
    sent: list[Any] = []

    class Silent(Client):
        def __init__(self) -> None:
            self.url = "http://nobody"

        def _ask(self, method: str, path: str, **request: Any) -> Any:
            sent.append(request["json"])
            if len(sent) < 3:
                raise Unanswered("nobody")
            return {"audit": 1}

    assert Silent().order({"idempotency_key": "k"}) == {"audit": 1}
    assert sent == [{"idempotency_key": "k"}] * 3


def test_every_command_and_option_is_documented() -> None:
    text = DOCS.read_text()
    for command in main.COMMANDS:
        assert f"`{command}" in text, command
    parsers = next(a.choices for a in arguments.parser()._actions if isinstance(a.choices, dict))
    options = {o for p in parsers.values() for a in p._actions for o in a.option_strings if o.startswith("--")}
    assert {o for o in options - {"--help"} if f"`{o}" not in text} == set()


@pytest.mark.parametrize(
    ("verdict", "command"),
    [
        ("abort it", "indoubt abort --filter 'verdict=abort it' --filter pipeline=bank"),
        ("hanging", ""),
    ],
)
def test_an_order_for_more_than_are_named_is_one_by_filter(verdict: str, command: str) -> None:
    part = {"verdict": verdict, "pipeline": "bank", "keys": ["kafka:a"], "keys_total": 2_000}
    step = {"remedy": "abort", "target": "kafka:a"}
    assert overview._command(step, part) == command
    assert overview._command(step, {**part, "keys_total": None}) == "indoubt abort kafka:a"
