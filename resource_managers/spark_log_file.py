"""A file of the two logs in a Spark checkpoint directory, ``offsets/N`` and ``commits/N``: its version and what it says.

A line with the version, a line of JSON metadata, and in ``offsets/`` a line for each source. Spark 4.2 writes two versions of
``offsets/`` (in v2 each source's line begins with its name and a colon) and three of ``commits/`` (v2 adds the ids of state
files, v3 the names of sinks). Source: Spark's OffsetSeqLog and CommitLog.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion
from indoubt.lifecycle.json_record import read_object

OFFSETS, COMMITS = "offsets", "commits"
NEWEST_VERSION = {OFFSETS: 2, COMMITS: 3}
"""What Spark 4.2 writes; older ones are read as well."""
_VERSION = re.compile(r"v([1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLogFile:
    """What one file says. ``sources``: the offset of each source as text, ``-`` before it had data, by its name (v1: place)."""

    version: int
    metadata: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)


def parse(folder: str, number: int, text: str) -> SparkLogFile:
    """Return what a file of ``offsets`` or ``commits`` says. Raises UnknownVersion, MalformedRecord; both name the file."""
    name = f"{folder}/{number}"
    if not text.strip("\0\n"):
        raise MalformedRecord(f"{name} is empty" if not text else f"{name} holds nothing but zero bytes")
    first, *lines = text.splitlines()
    version = _VERSION.fullmatch(first.strip())
    if version is None:
        raise MalformedRecord(f"{name} does not begin with a version but with {first[:20]!r}")
    if int(version[1]) > NEWEST_VERSION[folder]:
        raise UnknownVersion(
            f"{name} has version {first.strip()}, as a newer Spark writes it; this program knows those up to "
            f"v{NEWEST_VERSION[folder]}"
        )
    metadata = read_object(lines[0].encode(), f"{name}, line 2") if lines and lines[0].strip() else {}
    sources = {}
    for place, line in enumerate(lines[1:] if folder == OFFSETS else ()):
        source, _, offset = line.partition(":") if version[1] != "1" else (str(place), "", line)
        sources[source] = offset
    return SparkLogFile(version=int(version[1]), metadata=metadata, sources=sources)


def check_offsets(number: int, file: SparkLogFile) -> None:
    """Return when every source of a file of ``offsets`` has its whole offset. Raises MalformedRecord."""
    if not file.sources:
        raise MalformedRecord(f"{OFFSETS}/{number} ends before the offset of its first source")
    for name, offset in file.sources.items():
        if not offset:
            raise MalformedRecord(f"{OFFSETS}/{number} has no offset of source {name}")
        if offset.startswith("{"):
            # Kafka's, say. What other sources write need not be JSON.
            try:
                json.loads(offset)
            except ValueError as error:
                raise MalformedRecord(f"{OFFSETS}/{number}: the offset of source {name} is not JSON: {error}") from None
