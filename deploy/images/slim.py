"""Makes an installed indoubt smaller, for its image: run it by the Python of that installation.

It removes the files that unused_files.txt names, strips symbols from large libraries where a ``strip`` is there, and imports
every module of the watcher: that shows that nothing needed is gone, and leaves compiled modules, which a read-only file system
cannot take later.
"""

from __future__ import annotations

import importlib
import pkgutil
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PATTERNS = Path(__file__).with_name("unused_files.txt")
STRIPPED = ("pyarrow/*.so*", "uvloop/*.so", "cryptography/hazmat/bindings/*.so")
"""Not the libraries in ``*.libs``: their wheels' tool moved them, and stripped they no longer load."""
WATCHER = ("app", "collector", "program")
NOT_IMPORTED = "indoubt.app.page"
"""Streamlit's script: to import it is to run it, and it is only made of the others."""


def main() -> None:
    """Do it. Raises SystemExit where a pattern matches nothing."""
    site_packages = Path(sysconfig.get_path("purelib"))
    for pattern in unused():
        found = list(site_packages.glob(pattern))
        if not found:
            sys.exit(f"{PATTERNS.name}: {pattern} matches nothing in {site_packages}")
        for path in found:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    if shutil.which("strip"):
        libraries = [path for pattern in STRIPPED for path in site_packages.glob(pattern)]
        subprocess.run(["strip", "--strip-unneeded", *libraries], check=True)
    sys.dont_write_bytecode = False
    import_everything()


def unused() -> list[str]:
    """Return the patterns of what is left out, relative to site-packages."""
    lines = PATTERNS.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def import_everything() -> None:
    """Import each module of the watcher."""
    for name in [f"indoubt.{part}" for part in WATCHER]:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if module.name != NOT_IMPORTED:
                importlib.import_module(module.name)


if __name__ == "__main__":
    main()
