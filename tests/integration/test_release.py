"""``make release``: what it makes can be uploaded, installed, and built again from the source that it brings."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from collections.abc import Sequence
from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile

import pytest

from demo.prerequisites import ROOT, VENV
from demo.python_packages import COLLECTOR
from indoubt.lifecycle.version import VERSION

pytestmark = pytest.mark.long

NAME = f"indoubt-{VERSION}"
LIMIT_S = 280.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("release") / "dist"
    # Without its set-up, which the tests have behind them.
    printed = run("make", "--old-file=setup-tests", "release", f"DIST={directory}")
    assert f"indoubt {VERSION}\n" in printed, "the wheel was installed and started"
    assert printed.count("PASSED") == 2
    return directory


def test_a_release_is_wheel_source_and_list(made: Path) -> None:
    names = {f"{NAME}-py3-none-any.whl", f"{NAME}.tar.gz", "indoubt.cdx.json"}
    assert {path.name for path in made.iterdir()} == names


def test_the_wheel_says_what_it_is_and_needs_neither_spark_nor_a_database(made: Path) -> None:
    with ZipFile(made / f"{NAME}-py3-none-any.whl") as wheel:
        metadata = HeaderParser().parsestr(wheel.read(f"{NAME}.dist-info/METADATA").decode())
        assert f"{NAME}.dist-info/licenses/LICENSE" in wheel.namelist()
    assert metadata["License-Expression"] == "Apache-2.0"
    extras = {"spark", "mysql", "postgres", "zookeeper", "msk", "mcp", "s3", "iceberg"}
    assert set(metadata.get_all("Provides-Extra")) == extras
    needed = [text for text in metadata.get_all("Requires-Dist") if "extra ==" not in text]
    assert not [text for text in needed if re.match(r"pyspark|pymysql|psycopg|aws", text, re.IGNORECASE)]


def test_the_source_gives_the_same_wheel(made: Path, tmp_path: Path) -> None:
    with tarfile.open(made / f"{NAME}.tar.gz") as source:
        source.extractall(tmp_path, filter="data")
    run(VENV / "bin" / "hatchling", "build", "--target", "wheel", "--directory", tmp_path, cwd=tmp_path / NAME)
    again = tmp_path / f"{NAME}-py3-none-any.whl"
    assert again.read_bytes() == (made / again.name).read_bytes()


def test_the_list_has_each_package_of_the_watcher_with_its_licence(made: Path) -> None:
    listed = json.loads((made / "indoubt.cdx.json").read_text())
    root = listed["metadata"]["component"]
    assert (root["name"], root["version"]) == ("indoubt", VERSION)
    components = {each["name"].lower().replace("_", "-"): each for each in listed["components"]}
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", COLLECTOR.read_text(), re.MULTILINE))
    assert {name: each["version"] for name, each in components.items()}.items() <= locked.items()
    assert {"streamlit", "duckdb", "confluent-kafka"} <= components.keys()
    assert str(ROOT) not in json.dumps(listed)


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a command to its good end; return what it printed."""
    words: Sequence[str | Path] = command
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
