"""Options of Spark's JVM: its heap, its temporary files, its class data archive."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
"""Linux: which programs get transparent huge pages; a JVM that asks for them in vain warns at each start."""
LONGEST_SOCKET_DIRECTORY = 60
"""Bytes. A Unix socket's path has 107 (104 on macOS), and Spark appends 43: a dot, a UUID, ``.sock``."""


def heap(*, own_size: bool) -> str:
    """Return how the JVM keeps its heap.

    Batches of seconds care for throughput, not for pauses: the parallel collector costs less than G1 here. Fetched records
    die young if the young generation outlasts them: 1 GB of the 2 GB, unless the user chose another size. Left to itself it
    grows and shrinks, and the kernel clears each page anew, on huge pages at a fraction of the cost.
    """
    young = [] if own_size else ["-Xmn1g"]
    huge = ["-XX:+UseTransparentHugePages"] if _has_huge_pages() else []
    return " ".join(["-XX:+UseParallelGC", *young, *huge])


def _has_huge_pages() -> bool:
    try:
        return "[never]" not in HUGE_PAGES.read_text()
    except OSError:
        return False


def temporary_files() -> str:
    """Have the JVM keep its temporary files where Python does, which a supervisor clears; Spark's sockets must fit there."""
    directory = tempfile.gettempdir()
    return f'"-Djava.io.tmpdir={directory}"' if len(os.fsencode(directory)) <= LONGEST_SOCKET_DIRECTORY else ""


def class_archive(path: str) -> str:
    """Have the JVM start from this class data archive.

    It passes over one that is not there or does not fit, and with the log off it does so without a word.
    """
    return f'"-XX:SharedArchiveFile={path}" -Xlog:cds=off,cds+dynamic=off' if path else ""
