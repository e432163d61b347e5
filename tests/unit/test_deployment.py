"""What deploy/ brings: images' files, the list of what they leave out, and the unit of systemd."""

from __future__ import annotations

import configparser
import fnmatch
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from demo.prerequisites import ROOT
from indoubt.program import watch_settings

IMAGES = ROOT / "deploy" / "images"
DOCKERFILES = [ROOT / "Dockerfile", IMAGES / "spark.Dockerfile", ROOT / "demo" / "Dockerfile"]
UNIT = ROOT / "deploy" / "systemd" / "indoubt.service"
HADOLINT = Path(sys.executable).with_name("hadolint")


@pytest.mark.skipif(not HADOLINT.exists(), reason="hadolint has no wheel for this machine")
@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_hadolint_finds_nothing_wrong(file: Path) -> None:
    done = subprocess.run([HADOLINT, file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("file", DOCKERFILES[:2], ids=lambda file: file.name)
def test_an_image_is_made_in_two_stages_and_belongs_to_nobody(file: Path) -> None:
    build, final = file.read_text().split("\nFROM ")[-2:]
    assert "--require-hashes" in build
    assert "COPY --from=build" in final
    assert "\nUSER 10001:10001\n" in final
    assert "\nHEALTHCHECK " in final


def test_no_pattern_of_what_is_left_out_names_the_project() -> None:
    lines = (IMAGES / "unused_files.txt").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert len(set(patterns)) == len(patterns)
    assert [each for each in patterns if fnmatch.fnmatch("indoubt/app/page.py", f"{each.rstrip('/')}*")] == []


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(UNIT)
    return parser


def test_the_unit_starts_the_watcher_with_history_in_its_own_directory() -> None:
    service = unit()["Service"]
    program, command, *words = shlex.split(service["ExecStart"])
    assert (Path(program).name, command) == ("indoubt", "watch")
    environment = dict(word.split("=", 1) for word in service["Environment"].split())
    free = ["--port", "0", "--collector-port", "0"]
    read = watch_settings.read([*words, *free], {**environment, "INDOUBT_BOOTSTRAP_SERVERS": "kafka:9092"})
    assert (
        read.collectors[""].cluster.directory == Path("/var/lib") / service["StateDirectory"] / "history" / "kafka_9092"
    )
    assert service["User"] != "root"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    service = unit()["Service"]
    # Neither the program nor its user is on this machine.
    text = UNIT.read_text().replace(f"ExecStart={service['ExecStart']}", f"ExecStart={sys.executable}")
    file = tmp_path / UNIT.name
    file.write_text(text.replace("User=indoubt", "User=daemon").replace("Group=indoubt", "Group=daemon"))
    done = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if file.name in line] == []
    assert done.returncode == 0
