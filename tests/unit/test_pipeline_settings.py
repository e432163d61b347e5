"""Settings: typed, checked, documented; wrong ones are refused with their name."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from lifecycle.errors import SettingsError
from pipeline.settings import ROOT, PipelineSettings, pairs

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


def test_pairs():
    assert pairs("a=1, b=2=3,") == {"a": "1", "b": "2=3"}
    with pytest.raises(SettingsError, match="'c' is not key=value"):
        pairs("a=1,c")


def test_every_setting_is_documented():
    documented = (Path(ROOT) / "docs" / "settings.md").read_text()
    missing = [f.name for f in dataclasses.fields(PipelineSettings) if f"`{f.name}`" not in documented]
    assert not missing, f"docs/settings.md has no line on {missing}"
