"""The end of a demo's child process: what it started ends with it, and no other process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from demo.processes import Child
from tests.integration.kafka_fixtures import wait_until

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
"""The number that the system gave last; the next process gets the next free one."""
TRIES = 100
LIMIT_S = 10.0


def process_with_number(pid: int) -> subprocess.Popen[bytes]:
    """Return a ``cat``, leader of its group, that has this number; skip the test where it cannot be had."""
    for _ in range(TRIES):
        try:
            LAST_PID.write_text(str(pid - 1))
        except OSError as error:
            pytest.skip(f"the next process's number cannot be chosen here: {error}")
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        if process.pid == pid:
            return process
        process.kill()
        process.communicate()
    pytest.skip(f"number {pid} was not given again in {TRIES} tries")


def test_a_stop_ends_what_the_ended_child_left(tmp_path):
    left = tmp_path / "left"
    start = f"import subprocess; open({str(left)!r}, 'w').write(str(subprocess.Popen(['sleep', '60']).pid))"
    child = Child("leaves one", [sys.executable, "-c", start], tmp_path / "log", {})
    wait_until("the child ends", lambda: child.exit_code is not None)
    orphan = Path(f"/proc/{left.read_text()}/stat")
    assert orphan.exists()
    child.stop(1)
    wait_until("what it started ends", lambda: not orphan.exists() or ") Z" in orphan.read_text())


def test_a_late_stop_spares_a_process_that_has_the_number_now(tmp_path):
    child = Child("ends at once", [sys.executable, "-c", ""], tmp_path / "log", {})
    wait_until("the child ends", lambda: child.exit_code is not None)
    stranger = process_with_number(child.pid)
    try:
        child.stop(1)
        assert stranger.communicate(b"here", LIMIT_S) == (b"here", None)
    finally:
        stranger.kill()
        stranger.wait()
