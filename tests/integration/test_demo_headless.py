"""Every fault, the whole way through, on real parts: nothing is lost, doubled, read too early or left in doubt."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from demo.faults import Fault
from demo.prerequisites import ROOT

# The browser tests start the whole demo, too, and the crash checker knows many more faults.
pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.last, pytest.mark.timeout(720)]
TRAFFIC_S = 10
ZERO = ("lost", "duplicates", "wrong_counts", "precommitted_reads", "in_doubt_at_end")


# Without a fault it is what each of them begins with.
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.NONE], ids=lambda fault: fault.value)
def test_nothing_is_lost_or_doubled(fault: Fault, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "demo", "--headless", "--for", str(TRAFFIC_S), "--fault", fault.value]
    command += ["--directory", str(tmp_path / "run"), "--report", str(tmp_path / "out.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=700)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    report = json.loads(done.stdout)
    assert report == json.loads((tmp_path / "out.json").read_text())
    assert {name: report[name] for name in ZERO} == dict.fromkeys(ZERO, 0)
    assert report["produced"] > TRAFFIC_S * 400
    assert report["found"] == report["expected"] > 0
    assert report["live_reads"] == report["found"]
    assert report["transactions"]["committed"] > 0
    assert (report["restarts"] > 0) is (fault is not Fault.ABANDONED_PRODUCER)
    if fault in (Fault.CRASH_AFTER_PREPARE, Fault.ABANDONED_PRODUCER):
        assert report["transactions"]["aborted"] > 0
    if fault in (Fault.FREEZE_AFTER_DECISION, Fault.ABANDONED_PRODUCER):
        orders = [step["outcome"] for step in report["on_call"] if step["step"] in ("commit", "abort")]
        assert orders == ["dry_run", "accepted"]
        seen = next(step for step in report["on_call"] if step["step"] == "saw")
        assert seen["verdict"] == ("commit it" if fault is Fault.FREEZE_AFTER_DECISION else "foreign")
