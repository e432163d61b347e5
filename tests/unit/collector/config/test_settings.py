"""Settings: typed, validated once, each documented; tokens never shown."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

import pytest

from indoubt.collector.config import receivers, settings, standing_orders, tokens, variables
from indoubt.collector.config.named_locations import flink_checkpoints, start_commands
from indoubt.collector.config.variables import PASSWORDS, TransactionSource, TunableSettings
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.settings_file import CLUSTER_VARIABLE
from tests.unit.settings_page import documented

NEEDED = ["--bootstrap-servers", "127.0.0.1:9092", "--directory", "d"]


def test_flinks_own_names_of_s3_are_taken():
    given = ["eu=s3a://bucket/chk", "eu=s3p://bucket/chk", "us=s3://bucket/chk"]
    assert flink_checkpoints(given) == {
        "eu": ("s3a://bucket/chk", "s3p://bucket/chk"),
        "us": ("s3://bucket/chk",),
    }


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
        ([], {"INDOUBT_COMMIT_OVERDUE_MS": "2s"}, "INDOUBT_COMMIT_OVERDUE_MS"),
        ([], {"INDOUBT_HISTORY_DAYS": "0"}, "INDOUBT_HISTORY_DAYS"),
        ([], {"INDOUBT_HISTORY_ARCHIVE": "ftp://host/a"}, "INDOUBT_HISTORY_ARCHIVE: history archive 'ftp://host/a'"),
        ([], {"INDOUBT_TRANSACTION_SOURCE": "guess"}, "'auto', 'log' or 'polling'"),
        ([], {"INDOUBT_LIFECYCLE_TOPIC": ""}, "INDOUBT_LIFECYCLE_TOPIC"),
        ([], {"INDOUBT_VIEWER_TOKEN": "anna"}, "INDOUBT_VIEWER_TOKEN: pair 1"),
        ([], {"INDOUBT_OPERATOR_TOKEN": "a:12345678,a:87654321"}, "given twice"),
        ([], {"INDOUBT_OPERATOR_TOKEN": "a:12345678", "INDOUBT_VIEWER_TOKEN": "b:12345678"}, "one role"),
        ([], {"INDOUBT_VIEWER_TOKEN": "a:12345678", "INDOUBT_FOR_PERSONS_TOKEN": "b:12345678"}, "one role"),
        (["--port", "70000"], {}, "--port"),
        (["--port", "x"], {}, "--port"),
        (["--checkpoint", "ip-count"], {}, "NAME=DIR"),
        (["--checkpoint", "a=b", "--checkpoint", "a=c"], {}, "given twice"),
        (["--checkpoint", "a=ftp://host/b"], {}, "scheme 'ftp'"),
        (["--checkpoint", "a=gcs://bucket/b"], {}, "it takes file, s3, s3a, hdfs, viewfs, gs, abfs, abfss"),
        (["--flink-checkpoints", "a=gcs://bucket/b"], {}, "gs, abfs, abfss, s3p"),
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
        (["--public-url", "ops.example"], {}, "--public-url is 'ops.example'"),
        (["--public-url", "https://"], {}, "--public-url is 'https://'"),
        (["--public-url", "ftp://ops.example"], {}, "--public-url"),
        (["--public-url", "https://ops.example:port"], {}, "--public-url"),
        (["--public-url", "https://ops.example/a|b"], {}, "--public-url"),
        (["--public-url", "https://ops.example/ü"], {}, "--public-url"),
        ([], {"INDOUBT_PUBLIC_URL": "https://ops.example/?page=1"}, "without a user, a query or a fragment"),
        ([], {"INDOUBT_PUBLIC_URL": "https://ops.example/#"}, "without a user, a query or a fragment"),
        ([], {"INDOUBT_LOG_LEVEL": "loud"}, "'debug', 'info', 'warning' or 'error'"),
    ],
)
def test_a_wrong_setting_is_named(arguments: list[str], environment: dict[str, str], names: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(names)):
        settings.read([*NEEDED, *arguments], environment)


def test_a_public_address_with_a_login_is_refused_without_showing_it() -> None:
    with pytest.raises(SettingsError, match="--public-url takes the app's address without a user") as raised:
        settings.read([*NEEDED, "--public-url", "https://anna:secret-part@ops.example"], {})
    assert "secret-part" not in str(raised.value)


@pytest.mark.parametrize("path", ["/indoubt", "/indoubt/", "//a"])
def test_a_public_address_with_a_path_is_refused(path: str) -> None:
    with pytest.raises(SettingsError, match="it takes no path: the app's pages lie at the root of their host"):
        settings.read([*NEEDED, "--public-url", f"https://ops.example{path}"], {})


def test_the_public_address_comes_from_flag_environment_or_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[collector]\npublic_url = "https://file.example/"\n')
    of_file = [*NEEDED, "--settings-file", str(file)]
    environment = {"INDOUBT_PUBLIC_URL": "http://127.0.0.1:8651"}
    assert settings.read(NEEDED, {}).public_url == ""
    assert settings.read(of_file, {}).public_url == "https://file.example"
    assert settings.read(of_file, environment).public_url == "http://127.0.0.1:8651"
    flag = [*of_file, "--public-url", "https://flag.example//"]
    assert settings.read(flag, environment).public_url == "https://flag.example"


def test_the_file_of_kafka_properties_is_a_flags_a_variables_or_the_settings_files(tmp_path: Path) -> None:
    file = tmp_path / "indoubt.toml"
    file.write_text('[collector]\nkafka_properties = "of.file"\n')
    of_file, of_variable = [*NEEDED, "--settings-file", str(file)], {"INDOUBT_KAFKA_PROPERTIES": "of.variable"}
    assert settings.read(NEEDED, {}).kafka_properties == ""
    assert settings.read(of_file, {}).kafka_properties == "of.file"
    assert settings.read(of_file, of_variable).kafka_properties == "of.variable"
    assert settings.read([*of_file, "--kafka-properties=of.flag"], of_variable).kafka_properties == "of.flag"


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


FILE = """
[collector]
bootstrap_servers = "kafka:9092"
directory = "/var/lib/indoubt"
port = 9000
read_only = true
alert_aborts = 7
transaction_source = "polling"
trusted_proxy = ["10.0.0.1"]

[collector.checkpoint]
orders = "s3://bucket/orders"

[app]
collector_url = "http://127.0.0.1:8650"
"""


def test_a_file_sets_what_flags_and_variables_leave_open(tmp_path: Path) -> None:
    file = tmp_path / "indoubt.toml"
    file.write_text(FILE)
    read = settings.read(["--settings-file", str(file)], {})
    assert (read.bootstrap_servers, read.directory, read.port) == ("kafka:9092", Path("/var/lib/indoubt"), 9000)
    assert (read.read_only, read.trusted_proxies) == (True, ("10.0.0.1",))
    assert read.checkpoints == {"orders": "s3://bucket/orders"}
    assert (read.tunable.alert.aborts, read.tunable.transaction_source) == (7, TransactionSource.POLLING)


def test_a_flag_wins_over_a_variable_and_both_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "indoubt.toml"
    file.write_text(FILE)
    variables = {
        "INDOUBT_SETTINGS_FILE": str(file),
        "INDOUBT_ALERT_ABORTS": "9",
        "INDOUBT_BOOTSTRAP_SERVERS": "other:9092",
    }
    read = settings.read(["--port", "9001", "--checkpoint", "counts=data/counts"], variables)
    assert (read.port, read.tunable.alert.aborts, read.bootstrap_servers) == (9001, 9, "other:9092")
    assert read.checkpoints == {"orders": "s3://bucket/orders", "counts": "data/counts"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[collector]\nalert_abort = 7", "collector.alert_abort in FILE is not a setting of the collector"),
        ("[collector]\nalert_aborts = 0", "collector.alert_aborts in FILE is '0': input should be greater than 0"),
        ("[collector]\nalert_aborts = 1.5", "collector.alert_aborts in FILE is 1.5; it takes a text or a whole number"),
        ('[collector]\nread_only = "yes"', "collector.read_only in FILE is 'yes'; it takes true or false"),
        ('[collector]\nflink = "a=b"', "collector.flink in FILE is 'a=b'; it takes a list, or a table of names"),
        ('[collector]\noperator_token = "anna:12345678"', "read from the environment alone, as INDOUBT_OPERATOR_TOKEN"),
        ('[collector]\nkafka_sasl_password = "x"', "read from the environment alone, as INDOUBT_KAFKA_SASL_PASSWORD"),
        ("[colector]", "'colector' in FILE is not one of the tables [collector], [app], [pipeline]"),
        ("[collector]\nport = ", "--settings-file FILE is not TOML: Invalid value (at end of document)"),
    ],
)
def test_a_wrong_file_is_named_with_the_key(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "indoubt.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=re.escape(says.replace("FILE", str(file)))):
        settings.read([*NEEDED, "--settings-file", str(file)], {})


def test_a_file_that_is_missing_is_named() -> None:
    with pytest.raises(SettingsError, match=r"--settings-file none\.toml cannot be read: No such file"):
        settings.read([*NEEDED, "--settings-file", "none.toml"], {})


def test_the_directory_must_be_given() -> None:
    with pytest.raises(SettingsError, match="--directory is missing"):
        settings.read(["--bootstrap-servers", "127.0.0.1:9092"], {})


def test_bootstrap_servers_must_be_given() -> None:
    with pytest.raises(SettingsError, match="--bootstrap-servers"):
        settings.read(["--directory", "d"], {})


def test_a_variable_that_is_no_setting_is_told_and_changes_nothing() -> None:
    environment = {"INDOUBT_COMMIT_OVERDUE": "1", "INDOUBT_TOKEN": "x", "INDOUBT_ALERT_ABORTS": "2", "HOME": "/h"}
    assert settings.read(NEEDED, environment).tunable.commit_overdue_ms == TunableSettings().commit_overdue_ms
    assert variables.unknown(environment) == {"INDOUBT_COMMIT_OVERDUE"}


def test_variables_of_other_programs_are_let_be() -> None:
    assert settings.read(NEEDED, {"INDOUBT_KAFKA_SASL_PASSWORD": "x", "INDOUBT_TOKEN": "y"}).tokens is None


def test_a_token_is_in_no_message_and_no_repr() -> None:
    with pytest.raises(SettingsError) as raised:
        settings.read(NEEDED, {"INDOUBT_OPERATOR_TOKEN": "anna=secret-secret"})
    assert "secret-secret" not in str(raised.value)
    assert "secret-secret" not in repr(settings.read(NEEDED, {"INDOUBT_OPERATOR_TOKEN": "anna:secret-secret"}))


@pytest.mark.parametrize(("name", "default"), variables.defaults().items(), ids=variables.defaults())
def test_each_setting_is_documented_with_its_default(name: str, default: object) -> None:
    shown = default.value if isinstance(default, Enum) else default
    assert documented("collector")[f"INDOUBT_{name.upper()}"] == str(shown)


def test_each_flag_and_variable_is_documented_and_nothing_else() -> None:
    options = {
        option for action in settings.command_line()._actions for option in action.option_strings if "--" in option
    }
    known = {f"INDOUBT_{name.upper()}" for name in variables.defaults()}
    known |= {*tokens.NAMES, *PASSWORDS, *receivers.NAMES, "INDOUBT_KAFKA_*", "INDOUBT_KAFKA_PROPERTIES"}
    known |= {variables.BOOTSTRAP_SERVERS, standing_orders.VARIABLE, variables.PUBLIC_URL, CLUSTER_VARIABLE}
    assert documented("collector").keys() == options - {"--help", "--version", "--settings-file"} | known


def test_receivers_are_known_and_never_shown() -> None:
    given = {"INDOUBT_SLACK_URL": "https://hooks.slack.com/services/secret-part"}
    read = settings.read(NEEDED, given)
    assert read.receivers.slack_url.endswith("secret-part")
    assert "secret-part" not in repr(read)


def test_a_command_is_read_as_words_by_its_prefix() -> None:
    given = ["ip-count=systemctl start ip-count", "words=kubectl scale 'deploy/word count' --replicas=1"]
    assert start_commands(given) == {
        "ip-count": ("systemctl", "start", "ip-count"),
        "words": ("kubectl", "scale", "deploy/word count", "--replicas=1"),
    }
    assert start_commands([]) == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["ip-count"], "takes NAME=COMMAND"),
        (["=start"], "takes NAME=COMMAND"),
        (["ip-count= "], "takes NAME=COMMAND"),
        (["ip-count='start"], "cannot be read: no closing quotation"),
        (["ip-count=a", "ip-count=b"], "given twice"),
    ],
)
def test_what_is_no_command_is_refused(given: list[str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        start_commands(given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"INDOUBT_STANDBY_NAME": "eu"}, "go together"),
        ({"INDOUBT_STANDBY_PEER": "http://127.0.0.1:8650"}, "go together"),
        (
            {"INDOUBT_STANDBY_NAME": "a b", "INDOUBT_STANDBY_PEER": "http://127.0.0.1:8650"},
            "INDOUBT_STANDBY_NAME is 'a b'",
        ),
        ({"INDOUBT_STANDBY_NAME": "eu", "INDOUBT_STANDBY_PEER": "http://b:8650"}, "tokens would go there in clear"),
        ({"INDOUBT_STANDBY_NAME": "eu", "INDOUBT_STANDBY_PEER": "https://b:8650/path"}, "INDOUBT_STANDBY_PEER is"),
    ],
)
def test_a_standby_has_a_name_and_an_address_that_tokens_may_go_to(given: dict[str, str], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        settings.read(NEEDED, given)


def test_a_standby_on_this_machine_or_by_https_is_taken() -> None:
    for peer in ("http://127.0.0.1:8651", "http://[::1]:8651", "https://collector-b.example:8650"):
        read = settings.read(NEEDED, {"INDOUBT_STANDBY_NAME": "eu", "INDOUBT_STANDBY_PEER": peer})
        assert (read.tunable.standby_name, read.tunable.standby_peer) == ("eu", peer)
