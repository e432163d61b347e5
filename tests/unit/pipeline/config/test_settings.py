"""Settings: typed, checked, documented; wrong ones are refused with their name."""

from __future__ import annotations

import dataclasses
import re

import pytest

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.pipeline.config.settings import PipelineSettings, add_file
from indoubt.pipeline.config.sink_settings import make_resource_managers, pairs, read_sinks, same_sinks
from indoubt.pipeline.sink.sink_options import SinkOptions
from indoubt.resource_managers.database.connection import DatabaseConnection
from indoubt.resource_managers.files.access import FilesAccess
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.unit.settings_page import PAGE, documented

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
    ({"sink": "oracle:t"}, "'oracle:t': resource manager 'oracle' is unknown; known are: kafka, mysql, postgres"),
    ({"sink": "out,"}, "'' is not understood"),
    ({"sink": "mysql:"}, "'mysql:' is not understood"),
    ({"sink": "mysql:a,mysql:b"}, "two targets in 'mysql'"),
    ({"sink": "out,mysql:t"}, "--database-properties"),
    ({"sink": "mysql:t", "database_properties": "f", "prefix": "x" * 39}, "at most 38"),
    ({"delivery_guarantee": "exactly-once"}, "exactly_once, at_least_once, none"),
    ({"max_offsets_per_trigger": "0"}, "max_offsets_per_trigger"),
    ({"transaction_timeout_ms": "soon"}, "transaction_timeout_ms"),
    ({"transaction_timeout_ms": "2000"}, "transaction_timeout_ms is 2000; it takes more than 2000"),
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
        make_resource_managers(read_sinks("mysql:t"), KafkaConnection("127.0.0.1:9092"), {}, FilesAccess())


def test_connections_have_names_that_spark_redacts():
    database = DatabaseConnection(kind="mysql", host="h", user="u", database="d", password="hush")
    kafka = KafkaConnection("127.0.0.1:9092", {"sasl.username": "u", "sasl.password": "hush"})
    settings = PipelineSettings.read(GOOD | {"sink": "out,mysql:t", "database_properties": "f"})
    options = SinkOptions.of(settings, kafka, {"mysql": database}, checkpoint_id="l", attempt=1, plan=None)
    assert "hush" not in repr(options)
    travelling = options.to_spark()
    assert {name for name, value in travelling.items() if "hush" in value} == {"kafka_secret", "databases_secret"}
    assert SinkOptions.read(travelling) == options
    assert options.resource_managers().names == ("kafka", "mysql")


@pytest.mark.parametrize("guarantee", [guarantee.value for guarantee in DeliveryGuarantee])
def test_a_producer_property_that_is_not_taken_says_what_to_do(guarantee):
    own = {"sink": "out", "producer_properties": "linger.ms=5", "delivery_guarantee": guarantee}
    settings = PipelineSettings.read(GOOD | own)
    options = SinkOptions.of(settings, KafkaConnection("127.0.0.1:9092"), {}, checkpoint_id="l", attempt=1, plan=None)
    with pytest.raises(
        SettingsError, match=r"'linger\.ms'.*leave it out; a property of the connection.*kafka_properties"
    ):
        options.resource_managers()


def test_pairs():
    assert pairs("a=1, b=2=3,") == {"a": "1", "b": "2=3"}
    with pytest.raises(SettingsError, match="'c' is not key=value"):
        pairs("a=1,c")


def test_a_file_sets_what_flags_leave_open(tmp_path):
    file = tmp_path / "indoubt.toml"
    file.write_text('[pipeline]\nprefix = "q"\ntasks = 3\n[app]\nport = 1\n')
    given, origins = add_file(GOOD, ["run", "--settings-file", str(file)], {})
    settings = PipelineSettings.read(given, origins)
    assert (settings.prefix, settings.tasks) == ("p", 3)
    assert add_file(GOOD, ["run"], {"INDOUBT_SETTINGS_FILE": str(file)}) == (given, origins)
    assert add_file(GOOD, ["run"], {}) == (GOOD, {})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("colour = 1", "pipeline.colour in FILE is not a setting of the pipeline; it knows: "),
        ("yes = true", "pipeline.yes in FILE is not a setting of the pipeline"),
        ("tasks = 1.5", "pipeline.tasks in FILE is 1.5; it takes a text or a whole number"),
        ('tasks = "two"', "pipeline.tasks in FILE is 'two'; it takes a whole number"),
        ("tasks = true", "pipeline.tasks in FILE is True; it takes a text or a whole number"),
    ],
)
def test_a_wrong_key_of_the_file_is_named_with_the_file(tmp_path, line, said):
    file = tmp_path / "indoubt.toml"
    file.write_text(f"[pipeline]\n{line}\n")
    with pytest.raises(SettingsError, match=re.escape(said.replace("FILE", str(file)))):
        PipelineSettings.read(*add_file(GOOD, ["run", "--settings-file", str(file)], {}))


def test_the_file_on_the_page_is_one_that_a_pipeline_starts_with(tmp_path):
    file = tmp_path / "indoubt.toml"
    file.write_text(PAGE.partition("```toml\n")[2].partition("```")[0])
    assert PipelineSettings.read(*add_file({}, ["--settings-file", str(file)], {})).job == "word_count"


def test_every_setting_is_documented_with_its_default_and_nothing_else():
    needed = {f.name for f in dataclasses.fields(PipelineSettings) if f.default is dataclasses.MISSING}
    optional = {f.name: str(f.default) or "empty" for f in dataclasses.fields(PipelineSettings) if f.name not in needed}
    shown = documented("pipeline")
    assert shown.keys() == needed | optional.keys()
    assert {name: shown[name] for name in needed} == dict.fromkeys(needed, "")
    for name in optional.keys() - {"source", "spark_jars"}:
        assert shown[name] == optional[name], name
