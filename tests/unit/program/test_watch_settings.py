"""What the words of ``watch`` mean for its two processes, and who may do what: tokens, flags, and the lines that say so."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from indoubt.app.__main__ import command_line as app_command_line
from indoubt.collector.config import settings as collector_settings
from indoubt.collector.config import tokens
from indoubt.lifecycle.errors import SettingsError
from indoubt.program import watch, watch_settings
from indoubt.program.access import user_name
from indoubt.program.watch_settings import Watched, WatchSettings, command_line
from tests.unit.settings_page import documented

ANNA = "a" * 32
WORDS = ["--bootstrap-servers", "kafka-1:9092,kafka-2:9092", "--port", "0", "--collector-port", "0"]
OIDC = ["--oidc-issuer", "https://login.example", "--oidc-client-id", "indoubt", "--operator-group", "oncall"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path), "INDOUBT_TOKEN": "of another collector"}


def read(environment: Mapping[str, str], *words: str, **variables: str) -> WatchSettings:
    return watch_settings.read([*WORDS, *words], {**environment, **variables})


def only(settings: WatchSettings) -> Watched:
    """Return its only collector."""
    (found,) = settings.collectors.values()
    return found


def given_tokens(settings: WatchSettings) -> tokens.Tokens:
    """Return the tokens that its collector knows."""
    found = tokens.read(only(settings).environment)
    assert found is not None
    return found


def page_token(settings: WatchSettings) -> str:
    return settings.access.of_app["INDOUBT_TOKEN"]


def test_by_default_the_pages_look_and_the_user_orders_by_command(environment: dict[str, str]) -> None:
    settings = read(environment)
    known = given_tokens(settings)
    assert known.operators == {user_name(): settings.access.command_token}
    assert known.viewers == {"everyone": page_token(settings)}
    assert known.for_persons == {}
    assert "--look-only" in settings.of_app
    assert len(settings.access.command_token) == len(page_token(settings)) == 32, "192 random bits"
    assert read(environment).access.command_token != settings.access.command_token, "of one run alone"


def test_no_secret_is_on_a_command_line_or_in_a_repr(environment: dict[str, str]) -> None:
    settings = read(environment, INDOUBT_OPERATOR_TOKEN=f"anna:{ANNA}")
    for text in (" ".join([*only(settings).words, *settings.of_app]), repr(settings), "\n".join(watch.said(settings))):
        assert not [secret for secret in (ANNA, settings.access.command_token, page_token(settings)) if secret in text]


def test_the_collector_is_asked_on_loopback_with_the_settings_that_it_reads(environment: dict[str, str]) -> None:
    settings = read(environment, "--checkpoint", "orders=/c", "--flink", "eu=http://jm:8081")
    read_there = collector_settings.read(only(settings).words, only(settings).environment)
    assert (read_there.host, read_there.port) == ("127.0.0.1", only(settings).port)
    assert read_there.bootstrap_servers == "kafka-1:9092,kafka-2:9092"
    assert (read_there.checkpoints, read_there.flink) == ({"orders": "/c"}, {"eu": "http://jm:8081"})
    assert read_there.directory == Path(environment["XDG_STATE_HOME"]) / "indoubt/history/kafka-1_9092_kafka-2_9092"
    given = app_command_line().parse_args(list(settings.of_app))
    assert (given.collector, given.host, given.port) == ([only(settings).url], "127.0.0.1", settings.port)
    assert read_there.tunable.log_level.value == "warning", "its lines would hide the address"


def test_read_only_leaves_nobody_an_operators_token(environment: dict[str, str]) -> None:
    for settings in (
        read(environment, "--read-only"),
        read(environment, "--read-only", INDOUBT_OPERATOR_TOKEN=f"anna:{ANNA}"),
    ):
        assert given_tokens(settings).viewers == {
            user_name(): settings.access.command_token, "everyone": page_token(settings)
        }  # fmt: skip
        assert "--look-only" in settings.of_app
        assert "--read-only" in only(settings).words
        assert "Order:  nobody (--read-only)" in watch.said(settings)


def test_with_a_persons_token_the_pages_order_on_loopback_in_that_name(environment: dict[str, str]) -> None:
    settings = read(environment, INDOUBT_OPERATOR_TOKEN=f"anna:{ANNA}")
    assert page_token(settings) == ANNA
    assert "--look-only" not in settings.of_app
    assert given_tokens(settings).operators == {"anna": ANNA, user_name(): settings.access.command_token}


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["--host", "0.0.0.0"], f"anna:{ANNA}"),
        (["--public-url", "https://indoubt.example"], f"anna:{ANNA}"),
        (["--allowed-host", "indoubt.example"], f"anna:{ANNA}"),
        ([], f"anna:{ANNA},ben:{'b' * 32}"),
    ],
    ids=["beyond loopback", "behind a proxy", "under another name", "of two persons"],
)
def test_the_pages_look_all_the_same_where_nobody_knows_who_orders(
    environment: dict[str, str], words: list[str], given: str
) -> None:
    settings = read(environment, *words, INDOUBT_OPERATOR_TOKEN=given)
    assert given_tokens(settings).viewers == {"everyone": page_token(settings)}
    assert "--look-only" in settings.of_app


def test_a_sign_in_has_a_token_that_speaks_for_persons(environment: dict[str, str]) -> None:
    settings = read(environment, *OIDC, INDOUBT_OPERATOR_TOKEN=f"anna:{ANNA}")
    assert given_tokens(settings).for_persons == {"pages": page_token(settings)}
    assert "--look-only" not in settings.of_app
    given = app_command_line().parse_args(list(settings.of_app))
    assert (given.oidc_issuer, given.operator_group) == ("https://login.example", ["oncall"])
    assert "Look:   who signs in" in watch.said(settings)


def test_a_name_that_has_a_token_already_is_not_given_another(environment: dict[str, str]) -> None:
    settings = read(environment, INDOUBT_OPERATOR_TOKEN=f"{user_name()}:{ANNA}")
    assert given_tokens(settings).operators == {
        user_name(): ANNA,
        f"{user_name()}-local": settings.access.command_token,
    }


def test_each_process_is_given_its_own_secrets_alone(environment: dict[str, str]) -> None:
    of_collector = {"INDOUBT_KAFKA_SASL_PASSWORD": "k", "INDOUBT_SLACK_URL": "s", "INDOUBT_MYSQL_PASSWORD": "m"}
    of_app = {"INDOUBT_OIDC_CLIENT_SECRET": "o"}
    settings = read(environment, *OIDC, **of_collector, **of_app, OTHER="x")
    for own, given in ((of_collector, only(settings).environment), (of_app, settings.access.of_app)):
        found = {name: text for name, text in given.items() if name in of_collector | of_app}
        assert found == own
        assert given["OTHER"] == "x"
    assert "INDOUBT_TOKEN" not in only(settings).environment, "of another collector"


def test_tokens_of_the_environment_stay_and_none_reaches_the_pages(environment: dict[str, str]) -> None:
    given = {"INDOUBT_VIEWER_TOKEN": f"ben:{ANNA}", "INDOUBT_FOR_PERSONS_TOKEN": f"portal:{'p' * 32}"}
    settings = read(environment, **given)
    assert given_tokens(settings).viewers == {"ben": ANNA, "everyone": page_token(settings)}
    assert given_tokens(settings).for_persons == {"portal": "p" * 32}
    assert not tokens.NAMES & settings.access.of_app.keys()


@pytest.mark.parametrize(
    ("words", "variables", "says"),
    [
        ([], {}, "Look:   every user of this machine, and nobody else"),
        ([], {}, "Order:  USER, by commands on this machine: 'indoubt overview', 'indoubt commit KEY'"),
        (
            [],
            {},
            "        on the pages nobody: that takes INDOUBT_OPERATOR_TOKEN=NAME:TOKEN or a sign-in (docs/security.md)",
        ),
        (
            [],
            {"INDOUBT_OPERATOR_TOKEN": f"anna:{ANNA}"},
            "        on the pages every user of this machine, in the name of anna (INDOUBT_OPERATOR_TOKEN)",
        ),
        (["--host", "0.0.0.0"], {}, "Look:   EVERYBODY who reaches http://HOSTNAME:PORT: there is no sign-in"),
        (["--host", "0.0.0.0"], {}, "        on the pages nobody: that takes a sign-in (docs/security.md)"),
        (["--host", "0.0.0.0"], {}, "  Open  http://HOSTNAME:PORT"),
        (["--public-url", "https://indoubt.example"], {}, "  Open  https://indoubt.example"),
        (OIDC, {}, "        on the pages who signs in and is of an operator's group"),
    ],
)
def test_it_says_what_is_open_to_whom(
    environment: dict[str, str], words: list[str], variables: dict[str, str], says: str
) -> None:
    settings = read(environment, *words, **variables)
    for name, text in {"USER": user_name(), "PORT": str(settings.port), "HOSTNAME": socket.gethostname()}.items():
        says = says.replace(name, text)
    assert says in "\n".join(watch.said(settings))


def test_on_every_address_browsers_may_use_the_machines_name(environment: dict[str, str]) -> None:
    given = app_command_line().parse_args(list(read(environment, "--host", "0.0.0.0", "--allowed-host", "ops").of_app))
    assert given.allowed_host == ["ops", socket.gethostname()]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--tls-certificate", "c.pem"], "--tls-certificate is not for watch: only this machine reaches its collector"),
        (["--collector=http://a:1"], "--collector is not for watch"),
        (["--sign-in-by-proxy"], "give --trusted-proxy or --oidc-issuer"),
        (["--bootstrap-servers", ""], "--bootstrap-servers is missing"),
        (["--viewer-group", "x"], "--viewer-group needs a sign-in"),
        (["--port", "70000"], "--port 70000 of 127.0.0.1 cannot be listened on: it takes 0 to 65535"),
    ],
)
def test_what_does_not_fit_is_named(environment: dict[str, str], words: list[str], says: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(says)):
        read(environment, *words)


def test_a_port_that_is_taken_is_named_before_anything_starts(environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for option in ("--port", "--collector-port"):
            with pytest.raises(SettingsError, match=f"{option} {port} of 127.0.0.1 cannot be listened on"):
                read(environment, option, port)


def test_a_settings_file_is_read_for_both(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "indoubt.toml"
    file.write_text(
        '[collector]\nbootstrap_servers = "b:9092"\ndirectory = "/history"\nread_only = true\nlog_level = "info"\n'
        '[app]\nhost = "0.0.0.0"\nport = 0\n'
    )
    settings = watch_settings.read(["--settings-file", str(file), "--collector-port", "0"], environment)
    assert (only(settings).cluster.servers, only(settings).cluster.directory, settings.host) == (
        "b:9092",
        Path("/history"),
        "0.0.0.0",
    )
    assert settings.access.read_only
    there = collector_settings.read(only(settings).words, only(settings).environment)
    assert (there.host, there.directory, there.tunable.log_level.value) == ("127.0.0.1", Path("/history"), "info")


def test_each_option_has_its_line_in_the_settings() -> None:
    options = {
        option for action in command_line()._actions for option in action.option_strings if option.startswith("--")
    }
    of_parts = documented("app").keys() | documented("collector").keys()
    assert documented("watch").keys() == {"--directory", "--host", "--port"} | options - of_parts - {
        "--help",
        "--settings-file",
    }
