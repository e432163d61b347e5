"""What a person on call does about a Flink that was killed: asks ``indoubt advise``, and gives the order to commit.

Both are commands, which find the collector by INDOUBT_COLLECTOR_URL and INDOUBT_TOKEN.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.running_collector import ROOT

VERDICT_LIMIT_S, ADVICE_LIMIT_S = 12.0, 60.0
Advice = Mapping[int, Mapping[str, Any]]
"""By the number of each retained checkpoint of a job: its row of ``indoubt advise --json``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescue:
    """What the order found: seconds from the checkpoint's ``_metadata`` to the verdict and to the end of the commit."""

    verdict_s: float
    committed_s: float
    committed: int


def rescue(checkpoint: Path, at_least: int = 1) -> Rescue:
    """Wait for the verdict and give the order; ``at_least``: how many transactions are waited for.

    Raises RuntimeError when there is nothing to commit.
    """
    written_s = (checkpoint / "_metadata").stat().st_mtime
    headers = {"Authorization": f"Bearer {os.environ['INDOUBT_TOKEN']}"}
    url = f"{os.environ['INDOUBT_COLLECTOR_URL']}/api/v1/transactions"
    deadline = time.time() + VERDICT_LIMIT_S
    rows: list[dict[str, Any]] = []
    while len(rows) < at_least:
        if time.time() > deadline:
            raise RuntimeError(
                f"{len(rows)} transactions, not {at_least}, had the verdict 'commit it' within {VERDICT_LIMIT_S:.0f} s of the kill"
            )
        rows = httpx.get(url, params={"verdict": "commit it"}, headers=headers).raise_for_status().json()["rows"]
        time.sleep(0.02)
    verdict_s = time.time() - written_s
    words = ("--yes", "--reason", "Flink is gone", "--confirm", rows[0]["commit_confirmation"], "--json")
    command = [sys.executable, "-m", "indoubt", "commit", "--verdict", "commit it", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"the order ended with {done.returncode}: {done.stdout}{done.stderr}")
    steps = json.loads(done.stdout.splitlines()[-1])["steps"]
    committed = sum(step["outcome"] == "committed" for step in steps)
    return Rescue(verdict_s=verdict_s, committed_s=time.time() - written_s, committed=committed)


def advice(job: str, is_known: Callable[[Advice], bool]) -> Advice:
    """Return the first advice about a job of which ``is_known`` holds. Raises RuntimeError when none comes."""
    command = [sys.executable, "-m", "indoubt", "advise", job, "--json"]
    deadline = time.time() + ADVICE_LIMIT_S
    while time.time() < deadline:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        rows = json.loads(done.stdout)["rows"] if done.stdout else []
        told = {row["checkpoint"]: row for row in rows}
        if is_known(told):
            return told
        time.sleep(0.5)
    raise RuntimeError(f"indoubt advise did not tell within {ADVICE_LIMIT_S:.0f} s: {done.stdout}{done.stderr}")
