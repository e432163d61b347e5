"""Which commits of unknown sinks nobody will do any more: by the job's end, its last checkpoint and what was restored since."""

from __future__ import annotations

from typing import Any

import pytest

from indoubt.collector.records.formats.flink_records import FlinkKind, FlinkStatus, SinkCommits
from indoubt.collector.verdicts.flink_announced import commits_in_doubt
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0
from tests.unit.collector.records.flink_states import DONE, B, C, listed, path, state

A = "a" * 32
LEDGER, FILES = SinkCommits("ledger", "unknown", 12), SinkCommits("files", "files", 3)
COMPLETED_MS = T0 + 41_000
"""The end of checkpoint 4."""
AT_ONCE_MS = 10_000


def of(number: int = 4, **fields: Any) -> Any:
    at_ms = T0 + 10_000 * number + 500
    return listed(number, **({"written_ms": at_ms, "read_ms": at_ms, "sinks": (LEDGER, FILES)} | fields))


def over(state_: str = "FAILED", after_ms: int = 1_000) -> Any:
    return job(state=state_, ended_ms=COMPLETED_MS + after_ms)


def ended(number: int = 4, **fields: Any) -> Any:
    return checkpoint(number, DONE, path=path(A, number), **fields)


@pytest.mark.parametrize(
    ("seen", "numbers"),
    [
        ((over(), ended(), of()), [4]),
        ((over("GONE", 3_600_000), ended(), of()), [4]),
        ((over("CANCELED", AT_ONCE_MS), ended(), of()), [4]),
        # Its tasks were told of the completion long before.
        ((over("CANCELED", AT_ONCE_MS + 1), ended(), of()), []),
        ((job(state="CANCELED"), ended(), of()), []),
        # It has committed all, or still does.
        ((over("FINISHED"), ended(), of()), []),
        ((job(), ended(), of()), []),
        # The last that completed counts, and only it.
        ((over(), ended(), ended(3), of(), of(3)), [4]),
        ((over(), ended(), ended(3), of(3)), []),
        ((over(), ended(), ended(5, kind=FlinkKind.SAVEPOINT), of(), of(5)), [4]),
        ((over(), ended(), checkpoint(5, FlinkStatus.FAILED), of()), [4]),
        ((over(), checkpoint(4, FlinkStatus.FAILED), of()), []),
        ((over(), of()), []),
        # Nothing is announced, or only what is judged by itself; or the list is of another line of work, or gone.
        ((over(), ended(), of(sinks=(FILES,))), []),
        ((over(), ended(), of(sinks=())), []),
        ((over(), ended(), of(written_ms=T0 + 500_000)), []),
        ((over(), ended(), of(is_gone=True)), []),
        # Restored from it: committed again. From an earlier one: written again.
        ((over(), ended(), of(), job(B, restored=4, restored_at=60_000, restored_path=path(A, 4))), []),
        ((over(), ended(), of(), job(B, restored=3, restored_at=60_000, restored_path=path(A, 3))), []),
        ((over(), ended(), of(), job(B, restored=4, restored_at=60_000, restored_path=path(C, 4))), [4]),
    ],
)
def test_commits_that_nobody_will_do(seen: tuple[Any, ...], numbers: list[int]) -> None:
    found = commits_in_doubt(state(*seen), at_once_ms=AT_ONCE_MS)
    assert [each.number for each in found] == numbers
    for each in found:
        assert (each.sinks, each.completed_ms, each.path) == ((LEDGER,), COMPLETED_MS, path(A, 4))


@pytest.mark.parametrize("polled", [{}, {CLUSTER: T0}])
def test_whether_a_restore_would_be_seen_is_said(polled: dict[str, int]) -> None:
    (found,) = commits_in_doubt(state(over(), ended(), of(), polled_ms=polled), at_once_ms=AT_ONCE_MS)
    assert found.is_seen == bool(polled)
