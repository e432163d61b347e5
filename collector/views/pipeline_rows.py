"""Rows of checkpoints, Flink's jobs and timeouts, in the columns of the OpenAPI document; all times epoch ms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.records.flink_job_facts import FlinkJobFacts
from indoubt.collector.records.formats.flink_records import FlinkCommittables
from indoubt.collector.records.formats.pending_files import FileSeen, Standing
from indoubt.collector.verdicts.timeout_risk import Timeout
from indoubt.lifecycle.rows.pipelines import CheckpointRow, JobRow, SinkCommitsRow, TimeoutRow


def checkpoint_row(
    checkpoint: CheckpointFacts, transactions: tuple[int, int | None] | None, sinks: Sequence[SinkCommitsRow] = ()
) -> CheckpointRow:
    """Return a row of GET /checkpoints; ``transactions`` is their number and their rows, where known; ``sinks`` of Flink's."""
    count, rows = transactions if transactions is not None else (None, None)
    return CheckpointRow(
        pipeline=checkpoint.pipeline,
        number=checkpoint.number,
        state=checkpoint.state,
        started_at_ms=checkpoint.begun_ms,
        ended_at_ms=checkpoint.ended_ms,
        duration_ms=checkpoint.duration_ms,
        transactions=count,
        rows=checkpoint.rows if checkpoint.rows is not None else rows,
        source=", ".join(sorted(checkpoint.sources)),
        kind=checkpoint.kind,
        reason=checkpoint.reason,
        state_bytes=checkpoint.state_bytes,
        job=checkpoint.job,
        path=checkpoint.path,
        sinks=tuple(sinks),
    )


def sink_rows(listing: FlinkCommittables, seen: Mapping[str, FileSeen]) -> tuple[SinkCommitsRow, ...]:
    """Return what each sink announces in a checkpoint; ``seen``: how its store has each file, by name."""
    files: dict[str, Counter[Standing]] = {}
    for file in listing.files:
        of_sink = files.setdefault(file.sink, Counter())
        if file.target in seen:
            of_sink[seen[file.target].standing] += 1
    return tuple(
        SinkCommitsRow(
            sink=each.sink,
            kind=each.kind,
            commits=each.commits,
            visible=files[each.sink][Standing.VISIBLE] if each.sink in files else None,
            hidden=files[each.sink][Standing.HIDDEN] if each.sink in files else None,
            missing=files[each.sink][Standing.MISSING] if each.sink in files else None,
        )
        for each in listing.sinks
    )


def checkpoint_at_ms(checkpoint: CheckpointFacts) -> int:
    """Return the time of a checkpoint by which a stretch of time has it: its end, else its start (epoch ms)."""
    return checkpoint.ended_ms or checkpoint.begun_ms or 0


def checkpoint_sort_key(checkpoint: CheckpointFacts) -> tuple[int, int, str, str, str]:
    """Return where a checkpoint stands in the list: newest first."""
    begun_ms = checkpoint.begun_ms
    at_ms = begun_ms if begun_ms is not None else checkpoint.ended_ms
    return (-(at_ms or 0), -checkpoint.number, checkpoint.pipeline, checkpoint.kind, checkpoint.job)


def job_row(facts: FlinkJobFacts) -> JobRow:
    """Return a row of GET /jobs."""
    job = facts.job
    return JobRow(
        cluster=job.cluster,
        job=job.job,
        name=job.name,
        pipeline=facts.pipeline,
        state=job.state,
        started_at_ms=job.started_ms,
        ended_at_ms=job.ended_ms,
        restarts=job.restarts,
        restored_from=job.restored_number,
        restored_at_ms=job.restored_ms,
    )


def timeout_row(timeout: Timeout) -> TimeoutRow:
    """Return a row of GET /timeouts; lengths in ms."""
    lengths, opened = timeout.lengths, timeout.open_now
    return TimeoutRow(
        pipeline=lengths.application,
        managed=timeout.pipeline is not None,
        risk=timeout.risk.value,
        advice=timeout.advice,
        timeout_ms=lengths.timeout_ms,
        left_ms=timeout.left_ms,
        recovery_ms=timeout.recovery_ms,
        recovery=timeout.recovery,
        restarts=timeout.restarts,
        transactions=lengths.ended + lengths.timed_out,
        timed_out=lengths.timed_out,
        p50_ms=lengths.p50_ms,
        p95_ms=lengths.p95_ms,
        p99_ms=lengths.p99_ms,
        longest_ms=lengths.longest_ms,
        longest_transaction=lengths.longest_transaction,
        open=opened.count if opened is not None else 0,
        oldest_key=opened.oldest_key if opened is not None else None,
        oldest_opened_at_ms=opened.oldest_opened_ms if opened is not None else None,
        oldest_deadline_ms=opened.oldest_deadline_ms if opened is not None else None,
    )
