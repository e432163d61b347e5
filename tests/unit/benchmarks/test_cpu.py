"""Processor time from /proc, by kind of process."""

from __future__ import annotations

import os
import time

import pytest

from benchmarks.cpu import CpuWatcher, ProcessTime, Sample, descendants, read_stat, used_between

TICKS = os.sysconf("SC_CLK_TCK")


def stat(name: str) -> str:
    return f"77 ({name}) S 12 77 77 0 -1 4194560 1 2 3 4 {3 * TICKS} {2 * TICKS} 0 0 20 0 1 0 100 1 1"


@pytest.mark.parametrize(("name", "kind"), [("java", "java"), ("python3.11", "python"), ("a (b) c", "a (b) c")])
def test_a_line_of_stat_is_read(name, kind):
    assert read_stat(stat(name)) == ProcessTime(pid=77, parent=12, name=kind, used_s=5.0)


def test_descendants_are_found_at_every_depth_and_nobody_else():
    def process(pid: int, parent: int) -> ProcessTime:
        return ProcessTime(pid=pid, parent=parent, name="x", used_s=0.0)

    processes = {p.pid: p for p in (process(1, 0), process(5, 1), process(6, 5), process(7, 6), process(8, 1))}
    assert sorted(descendants(5, processes)) == [5, 6, 7]
    assert descendants(99, processes) == []


def test_time_between_two_moments_is_interpolated():
    samples = [
        Sample(at_s=10.0, used_s={"java": 4.0}),
        Sample(at_s=12.0, used_s={"java": 6.0, "python": 1.0}),
        Sample(at_s=14.0, used_s={"java": 10.0, "python": 3.0}),
    ]
    assert used_between(samples, 11.0, 13.0) == {"java": 3.0, "python": pytest.approx(1.5)}
    with pytest.raises(ValueError, match="do not cover"):
        used_between(samples, 9.0, 13.0)


def test_the_watcher_sees_this_process_work():
    with CpuWatcher(os.getpid(), {"again": os.getpid()}) as watcher:
        deadline = time.monotonic() + 30
        before = time.process_time()
        while time.process_time() - before < 0.5 and time.monotonic() < deadline:
            pass
        while len(watcher.samples) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
    first, last = watcher.samples[0].used_s, watcher.samples[-1].used_s
    assert "again" in last
    assert last["again"] >= first.get("again", 0.0)
    assert last["again"] > 0.2
