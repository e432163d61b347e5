"""The wheel of this checkout, installed into a virtual environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

import pyspark

from demo.prerequisites import ROOT

LIMIT_S = 120.0


class Installed(NamedTuple):
    """A virtual environment with the wheel in it, and a directory that is no checkout."""

    wheel: Path
    bin: Path
    elsewhere: Path

    def run(self, program: str, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run one of its programs from elsewhere to its end."""
        return subprocess.run(
            [self.bin / program, *arguments],
            cwd=self.elsewhere,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )


def build_wheel(directory: Path) -> Path:
    """Build the wheel of the checkout; return its file."""
    _pip("wheel", ROOT, "--no-build-isolation", "--wheel-dir", directory)
    return next(directory.glob("indoubt-*.whl"))


def install_wheel(directory: Path) -> Installed:
    """Build the wheel and install it; what it depends on is taken from where the tests have it, which takes seconds."""
    wheel = build_wheel(directory)
    venv.create(directory / "venv", with_pip=False)
    site_packages = next((directory / "venv" / "lib").glob("python*/site-packages"))
    # The .pth file there, by which the checkout can be imported, is not read from here.
    (site_packages / "dependencies.pth").write_text(f"{Path(pyspark.__file__).parent.parent}\n")
    _pip("install", wheel, "--no-index", python=directory / "venv" / "bin" / "python")
    elsewhere = directory / "elsewhere"
    elsewhere.mkdir()
    return Installed(wheel=wheel, bin=directory / "venv" / "bin", elsewhere=elsewhere)


def _pip(command: str, *arguments: str | Path, python: str | Path = sys.executable) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, command, "--quiet", "--no-deps", *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
