"""The supervisor's hold on what it started. Each test in a process of its own: ``end_children`` ends every child there is."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from indoubt.pipeline.config.settings import ROOT

PREPARATION = """
import os, signal, subprocess, sys, threading, time
import psutil
from indoubt.pipeline.supervision import supervisor
supervisor.adopt_orphans()
def start(program):
    return subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
"""


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PREPARATION + textwrap.dedent(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_threads_and_children_that_come_and_go_are_no_trouble() -> None:
    """Frozen ones, orphans of a killed parent, and some that start others while they are ended, in three rounds."""
    said = run("""
        def churn():
            while True:
                thread = threading.Thread(target=lambda: None)
                thread.start()
                thread.join()
        threading.Thread(target=churn, daemon=True).start()
        forks = "import os, time\\nfor _ in range(40):\\n  if os.fork() == 0: time.sleep(60)\\n  time.sleep(0.005)"
        frozen = "import os, signal; os.fork(); os.kill(os.getpid(), signal.SIGSTOP)"
        orphans = "import os, time\\nif os.fork() == 0: time.sleep(60)"
        for _ in range(3):
            processes = [start(program) for program in (forks, frozen, orphans)]
            time.sleep(0.1)
            assert supervisor.end_children() == []
            assert psutil.Process().children(recursive=True) == []
        print("done")
    """)
    assert said == "done\n"


def test_a_process_that_does_not_end_is_not_waited_for_without_limit() -> None:
    """As one in an uninterruptible wait does: here the signal is kept from it."""
    said = run("""
        supervisor.KILL_LIMIT_S = 0.5
        child = start("import time; time.sleep(60)")
        kill, psutil.Process.kill = psutil.Process.kill, lambda self: None
        child.kill, killed = (lambda: None), child.kill
        assert not supervisor.kill(child)
        assert supervisor.end_children() == [child.pid]
        psutil.Process.kill = kill
        assert supervisor.end_children() == []
        print("done")
    """)
    assert said == "done\n"
