"""Installs into .venv exactly the Python packages of a lock file, each checked against its hash.

It uses uv, which takes a third of pip's time, and installs uv from PyPI if the machine has none. If uv is not available or
fails, it uses pip, which may be configured for a mirror that uv does not know.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path

from demo.prerequisites import ROOT, VENV, Missing, say

LOCKS = ROOT / "requirements"
ALL, COLLECTOR, DEVELOPMENT = (LOCKS / f"{name}.lock" for name in ("all", "collector", "development"))
UV = LOCKS / "uv.lock"
PROGRAM = """#!/bin/sh
exec "${0%/*}/python" -P -m indoubt "$@"
"""
"""Without -P an ``indoubt`` in the working directory would run in its place."""
STORED = "--build-option=--compression=stored"
"""For PySpark, the only package that is built here: compressing 485 MB that are unpacked at once takes 20 s."""
PROGRESS = re.compile(r"\s*(Resolved|Building|Built|Prepared|Collecting|Installing|Installed|Successfully)")
TAIL = 20


def make_virtual_environment(lock: Path) -> None:
    """Make .venv, install the packages of ``lock``, and the project as .venv/bin/indoubt, run from anywhere. Raises Missing.

    Installs nothing if .venv is up to date.
    """
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    stamp = VENV / f".installed-{lock.stem}"
    if not stamp.exists() or stamp.read_text() != digest:
        _install(lock)
        stamp.write_text(digest)
    site_packages = next((VENV / "lib").glob("python*/site-packages"))
    (site_packages / "indoubt.pth").write_text(f"{ROOT}\n")
    program = VENV / "bin" / "indoubt"
    program.write_text(PROGRAM)
    program.chmod(0o755)


def _install(lock: Path) -> None:
    if not (VENV / "bin" / "python").exists():
        say("making .venv …")
        try:
            venv.create(VENV, with_pip=True)
        except subprocess.CalledProcessError:
            raise Missing("Python's venv module is incomplete: install python3-venv and run again") from None
    say(f"installing the packages of {lock.relative_to(ROOT)} …")
    if not _install_by_uv(lock):
        _install_by_pip(lock)


def _install_by_uv(lock: Path) -> bool:
    """Return whether uv installed everything."""
    uv = shutil.which("uv") or shutil.which(VENV / "bin" / "uv")
    if uv is None:
        code, _ = _run(_pip("--only-binary", ":all:", "--require-hashes", "-r", UV))
        uv = shutil.which(VENV / "bin" / "uv")
        if code != 0 or uv is None:
            return False
    # The cache is inside .venv so that packages can be links to it. It keeps 2 GB of PySpark's build, so it goes afterwards.
    cache = VENV / ".uv-cache"
    where: list[str | Path] = ["--python", VENV / "bin" / "python", "--cache-dir", cache]
    code, tail = _run([uv, "pip", "install", *where, f"-C={STORED}", "--require-hashes", "-r", lock])
    shutil.rmtree(cache, ignore_errors=True)
    if code != 0:
        say(f"uv could not install the packages, so pip installs them. uv printed: {''.join(tail).strip()}")
    return code == 0


def _install_by_pip(lock: Path) -> None:
    code, tail = _run(_pip("--progress-bar", "off", "--require-hashes", "-r", lock))
    if code != 0:
        raise Missing(f"pip could not install the packages of {lock.name}; it printed:\n" + "".join(tail))


def _pip(*arguments: str | Path) -> list[str | Path]:
    return [VENV / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check", *arguments]


def _run(command: Sequence[str | Path]) -> tuple[int, list[str]]:
    """Run an installer and show its progress; return its exit code and its last lines."""
    tail: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tail = [*tail[-TAIL:], line]
            if PROGRESS.match(line):
                say("  " + line.strip()[:100])
    return process.returncode, tail
