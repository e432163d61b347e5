"""No advice about a damaged checkpoint directory loses or doubles a row, whatever was written and whatever is damaged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

from indoubt.lifecycle.errors import SettingsError
from indoubt.pipeline.checkpoints.checkpoint_directory import CheckpointDirectory
from indoubt.pipeline.checkpoints.damaged_logs import Written, check_logs
from indoubt.resource_managers.checkpoint_location import CheckpointLocation
from indoubt.resource_managers.storage import StoredFile
from tests.unit.pipeline.checkpoints.advised_steps import steps
from tests.unit.pipeline.checkpoints.spark_logs import COMMIT, COMMIT_V2, OFFSET


class InMemory:
    """The files of a directory, in memory."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.content = files

    def read(self, name: str) -> bytes | None:
        return self.content.get(name)

    def numbers(self, folder: str) -> list[int]:
        return sorted(int(file.name) for file in self.files(folder))

    def files(self, folder: str) -> list[StoredFile]:
        names = [name.split("/")[1] for name in self.content if name.startswith(f"{folder}/")]
        return [StoredFile(name=name, size=0, at_ms=0) for name in names]


NEWEST = 3


@dataclass(frozen=True, kw_only=True)
class History:
    """What was written before the power cut: batch N ends at offset N + 1; those without rows left nothing in the sink."""

    with_rows: frozenset[int]
    finished: int
    decided: bool
    settled: bool
    """Whether the decision log says so of the newest batch; of earlier ones it always does."""
    state_ids: bool

    @property
    def last(self) -> int | None:
        """Return the last batch of which rows are in the sink, or will be: its decision counts."""
        ended = NEWEST if self.finished == NEWEST or self.decided else NEWEST - 1
        return max((batch for batch in self.with_rows if batch <= ended), default=None)

    @property
    def written(self) -> Written | None:
        return None if self.last is None else Written(last=self.last, is_settled=self.last < NEWEST or self.settled)

    def files(self) -> dict[str, bytes]:
        commit = COMMIT_V2 if self.state_ids else COMMIT
        files = {f"offsets/{n}": OFFSET.replace('"0":1', f'"0":{n + 1}').encode() for n in range(NEWEST + 1)}
        return files | {f"commits/{n}": commit.encode() for n in range(self.finished + 1)}


def histories() -> Iterator[History]:
    every = [frozenset(rows) for size in range(5) for rows in combinations(range(NEWEST + 1), size)]
    for with_rows, ids in product(every, (False, True)):
        for settled in (False, True):
            yield History(with_rows=with_rows, finished=NEWEST, decided=True, settled=settled, state_ids=ids)
            if NEWEST in with_rows:
                yield History(with_rows=with_rows, finished=NEWEST - 1, decided=True, settled=settled, state_ids=ids)
        yield History(with_rows=with_rows, finished=NEWEST - 1, decided=False, settled=False, state_ids=ids)


def damages(files: dict[str, bytes]) -> Iterator[dict[str, bytes]]:
    """Yield the files with each of the newest whole, empty or gone."""
    newest = [f"{folder}/{batch}" for folder in ("offsets", "commits") for batch in (NEWEST - 1, NEWEST)]
    hit = [name for name in newest if name in files]
    for fates in product(("whole", "empty", "gone"), repeat=len(hit)):
        left = dict(files)
        for name, fate in zip(hit, fates, strict=True):
            if fate == "empty":
                left[name] = b""
            elif fate == "gone":
                del left[name]
        yield left


def resumed_at(files: InMemory, last: int | None, state_ids: bool) -> int:
    """Return the offset at which rows are read that the sink then writes; what Spark runs again and is decided must be the same."""
    planned, committed = files.numbers("offsets"), files.numbers("commits")
    if not planned:
        return 0

    def end(batch: int) -> int:
        text = files.content[f"offsets/{batch}"].decode().splitlines()[2]
        return int(json.loads(text)["in"]["0"])

    newest = planned[-1]
    if committed and committed[-1] == newest:
        return end(newest)
    assert newest == 0 or not state_ids or committed[-1] == newest - 1, "the state of another batch would be loaded"
    begin = end(newest - 1) if newest else 0
    if last is not None and newest <= last:
        assert (newest, begin, end(newest)) == (last, last, last + 1), (
            "the decided batch, from where it began to where it ended"
        )
        return end(newest)
    return begin


def test_no_advice_loses_or_doubles_a_row() -> None:
    location = CheckpointLocation.read("s3://bucket/checkpoint")
    said: Counter[str] = Counter()
    for history in histories():
        for known in {history.written, None}:
            for left in damages(history.files()):
                files = InMemory(dict(left))
                last = history.last if known is not None else None
                advice = repaired(CheckpointDirectory(location, files), files, known)
                said[advice] += 1
                if advice == "restore":
                    continue
                at = resumed_at(files, last, history.state_ids)
                done = max(InMemory(left).numbers("commits"), default=-1) if known is None else history.last
                assert done is not None
                in_sink = history.finished if known is None else done
                lost = {batch for batch in history.with_rows if in_sink < batch < at}
                twice = {batch for batch in history.with_rows if at <= batch <= done}
                assert not lost | twice, (history, sorted(left), at)
    assert set(said) == {"whole", "repaired", "restore"}


def repaired(directory: CheckpointDirectory, files: InMemory, written: Written | None) -> str:
    try:
        check_logs(directory, written)
    except SettingsError as refused:
        said = str(refused)
        if "Do this" not in said:
            return "restore"
        assert ".crc" not in said, "only Hadoop's local files have them"
        for step in steps(said):
            match step:
                case ("remove", name):
                    files.content.pop(name, None)
                case ("write", name, text):
                    files.content[name] = text.encode()
                case ("copy", one, other):
                    files.content[other] = files.content[one]
        check_logs(directory, written)
        assert not is_older(directory, written)
        return "repaired"
    return "restore" if is_older(directory, written) else "whole"


def is_older(directory: CheckpointDirectory, written: Written | None) -> bool:
    """Say whether check_history refuses the directory as older than its decision log."""
    return written is not None and max(directory.numbers("offsets"), default=-1) < written.last
