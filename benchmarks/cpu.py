"""Processor time by kind of process during a run, which limits a rate on a machine whose cores are all busy."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PAUSE_S = 0.25
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The processor time in seconds that each kind of process had used at ``at_s`` (epoch)."""

    at_s: float
    used_s: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTime:
    """A process as in /proc/<pid>/stat; ``name`` is the program's (java, python)."""

    pid: int
    parent: int
    name: str
    used_s: float


class CpuWatcher:
    """Samples, in a thread, a process with all its descendants by name, and other processes under given names.

    The last sample of an ended process still counts.
    """

    def __init__(self, root: int, others: dict[str, int]) -> None:
        self._root, self._others = root, others
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._seen: dict[int, tuple[str, float]] = {}
        self.samples: list[Sample] = []

    def _watch(self) -> None:
        while not self._stopping.wait(PAUSE_S):
            processes = read_processes()
            for pid in descendants(self._root, processes):
                self._seen[pid] = (processes[pid].name, processes[pid].used_s)
            for name, pid in self._others.items():
                if pid in processes:
                    self._seen[pid] = (name, processes[pid].used_s)
            used: defaultdict[str, float] = defaultdict(float)
            for name, used_s in self._seen.values():
                used[name] += used_s
            self.samples.append(Sample(at_s=time.time(), used_s=dict(used)))

    def __enter__(self) -> CpuWatcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


def read_processes() -> dict[int, ProcessTime]:
    """Return every process of the machine by its id."""
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            text = (directory / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        found[int(directory.name)] = read_stat(text)
    return found


def used_s(pid: int) -> float:
    """Return the processor time that a process has used. Raises FileNotFoundError."""
    return read_stat(Path(f"/proc/{pid}/stat").read_text()).used_s


def read_stat(text: str) -> ProcessTime:
    """Parse a line of /proc/<pid>/stat; the name in parentheses may contain anything (proc(5))."""
    pid, _, rest = text.partition(" (")
    name, _, fields = rest.rpartition(") ")
    values = fields.split()
    # After the name: state, ppid, …; utime and stime are fields 14 and 15 of the whole line.
    used_s = (int(values[11]) + int(values[12])) / TICKS_PER_S
    return ProcessTime(pid=int(pid), parent=int(values[1]), name=name.rstrip("0123456789."), used_s=used_s)


def descendants(root: int, processes: dict[int, ProcessTime]) -> list[int]:
    """Return ``root`` and every process below it."""
    found = [root] if root in processes else []
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    for pid in found:
        found += children.get(pid, [])
    return found


def used_between(samples: Sequence[Sample], start_s: float, end_s: float) -> dict[str, float]:
    """Return the processor seconds that each kind used between two times, interpolated between samples.

    Raises ValueError if the samples do not cover the times.
    """
    if not samples or samples[0].at_s > start_s or samples[-1].at_s < end_s:
        raise ValueError("the samples of processor time do not cover the run")
    start, end = _at(samples, start_s), _at(samples, end_s)
    return {name: end[name] - start.get(name, 0.0) for name in end}


def _at(samples: Sequence[Sample], moment_s: float) -> dict[str, float]:
    after = next(index for index, sample in enumerate(samples) if sample.at_s >= moment_s)
    later, earlier = samples[after], samples[max(0, after - 1)]
    gap_s = later.at_s - earlier.at_s
    share = (moment_s - earlier.at_s) / gap_s if gap_s else 0.0
    return {
        name: earlier.used_s.get(name, 0.0) + share * (used_s - earlier.used_s.get(name, 0.0))
        for name, used_s in later.used_s.items()
    }
