"""The JVM jars: ``ivy.xml`` names the dependencies, ``jars.lock`` lists every resolved jar with its hash.

The set-up fetches the listed jars without their module descriptions, which takes a fifth of the time.
``python -m demo.jars`` rewrites the lock after a change of ivy.xml. Both use the Ivy that pyspark ships.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from demo.prerequisites import JARS, ROOT, VENV, Missing, java_home, say

MODULE, LOCK = ROOT / "ivy.xml", ROOT / "jars.lock"
CONFIGURATIONS = ("spark", "s3a", "broker")
FILE_NAMES = "[conf]/[artifact]-[revision](-[classifier]).[ext]"
_NAMES_TO_LOCK = "[conf]/[organisation]:[module]:[revision].[ext]"
_LOCKED_MODULE = """\
<ivy-module version="2.0">
  <info organisation="indoubt" module="jars"/>
  <configurations>{configurations}</configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""
_JARS_ALONE = """\
<ivysettings>
  <property name="ivy.checksums" value=""/>
  <settings defaultResolver="jars"/>
  <resolvers><ibiblio name="jars" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""


class Jar(NamedTuple):
    """A line of the lock: the jar's class path, its coordinates and its SHA-256."""

    configuration: str
    organisation: str
    module: str
    revision: str
    sha256: str

    @classmethod
    def read(cls, line: str) -> Jar:
        """Return the jar of ``configuration organisation:module:revision sha256``."""
        configuration, coordinates, sha256 = line.split()
        organisation, module, revision = coordinates.split(":")
        return cls(configuration, organisation, module, revision, sha256)

    @property
    def file(self) -> Path:
        """Return its path below the directory of all jars."""
        return Path(self.configuration) / f"{self.module}-{self.revision}.jar"


def locked_jars() -> list[Jar]:
    """Return the jars in jars.lock."""
    return [Jar.read(line) for line in LOCK.read_text().splitlines() if line and not line.startswith("#")]


def resolve_jars(java: str) -> None:
    """Fetch the jars in jars.lock into .run/jars, unless they are there. Raises Missing."""
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    stamp = JARS / ".locked"
    if stamp.exists() and stamp.read_text() == digest:
        return
    jars = locked_jars()
    say(f"fetching {len(jars)} JVM jars …")
    JARS.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="jars-", dir=JARS.parent) as directory:
        fetched = Path(directory) / "fetched"
        module, settings = Path(directory) / "ivy.xml", Path(directory) / "ivysettings.xml"
        module.write_text(_module_of(jars))
        settings.write_text(_JARS_ALONE)
        fetch_jars(java, module, fetched, CONFIGURATIONS, more=["-settings", str(settings)])
        verify(jars, fetched)
        (fetched / stamp.name).write_text(digest)
        # A running process keeps the old jars open, and a starting process always finds a complete set.
        if JARS.exists():
            JARS.rename(Path(directory) / "before")
        fetched.rename(JARS)


def verify(jars: Sequence[Jar], directory: Path) -> None:
    """Check every jar against the lock's hash. Raises Missing."""
    for jar in jars:
        path = directory / jar.file
        if not path.exists():
            raise Missing(f"Ivy did not fetch {jar.file}: remove ~/.ivy2/cache and run again")
        if _digest(path) != jar.sha256:
            raise Missing(
                f"the hash of {jar.file} is not the one in jars.lock, so no jar was kept: remove ~/.ivy2/cache and run again; "
                "if the hash still differs, do not trust the repository that the file comes from"
            )


def fetch_jars(
    java: str,
    module: Path,
    into: Path,
    configurations: Sequence[str],
    *,
    names: str = FILE_NAMES,
    more: Sequence[str] = (),
) -> None:
    """Fetch the dependencies of an Ivy module to ``into``, with file names by the pattern ``names``. Raises Missing."""
    ivy = next((VENV / "lib").glob("python*/site-packages/pyspark/jars/ivy-*.jar"), None)
    if ivy is None:
        raise Missing("pyspark in .venv has no Ivy jar: remove .venv and run again")
    into.mkdir(parents=True, exist_ok=True)
    command = [java, "-cp", f"{ivy.parent}/*", "org.apache.ivy.Main", "-ivy", str(module), *more]
    command += ["-retrieve", f"{into}/{names}", "-types", "jar", "bundle", "-confs", *configurations]
    fetched, tail = 0, [""]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tail = [*tail[-25:], line]
            fetched += "[SUCCESSFUL" in line
            if "[SUCCESSFUL" in line and fetched % 10 == 0:
                say(f"  {fetched} jars")
    if process.returncode != 0:
        raise Missing(
            "Ivy could not fetch the JVM jars; check the connection to Maven Central. It printed:\n" + "".join(tail)
        )


def _module_of(jars: Sequence[Jar]) -> str:
    dependencies = "".join(
        f'<dependency org="{jar.organisation}" name="{jar.module}" rev="{jar.revision}"'
        f' conf="{jar.configuration}->default" transitive="false"/>'
        for jar in jars
    )
    configurations = "".join(f'<conf name="{name}"/>' for name in CONFIGURATIONS)
    return _LOCKED_MODULE.format(configurations=configurations, dependencies=dependencies)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> int:
    """Write jars.lock from ivy.xml."""
    with tempfile.TemporaryDirectory() as directory:
        jars = Path(directory) / "jars"
        # In the user's cache stand the modules that the set-up fetched without their dependencies.
        own_cache = ["-cache", f"{directory}/cache"]
        java = f"{java_home()}/bin/java"
        fetch_jars(java, MODULE, jars, CONFIGURATIONS, names=_NAMES_TO_LOCK, more=own_cache)
        paths = sorted(jars.glob("*/*.jar"))
        lines = [f"{path.parent.name} {path.stem} {_digest(path)}" for path in paths]
    LOCK.write_text("\n".join(["# Written by 'make lock' from ivy.xml.", *lines]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
