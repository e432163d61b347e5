"""The steps of a Dockerfile, carried out where no engine for containers is.

This machine stands in for the base image: each stage begins from its files, which an overlay leaves as they are, with the
tests' Python where the base image has its own. What a stage writes is all that a later one can copy. Not carried out: FROM (no
image is fetched), apt-get (the machine has the packages), and what only an engine does: layers, limits, published ports.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from demo.prerequisites import ROOT

STEP_LIMIT_S = 280.0
BASE_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
NOT_CARRIED_OUT = ("apt-get", "rm -rf /var/lib/apt")
_MOUNTS = """\
mount -t overlay overlay -o {layers} {root}
mount --rbind /dev {root}/dev
mount -t proc proc {root}/proc
mount -t tmpfs tmpfs {root}/tmp
chmod 1777 {root}/tmp
mount -t tmpfs tmpfs {root}/root
mount -t tmpfs tmpfs {root}/run
mount -t tmpfs tmpfs {root}{checkout}
{python}
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """One FROM of a Dockerfile: its name, and its instructions with their arguments, in order."""

    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def last(self, instruction: str) -> str:
        """Return the arguments of the last such instruction."""
        return [words for name, words in self.steps if name == instruction][-1]

    def words(self, instruction: str) -> list[str]:
        """Return the words of the last such instruction in its JSON form."""
        found: list[str] = json.loads(re.sub(r"^[^\[]*", "", self.last(instruction)))
        return found

    @property
    def environment(self) -> dict[str, str]:
        """Return what its ENV instructions set, from the base image's on."""
        found = {"PATH": BASE_PATH}
        for word in (word for name, words in self.steps if name == "ENV" for word in shlex.split(words)):
            key, _, value = word.partition("=")
            found[key] = value.replace("$PATH", found["PATH"])
        return found


def stages(file: Path) -> list[Stage]:
    """Return the stages of a Dockerfile."""
    text = re.sub(r"^\s*#.*\n", "", file.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found: list[Stage] = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        instruction, _, words = line.partition(" ")
        if instruction == "FROM":
            found.append(Stage(words.partition(" AS ")[2] or "image"))
        else:
            found[-1].steps.append((instruction, words.strip()))
    return found


def why_not() -> str:
    """Return why no steps can be carried out here; empty: they can."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "chroot", "ip"))):
        return "needs root, unshare, chroot and ip"
    overlay = "mount -t tmpfs tmpfs /mnt; mkdir /mnt/files /mnt/work /mnt/root; "
    overlay += "mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/files,workdir=/mnt/work /mnt/root"
    apart = ["unshare", "--mount", "--net", "--pid", "--fork", "sh", "-ec", overlay]
    tried = subprocess.run(apart, capture_output=True, check=False)
    return "" if tried.returncode == 0 else f"an overlay in namespaces: {tried.stderr.decode().strip()}"


class Image:
    """The result of a Dockerfile's steps, below a directory."""

    def __init__(self, file: Path, directory: Path) -> None:
        self.stages, self._directory = stages(file), directory
        for stage in self.stages:
            (self._files(stage.name) / "etc").mkdir(parents=True)
            self._carry_out(stage)

    def _files(self, stage: str) -> Path:
        """Return the directory of what a stage wrote."""
        return self._directory / stage

    def _carry_out(self, stage: Stage) -> None:
        here, script = "/", []
        for instruction, words in stage.steps:
            if instruction == "WORKDIR":
                here = words
                script.append(f"mkdir -p $ROOT{here}")
            elif instruction == "COPY":
                script.append(self._copy(stage, words, here))
            elif instruction == "RUN":
                commands = [part for part in words.split("&&") if not part.strip().startswith(NOT_CARRIED_OUT)]
                inside = f"cd {here} && {'&&'.join(commands) or 'true'}"
                script.append(f"chroot $ROOT env {_assigned(stage.environment)} /bin/sh -c {shlex.quote(inside)}")
        self._run(stage, "\n".join(script), writable=True)

    def _copy(self, stage: Stage, words: str, here: str) -> str:
        *options, source, target = words.split()
        if options:
            # Before the overlay is there: across it no link can be made, and a copy takes long.
            made, into = self._files(options[0].removeprefix("--from=")), self._files(stage.name) / target.lstrip("/")
            into.parent.mkdir(parents=True)
            subprocess.run(["cp", "-al", f"{made}{source}", into], check=True)
            return ""
        # What .dockerignore leaves, as a clean checkout has it.
        directory, into_root = f"$CHECKOUT/{source}", f"$ROOT{Path(here) / target}"
        listed = f"git -C {directory} ls-files -z --cached --others --exclude-standard"
        return f"mkdir -p {into_root} && {listed} | tar -C {directory} --null -T - -c | tar -C {into_root} -x"

    def run(self, script: str) -> str:
        """Run a script of bash with the image's files at ``$ROOT``, in a network of its own; return what it printed.

        ``"${AS_USER[@]}" [NAME=VALUE …] COMMAND …`` runs a command as a container does: as the image's user, in its directory, with
        its environment; the files are read only, but for /tmp and the volume.
        """
        image = self.stages[-1]
        user, kept = image.last("USER"), self._directory / "volume"
        kept.mkdir(exist_ok=True)
        as_user = f"chroot --userspec={user} --groups= $ROOT env -i --chdir={image.last('WORKDIR')}"
        start = [
            f"chown {user} {kept} && mount --bind {kept} $ROOT{image.last('VOLUME')}",
            "ip link set lo up",
            f"AS_USER=({as_user} {_assigned(image.environment)})",
        ]
        return self._run(image, "\n".join([*start, script]), writable=False)

    @property
    def _root(self) -> Path:
        return self._directory / "root"

    def _run(self, stage: Stage, script: str, *, writable: bool) -> str:
        files, work = self._files(stage.name), self._directory / "work"
        for made in (self._root, work):
            made.mkdir(exist_ok=True)
        layers = f"{'rw' if writable else 'ro'},lowerdir=/,upperdir={files},workdir={work}"
        # Debian's Python is where the base image's may be; another one is put there.
        base = Path(sys.base_prefix)
        python = "" if base == Path("/usr") else f"mount --bind {base} {self._root}/usr/local"
        if writable and python:
            python += f"\nchroot {self._root} ldconfig"
        # The checkout is put out of sight, but for this script.
        mounts = _MOUNTS.format(layers=layers, root=self._root, checkout=ROOT, python=python)
        # In namespaces of processes and mounts of its own, which end with it.
        apart = ["--mount", "--pid", "--fork", "--kill-child", *([] if writable else ["--net"])]
        done = subprocess.run(
            ["unshare", *apart, "bash", "-euo", "pipefail", "-c", f"{mounts}\n{script}"],
            env=_environment() | {"ROOT": str(self._root), "CHECKOUT": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=STEP_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout


def _environment() -> dict[str, str]:
    """Return this machine's environment (it may say how packages are fetched) without what belongs to Python or indoubt."""
    return {
        name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "INDOUBT_", "VIRTUAL_ENV"))
    }


def _assigned(environment: dict[str, str]) -> str:
    return " ".join(shlex.quote(f"{name}={value}") for name, value in environment.items())
