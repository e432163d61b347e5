"""Observes the checkpoint directory of a Spark query, any query's: the files of offsets/ and commits/.

``offsets/N`` is there from when batch N is planned, ``commits/N`` from when it is completed. Source: Spark's OffsetSeqLog and
CommitLog: a line ``v1``, a line of JSON metadata, then a line per source.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from collector.current_state import CurrentState, now_ms
from collector.observations import CheckpointFile, CheckpointFileKind, Malformed, Observation, Observed, Position
from collector.observers.observer import Observer
from collector.store import Store
from lifecycle.errors import MalformedRecord, ResourceManagerError, UnknownVersion

VERSIONS = ("v1", "v2")
SHOWN_CHARACTERS = 200
_KINDS = tuple(CheckpointFileKind)


class SparkCheckpoint(Observer):
    """Polls one checkpoint directory; ``pipeline`` is the name it was given at start."""

    def __init__(
        self,
        current: CurrentState,
        store: Store,
        pipeline: str,
        directory: Path,
        *,
        interval_ms: int,
        retry_most_ms: int,
    ) -> None:
        self.name = f"checkpoints of {pipeline}"
        super().__init__(current, retry_most_ms)
        self._pipeline, self._directory, self._interval_s = pipeline, directory, interval_ms / 1000
        self._source = f"spark checkpoint {pipeline}"
        self._seen = store.checkpoint_files_of(self._source)
        self._aside = store.malformed_of(self._source)

    def observe(self) -> None:
        """Look at intervals until stopped. Raises ResourceManagerError while the directory cannot be read."""
        while not self.stopping.is_set():
            found = [observed for kind in _KINDS for observed in self._new_files(kind)]
            if found:
                self.arrived(found)
            self.looked()
            self.stopping.wait(self._interval_s)

    def _new_files(self, kind: CheckpointFileKind) -> list[Observed]:
        if not self._directory.is_dir():
            raise ResourceManagerError(f"checkpoint directory {self._directory} does not exist")
        folder = self._directory / kind.value
        try:
            with os.scandir(folder) as entries:
                files = [(int(e.name), e.stat().st_mtime_ns) for e in entries if e.name.isdigit()]
        except FileNotFoundError:
            return []  # a query writes its first file after it has made the directory
        except OSError as error:
            raise ResourceManagerError(f"checkpoint directory {folder} cannot be read: {error.strerror}") from None
        new = sorted(
            (number, modified_ns) for number, modified_ns in files if (kind, number, modified_ns) not in self._seen
        )
        observed = [self._observed(kind, folder, number, modified_ns) for number, modified_ns in new]
        # What Spark has deleted need not be remembered.
        self._seen = {seen for seen in self._seen if seen[0] is not kind} | {(kind, *file) for file in files}
        return [one for one in observed if one is not None and not self._was_aside(one)]

    def _was_aside(self, observed: Observed) -> bool:
        """Say whether a malformed file was kept aside before, by an earlier run of this collector."""
        place = (observed.position.partition, observed.position.offset)
        if not isinstance(observed.observation, Malformed) or place in self._aside:
            return isinstance(observed.observation, Malformed)
        self._aside.add(place)
        return False

    def _observed(self, kind: CheckpointFileKind, folder: Path, number: int, modified_ns: int) -> Observed | None:
        position = Position(source=self._source, partition=_KINDS.index(kind), offset=number)
        observation: Observation
        try:
            text = (folder / str(number)).read_text()
        except (OSError, UnicodeDecodeError) as error:
            if isinstance(error, FileNotFoundError):
                return None
            observation = Malformed(error=f"{folder / str(number)} cannot be read: {error}", value="", at_ms=now_ms())
            return Observed(position=position, observation=observation)
        try:
            observation = parse(self._pipeline, kind, number, modified_ns, text)
        except MalformedRecord as error:
            observation = Malformed(error=str(error), value=text[:SHOWN_CHARACTERS], at_ms=now_ms())
        return Observed(position=position, observation=observation, raw=text)


def parse(pipeline: str, kind: CheckpointFileKind, number: int, modified_ns: int, text: str) -> CheckpointFile:
    """Return what one file tells. Raises UnknownVersion, MalformedRecord."""
    lines = text.splitlines()
    if not lines or lines[0] not in VERSIONS:
        found = lines[0][:20] if lines else ""
        raise UnknownVersion(
            f"{kind.value}/{number} has version {found!r}; this program knows {' and '.join(VERSIONS)}"
        )
    metadata: Any = {}
    if len(lines) > 1 and lines[1].strip():
        try:
            metadata = json.loads(lines[1])
        except ValueError as error:
            raise MalformedRecord(f"{kind.value}/{number}, line 2 is not JSON: {error}") from None
    if not isinstance(metadata, dict):
        raise MalformedRecord(f"{kind.value}/{number}, line 2 is not a JSON object")
    planned = kind is CheckpointFileKind.OFFSETS
    at_ms = _number(metadata, "batchTimestampMs", f"{kind.value}/{number}") if planned else None
    watermark = "batchWatermarkMs" if planned else "nextBatchWatermarkMs"
    return CheckpointFile(
        pipeline=pipeline,
        number=number,
        kind=kind,
        at_ms=at_ms if at_ms else modified_ns // 1_000_000,
        modified_ns=modified_ns,
        watermark_ms=_number(metadata, watermark, f"{kind.value}/{number}"),
    )


def _number(metadata: dict[str, Any], name: str, file: str) -> int | None:
    value = metadata.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise MalformedRecord(f"{file}: {name} is {value!r}, not a whole number")
    return value
