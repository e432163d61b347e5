"""A job of the user's own, named MODULE:FUNCTION: what is wrong with it is said with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from indoubt.lifecycle.errors import SettingsError
from indoubt.pipeline.config.settings import PipelineSettings
from indoubt.pipeline.jobs.job import find_job, import_job
from tests.unit.pipeline.config.test_settings import GOOD

MODULE = """
from os.path import join

def with_session(spark):
    return spark

def with_settings(spark, settings):
    return settings

def _hidden(spark):
    return spark
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Return the name of a module with these functions; each test has another, for modules are imported once."""
    name = f"own_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / f"{name}_broken.py").write_text("import nothing_like_it")
    (tmp_path / f"{name}_failing.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("{}:nosuch", "module '{}' has no function 'nosuch'; it has: with_session, with_settings$"),
        ("{}:", "has no function ''"),
        ("nosuch_module:f", "there is no module 'nosuch_module': start in its folder, or .* PYTHONPATH"),
        ("{}.inner:f", "there is no module '{}.inner'"),
        (
            "{}_broken:f",
            "module '{}_broken' cannot be imported: ModuleNotFoundError: No module named 'nothing_like_it'",
        ),
        ("{}_failing:f", "cannot be imported: ZeroDivisionError"),
    ],
)
def test_a_job_that_is_not_there_is_refused(module, job, said):
    with pytest.raises(SettingsError, match=said.format(module)):
        import_job(job.format(module))


@pytest.mark.parametrize("function", ["with_session", "with_settings"])
def test_what_a_function_returns_must_be_a_stream(module, function):
    name = f"{module}:{function}"
    with pytest.raises(SettingsError, match=f"job '{name}' returned a str: return a DataFrame"):
        import_job(name)("session", "settings")


def test_a_job_of_ones_own_needs_no_source_and_has_its_output_mode(module):
    given = {name: value for name, value in GOOD.items() if name != "source"} | {"job": f"{module}:with_session"}
    job = find_job(PipelineSettings.read(given))
    assert (job.columns, job.updates) == (None, False)
    assert find_job(PipelineSettings.read(given | {"output_mode": "update"})).updates
    with pytest.raises(SettingsError, match="output_mode is 'complete'; it takes append or update"):
        PipelineSettings.read(given | {"output_mode": "complete"})
    with pytest.raises(SettingsError, match="missing: source"):
        PipelineSettings.read(given | {"job": "passthrough"})


def test_an_unknown_job_is_refused_with_those_that_there_are():
    with pytest.raises(SettingsError, match="takes one of: ip_count, passthrough, word_count, or MODULE:FUNCTION"):
        find_job(PipelineSettings.read(GOOD | {"job": "nosuch"}))
