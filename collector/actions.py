"""Carries out operators' orders: evidence is read again at the moment of acting, and every order leaves one audit row."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Sequence
from typing import assert_never

from collector.acting import Actors
from collector.current_state import CurrentState, Judged, now_ms
from collector.fold import OPERATOR
from collector.observations import OperatorOrder
from collector.orders import Action, Order, OrderOutcome, OrderResult, Step, StepOutcome
from collector.store import Store
from collector.transaction_rows import evidence_row
from collector.verdicts import LogSight
from lifecycle.decisions import BatchAttempt, Decision, DecisionLedger, Outcome, Ruling, Settled
from lifecycle.errors import DecisionLogUnreadable, DecisionVoid, OrderRefused
from lifecycle.identity import Handle, Marker, TransactionalId
from lifecycle.outcomes import (
    AlreadyCommitted,
    CommitOutcome,
    Committed,
    Lost,
    RetryLater,
    RollbackOutcome,
    RolledBack,
    Unknown,
)
from lifecycle.states import TransactionState
from resource_managers.decision_log import DecisionLog
from resource_managers.protocol import OpenTransactionView, Readiness

log = logging.getLogger(__name__)


class Actions:
    """One order at a time, in the thread of its caller. The only code of the collector that changes anything outside it."""

    def __init__(
        self,
        current: CurrentState,
        store: Store,
        actors: Actors,
        decision_log: DecisionLog,
        *,
        read_only: bool,
        limit_ms: int,
    ) -> None:
        self._current, self._store, self._actors, self._log = current, store, actors, decision_log
        self._read_only, self._limit_s = read_only, limit_ms / 1000
        self._lock = threading.Lock()

    def give(self, order: Order, who: str) -> OrderResult:
        """Carry out an order, or check it where it is a dry run.

        Raises OrderRefused when it is not safe or the evidence changed, StoreFailed when the audit cannot be written
        (nothing was done then), ResourceManagerError when the broker could not be asked.
        """
        with self._lock:
            # An order that could not be written down is not carried out.
            self._store.check_writable()
            started = time.monotonic()
            found: list[Judged] = []
            try:
                found = self._seen(order)
                steps = (
                    self._commit(order, found, who) if order.action is Action.COMMIT else self._abort(order, found, who)
                )
            except (OrderRefused, DecisionLogUnreadable) as error:
                self._audit(order, who, OrderOutcome.REFUSED, str(error), found)
                raise OrderRefused(str(error)) from error
            except Exception as error:
                self._audit(order, who, OrderOutcome.FAILED, f"{type(error).__name__}: {error}", found)
                raise
            took_ms = round((time.monotonic() - started) * 1000)
            outcome = _outcome(order, steps)
            detail = json.dumps([step.to_json() for step in steps])
            audit = self._audit(order, who, outcome, detail, found)
            for step in steps:
                if step.outcome.fulfils(order.action):
                    done = OperatorOrder(key=step.key, action=order.action.value, who=who, at_ms=now_ms(), audit=audit)
                    self._current.carried_out(done)
            return OrderResult(audit=audit, outcome=outcome, took_ms=took_ms, steps=tuple(steps))

    def refuse(self, order: Order, who: str, why: str) -> int:
        """Write down an order that its sender may not give; return the audit row's number. Raises StoreFailed."""
        return self._audit(order, who, OrderOutcome.REFUSED, why, [])

    def _seen(self, order: Order) -> list[Judged]:
        """Return the transactions of an order as they are now. Raises OrderRefused when the operator saw something else."""
        if self._read_only:
            raise OrderRefused("the collector runs read-only: no order is carried out")
        found: list[Judged] = []
        for key in order.keys:
            judged = self._current.find(key)
            if judged is None:
                raise OrderRefused(f"transaction {key} is not known (any more): look again")
            seen, view = order.seen.get(key), judged.view
            if seen is None:
                raise OrderRefused(f"the order does not say which revision of {key} was looked at: give it in 'seen'")
            if seen != view.revision:
                ruled = view.listing or view.first_decision
                decision = f"decision {ruled[0]} ({ruled[1].ruling.value})" if ruled else "no decision"
                raise OrderRefused(
                    f"transaction {key} changed since it was looked at: it is {view.state.value} now, verdict "
                    f"{judged.judgement.verdict.value!r}, {decision}; look again"
                )
            if view.resource_manager not in self._actors.names:
                raise OrderRefused(
                    f"transaction {key} is held by {view.resource_manager!r}, and this collector gives orders to "
                    f"{', '.join(self._actors.names)} alone: its driver, or the recovery of the next start, settles it"
                )
            found.append(judged)
        return found

    def _commit(self, order: Order, found: Sequence[Judged], who: str) -> list[Step]:
        ledger = self._log.read_to_end()
        handles: list[Handle] = []
        abouts: list[tuple[str, BatchAttempt]] = []
        for judged in found:
            view, handle = judged.view, judged.view.handle
            listing = ledger.listing(handle.key) if handle is not None else None
            if handle is None or listing is None:
                raise OrderRefused(
                    f"transaction {view.key} is in no commit decision that counts: it may not be committed"
                )
            if view.state in (TransactionState.LOST, TransactionState.ABORTING):
                raise OrderRefused(
                    f"transaction {view.key} was aborted after it was decided: its batch must be replayed"
                )
            if view.state is TransactionState.COMMITTED:
                raise OrderRefused(f"transaction {view.key} is committed already: there is nothing to do")
            listed = next(h for h in listing[1].handles if h.key == handle.key)
            handles.append(listed)
            abouts.append((listing[1].prefix, listing[1].about))
        will = [self._actors.will(Action.COMMIT, handle) for handle in handles]
        if order.dry_run:
            return _dry(found, will, [_ready(readiness) for readiness in self._actors.check(handles)])
        markers = [Marker(batch=about.batch, attempt=about.attempt, life=about.life) for _, about in abouts]
        outcomes = self._actors.commit(handles, markers, self._limit_s)
        for (prefix, about), outcome in zip(abouts, outcomes, strict=True):
            self._record(prefix, about, outcome, who)
        return [
            Step(key=one.view.key, will=words, outcome=kind, detail=detail)
            for one, words, (kind, detail) in zip(found, will, map(_step, outcomes), strict=True)
        ]

    def _record(self, prefix: str, about: BatchAttempt, outcome: CommitOutcome, who: str) -> None:
        """Write a proven commit to the decision log; a failure there changes nothing: the marker proves it to recovery."""
        if not isinstance(outcome, Committed | AlreadyCommitted):
            return
        record = Outcome(
            prefix=prefix,
            about=about,
            handle_key=outcome.handle.key,
            settled=Settled.COMMITTED,
            who=OPERATOR + who,
            at_ms=now_ms(),
        )
        try:
            self._log.append(record)
        except DecisionLogUnreadable as error:
            log.warning("outcome of %s was not written: %s", outcome.handle.key, error)

    def _abort(self, order: Order, found: Sequence[Judged], who: str) -> list[Step]:
        for judged in found:
            view, judgement = judged.view, judged.judgement
            if not judgement.may_abort:
                facts = "; ".join(evidence.fact for evidence in judgement.evidence)
                raise OrderRefused(f"transaction {view.key} may not be aborted: {judgement.verdict.value} ({facts})")
            if judgement.loses_data and order.confirm != view.transaction:
                raise OrderRefused(
                    f"aborting {view.transaction} may lose data: repeat its transactional id in 'confirm', one at a time"
                )
        ours = [one for one in found if one.view.ours]
        foreign = [one for one in found if not one.view.ours]
        if ours and foreign:
            raise OrderRefused(
                "an order aborts transactions of our pipelines or foreign ones, not both: they take different checks"
            )
        return self._abort_ours(order, ours, who) if ours else self._abort_foreign(order, foreign)

    def _abort_ours(self, order: Order, found: Sequence[Judged], who: str) -> list[Step]:
        ledger = self._log.read_to_end()
        for judged in found:
            self._require_undecided(judged, ledger)
        handles = [_handle(one) for one in found]
        will = [self._actors.will(Action.ABORT, handle) for handle in handles]
        if order.dry_run:
            return _dry(found, [f"abort decision for its batch, then {words}" for words in will], [""] * len(found))
        decided: set[BatchAttempt] = set()
        for judged in found:
            about = judged.view.about
            if about is not None and about not in decided:
                self._decide_abort(
                    judged, about, [h for h, one in zip(handles, found, strict=True) if one.view.about == about], who
                )
                decided.add(about)
        outcomes = self._actors.rollback(handles, self._limit_s)
        return [
            Step(key=one.view.key, will=words, outcome=kind, detail=detail)
            for one, words, (kind, detail) in zip(found, will, map(_step, outcomes), strict=True)
        ]

    def _require_undecided(self, judged: Judged, ledger: DecisionLedger) -> None:
        view = judged.view
        if ledger.listing(_handle(judged).key) is not None:
            raise OrderRefused(
                f"transaction {view.key} is in a commit decision that counts: an abort would lose its rows"
            )
        if view.about is not None:
            counting = ledger.counting(view.about)
            if counting is not None and counting.ruling is Ruling.COMMIT:
                raise OrderRefused(
                    f"batch {view.about.batch} was decided to be committed by {counting.who}: it may not be aborted"
                )
            return
        run = ledger.latest_run(view.pipeline)
        if run is None or view.opened_ms is None or view.opened_ms >= run[1].at_ms:
            raise OrderRefused(
                f"the batch of {view.key} is not known and no newer run started: its driver may still decide it"
            )

    def _decide_abort(self, judged: Judged, about: BatchAttempt, handles: Sequence[Handle], who: str) -> None:
        """Append the abort decision unless the attempt was ruled on; DecisionVoid means that somebody was faster."""
        parsed = TransactionalId.parse(judged.view.transaction)
        if parsed is None:
            raise OrderRefused(f"{judged.view.transaction} is not an id of a pipeline of ours")
        if self._log.read_to_end().first(about) is not None:
            return  # an abort that counts, or a commit that a newer run made void: no commit can count any more
        decision = Decision(
            prefix=parsed.prefix,
            about=about,
            ruling=Ruling.ABORT,
            handles=tuple(handles),
            who=OPERATOR + who,
            at_ms=now_ms(),
        )
        try:
            self._log.decide(decision)
        except DecisionVoid as error:
            raise OrderRefused(f"{error}; nothing was aborted") from error

    def _abort_foreign(self, order: Order, found: Sequence[Judged]) -> list[Step]:
        if any(TransactionalId.parse(one.view.transaction) for one in found):
            prefixes = self._prefixes()
            for one in found:
                parsed = TransactionalId.parse(one.view.transaction)
                if parsed is not None and parsed.prefix in prefixes:
                    raise OrderRefused(f"{one.view.transaction} belongs to the pipeline {parsed.prefix}: look again")
        targets: list[OpenTransactionView] = []
        views = [one.view for one in found]
        for view, target in zip(views, self._actors.find_open(views), strict=True):
            if target is None:
                raise OrderRefused(f"transaction {view.key} is not open any more as it was seen: look again")
            targets.append(target)
        will = [self._actors.will(Action.ABORT, target) for target in targets]
        if order.dry_run:
            return _dry(found, will, ["open now"] * len(found))
        errors = self._actors.fence(targets, self._limit_s)
        return [
            Step(
                key=one.view.key,
                will=words,
                outcome=StepOutcome.UNKNOWN if error else StepOutcome.ABORTED,
                detail=error,
            )
            for one, words, error in zip(found, will, errors, strict=True)
        ]

    def _prefixes(self) -> frozenset[str]:
        if self._current.decision_log_sight[0] is LogSight.ABSENT:
            return frozenset()
        return self._log.read_to_end().prefixes()

    def _audit(self, order: Order, who: str, outcome: OrderOutcome, detail: str, found: Sequence[Judged]) -> int:
        evidence = [
            {
                "key": one.view.key,
                "state": one.view.state.value,
                "verdict": one.judgement.verdict.value,
                "rule": one.judgement.rule,
                "revision": one.view.revision,
                "evidence": [evidence_row(fact) for fact in one.judgement.evidence],
            }
            for one in found
        ]
        row = (
            now_ms(),
            who,
            order.action.value,
            json.dumps(order.keys),
            order.reason,
            outcome.value,
            detail,
            json.dumps(evidence),
        )
        audit = self._store.append_audit(row)
        log.info("audit %d: %s by %s: %s", audit, order.action.value, who, outcome.value)
        self._current.changed()
        return audit


def _handle(judged: Judged) -> Handle:
    """Return the whole handle, or what the coordinator tells of one that was never prepared."""
    view = judged.view
    if view.handle is not None:
        return view.handle
    opened_ms = view.opened_ms or 0
    return Handle(
        resource_manager=view.resource_manager,
        transaction=view.transaction,
        producer_id=view.producer_id,
        producer_epoch=view.producer_epoch,
        slot=view.slot or 0,
        rows=0,
        bytes=0,
        fingerprint="",
        opened_at_ms=opened_ms,
        prepared_at_ms=opened_ms,
        timeout_ms=view.timeout_ms or 0,
    )


def _ready(readiness: Readiness) -> str:
    if not readiness.ready:
        return f"not ready: {readiness.reason}"
    # Only Kafka counts the time.
    left = f", {readiness.time_left_ms / 1000:.1f} s left" if readiness.handle.timeout_ms else ""
    return f"prepared{left}"


def _dry(found: Sequence[Judged], will: Sequence[str], details: Sequence[str]) -> list[Step]:
    return [
        Step(key=one.view.key, will=words, outcome=StepOutcome.DRY_RUN, detail=detail)
        for one, words, detail in zip(found, will, details, strict=True)
    ]


def _outcome(order: Order, steps: Sequence[Step]) -> OrderOutcome:
    if order.dry_run:
        return OrderOutcome.DRY_RUN
    return OrderOutcome.ACCEPTED if all(step.outcome.fulfils(order.action) for step in steps) else OrderOutcome.FAILED


def _step(outcome: CommitOutcome | RollbackOutcome) -> tuple[StepOutcome, str]:
    match outcome:
        case Committed():
            return StepOutcome.COMMITTED, ""
        case AlreadyCommitted():
            return StepOutcome.ALREADY_COMMITTED, "its marker proves it"
        case Lost():
            return StepOutcome.LOST, outcome.reason
        case RetryLater():
            return StepOutcome.RETRY_LATER, outcome.reason
        case Unknown():
            return StepOutcome.UNKNOWN, outcome.reason
        case RolledBack():
            return StepOutcome.ABORTED, ""
        case _:
            assert_never(outcome)
