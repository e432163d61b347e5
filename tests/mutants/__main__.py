"""Runs the tests of each rule against every small change of it: ``python -m tests.mutants [MODULE ...] [--at-once 2]``.

Prints what no test noticed and ends with 1; with 0 if nothing is left. Ends with 2 when the tests fail without any change.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

from tests.mutants.judged_modules import JUDGED
from tests.mutants.not_counted import REVIEWED
from tests.mutants.operators import MutatedModule
from tests.mutants.trials import TestsFail, tried

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="paths from the project's root; without: all")
    parser.add_argument("--at-once", type=int, default=2, help="how many changes are tried at a time")
    given = parser.parse_args()
    unknown = [module for module in given.modules if module not in JUDGED]
    if unknown:
        parser.error(f"no tests are named for {', '.join(unknown)}: judged_modules.py lists {', '.join(JUDGED)}")
    os.chdir(ROOT)
    lived, used = 0, set()
    try:
        for path in given.modules or JUDGED:
            lived += _judge(path, given.at_once, used)
    except TestsFail as failed:
        print(failed, file=sys.stderr)
        return 2
    stale = [
        (path, one) for path in given.modules or JUDGED for one in REVIEWED.get(path, ()) if (path, one) not in used
    ]
    for path, one in stale:
        print(f"not_counted.py: nothing matches {path} {one.function} {one.change}")
    return 1 if lived or stale else 0


def _judge(path: str, at_once: int, used: set[object]) -> int:
    began = time.monotonic()
    module = MutatedModule(ROOT / path, ROOT)
    counted, reasons = [], Counter()
    for mutant in module.mutants():
        if mutant.reason:
            reasons[mutant.reason] += 1
            continue
        known = [one for one in REVIEWED.get(path, ()) if one.matches(mutant)]
        used.update((path, one) for one in known)
        if known:
            reasons[known[0].reason] += 1
        else:
            counted.append(mutant)
    name = f"indoubt.{path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"
    found = tried(module, name, counted, JUDGED[path], at_once)
    for at in found.lived:
        print(f"survived: {path}:{counted[at]}")
    for at in found.endless:
        print(f"did not end within {found.limit_s:.0f} s: {path}:{counted[at]}")
    survivors = len(found.lived)
    left_out = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    print(
        f"{path}: {len(counted)} changes, {len(counted) - survivors} noticed, {survivors} survived in "
        f"{time.monotonic() - began:.0f} s; not counted: {left_out or 'none'}",
        flush=True,
    )
    return survivors


if __name__ == "__main__":
    sys.exit(main())
