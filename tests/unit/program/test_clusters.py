"""The clusters of ``watch``: tables of a file and numbered variables; what is of one cluster reaches no other's collector."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from indoubt.app.settings import Settings as AppSettings
from indoubt.collector.config import settings as collector_settings
from indoubt.lifecycle.errors import SettingsError
from indoubt.program import clusters, main, watch, watch_settings
from indoubt.program.watch_settings import WatchSettings
from indoubt.resource_managers.kafka.connection import KafkaConnection

TWO = """
[collector]
commit_overdue_ms = 500

[clusters.eu]
bootstrap_servers = "eu-1:9092"
kafka_properties = "eu.properties"
checkpoint = { orders = "/checkpoints/eu" }
flink = { jobs = "http://flink-eu:8081" }
commit_overdue_ms = 700

[clusters.us]
bootstrap_servers = "us-1:9092"
"""
NUMBERED = {
    "INDOUBT_CLUSTERS_0_NAME": "ap",
    "INDOUBT_CLUSTERS_0_BOOTSTRAP_SERVERS": "ap-1:9092",
    "INDOUBT_CLUSTERS_0_PROPERTIES_SECURITY_PROTOCOL": "SASL_SSL",
    "INDOUBT_CLUSTERS_0_CHECKPOINT": "orders=/a,clicks=/b",
    "INDOUBT_CLUSTERS_0_READ_ONLY": "true",
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "indoubt.toml"
    path.write_text(TWO)
    return path


def read(environment: dict[str, str], file: Path | None = None, *words: str) -> WatchSettings:
    named = [f"--settings-file={file}"] if file is not None else []
    return watch_settings.read([*named, "--port=0", "--collector-port=0", *words], environment)


def collector(settings: WatchSettings, name: str) -> collector_settings.Settings:
    """Return the settings as its collector reads them."""
    watched = settings.collectors[name]
    return collector_settings.read(watched.words, watched.environment)


def test_each_table_is_a_collector_of_its_own(environment: dict[str, str], file: Path) -> None:
    settings = read(environment, file)
    eu, us = collector(settings, "eu"), collector(settings, "us")
    assert (eu.cluster, eu.bootstrap_servers, eu.kafka_properties) == ("eu", "eu-1:9092", "eu.properties")
    assert (us.cluster, us.bootstrap_servers, us.kafka_properties) == ("us", "us-1:9092", "")
    assert (eu.checkpoints, eu.flink) == ({"orders": "/checkpoints/eu"}, {"jobs": "http://flink-eu:8081"})
    assert (us.checkpoints, us.flink) == ({}, {})
    assert (eu.tunable.commit_overdue_ms, us.tunable.commit_overdue_ms) == (700, 500)
    assert len({eu.port, us.port, settings.port}) == len({eu.directory, us.directory}) + 1 == 3


def test_the_pages_ask_all_of_them_by_name(environment: dict[str, str], file: Path) -> None:
    settings = read(environment, file)
    urls = [f"{name}={watched.url}" for name, watched in settings.collectors.items()]
    assert [word for word in settings.of_app if word.startswith("--collector=")] == [
        f"--collector={url}" for url in urls
    ]
    by_cluster = AppSettings.by_cluster({"INDOUBT_COLLECTOR_URL": ",".join(urls), "INDOUBT_TOKEN": "x" * 32})
    assert {name: each.collector_url for name, each in by_cluster.items()} == {
        name: watched.url for name, watched in settings.collectors.items()
    }
    said = "\n".join(watch.said(settings))
    assert "indoubt watches eu (eu-1:9092)" in said
    assert "'indoubt commit KEY --cluster eu'" in said


def test_variables_name_a_cluster_as_kafbats_do(environment: dict[str, str], file: Path) -> None:
    settings = read(environment | NUMBERED, file)
    assert list(settings.collectors) == ["eu", "us", "ap"]
    ap = collector(settings, "ap")
    assert (ap.cluster, ap.bootstrap_servers, ap.read_only) == ("ap", "ap-1:9092", True)
    assert ap.checkpoints == {"orders": "/a", "clicks": "/b"}
    connection = KafkaConnection.from_environment(settings.collectors["ap"].environment, ap.bootstrap_servers)
    assert connection.properties == {"security.protocol": "SASL_SSL"}
    assert main.unknown_variables(environment | NUMBERED) == []
    (told,) = main.unknown_variables({"INDOUBT_CLUSTERS_0_COMMIT_OVERDU_MS": "1"})
    assert told.startswith("INDOUBT_CLUSTERS_0_COMMIT_OVERDU_MS is no setting")


def test_a_variable_says_more_of_a_cluster_of_the_file(environment: dict[str, str], file: Path) -> None:
    secret = {"INDOUBT_CLUSTERS_7_NAME": "us", "INDOUBT_CLUSTERS_7_KAFKA_SASL_PASSWORD": "of-us"}
    settings = read(environment | secret, file)
    assert settings.collectors["us"].environment["INDOUBT_KAFKA_SASL_PASSWORD"] == "of-us"
    assert "of-us" not in str(settings.collectors["eu"].environment)
    assert "of-us" not in repr(settings)


def test_what_is_said_of_all_does_not_win_over_one(environment: dict[str, str], file: Path) -> None:
    of_all = {
        "INDOUBT_BOOTSTRAP_SERVERS": "elsewhere:9092",
        "INDOUBT_KAFKA_SASL_USERNAME": "everywhere",
        "INDOUBT_COMMIT_OVERDUE_MS": "900",
        "INDOUBT_CLUSTER": "us",
    }
    settings = read(environment | of_all, file)
    eu, us = collector(settings, "eu"), collector(settings, "us")
    assert (eu.bootstrap_servers, us.bootstrap_servers) == ("eu-1:9092", "us-1:9092")
    assert (eu.cluster, us.cluster) == ("eu", "us")
    assert (eu.tunable.commit_overdue_ms, us.tunable.commit_overdue_ms) == (700, 900)
    # A login is sent to the brokers it was given for: one that has properties of its own gets no other's.
    assert "INDOUBT_KAFKA_SASL_USERNAME" not in settings.collectors["eu"].environment
    assert settings.collectors["us"].environment["INDOUBT_KAFKA_SASL_USERNAME"] == "everywhere"


def test_a_cluster_that_stays_keeps_its_port(environment: dict[str, str], file: Path) -> None:
    settings = read(environment, file)
    both = [watched.cluster for watched in settings.collectors.values()]
    later = settings.watching(both[1:]).watching(both)
    assert later.collectors["us"] == settings.collectors["us"]
    assert later.collectors["eu"].port != settings.collectors["us"].port


def test_one_alone_may_have_a_name(environment: dict[str, str]) -> None:
    settings = read({**environment, "INDOUBT_CLUSTER": "eu"}, None, "--bootstrap-servers=b:9092")
    assert collector(settings, "eu").cluster == "eu"


@pytest.mark.parametrize(
    ("text", "variables", "words", "says"),
    [
        ("[clusters.eu]\n", {}, [], "cluster eu has no bootstrap_servers"),
        ("[clusters]\neu = 1\n", {}, [], "it takes a table [clusters.eu]"),
        ('[clusters."e/u"]\n', {}, [], "it takes a name of letters"),
        (TWO, {"INDOUBT_CLUSTERS_0_BOOTSTRAP_SERVERS": "b:1"}, [], "INDOUBT_CLUSTERS_0_NAME is ''; it takes a name"),
        ("", NUMBERED | {"INDOUBT_CLUSTERS_1_NAME": "ap"}, [], "there is a cluster ap already"),
        ("", NUMBERED | {"INDOUBT_CLUSTERS_0_READ_ONLY": "yes"}, [], "it takes true or false"),
        ("", NUMBERED | {"INDOUBT_CLUSTERS_0_OPERATOR_TOKEN": "a:b"}, [], "operator_token of cluster ap"),
        (TWO + "port = 1\n", {}, [], "port of cluster us"),
        (TWO.replace("us-1", "eu-1"), {}, [], "clusters eu and us have the same history"),
        (TWO, {}, ["--checkpoint=orders=/c"], "--checkpoint does not say of which cluster"),
        (TWO, {}, ["--bootstrap-servers=b:1"], "--bootstrap-servers does not say of which cluster"),
    ],
)
def test_what_does_not_fit_is_named(
    environment: dict[str, str], file: Path, text: str, variables: dict[str, str], words: list[str], says: str
) -> None:
    file.write_text(text)
    with pytest.raises(SettingsError, match=re.escape(says)):
        read(environment | variables, file, *words)


@pytest.mark.parametrize(
    ("before", "after", "goes_on"),
    [
        ('flink = { jobs = "http://flink-eu:8081" }', 'flink = { jobs = "http://another:8081" }', True),
        ('checkpoint = { orders = "/checkpoints/eu" }', 'flink_kubernetes = ["streams"]', True),
        ("commit_overdue_ms = 700", "commit_overdue_ms = 800", False),
        ('"eu-1:9092"', '"eu-2:9092"', False),
    ],
)
def test_a_collector_goes_on_where_only_what_it_watches_changes(
    environment: dict[str, str], file: Path, before: str, after: str, goes_on: bool
) -> None:
    first = read(environment, file)
    assert before in TWO
    file.write_text(TWO.replace(before, after))
    second = first.watching(clusters.read([f"--settings-file={file}"], environment))
    assert first.collectors["eu"].goes_on_as(second.collectors["eu"]) is goes_on
    assert first.collectors["us"].goes_on_as(second.collectors["us"])
