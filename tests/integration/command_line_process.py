"""``indoubt COMMAND`` as a process of its own, against a running collector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from tests.integration.collector_process import OPERATOR, ROOT, CollectorProcess

LIMIT_S = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> Any:
        """Return the JSON that it printed."""
        return json.loads(self.out)


def started(collector: CollectorProcess, *words: str, token: str = OPERATOR, url: str = "") -> subprocess.Popen[str]:
    """Start a command."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("INDOUBT_")}
    return subprocess.Popen(
        [sys.executable, "-m", "indoubt", *words],
        cwd=ROOT,
        env={**inherited, "INDOUBT_COLLECTOR_URL": url or collector.url, "INDOUBT_TOKEN": token},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def command(collector: CollectorProcess, *words: str, token: str = OPERATOR, url: str = "") -> Ended:
    """Run a command to its end."""
    with started(collector, *words, token=token, url=url) as process:
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return Ended(code=process.returncode, out=out, err=err)
