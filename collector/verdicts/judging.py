"""Judges transactions: gathers what the rules of a verdict read, of the transaction and of its pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from indoubt.collector.facts import attempts
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.facts import CheckpointFacts, PipelineFacts
from indoubt.collector.verdicts.flink_cases import flink_case
from indoubt.collector.verdicts.read_process_write import read_process_write_case
from indoubt.collector.verdicts.restarts import measured_restarts
from indoubt.collector.verdicts.told_evidence import part_of_application
from indoubt.collector.verdicts.verdict_case import Case, DecisionLogStatus, Limits, PipelineHistory, young
from indoubt.collector.verdicts.verdict_rules import judge
from indoubt.lifecycle.checkpoints import CheckpointState
from indoubt.lifecycle.decisions import BatchAttempt
from indoubt.lifecycle.identity import TransactionalId
from indoubt.lifecycle.verdicts import Judgement

DEFAULT_INTERVAL_MS = 10_000
DEFAULT_RESTART_DELAY_MS = 10_000
DURATIONS_CONSIDERED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One transaction with its verdict at a moment."""

    view: TransactionView
    judgement: Judgement
    pipeline: PipelineHistory | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineNow:
    """One pipeline of ours: its newest run in the decision log, and what it reported. ``run_ms``: when that run began."""

    facts: PipelineFacts
    checkpoint_id: str
    attempt: int
    run_ms: int

    @property
    def has_committed(self) -> bool:
        """Say whether that run has committed anything yet."""
        known = self.facts.runs.get(self.attempt)
        return known is not None and known.first_commit_ms is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationContext:
    """What does not depend on the transaction. ``log_status``: whether the decision log can be trusted, and its error."""

    limits: Limits
    log_status: tuple[DecisionLogStatus, str]
    now_ms: int
    steady_ms: int | None = None
    """The same moment by the clock that says when signs arrived; None: silence is not judged."""
    pipelines: dict[str, PipelineHistory] = field(default_factory=dict)
    """Histories gathered so far, by prefix: many transactions share one."""

    def cases(self, state: State, views: Iterable[TransactionView]) -> list[Case]:
        """Return what the rules read. Call it under the state's lock; judging needs none."""
        return [self._case(state, view) for view in views]

    def _case(self, state: State, view: TransactionView) -> Case:
        batch_attempt = view.proven_batch_attempt
        return Case(
            transaction=view,
            pipeline=self._history(state, view.pipeline) if view.managed else None,
            log_status=self.log_status[0],
            log_error=self.log_status[1],
            later_batch_decided=_is_passed(state, batch_attempt),
            rulable=batch_attempt if batch_attempt is not None else _of_run(state, view),
            limits=self.limits,
            now_ms=self.now_ms,
            flink=flink_case(
                state.flink,
                view,
                commit_overdue_ms=self.limits.flink_commit_overdue_ms,
                driver_silent_ms=self.limits.driver_silent_ms,
                now_ms=self.now_ms,
            ),
            read_process_write=read_process_write_case(
                state, view, driver_silent_ms=self.limits.driver_silent_ms, now_ms=self.now_ms
            ),
            young=young(state, view, foreign_old_ms=self.limits.foreign_old_ms, now_ms=self.now_ms),
        )

    def _history(self, state: State, prefix: str) -> PipelineHistory:
        if prefix not in self.pipelines:
            found = pipeline_histories(state, [prefix], self.limits)[prefix]
            self.pipelines[prefix] = replace(found, heard_ms=self._heard_ms(state, prefix))
        return self.pipelines[prefix]

    def _heard_ms(self, state: State, prefix: str) -> int | None:
        heard_ms = state.signs.heard_ms.get(prefix, state.signs.listening_ms)
        return None if heard_ms is None or self.steady_ms is None else self.now_ms - (self.steady_ms - heard_ms)


def _is_passed(state: State, batch_attempt: BatchAttempt | None) -> bool:
    """Say whether a later batch of the same checkpoint id was decided."""
    if batch_attempt is None:
        return False
    decided = state.last_decided.get(batch_attempt.checkpoint_id)
    return decided is not None and decided.batch > batch_attempt.batch


def _of_run(state: State, view: TransactionView) -> BatchAttempt | None:
    parsed = TransactionalId.parse(view.transaction) if view.managed else None
    return attempts.of_run(state.ledger, parsed, view.log_end) if parsed is not None else None


def judged(cases: Iterable[Case]) -> list[Judged]:
    """Return each case's transaction with its verdict, in the order given."""
    return [Judged(view=case.transaction, judgement=_judgement(case), pipeline=case.pipeline) for case in cases]


def _judgement(case: Case) -> Judgement:
    # Whose it is stands with every verdict, whichever rule gave it.
    found, view = judge(case), case.transaction
    whose = part_of_application(view.application, view.resource_manager)
    return replace(found, rests_on=(*found.rests_on, *whose)) if whose else found


def pipeline_histories(state: State, prefixes: Iterable[str], limits: Limits) -> dict[str, PipelineHistory]:
    """Return what is known of pipelines, by their names: checkpoints are gone through once for all of them.

    Call it under the state's lock.
    """
    checkpoints: dict[str, list[CheckpointFacts]] = {prefix: [] for prefix in prefixes}
    for checkpoint in state.checkpoints.values():
        if checkpoint.pipeline in checkpoints:
            checkpoints[checkpoint.pipeline].append(checkpoint)
    return {prefix: _pipeline_history(state, prefix, found, limits) for prefix, found in checkpoints.items()}


def _pipeline_history(
    state: State, prefix: str, checkpoints: Iterable[CheckpointFacts], limits: Limits
) -> PipelineHistory:
    facts = state.pipelines.get(prefix) or PipelineFacts(pipeline=prefix)
    run = attempts.newest_run(state.ledger, prefix)
    history = PipelineHistory(
        facts=facts,
        latest_run_offset=run[0] if run else None,
        latest_run_ms=run[1].at_ms if run else None,
        checkpoint_p99_ms=_p99_ms(checkpoints),
        interval_ms=facts.setting("interval_ms", DEFAULT_INTERVAL_MS),
        restart_delay_ms=facts.setting("restart_delay_ms", DEFAULT_RESTART_DELAY_MS),
    )
    return replace(history, restarts=measured_restarts(facts, history.silent_after_ms(limits)))


def pipeline_now(state: State, prefix: str) -> PipelineNow | None:
    """Return a pipeline with its newest run, or None when no run of it is known. Call it under the state's lock."""
    run = state.ledger.latest_run(prefix)
    if run is None:
        return None
    facts = state.pipelines.get(prefix) or PipelineFacts(pipeline=prefix)
    return PipelineNow(facts=facts, checkpoint_id=run[1].checkpoint_id, attempt=run[0], run_ms=run[1].at_ms)


def _p99_ms(checkpoints: Iterable[CheckpointFacts]) -> int:
    newest = sorted(checkpoints, key=lambda c: c.number)[-DURATIONS_CONSIDERED:]
    return percentile([c.duration_ms for c in newest if c.state is CheckpointState.COMPLETED], 0.99) or 0


def percentile(durations_ms: Iterable[int | None], share: float) -> int | None:
    """Return the shortest known duration that more than ``share`` of them do not exceed, at most the longest; None without any."""
    known = sorted(d for d in durations_ms if d is not None)
    return known[min(len(known) - 1, int(share * len(known)))] if known else None
