"""The demo's Flink job, as far as it needs no download."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from demo import flink_job
from demo.flink_job import FlinkJob
from demo.run import DemoRun, RunSettings
from demo.waiting import DemoFailed
from indoubt.collector.config import named_locations

JOB = FlinkJob(port=4711, checkpoints=Path("/data/checkpoints"))


def test_what_is_missing_is_named():
    assert flink_job.missing(lambda program: None) == "mvn (Maven) and javac (a JDK)"
    assert flink_job.missing(lambda program: program if program == "mvn" else None) == "javac (a JDK)"
    assert flink_job.missing(lambda program: program) == ""


def test_the_collector_watches_the_jobs_rest_api_and_checkpoints():
    rest, checkpoints = (argument.partition("=")[2] for argument in JOB.arguments)
    assert named_locations.flink([rest]) == {"flink": "http://127.0.0.1:4711"}
    assert named_locations.flink_checkpoints([checkpoints]) == {"flink": ("/data/checkpoints",)}


def test_the_job_gets_what_its_class_takes():
    command = JOB.command("127.0.0.1:9092")
    place = command.index(flink_job.CLASS)
    assert command[place + 1 :] == ["127.0.0.1:9092", "flink_orders", "/data/checkpoints", "4711", "20"]
    source = (flink_job.SOURCES / "FlinkOrders.java").read_text()
    assert all(f"arguments[{number}]" in source for number in range(5))


def test_its_sources_name_no_registry_and_no_path():
    project = (flink_job.SOURCES / "pom.xml").read_text()
    assert ET.fromstring(project).tag.endswith("project")
    assert "<repositor" not in project
    assert "://" not in project.replace("http://maven.apache.org/POM/4.0.0", "")


def test_a_build_that_fails_says_why_and_the_demo_goes_on(tmp_path, monkeypatch, capsys):
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho no network; exit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(flink_job, "BUILD", tmp_path / "build")
    monkeypatch.setattr(flink_job, "missing", lambda: "")
    with pytest.raises(DemoFailed, match="mvn ended with 1: no network"):
        flink_job.build()
    run = DemoRun(RunSettings(directory=tmp_path, rate=1.0, restart_attempts=1, flink=True))
    run.build_flink()
    assert "no Flink job: the Flink job was not built: mvn ended with 1: no network" in capsys.readouterr().err


def test_a_build_leaves_classes_of_the_present_source(tmp_path, monkeypatch):
    commands: list[str] = []

    def ran(command: list[str], limit_s: float) -> None:
        commands.append(command[0])
        made = {"mvn": tmp_path / "libraries.draft", "javac": tmp_path / "classes"}[command[0]]
        made.mkdir(exist_ok=True)
        (made / "FlinkOrders.class").write_text("")

    monkeypatch.setattr(flink_job, "BUILD", tmp_path)
    monkeypatch.setattr(flink_job, "_run", ran)
    flink_job.build()
    flink_job.build()
    assert commands == ["mvn", "javac"]
    shutil.rmtree(tmp_path / "classes")
    flink_job.build()
    assert commands == ["mvn", "javac", "javac"]
