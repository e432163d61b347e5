"""Every rule about a Flink job's checkpoints: when it answers, and which checkpoint it names."""

from __future__ import annotations

from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import Restore
from indoubt.collector.records.formats.flink_records import FlinkCheckpoint, FlinkJob, FlinkKind, FlinkStatus
from indoubt.collector.verdicts.flink_checkpoints import RULES, Fate, by_job, job_case
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.observations import T0
from tests.unit.collector.verdicts.case_tables import table

STARTED_MS = T0 + 21_500
RUNS, FAILED = FlinkStatus.IN_PROGRESS, FlinkStatus.FAILED
OVER = job(state="CANCELED")
SET_BACK = job(restored=2, restored_at=35_000)
FROM_4 = {4: Restore(at_ms=T0 + 90_000, number=4)}

CASES = [
    # name, number in its id, job, checkpoints, proven, rule, fate, checkpoint
    ("its checkpoint completed", 3, job(), [checkpoint(3)], {}, 1, Fate.COMPLETED, 3),
    ("a later one completed", 3, job(), [checkpoint(3, FAILED), checkpoint(4)], {}, 1, Fate.COMPLETED, 4),
    ("one that was not seen is proven", 3, OVER, [], FROM_4, 1, Fate.COMPLETED, 4),
    ("pooled, the next one completed", None, job(), [checkpoint(2), checkpoint(3)], {}, 1, Fate.COMPLETED, 3),
    ("set back to before it", 3, SET_BACK, [checkpoint(2), checkpoint(4)], {}, 2, Fate.REPLAYED, 3),
    ("pooled, set back to before it", None, SET_BACK, [checkpoint(1), checkpoint(2, took=1)], {}, 2, Fate.REPLAYED, None),
    ("its checkpoint runs", 3, job(), [checkpoint(2), checkpoint(3, RUNS)], {}, 3, Fate.PENDING, 3),
    ("a savepoint commits nothing", 3, job(), [checkpoint(3, kind=FlinkKind.SAVEPOINT)], {}, 3, Fate.PENDING, None),
    ("pooled, restored from one not seen", None, OVER, [checkpoint(2)], FROM_4, 4, Fate.UNSEEN, None),
    ("its checkpoint ran when the job ended", 3, OVER, [checkpoint(3, RUNS)], {}, 5, Fate.UNSEEN, 3),
    ("its checkpoint was never seen", 3, OVER, [checkpoint(2)], {}, 5, Fate.UNSEEN, None),
    ("its checkpoint failed", 3, OVER, [checkpoint(3, FAILED)], {}, 6, Fate.NOT_COMPLETED, 3),
]  # fmt: skip


@table("number, seen, checkpoints, proven, rule, fate, named", CASES)
def test_case(
    number: int | None,
    seen: FlinkJob,
    checkpoints: list[FlinkCheckpoint],
    proven: dict[int, Restore],
    rule: int,
    fate: Fate,
    named: int | None,
) -> None:
    flink = FlinkState()
    flink.see_job(seen)
    for each in checkpoints:
        flink.see_checkpoint(each)
    proven = proven | flink.restored_from(seen.job)
    found = by_job(job_case(STARTED_MS, number, flink.jobs[seen.job], proven))
    assert (found.rule, found.fate, found.checkpoint) == (rule, fate, named)
    assert found.why


def test_every_rule_has_a_case() -> None:
    assert {case[5] for case in CASES} == set(range(1, len(RULES) + 1))
    assert [int(rule.__name__.split("_")[1]) for rule in RULES] == list(range(1, len(RULES) + 1))
