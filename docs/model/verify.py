"""Run spin on the model: search a configuration completely, or show the shortest counterexample that it has.

``python docs/model/verify.py -DSLOTS=1`` prints one line, and the counterexample when there is one; the exit code is 0 only
when every state was visited and nothing was violated. ``--large`` does so for the sizes that are too long for the tests.
Needs spin and gcc.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MODEL = Path(__file__).resolve().parent
MAIN = "two_phase_commit.pml"
MEMORY_MB = 1800
LARGE_MEMORY_MB = 4000
DEPTH = 20_000

LARGE = (
    "-DSLOTS=1 -DBATCHES=2 -DORDERS=1 -DCOARSE_TASKS",
    "-DSLOTS=1 -DORDERS=2 -DLATE_APPEND -DCOARSE_TASKS",
    "-DSLOTS=1 -DRUNS=3 -DONLY_OVERTAKEN=1",
    "-DSLOTS=1 -DTRIES=2 -DCOARSE_TASKS -DONLY_RETRIED=1",
    "-DEQUAL_FINGERPRINTS -DCOARSE_TASKS",
    "-DCOARSE_TASKS",
    "-DSINK=2 -DSLOTS=1 -DTRIES=2 -DCOARSE_TASKS -DONLY_RETRIED=1",
    "-DSINK=2 -DCOARSE_TASKS",
    "-DSINK=3 -DCOARSE_TASKS -DONLY_OVERTAKEN=0",
    "-DNOBODY_DIES -DUNASKED_ABORTS=1 -DBATCHES=2 -DTRIES=2 -DCOARSE_TASKS -DONLY_OVERTAKEN=0 -DONLY_RETRIED=1",
)
"""Sizes that take minutes."""


class SpinFailed(Exception):
    """spin, gcc or the verifier itself failed, or one of them is missing; the message says which and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a search found. ``violated`` is the assertion's name, or ``invalid end state``; empty when there was none.

    ``complete`` is True when every state was visited. ``seconds`` is the verifier's processor time. ``trace`` holds the
    counterexample's events in their order, ``unreached`` the steps that no execution came to, as (process type, line).
    """

    violated: str
    complete: bool
    states: int
    seconds: float
    memory_mb: float
    trace: tuple[str, ...]
    unreached: frozenset[tuple[str, int]]


def verify(
    options: Sequence[str],
    *,
    shortest: bool = False,
    seed: int | None = None,
    optimise: str = "-O1",
    memory_mb: int = MEMORY_MB,
    limit_s: float = 600.0,
) -> Verification:
    """Search the model with these -D options.

    ``shortest``: breadth first, which finds the shortest counterexample. ``seed``: try the steps in a random order that
    this number fixes, which may come to a counterexample sooner. ``optimise`` is gcc's option: small searches end sooner
    when less is spent on compiling. Raises SpinFailed.
    """
    for program in ("spin", "gcc"):
        if shutil.which(program) is None:
            raise SpinFailed(f"{program} is missing: install it (on Debian, as root: apt-get install spin gcc)")
    with tempfile.TemporaryDirectory(prefix="indoubt-model-") as directory:
        for file in MODEL.glob("*.pml"):
            shutil.copy(file, directory)
        _run(["spin", "-a", *options, MAIN], directory, limit_s)
        # Partial order reduction does not go together with "provided".
        flags = ["-DSAFETY", "-DNOREDUCE", "-DVECTORSZ=1024", f"-DMEMLIM={memory_mb}"]
        flags.append("-DBFS" if shortest else "-DCOLLAPSE")
        order = [] if seed is None else [f"-RS{seed}"]
        flags += ["-DT_RAND", "-DP_RAND"] if order else []
        _run(["gcc", optimise, "-w", *flags, "-o", "pan", "pan.c"], directory, limit_s)
        before_s = _children_s()
        report = _run(["./pan", f"-m{DEPTH}", "-w22", *order], directory, limit_s)
        seconds = _children_s() - before_s
        trace = _trace(options, directory, limit_s) if (Path(directory) / f"{MAIN}.trail").exists() else ()
    return _read(report, seconds, trace)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(command: Sequence[str], directory: str, limit_s: float) -> str:
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        raise SpinFailed(f"{' '.join(command)}: not done after {limit_s:.0f} s") from None
    text = done.stdout + done.stderr
    if done.returncode != 0 or (command[0] == "spin" and "Error:" in text and "-t" not in command):
        raise SpinFailed(f"{' '.join(command)}: exit code {done.returncode}:\n{text[-2000:]}")
    return text


def _trace(options: Sequence[str], directory: str, limit_s: float) -> tuple[str, ...]:
    lines = _run(["spin", "-T", "-t", *options, MAIN], directory, limit_s).splitlines()
    # What follows "trail ends" is a dump of every variable.
    end = next((number for number, line in enumerate(lines) if line.startswith("spin: trail ends")), len(lines))
    # spin warns of the model being newer than the trail where both were written in the same second.
    talk = ("spin: text of", "spin: warning")
    return tuple(line.strip() for line in lines[:end] if line.strip() and not line.startswith(talk))


def _read(report: str, seconds: float, trace: tuple[str, ...]) -> Verification:
    found = re.search(r"errors: (\d+)\n\s*(\d+) states, stored", report)
    memory = re.search(r"([\d.]+)\s+total actual memory usage", report)
    if found is None or memory is None:
        raise SpinFailed(f"the verifier printed no result:\n{report[-2000:]}")
    violation = re.search(r"pan:\d+: (?:assertion violated\s*!\((\w+)\)|(invalid end state|.*)) \(at depth", report)
    violated = "" if violation is None else violation[1] or violation[2]
    if (found[1] != "0") != bool(violated):
        raise SpinFailed(f"errors: {found[1]}, but the violation reads {violated!r}:\n{report[-2000:]}")
    cut = ("Search not completed", "max search depth too small", "out of memory", "reached -DMEMLIM")
    return Verification(
        violated=violated,
        complete=not violated and not any(text in report for text in cut),
        states=int(found[2]),
        seconds=seconds,
        memory_mb=float(memory[1]),
        trace=trace,
        unreached=_unreached(report),
    )


def _unreached(report: str) -> frozenset[tuple[str, int]]:
    # "-end-" is the closing brace of a process that by design waits for ever.
    found: set[tuple[str, int]] = set()
    for section in report.split("unreached in ")[1:]:
        process = section.split("\n", 1)[0].removeprefix("proctype ")
        lines = re.findall(r'^\t[\w.]+:(\d+), state \d+, "(?!-end-)', section, re.MULTILINE)
        found.update((process, int(line)) for line in lines)
    return frozenset(found)


def _shortest(options: Sequence[str]) -> Verification | None:
    found = verify(options, shortest=True, optimise="-O2", memory_mb=LARGE_MEMORY_MB, limit_s=3600.0)
    return found if found.violated else None


def main() -> int:
    """Run one configuration, or every large one; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help="every size that is too long for the tests, one by one")
    arguments, options = parser.parse_known_args()
    good = True
    try:
        for line in LARGE if arguments.large else (" ".join(options),):
            result = verify(line.split(), optimise="-O2", memory_mb=LARGE_MEMORY_MB, limit_s=3600.0)
            if result.violated:
                result = _shortest(line.split()) or result
            print("\n".join(result.trace), end="\n" if result.trace else "")
            ended = result.violated or ("complete" if result.complete else "NOT COMPLETE: out of memory or depth")
            print(
                f"{line} | {result.states:,} states | {result.seconds:.0f} s | {result.memory_mb:.0f} MB | {ended}",
                flush=True,
            )
            good = good and result.complete
    except SpinFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
