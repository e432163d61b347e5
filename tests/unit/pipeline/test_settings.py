"""Settings: typed, checked, documented; wrong ones are refused with their name."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from lifecycle.errors import SettingsError
from pipeline.settings import ROOT, PipelineSettings, pairs
from pipeline.sink_options import SinkOptions
from pipeline.sinks import make_resource_managers, read_sinks, same_sinks
from resource_managers.database_connection import DatabaseConnection
from resource_managers.kafka_connection import KafkaConnection

GOOD = {
    "job": "passthrough",
    "bootstrap_servers": "127.0.0.1:9092",
    "checkpoint": "/nowhere",
    "prefix": "p",
    "source": "in",
    "sink": "out",
}


def test_defaults_hold():
    settings = PipelineSettings.read(GOOD)
    assert (settings.transaction_timeout_ms, settings.restart_attempts, settings.restart_delay_ms) == (
        60_000,
        3,
        10_000,
    )
    assert PipelineSettings.read(__import__("json").loads(settings.to_json())) == settings


WRONG = [
    ({"job": ""}, "--job"),
    ({"prefix": "a b"}, "prefix"),
    ({"prefix": "x" * 81}, "prefix"),
    ({"sink": "in"}, "source and sink"),
    ({"sink": "mysql:t,kafka:in"}, "source and sink"),
    ({"sink": "oracle:t"}, "'oracle:t' is not understood"),
    ({"sink": "out,"}, "'' is not understood"),
    ({"sink": "mysql:"}, "'mysql:' is not understood"),
    ({"sink": "mysql:a,mysql:b"}, "two targets in 'mysql'"),
    ({"sink": "out,mysql:t"}, "--database-properties"),
    ({"sink": "mysql:t", "database_properties": "f", "prefix": "x" * 39}, "at most 38"),
    ({"delivery_guarantee": "exactly-once"}, "exactly_once, at_least_once, none"),
    ({"max_offsets_per_trigger": "0"}, "max_offsets_per_trigger"),
    ({"transaction_timeout_ms": "soon"}, "transaction_timeout_ms"),
    ({"transaction_timeout_ms": "1000"}, "commit_margin_ms"),
    ({"timeout_warning_ratio": "1.5"}, "timeout_warning_ratio"),
    ({"starting_offsets": "middle"}, "starting_offsets"),
    ({"tasks": "0"}, "tasks"),
    ({"spark_properties": "spark.speculation=true"}, "speculation"),
    ({"colour": "red"}, "colour"),
]


@pytest.mark.parametrize(("change", "named"), WRONG)
def test_a_wrong_setting_is_refused_by_name(change, named):
    with pytest.raises(SettingsError, match=named):
        PipelineSettings.read(GOOD | change)


def test_sinks_are_read_in_their_order():
    assert [str(sink) for sink in read_sinks("mysql:counts, ip_count_sink ,postgres:public.counts")] == [
        "mysql:counts",
        "kafka:ip_count_sink",
        "postgres:public.counts",
    ]


def test_sinks_are_the_same_in_any_order_and_spelling():
    assert same_sinks("out,mysql:t", "mysql:t, kafka:out")
    assert not same_sinks("out,mysql:t", "out")
    assert not same_sinks("out,mysql:t", "out,postgres:t")


def test_a_database_nobody_said_how_to_reach_is_named():
    with pytest.raises(SettingsError, match=r"reach 'mysql' \(sink mysql:t\).*--database-properties"):
        make_resource_managers(read_sinks("mysql:t"), KafkaConnection("127.0.0.1:9092"), {})


def test_connections_travel_under_names_that_spark_hides_and_are_not_in_the_repr():
    database = DatabaseConnection(kind="mysql", host="h", user="u", database="d", password="hush")
    kafka = KafkaConnection("127.0.0.1:9092", {"sasl.username": "u", "sasl.password": "hush"})
    settings = PipelineSettings.read(GOOD | {"sink": "out,mysql:t", "database_properties": "f"})
    options = SinkOptions.of(settings, kafka, {"mysql": database}, life="l", attempt=1, plan=None)
    assert "hush" not in repr(options)
    travelling = options.to_spark()
    assert {name for name, value in travelling.items() if "hush" in value} == {"kafka_secret", "databases_secret"}
    assert SinkOptions.read(travelling) == options
    assert options.resource_managers().names == ("kafka", "mysql")


def test_pairs():
    assert pairs("a=1, b=2=3,") == {"a": "1", "b": "2=3"}
    with pytest.raises(SettingsError, match="'c' is not key=value"):
        pairs("a=1,c")


def test_every_setting_is_documented():
    documented = (Path(ROOT) / "docs" / "settings.md").read_text()
    missing = [f.name for f in dataclasses.fields(PipelineSettings) if f"`{f.name}`" not in documented]
    assert not missing, f"docs/settings.md has no line on {missing}"
