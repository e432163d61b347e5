"""Sets up what the project needs: Java, the virtual environment and the JVM jars; for the tests more programs.

``python3 -m demo.set_up [--collector | --tests]`` runs before anything is installed. It installs only what is missing. Java
and programs it can install only on Debian, as root; otherwise it prints what to do and exits with 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from demo import python_packages
from demo.jars import resolve_jars
from demo.prerequisites import ROOT, VENV, Missing, find_java, install_java, install_test_programs, say


def main(given: list[str] | None = None) -> int:
    """Run the set-up; return the exit code."""
    parser = argparse.ArgumentParser(prog="python3 -m demo.set_up", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--collector", action="store_true", help="set up only what collector and app need: no Java, no Spark"
    )
    what.add_argument("--tests", action="store_true", help="also set up what the tests need, with class data archives")
    arguments = parser.parse_args(given)
    try:
        if sys.version_info < (3, 11):  # noqa: UP036 (an older Python may run make demo)
            raise Missing(
                f"indoubt needs Python 3.11 or newer, and this is {sys.version.split()[0]}: install 3.11 and run again"
            )
        if arguments.collector:
            python_packages.make_virtual_environment(python_packages.COLLECTOR)
        else:
            _set_up_everything(tests=arguments.tests)
    except Missing as missing:
        say(str(missing))
        return 1
    say("ready")
    return 0


def _set_up_everything(*, tests: bool) -> None:
    java = find_java() or install_java()
    python_packages.make_virtual_environment(python_packages.DEVELOPMENT if tests else python_packages.ALL)
    resolve_jars(java)
    if tests:
        # They pay off over the tests' hundred JVM starts. The demo starts two, so it makes them in the background.
        subprocess.run([VENV / "bin" / "python", "-m", "demo.class_archives"], cwd=ROOT, check=False)
        install_test_programs()


if __name__ == "__main__":
    sys.exit(main())
