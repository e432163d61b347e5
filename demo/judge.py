"""The judge: computes from the input which counts the sink topic must hold, and compares them with its rows.

The expected counts repeat Spark's rule for late rows in append mode, with Spark's own offset log as the only input besides the
records. In batch N, whose watermark is W(N), Spark drops a row if its window's end <= W(N-1), because late rows are judged
by the watermark of the batch before (Spark >= 3.5, spark.sql.streaming.statefulOperator.allowMultiple). Then it writes every
window whose end <= W(N) once and forgets it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from demo.offset_log import PlannedBatch
from demo.readers import Record

WINDOW_MS = 5_000


class CannotJudge(Exception):
    """The run contradicts the judge's rules about Spark or about the sink's rows; the message says where."""


Window = tuple[str, int]
"""An IP address and the start of its window, epoch ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The counts that the input requires, one for each window, and how many rows the late rule dropped."""

    counts: dict[Window, int]
    late: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The judge's findings; in a correct run ``lost``, ``duplicates``, ``wrong_counts`` and ``precommitted_reads`` are 0.

    ``lost``: windows that are missing, or whose count is wrong. ``duplicates``: rows beyond the first of their window.
    ``precommitted_reads``: rows that a read_committed reader got and that are not committed. ``wrong_counts``: windows with
    another count than the input requires, or that it does not require at all. ``found``: committed rows of the pipeline.
    """

    expected: int
    found: int
    lost: int
    duplicates: int
    wrong_counts: int
    precommitted_reads: int
    late: int
    examples: tuple[str, ...]

    @property
    def clean(self) -> bool:
        """True if nothing was lost, duplicated, miscounted or shown too early."""
        return not (self.lost or self.duplicates or self.wrong_counts or self.precommitted_reads)

    def to_json(self) -> dict[str, Any]:
        """Return a dict of JSON values."""
        return asdict(self)


def expected_counts(source: Sequence[Record], batches: Sequence[PlannedBatch]) -> Expected:
    """Return the counts that the batches, in order, must have written from the source topic's records. Raises CannotJudge."""
    rows: dict[int, list[Record]] = {}
    for record in sorted(source, key=lambda record: (record.partition, record.offset)):
        rows.setdefault(record.partition, []).append(record)
    state: Counter[Window] = Counter()
    written: dict[Window, int] = {}
    position: dict[int, int] = {}
    late, late_watermark_ms = 0, 0
    for batch in batches:
        for partition, end in batch.end_offsets.items():
            at = position.get(partition, 0)
            mine = rows.get(partition, [])
            while at < len(mine) and mine[at].offset < end:
                window = _window_of(mine[at])
                if window[1] + WINDOW_MS <= late_watermark_ms:
                    late += 1
                else:
                    state[window] += 1
                at += 1
            position[partition] = at
        for window in [window for window in state if window[1] + WINDOW_MS <= batch.watermark_ms]:
            if window in written:
                raise CannotJudge(
                    f"window {window} would be written twice: Spark's late rule differs from the judge's (see demo/judge.py)"
                )
            written[window] = state.pop(window)
        late_watermark_ms = batch.watermark_ms
    return Expected(counts=written, late=late)


def judge(expected: Expected, committed: Sequence[Record], live: Sequence[Record], foreign: bytes) -> Findings:
    """Compare the sink with the expected counts. Raises CannotJudge.

    ``committed``: a fresh read_committed scan after the end; ``live``: the rows that a read_committed reader got during the
    run; ``foreign``: the key of rows that their own application never committed.
    """
    examples: list[str] = []
    ours = [record for record in committed if record.key != foreign]
    written: dict[Window, list[int]] = {}
    for record in ours:
        window, count = _counted(record)
        written.setdefault(window, []).append(count)
    duplicates = sum(len(counts) - 1 for counts in written.values())
    missing = [window for window in expected.counts if window not in written]
    wrong = [
        window for window, counts in written.items() if any(count != expected.counts.get(window) for count in counts)
    ]
    places = {(record.partition, record.offset) for record in ours}
    early = [record for record in live if record.key == foreign or (record.partition, record.offset) not in places]
    examples += [f"missing: {_name(window)}, expected {expected.counts[window]}" for window in missing[:3]]
    examples += [f"twice: {_name(window)}, counts {counts}" for window, counts in written.items() if len(counts) > 1][
        :3
    ]
    examples += [f"wrong: {_name(w)}, found {written[w]}, expected {expected.counts.get(w)}" for w in wrong[:3]]
    examples += [f"read before it was committed: partition {r.partition} offset {r.offset}" for r in early[:3]]
    return Findings(
        expected=len(expected.counts),
        found=len(ours),
        lost=len(missing) + len(wrong),
        duplicates=duplicates,
        wrong_counts=len(wrong),
        precommitted_reads=len(early),
        late=expected.late,
        examples=tuple(examples),
    )


def _window_of(record: Record) -> Window:
    address, _, at_ms = (record.value or b"").decode().rpartition(",")
    return address, int(at_ms) // WINDOW_MS * WINDOW_MS


def _counted(record: Record) -> tuple[Window, int]:
    value = json.loads(record.value or b"null")
    window = (value["ip"], value["window_start_ms"])
    if record.key != f"{window[0]}|{window[1]}".encode() or value["window_end_ms"] != window[1] + WINDOW_MS:
        raise CannotJudge(
            f"sink row at partition {record.partition} offset {record.offset}: key {record.key!r} contradicts its value {value}"
        )
    return window, value["count"]


def _name(window: Window) -> str:
    return f"{window[0]} at {window[1]}"
