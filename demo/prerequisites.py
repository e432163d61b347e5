"""Set up everything the project needs: Java, the virtual environment, JVM jars and class archives; for the tests more programs.

Runs before anything is installed, so it imports the standard library only: ``python3 demo/prerequisites.py [--tests]``.
What is there already is left alone; what is missing is installed where that can be done (Debian, as root); else one line
says what to do, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
JARS = ROOT / ".run" / "jars"
BROKER_CLASSES = ROOT / ".run" / "classes" / "broker.jsa"
"""The broker's class data archive, where there is one."""
ARCHIVE_LOG_OFF = "-Xlog:cds=off,cds+dynamic=off"
"""A JVM then passes over an archive that is not there or does not fit without a word."""
JAVA_VERSIONS = (17, 21)
MARIADB_PACKAGES = ("mariadb-server-core", "mariadb-client-core")
"""The server alone: Debian's mariadb-server would also start one for the whole machine."""
JAR_NAMES = "[conf]/[artifact]-[revision](-[classifier]).[ext]"


class Missing(Exception):
    """A prerequisite is missing and could not be installed; the message says what to do."""


def say(text: str) -> None:
    """Print one line of progress on stderr."""
    print(f"[setup] {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Set up; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tests",
        action="store_true",
        help="also what the tests need: their packages, Chromium, database servers, Spin",
    )
    parser.add_argument("--no-class-archives", action="store_true", help="not yet: the project is not all there")
    arguments = parser.parse_args()
    started = time.monotonic()
    try:
        if sys.version_info < (3, 11):  # noqa: UP036 (make demo may well be run by an older one)
            raise Missing(f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}: install it and run again")
        java = find_java() or install_java()
        make_virtual_environment(ROOT / ("requirements-dev.txt" if arguments.tests else "requirements.txt"))
        resolve_jars(java)
        if not arguments.no_class_archives:
            subprocess.run([VENV / "bin" / "python", "-m", "demo.class_archives"], cwd=ROOT, check=False)
        if arguments.tests:
            install_test_programs()
    except Missing as missing:
        print(f"[setup] {missing}", file=sys.stderr)
        return 1
    say(f"ready after {time.monotonic() - started:.0f} s")
    return 0


def java_version(java: str) -> int | None:
    """Return the major version that ``java`` reports, or None when it cannot be run."""
    try:
        text = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', text)
    return int(found[1]) if found else None


def find_java() -> str | None:
    """Return the path of a Java 17 or 21: from JAVA_HOME, from PATH, or from where systems keep them; None without one."""
    homes = [os.environ["JAVA_HOME"]] if os.environ.get("JAVA_HOME") else []
    homes += [str(home) for folder in ("/usr/lib/jvm", "/opt/java") for home in sorted(Path(folder).glob("*"))]
    candidates = [shutil.which("java"), *(f"{home}/bin/java" for home in homes)]
    if os.environ.get("JAVA_HOME"):
        candidates.insert(0, candidates.pop(1))
    for candidate in candidates:
        if candidate and java_version(candidate) in JAVA_VERSIONS:
            return str(Path(candidate).resolve())
    return None


def java_home() -> str:
    """Return JAVA_HOME for a Java 17 or 21. Raises Missing that says how to get one."""
    java = find_java()
    if java is None:
        raise Missing(_no_java())
    return str(Path(java).parent.parent)


def _no_java() -> str:
    there = java_version("java")
    found = f"the java on PATH is version {there}" if there else "there is no java on PATH"
    return f"Java 17 or 21 is needed and {found}: install openjdk-17-jre-headless, or set JAVA_HOME to one"


def install_java() -> str:
    """Install Java by Debian's package and return its path. Raises Missing."""
    install_packages(_no_java(), "openjdk-17-jre-headless")
    java = find_java()
    if java is None:
        raise Missing(_no_java())
    return java


def find_chromium() -> str | None:
    """Return the path of Chromium, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def find_mariadb() -> str | None:
    """Return the path of MariaDB's server when the program that makes its data is there too, or None."""
    server = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin:/usr/local/sbin")
    return server if shutil.which("mariadb-install-db") else None


def find_postgres() -> Path | None:
    """Return the directory of PostgreSQL's programs (Debian keeps them outside PATH; the newest wins), or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("initdb")
    if not found:
        return Path(on_path).resolve().parent if on_path else None
    return found[-1].parent


def install_test_programs() -> None:
    """Install the programs that only tests run and that are missing, all at once. Raises Missing that names them."""
    wanted = {
        "Chromium (browser tests)": (find_chromium(), ["chromium"]),
        "MariaDB": (find_mariadb(), list(MARIADB_PACKAGES)),
        "PostgreSQL": (find_postgres(), ["postgresql"]),
        "OpenSSL (TLS tests)": (shutil.which("openssl"), ["openssl"]),
        "Spin (model test)": (shutil.which("spin"), ["spin"]),
        "a C compiler (model test)": (shutil.which("cc") or shutil.which("gcc"), ["gcc", "libc6-dev"]),
    }
    missing = {what: packages for what, (found, packages) in wanted.items() if not found}
    if missing:
        install_packages(", ".join(missing), *(package for packages in missing.values() for package in packages))


def install_packages(what: str, *packages: str) -> None:
    """Install Debian packages when this is Debian and we are root. Raises Missing that names the packages otherwise."""
    command = f"apt-get install {' '.join(packages)}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Missing(f"{what}: missing. Install it (on Debian, as root: {command}) and run again")
    say(f"{what}: {command} …")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages]):
        done = subprocess.run(["apt-get", *step], env=environment, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            raise Missing(f"{what}: 'apt-get {' '.join(step)}' failed: {done.stderr.strip()[-400:]}")


def make_virtual_environment(requirements: Path) -> None:
    """Make .venv, install the requirements, make the project importable from anywhere; what is done already is kept.

    Raises Missing.
    """
    files = [requirements, ROOT / "requirements.txt", ROOT / "constraints.txt"]
    wanted = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    stamp = VENV / f".installed-{requirements.stem}"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    if not (VENV / "bin" / "python").exists():
        say("making .venv …")
        try:
            venv.create(VENV, with_pip=True)
        except subprocess.CalledProcessError:
            raise Missing("Python's venv module is incomplete: install python3-venv and run again") from None
    say(f"installing {requirements.name} (a minute or two the first time) …")
    command: list[str | Path] = [VENV / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--progress-bar", "off", "-r", requirements, "-c", ROOT / "constraints.txt"]
    shown = re.compile(r"(Collecting|Installing|Successfully)")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        assert pip.stdout is not None
        tail: list[str] = []
        for line in pip.stdout:
            tail = [*tail[-20:], line]
            if shown.match(line):
                say("  " + line.strip()[:100])
    if pip.returncode != 0:
        raise Missing("pip could not install the requirements:\n" + "".join(tail))
    site_packages = next((VENV / "lib").glob("python*/site-packages"))
    (site_packages / "indoubt.pth").write_text(f"{ROOT}\n")
    stamp.write_text(wanted)


def resolve_jars(java: str) -> None:
    """Fetch the jars that ivy.xml names into .run/jars, unless they are there. Raises Missing."""
    wanted = hashlib.sha256((ROOT / "ivy.xml").read_bytes()).hexdigest()
    stamp = JARS / ".resolved"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    say("fetching the JVM jars that ivy.xml names (about 70 MB, two minutes the first time) …")
    shutil.rmtree(JARS, ignore_errors=True)
    fetch_jars(java, ROOT / "ivy.xml", JARS, ["spark", "broker"])
    if not list((JARS / "broker").glob("kafka_2.13-*.jar")):
        raise Missing("Ivy fetched no broker jars: remove ~/.ivy2/cache and run again")
    stamp.write_text(wanted)


def fetch_jars(java: str, module: Path, into: Path, configurations: list[str]) -> None:
    """Fetch what an Ivy module names into ``into/<configuration>/``, with the Ivy that pyspark ships. Raises Missing."""
    ivy = next((VENV / "lib").glob("python*/site-packages/pyspark/jars/ivy-*.jar"), None)
    if ivy is None:
        raise Missing("pyspark in .venv ships no Ivy jar: remove .venv and run again")
    into.mkdir(parents=True, exist_ok=True)
    command = [java, "-cp", f"{ivy.parent}/*", "org.apache.ivy.Main", "-ivy", str(module)]
    command += ["-retrieve", f"{into}/{JAR_NAMES}", "-types", "jar", "bundle", "-confs", *configurations]
    fetched, tail = 0, [""]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tail = [*tail[-25:], line]
            fetched += "[SUCCESSFUL" in line
            if "[SUCCESSFUL" in line and fetched % 10 == 0:
                say(f"  {fetched} jars")
    if process.returncode != 0:
        raise Missing("the JVM jars could not be fetched:\n" + "".join(tail))


if __name__ == "__main__":
    sys.exit(main())
