"""``python -m tests.fuzz TARGET``: look for input that a decoder does not expect, led by coverage; the exit code is 0 without one.

New input that reaches new code goes to ``--directory``; what is worth keeping is copied into ``corpus/TARGET`` by hand.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import atheris

from tests.fuzz.json_mutator import mutated

CORPUS = Path(__file__).with_name("corpus")
MAX_INPUT_BYTES = 4096

with atheris.instrument_imports(include=["indoubt.collector", "indoubt.lifecycle"], enable_loader_override=False):
    from tests.fuzz.targets import JSON_TARGETS, TARGETS


def main() -> None:
    """Fuzz one target until the runs or the time are over, or something is found; that ends the process."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--directory", type=Path, required=True, help="where new input and findings go")
    parser.add_argument("--runs", type=int, default=-1, help="inputs at most (default: no limit)")
    parser.add_argument("--seconds", type=int, default=0, help="time at most (default: no limit)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    flags = [f"-runs={given.runs}", f"-max_total_time={given.seconds}", f"-seed={given.seed}"]
    flags += [f"-max_len={MAX_INPUT_BYTES}", f"-artifact_prefix={given.directory}/found-", "-timeout=10"]
    command = [sys.argv[0], *flags, str(given.directory), str(CORPUS / given.target)]
    mutators = {"custom_mutator": _mutated} if given.target in JSON_TARGETS else {}
    atheris.Setup(command, TARGETS[given.target], **mutators)
    atheris.Fuzz()


def _mutated(data: bytes, most: int, seed: int) -> bytes:
    """Change a record by its structure half of the time, by its bytes otherwise; ``most`` is the length that is allowed."""
    rng = random.Random(seed)
    found = mutated(data, rng) if rng.random() < 0.5 else data
    return found if found != data and len(found) <= most else atheris.Mutate(data, most)


if __name__ == "__main__":
    main()
