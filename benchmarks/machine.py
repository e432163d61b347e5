"""The machine of a measurement, and whether it has room for what a run writes."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

from demo.prerequisites import java_home

RECORD_OVERHEAD = 1.2
"""Bytes on disk per byte of records of 100 bytes: Kafka's own fields, indexes."""


class NotEnoughRoom(Exception):
    """Disk or memory is too small for the run; the message says how much there is and how much the run needs."""


def describe() -> str:
    """Return one line: processor, cores, memory, kernel, Java, Python."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    java = subprocess.run([f"{java_home()}/bin/java", "-version"], capture_output=True, text=True, timeout=30)
    version = java.stderr.splitlines()[0] if java.stderr else "Java of unknown version"
    cores = len(os.sched_getaffinity(0))
    memory_gb = _meminfo()["MemTotal"] / (1 << 20)
    return (
        f"{model}, {cores} cores, {memory_gb:.0f} GB, {platform.system()} {platform.release()}, {version}, "
        f"Python {platform.python_version()}"
    )


def require_room(directory: Path, record_bytes: int, copies: int) -> None:
    """Check that ``copies`` of ``record_bytes`` fit on the disk, and a source and a sink into the page cache.

    Raises NotEnoughRoom: a full disk ends the broker, and data outside the cache would be measured at the disk's speed.
    """
    needed = int(record_bytes * RECORD_OVERHEAD)
    free = shutil.disk_usage(directory).free
    if free < needed * copies * 2:
        raise NotEnoughRoom(
            f"{directory} has {free >> 20:,} MB free; the run writes up to {needed * copies >> 20:,} MB and wants twice "
            "that: take fewer --records"
        )
    available = _meminfo()["MemAvailable"] << 10
    if available < needed * 2:
        raise NotEnoughRoom(
            f"{available >> 20:,} MB of memory are available; source and sink together take {needed * 2 >> 20:,} MB of "
            "page cache: take fewer --records"
        )


def resident_mib(pid: int | None = None) -> float:
    """Return the resident memory of a process, of this one by default. Raises FileNotFoundError."""
    lines = Path(f"/proc/{pid or 'self'}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def settle() -> None:
    """Wait until all writes are on the disk, so that no side pays for the writes of the side before it."""
    os.sync()


def _meminfo() -> dict[str, int]:
    """Return /proc/meminfo in kB."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {fields[0].rstrip(":"): int(fields[1]) for fields in lines}
