"""How the drivers of our pipelines stand, gathered from the present state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collector.records.facts import CheckpointFacts
from collector.verdicts.driver_state import DriverState, driver_state, plain_state
from collector.verdicts.judging import Judged, PipelineNow
from collector.views.current_state import CurrentState
from lifecycle.checkpoints import CheckpointState
from lifecycle.verdicts import Verdict


def drivers(current: CurrentState, judged: Sequence[Judged], now_ms: int) -> list[DriverState]:
    """Return every pipeline that ever started a run, in no order; ``judged``: the transactions at ``now_ms``."""
    limits = current.limits
    plain = [(run, plain_state(run, limits, now_ms)) for run in current.newest_runs()]
    doubtful = {run.facts.pipeline for run, state in plain if state is None}
    histories = current.pipelines(doubtful)
    unfinished = unfinished_batches(judged, current.checkpoints()) if doubtful else {}

    def state_of(run: PipelineNow) -> DriverState:
        name = run.facts.pipeline
        return driver_state(run, histories[name], unfinished.get(name), limits, now_ms)

    return [state or state_of(run) for run, state in plain]


def unfinished_batches(judged: Iterable[Judged], checkpoints: Iterable[CheckpointFacts]) -> dict[str, int]:
    """Return pipeline -> since when (epoch ms) a batch of it is begun and not finished, by transactions and by checkpoints."""
    found: dict[str, int] = {}
    for item in judged:
        is_unfinished = item.view.is_running or item.judgement.verdict is Verdict.LOST
        if item.view.ours and is_unfinished and item.view.opened_ms is not None:
            _put(found, item.view.pipeline, item.view.opened_ms)
    newest: dict[str, CheckpointFacts] = {}
    for checkpoint in checkpoints:
        known = newest.get(checkpoint.pipeline)
        if not checkpoint.job and (known is None or (checkpoint.begun_ms or 0) >= (known.begun_ms or 0)):
            newest[checkpoint.pipeline] = checkpoint
    for name, checkpoint in newest.items():
        if checkpoint.state is not CheckpointState.COMPLETED and checkpoint.begun_ms is not None:
            _put(found, name, checkpoint.begun_ms)
    return found


def _put(found: dict[str, int], name: str, at_ms: int) -> None:
    found[name] = min(at_ms, found.get(name, at_ms))
