"""Finds the prerequisites on this machine and installs missing ones: Java, database servers, Chromium, Spin.

The set-up imports this module before anything is installed, so it imports only the standard library.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
JARS = ROOT / ".run" / "jars"
BROKER_CLASSES = ROOT / ".run" / "classes" / "broker.jsa"
"""The broker's class data archive, if there is one."""
ARCHIVE_LOG_OFF = "-Xlog:cds=off,cds+dynamic=off"
"""With this flag a JVM ignores a missing or unsuitable archive without a message."""
JAVA_VERSIONS = (17, 21)
MARIADB_PACKAGES = ("mariadb-server-core", "mariadb-client-core")
"""Only the programs: Debian's mariadb-server would also start a server for the whole machine."""
STARTED = time.monotonic()


class Missing(Exception):
    """A prerequisite is missing, and the set-up could not install it; the message says what to do."""


def say(text: str, part: str = "setup") -> None:
    """Print a line of progress on stderr, with the seconds since this process started."""
    print(f"[{part} {time.monotonic() - STARTED:3.0f} s] {text}", file=sys.stderr, flush=True)


def java_version(java: str) -> int | None:
    """Return the major version that ``java`` reports, or None if it does not run."""
    try:
        text = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)', text)
    return int(match[1]) if match else None


def find_java() -> str | None:
    """Return the path of a Java 17 or 21 from JAVA_HOME, PATH or the usual directories, or None."""
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
    """Return JAVA_HOME for a Java 17 or 21. Raises Missing."""
    java = find_java()
    if java is None:
        raise Missing(_no_java())
    return str(Path(java).parent.parent)


def _no_java() -> str:
    version = java_version("java")
    on_path = f"the java on PATH is version {version}" if version else "there is no java on PATH"
    return f"indoubt needs Java 17 or 21, but {on_path}: install openjdk-17-jre-headless, or set JAVA_HOME to a Java 17 or 21"


def install_java() -> str:
    """Install Debian's Java package and return the path of Java. Raises Missing."""
    install_packages(_no_java(), "openjdk-17-jre-headless")
    java = find_java()
    if java is None:
        raise Missing(_no_java())
    return java


def find_chromium() -> str | None:
    """Return the path of Chromium, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def find_mariadb() -> str | None:
    """Return the path of MariaDB's server if mariadb-install-db is there too, or None."""
    server = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin:/usr/local/sbin")
    return server if shutil.which("mariadb-install-db") else None


def find_galera() -> Path | None:
    """Return the path of Galera's library, with which a MariaDB server becomes a node of a cluster, or None."""
    places = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so", "/usr/lib/libgalera_smm.so")
    return next((Path(place) for place in places if Path(place).exists()), None)


def find_postgres() -> Path | None:
    """Return the directory of PostgreSQL's programs (Debian keeps them outside PATH; the newest wins), or None."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("initdb")
    if not versions:
        return Path(on_path).resolve().parent if on_path else None
    return versions[-1].parent


def install_test_programs() -> None:
    """Install the missing ones of the programs that only tests run. Raises Missing with their names."""
    programs = {
        "Chromium (browser tests)": (find_chromium(), ["chromium"]),
        "MariaDB": (find_mariadb(), list(MARIADB_PACKAGES)),
        "Galera": (find_galera(), ["galera-4"]),
        "PostgreSQL": (find_postgres(), ["postgresql"]),
        "PgBouncer": (shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin"), ["pgbouncer"]),
        "OpenSSL (TLS tests)": (shutil.which("openssl"), ["openssl"]),
        "Spin (model test)": (shutil.which("spin"), ["spin"]),
        "a C compiler (model test)": (shutil.which("cc") or shutil.which("gcc"), ["gcc", "libc6-dev"]),
    }
    missing = {what: packages for what, (path, packages) in programs.items() if not path}
    if missing:
        install_packages(", ".join(missing), *(package for packages in missing.values() for package in packages))


def install_packages(what: str, *packages: str) -> None:
    """Install Debian packages. Raises Missing with their names if this is not Debian or the user is not root."""
    command = f"apt-get install {' '.join(packages)}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Missing(f"missing: {what}. Install it (on Debian, as root: {command}) and run again")
    say(f"{what}: {command} …")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages]):
        done = subprocess.run(["apt-get", *step], env=environment, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            raise Missing(f"{what}: 'apt-get {' '.join(step)}' failed: {done.stderr.strip()[-400:]}")
