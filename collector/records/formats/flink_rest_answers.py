"""Flink's REST answers, read: /jobs/overview, /jobs/:jobid/checkpoints and /jobs/:jobid/metrics.

Source: MultipleJobsDetails, CheckpointingStatistics, CheckpointStatistics, MetricCollectionResponseBody of flink-runtime. Fields
that are not used may come and go; one that is used and wrong raises MalformedRecord, which names it. Tested on answers of Flink
2.3.0; what older ones lack is taken from their documented schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from indoubt.collector.records.formats.flink_records import ENDED, FlinkCheckpoint, FlinkJob, FlinkKind, FlinkStatus
from indoubt.lifecycle.errors import MalformedRecord

RESTART_METRICS = ("numRestarts", "fullRestarts")
"""The job's restarts, by its name from 1.19 on and by the older one."""
REASON_CHARACTERS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """One answer of /jobs/:jobid/checkpoints: oldest first, and what the job was restored from."""

    checkpoints: tuple[FlinkCheckpoint, ...]
    quarantined: tuple[str, ...]
    """Why rows of the history could not be understood: the others stand for themselves."""
    restored_number: int | None
    restored_ms: int | None
    restored_path: str


def jobs(cluster: str, answer: Any, at_ms: int = 0) -> list[FlinkJob]:
    """Return the jobs of /jobs/overview as seen at ``at_ms``. Raises MalformedRecord."""
    found = []
    for row in _list(answer, "jobs"):
        ended_ms = _number(row, "end-time")
        state = _text(row, "state")
        found.append(
            FlinkJob(
                cluster=cluster,
                job=_text(row, "jid"),
                name=_text(row, "name"),
                state=state,
                started_ms=_number(row, "start-time"),
                changed_ms=_number(row, "last-modification"),
                seen_ms=at_ms,
                ended_ms=ended_ms if state in ENDED and ended_ms >= 0 else None,
            )
        )
    return found


def clock_ms(answer: Any) -> int | None:
    """Return the JobManager's time as it answered /jobs/overview (epoch ms): a job that runs has a duration until then."""
    rows = _list(answer, "jobs")
    times = [_number(row, "start-time") + _number(row, "duration") for row in rows if row.get("end-time") == -1]
    return max(times, default=None)


def checkpoints(job: FlinkJob, answer: Any) -> Checkpoints:
    """Return what /jobs/:jobid/checkpoints tells: its history, and the latest of each kind. Raises MalformedRecord."""
    latest = answer.get("latest") if isinstance(answer, dict) else None
    latest = latest if isinstance(latest, dict) else {}
    rows = [*_list(answer, "history"), *(latest.get(name) for name in ("completed", "failed", "savepoint"))]
    found: dict[int, FlinkCheckpoint] = {}
    quarantined: list[str] = []
    for row in rows:
        try:
            seen = _checkpoint(job, row) if row is not None else None
        except MalformedRecord as error:
            quarantined.append(str(error))
            continue
        if seen is not None:
            found[seen.number] = seen
    restored = latest.get("restored")
    restored = restored if isinstance(restored, dict) else None
    return Checkpoints(
        checkpoints=tuple(found[number] for number in sorted(found)),
        quarantined=tuple(dict.fromkeys(quarantined)),
        restored_number=_number(restored, "id") if restored is not None else None,
        restored_ms=_number(restored, "restore_timestamp") if restored is not None else None,
        restored_path=str(restored.get("external_path") or "") if restored is not None else "",
    )


def restarts(answer: Any) -> int | None:
    """Return how often a job was restarted, or None where the metric is not there (yet). Raises MalformedRecord."""
    if not isinstance(answer, list):
        raise MalformedRecord(f"Flink's answer is {type(answer).__name__}, not a list of metrics")
    values = {row.get("id"): row.get("value") for row in answer if isinstance(row, dict)}
    for name in RESTART_METRICS:
        value = values.get(name)
        if isinstance(value, str) and value.isdecimal():
            return int(value)
    return None


def _checkpoint(job: FlinkJob, row: Any) -> FlinkCheckpoint:
    status = _member(FlinkStatus, row, "status")
    triggered_ms, duration_ms = _number(row, "trigger_timestamp"), _number(row, "end_to_end_duration")
    ended_ms: int | None = None
    match status:
        case FlinkStatus.COMPLETED:
            ended_ms = triggered_ms + max(0, duration_ms)
        case FlinkStatus.FAILED:
            ended_ms = _number(row, "failure_timestamp")
        case FlinkStatus.IN_PROGRESS:
            pass
    return FlinkCheckpoint(
        cluster=job.cluster,
        job=job.job,
        job_name=job.name,
        number=_number(row, "id"),
        status=status,
        kind=_kind(row),
        triggered_ms=triggered_ms,
        ended_ms=ended_ms,
        state_bytes=_number(row, "state_size") if status is FlinkStatus.COMPLETED else None,
        reason=str(row.get("failure_message") or "")[:REASON_CHARACTERS],
        path=str(row.get("external_path") or ""),
    )


def _kind(row: Any) -> FlinkKind:
    if row.get("checkpoint_type") is None:  # before 1.15
        return FlinkKind.SAVEPOINT if row.get("is_savepoint") is True else FlinkKind.CHECKPOINT
    kind: FlinkKind = _member(FlinkKind, row, "checkpoint_type")
    return kind


def _member(kind: type[Any], row: Any, name: str) -> Any:
    text = _text(row, name)
    try:
        return kind(text)
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise MalformedRecord(f"Flink's answer has {name} {text!r}; this program knows {known}") from None


def _list(answer: Any, name: str) -> list[Any]:
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise MalformedRecord(f"Flink's answer has no list {name!r}")
    return found


def _text(row: Any, name: str) -> str:
    found = row.get(name) if isinstance(row, dict) else None
    if not isinstance(found, str) or not found:
        raise MalformedRecord(f"Flink's answer has {name} {found!r}, not text")
    return found


def _number(row: Any, name: str) -> int:
    found = row.get(name) if isinstance(row, dict) else None
    if not isinstance(found, int) or isinstance(found, bool):
        raise MalformedRecord(f"Flink's answer has {name} {found!r}, not a whole number")
    return found
