"""Settings: typed, validated once, each documented; tokens never shown."""

from __future__ import annotations

import re
from dataclasses import fields
from enum import Enum
from pathlib import Path

import pytest

from collector import settings
from collector.databases import PASSWORDS
from collector.notifiers import receivers
from collector.settings import TransactionSource, TunableSettings
from lifecycle.errors import SettingsError

NEEDED = ["--bootstrap-servers", "127.0.0.1:9092", "--directory", "d"]
SECTION = (
    (Path(__file__).parents[2] / "docs" / "settings.md").read_text().partition("## Collector")[2].partition("\n## ")[0]
)


def test_defaults() -> None:
    read = settings.read(NEEDED, {})
    assert (read.host, read.port, read.read_only, read.tokens) == ("127.0.0.1", 8650, False, None)
    assert read.tunable == TunableSettings()


def test_values_of_the_environment_are_typed() -> None:
    read = settings.read(NEEDED, {"INDOUBT_COMMIT_OVERDUE_MS": "500", "INDOUBT_TRANSACTION_SOURCE": "Polling"})
    assert (read.tunable.commit_overdue_ms, read.tunable.transaction_source) == (500, TransactionSource.POLLING)


@pytest.mark.parametrize(
    ("arguments", "environment", "names"),
    [
        ([], {"INDOUBT_COMMIT_OVERDUE": "1"}, "INDOUBT_COMMIT_OVERDUE "),
        ([], {"INDOUBT_COMMIT_OVERDUE_MS": "2s"}, "INDOUBT_COMMIT_OVERDUE_MS"),
        ([], {"INDOUBT_SETTLED_KEPT": "0"}, "INDOUBT_SETTLED_KEPT"),
        ([], {"INDOUBT_TRANSACTION_SOURCE": "guess"}, "auto, log, polling"),
        ([], {"INDOUBT_LIFECYCLE_TOPIC": ""}, "INDOUBT_LIFECYCLE_TOPIC"),
        ([], {"INDOUBT_VIEWER_TOKEN": "anna"}, "INDOUBT_VIEWER_TOKEN: pair 1"),
        ([], {"INDOUBT_OPERATOR_TOKEN": "a:12345678,a:87654321"}, "given twice"),
        ([], {"INDOUBT_OPERATOR_TOKEN": "a:12345678", "INDOUBT_VIEWER_TOKEN": "b:12345678"}, "one role"),
        (["--port", "70000"], {}, "--port"),
        (["--port", "x"], {}, "--port"),
        (["--checkpoint", "ip-count"], {}, "NAME=DIR"),
        (["--checkpoint", "a=b", "--checkpoint", "a=c"], {}, "given twice"),
        (["--checkpoint", "a=ftp://host/b"], {}, "scheme 'ftp'"),
        (["--checkpoint", "a=s3://key:secret@bucket/b"], {}, "--checkpoint a holds a password"),
        (["--flink", "eu"], {}, "--flink eu takes NAME=URL"),
        (["--flink", "eu=ftp://host"], {}, "--flink eu takes NAME=URL"),
        (["--flink", "eu=http://anna:secret@host"], {}, "--flink eu holds a user"),
        (["--flink", "eu=http://a", "--flink", "eu=http://b"], {}, "--flink eu is given twice"),
        (["--nonsense"], {}, "--nonsense"),
        (["--tls-certificate", "c.pem"], {}, "--tls-key is missing"),
        (["--tls-key", "k.pem"], {}, "--tls-certificate is missing"),
        (["--host", "0.0.0.0"], {}, "--host 0.0.0.0 without TLS"),
        (["--host", "collector.example"], {}, "--tls-by-proxy"),
        (["--trusted-proxy", "proxy"], {}, "--trusted-proxy"),
        ([], {"INDOUBT_LOG_LEVEL": "loud"}, "debug, info, warning, error"),
    ],
)
def test_a_wrong_setting_is_named(arguments: list[str], environment: dict[str, str], names: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(names)):
        settings.read([*NEEDED, *arguments], environment)


def test_checkpoint_directories_are_paths_or_uris() -> None:
    given = ["--checkpoint", "a=data/a", "--checkpoint", "b=s3://bucket/b?region=eu-west-1"]
    assert settings.read([*NEEDED, *given], {}).checkpoints == {"a": "data/a", "b": "s3://bucket/b?region=eu-west-1"}


@pytest.mark.parametrize(
    "arguments",
    [["--host", "::1"], ["--host", "localhost"], ["--host", "127.8.0.1"], ["--host", "0.0.0.0", "--tls-by-proxy"]],
)
def test_plain_http_stays_on_loopback_unless_a_proxy_does_tls(arguments: list[str]) -> None:
    assert settings.read([*NEEDED, *arguments], {}).tls is None


def test_tls_serves_any_address() -> None:
    read = settings.read([*NEEDED, "--host", "0.0.0.0", "--tls-certificate", "c.pem", "--tls-key", "k.pem"], {})
    assert read.tls is not None


def test_bootstrap_servers_must_be_given() -> None:
    with pytest.raises(SettingsError, match="--bootstrap-servers"):
        settings.read(["--directory", "d"], {})


def test_variables_of_other_programs_are_let_be() -> None:
    assert settings.read(NEEDED, {"INDOUBT_KAFKA_SASL_PASSWORD": "x", "INDOUBT_TOKEN": "y"}).tokens is None


def test_a_token_is_in_no_message_and_no_repr() -> None:
    with pytest.raises(SettingsError) as raised:
        settings.read(NEEDED, {"INDOUBT_OPERATOR_TOKEN": "anna=secret-secret"})
    assert "secret-secret" not in str(raised.value)
    assert "secret-secret" not in repr(settings.read(NEEDED, {"INDOUBT_OPERATOR_TOKEN": "anna:secret-secret"}))


@pytest.mark.parametrize("field", [field.name for field in fields(TunableSettings)])
def test_each_setting_is_documented_with_its_default(field: str) -> None:
    default = getattr(TunableSettings(), field)
    shown = default.value if isinstance(default, Enum) else default
    assert f"| `INDOUBT_{field.upper()}` | `{shown}` |" in SECTION


def test_each_argument_is_documented() -> None:
    options = {option for action in settings._parser()._actions for option in action.option_strings if "--" in option}
    assert {f"`{option}" for option in options - {"--help"}} <= set(re.findall(r"`--[a-z-]+", SECTION))


def test_nothing_is_documented_that_does_not_exist() -> None:
    known = {f"INDOUBT_{field.name.upper()}" for field in fields(TunableSettings)}
    known |= {"INDOUBT_OPERATOR_TOKEN", "INDOUBT_VIEWER_TOKEN", "INDOUBT_KAFKA_", "INDOUBT_KAFKA_PROPERTIES"}
    known |= {"INDOUBT_BOOTSTRAP_SERVERS", "INDOUBT_", *PASSWORDS, *receivers.NAMES}
    assert set(re.findall(r"INDOUBT_[A-Z_]*", SECTION)) <= known


@pytest.mark.parametrize("name", sorted(receivers.NAMES))
def test_each_receiver_is_documented(name: str) -> None:
    assert f"| `{name}` |" in SECTION


def test_receivers_are_known_and_never_shown() -> None:
    given = {"INDOUBT_SLACK_URL": "https://hooks.slack.com/services/secret-part"}
    read = settings.read(NEEDED, given)
    assert read.receivers.slack_url.endswith("secret-part")
    assert "secret-part" not in repr(read)
