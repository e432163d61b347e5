"""What the set-up installs: exactly what is locked, and for collector and app alone neither Java nor Spark."""

from __future__ import annotations

import hashlib
import itertools
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from demo import jars, python_packages, set_up
from demo.prerequisites import ROOT, Missing
from indoubt.lifecycle.version import VERSION

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
pytestmark = pytest.mark.slow

LOCKS = (python_packages.ALL, python_packages.COLLECTOR, python_packages.DEVELOPMENT, python_packages.UV)
NOT_IN_IMAGE = {"spark", "iceberg"}
"""Extras that the watcher's image lacks, for their size."""
NEVER_IMPORTED = ("pyspark", "py4j", "indoubt.pipeline", "demo")
IMPORTS_EVERYTHING = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    sys.modules[name] = None  # an import of it fails
found = ["indoubt.app", "indoubt.collector", "indoubt.program"]
for package in tuple(found):
    found += [module.name for module in pkgutil.walk_packages([package.replace(".", "/")], f"{package}.")]
for name in found:
    if name != "indoubt.app.page":  # Streamlit's script: to import it is to run it, and it is only made of the others
        importlib.import_module(name)
print(len(found))
"""


def normal(name: str) -> str:
    """Return a package's name as an index writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def direct(*requirements: str) -> set[str]:
    """Return the names of requirements such as ``psycopg[binary]>=3,<4``."""
    return {normal(re.split(r"[^A-Za-z0-9._-]", requirement)[0]) for requirement in requirements}


def locked(lock: Path) -> dict[str, str]:
    """Return the exact version of each package in a lock."""
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock.read_text(), re.MULTILINE))


def test_collector_and_app_import_nothing_of_spark() -> None:
    command = [sys.executable, "-c", IMPORTS_EVERYTHING, *NEVER_IMPORTED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 100


def test_set_up_of_the_collector_needs_neither_java_nor_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[Path] = []
    monkeypatch.setattr(python_packages, "make_virtual_environment", installed.append)
    for name in ("find_java", "install_java", "resolve_jars", "install_test_programs"):
        monkeypatch.setattr(set_up, name, lambda *_: pytest.fail("asked for Java or for what needs it"))
    assert set_up.main(["--collector"]) == 0
    assert installed == [python_packages.COLLECTOR]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_has_a_hash_for_each_package_and_no_address(lock: Path) -> None:
    text = lock.read_text()
    packages = re.split(r"\n(?=\S)", text)
    assert [package for package in packages if "--hash=sha256:" not in package] == []
    assert "//" not in text


def test_locks_hold_what_the_project_asks_for_at_one_version() -> None:
    watcher, extras = PROJECT["project"]["dependencies"], PROJECT["project"]["optional-dependencies"]
    development = locked(python_packages.DEVELOPMENT)
    everything = direct(*watcher, *itertools.chain(*extras.values()))
    of_watcher = [extra for name, extra in extras.items() if name not in NOT_IN_IMAGE]
    assert direct(*PROJECT["dependency-groups"]["development"]) | everything <= development.keys()
    assert everything <= locked(python_packages.ALL).keys()
    assert direct(*watcher, *itertools.chain(*of_watcher)) <= locked(python_packages.COLLECTOR).keys()
    assert not {"pyspark", "py4j"} & locked(python_packages.COLLECTOR).keys()
    for lock in (python_packages.ALL, python_packages.COLLECTOR):
        assert locked(lock).items() <= development.items()


def test_each_direct_dependency_has_its_reason_in_the_document() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "dependencies.md").read_text(), re.MULTILINE)
    documented = {name for row in rows for name in direct(*row.split(", "))}
    groups = [PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"].values()]
    groups += PROJECT["dependency-groups"].values()
    assert direct(*itertools.chain(*groups), "uv") <= documented


def test_pip_installs_what_uv_cannot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib" / "python3" / "site-packages").mkdir(parents=True)
    for program, script in {"uv": "exit 2", "python": f'echo "$@" > {tmp_path}/asked'}.items():
        (tmp_path / "bin" / program).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(python_packages, "VENV", tmp_path)
    python_packages.make_virtual_environment(python_packages.ALL)
    assert (tmp_path / "asked").read_text().endswith(f"--require-hashes -r {python_packages.ALL}\n")
    assert (tmp_path / ".installed-all").exists()


def test_the_program_is_put_beside_python_also_where_nothing_is_to_be_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site_packages = tmp_path / "lib" / "python3" / "site-packages"
    for directory in (tmp_path / "bin", site_packages):
        directory.mkdir(parents=True)
    digest = hashlib.sha256(python_packages.COLLECTOR.read_bytes()).hexdigest()
    (tmp_path / ".installed-collector").write_text(digest)
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setattr(python_packages, "VENV", tmp_path)
    python_packages.make_virtual_environment(python_packages.COLLECTOR)
    assert (site_packages / "indoubt.pth").read_text() == f"{ROOT}\n"
    stranger = tmp_path / "elsewhere" / "indoubt"
    stranger.mkdir(parents=True)
    (stranger / "__main__.py").write_text("print('of a stranger')")
    said = subprocess.run(
        [tmp_path / "bin" / "indoubt", "--version"],
        cwd=stranger.parent,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert said.stdout == f"indoubt {VERSION}\n", said.stderr


def test_jars_lock_holds_what_ivy_xml_asks_for() -> None:
    module = ElementTree.parse(jars.MODULE)
    moved = {(o.get("org"), o.get("module")): o.get("rev") for o in module.iter("override")}
    wanted = {
        (name, moved.get((name, d.get("name")), d.get("rev")))
        for d in module.iter("dependency")
        if (name := d.get("name"))
    }
    found = {(jar.module, jar.revision) for jar in jars.locked_jars()}
    assert wanted <= found
    assert {(name, revision) for (_, name), revision in moved.items()} <= found


def test_a_jar_with_other_content_is_refused(tmp_path: Path) -> None:
    jar = jars.locked_jars()[0]
    with pytest.raises(Missing, match="did not fetch"):
        jars.verify([jar], tmp_path)
    (tmp_path / jar.file).parent.mkdir(parents=True)
    (tmp_path / jar.file).write_bytes(b"something else")
    with pytest.raises(Missing, match=r"is not the one in jars\.lock"):
        jars.verify([jar], tmp_path)
