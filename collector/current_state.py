"""Current state behind one lock: observers fold into it, readers take frozen snapshots out of it.

An observation is in memory, and so in the API, before history has it on disk.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from collector import branch_view, fold, history_rows, id_leaks, losses, transaction_view
from collector.abort_causes import AbortClues, Cause, infer
from collector.branches import BranchFacts, PlaceLook
from collector.broker_records import BrokerRecords
from collector.clock import now_ms
from collector.data_loss import UNDONE, Loss
from collector.facts import (
    BrokerIdentity,
    BrokerTransaction,
    CheckpointFacts,
    PipelineFacts,
    ToldTransaction,
    merged,
    of_record,
)
from collector.flink_facts import FlinkJobFacts, newest_first
from collector.flink_records import FlinkCheckpoint, FlinkJob
from collector.fold import State, apply
from collector.fold_columns import put_events, put_records
from collector.id_leaks import PrefixReport
from collector.lifecycle_batch import EventColumns
from collector.observations import BrokerRecord, Malformed, Observed, OperatorOrder
from collector.rollups import Aborted
from collector.state_loading import read_kept
from collector.store import HistoryDamaged, Store
from collector.transaction_view import TransactionView
from collector.verdicts import Case, Limits, LogSight, PipelineHistory, judge
from collector.write_queue import Offsets
from lifecycle.checkpoints import CheckpointState
from lifecycle.errors import MalformedRecord
from lifecycle.states import TransactionState
from lifecycle.verdicts import Judgement

DEFAULT_INTERVAL_MS = 10_000
DEFAULT_RESTART_DELAY_MS = 10_000
DURATIONS_CONSIDERED = 200
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One transaction with its verdict at a moment."""

    view: TransactionView
    judgement: Judgement
    pipeline: PipelineHistory | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineNow:
    """One pipeline of ours: its newest run in the decision log, and what it told. ``run_ms``: when that run began."""

    facts: PipelineFacts
    life: str
    attempt: int
    run_ms: int


class CurrentState:
    """Thread-safe: ``observe`` is called by observers, everything else by readers."""

    def __init__(self, store: Store, *, settled_kept: int, checkpoints_kept: int, limits: Limits) -> None:
        self._store = store
        self._state = State(settled_kept=settled_kept, checkpoints_kept=checkpoints_kept)
        self._lock = threading.Lock()
        self._limits = limits
        self._sight = (LogSight.UNREADABLE, "")
        self._listeners: list[Callable[[int], None]] = []
        self.version = 0

    def load(self) -> None:
        """Rebuild state from history; a damaged file is set aside, and what it had comes again. Raises StoreFailed."""
        try:
            self._load()
        except HistoryDamaged as damage:
            with self._lock:
                self._state = State(
                    settled_kept=self._state.settled_kept, checkpoints_kept=self._state.checkpoints_kept
                )
            self._store.begin_anew(damage)
            self._load()

    def _load(self) -> None:
        kept = read_kept(self._store, self._state.settled_kept, self._state.checkpoints_kept)
        with self._lock:
            kept.put_into(self._state)

    def observe(self, arrived: Sequence[Observed]) -> None:
        """Fold observations, tell who listens, then hand them to history. Call it from one thread per source, in order."""
        with self._lock:
            kept = self._folded(arrived)
        self.changed()
        self._store.append(kept)

    def observe_records(self, records: BrokerRecords, others: Sequence[Observed], offsets: Offsets) -> None:
        """Do the same with states of the coordinator's log in columns, and with the odd ones that were among them."""
        with self._lock:
            # A tombstone drops what is known of an id: what was written after it must not be folded before it.
            kept = self._folded(others)
            put_records(self._state, records)
        self.changed()
        self._store.append(kept, {"transaction_records": history_rows.records_table(records)}, offsets)

    def observe_events(
        self, events: EventColumns, table: pa.Table, others: Sequence[Observed], offsets: Offsets
    ) -> None:
        """Do the same with lifecycle events in columns; ``table``: their rows of history."""
        with self._lock:
            kept = self._folded(others)
            put_events(self._state, events)
        self.changed()
        self._store.append(kept, {"lifecycle_events": table}, offsets)

    def _folded(self, arrived: Sequence[Observed]) -> list[Observed]:
        kept: list[Observed] = []
        for observed in arrived:
            try:
                apply(self._state, observed.observation)
            except MalformedRecord as error:
                aside = Malformed(error=str(error), value=observed.raw[:200], at_ms=now_ms())
                observed = replace(observed, observation=aside)
                apply(self._state, aside)
            kept.append(observed)
        return kept

    def forget_decisions(self) -> None:
        """Drop what the decision log said: another one has taken its place."""
        with self._lock:
            fold.forget_decisions(self._state)
        self.changed()

    def forget_open_transactions(self) -> None:
        """Drop what the coordinator's log said of open transactions: another log has taken its place."""
        with self._lock:
            fold.forget_open_transactions(self._state)
        self.changed()

    def carried_out(self, order: OperatorOrder) -> None:
        """Fold an order of this collector's operator; its audit row is history already."""
        with self._lock:
            apply(self._state, order)
        self.changed()

    def changed(self) -> None:
        """Move the version on and tell who listens."""
        self.version += 1
        for listener in self._listeners:
            listener(self.version)

    def listen(self, listener: Callable[[int], None]) -> None:
        """Have ``listener`` called with each new version, from any thread; it must not block."""
        self._listeners.append(listener)

    def see_decision_log(self, sight: LogSight, error: str = "") -> None:
        """Note whether the decision log can be trusted."""
        if self._sight != (sight, error):
            self._sight = (sight, error)
            self.changed()

    @property
    def commit_overdue_ms(self) -> int:
        """Return how long after its decision a commit is overdue."""
        return self._limits.commit_overdue_ms

    @property
    def decision_log_sight(self) -> tuple[LogSight, str]:
        """Return whether the decision log can be trusted, and what is wrong with it."""
        return self._sight

    def counts(self) -> tuple[int, int]:
        """Return how many observations were folded and how many records kept aside, since history began."""
        with self._lock:
            return self._state.events, self._state.malformed

    def ends(self) -> tuple[int, int]:
        """Return how many transactions were seen to be committed and to be aborted since this process began."""
        with self._lock:
            return self._state.committed, self._state.rolled_back

    def knows(self, record: BrokerRecord) -> bool:
        """Say whether folding this record would tell nothing new (polling sees the same state again and again)."""
        with self._lock:
            if record.start_ms is None:
                return False
            identity = BrokerIdentity(record.transaction, record.producer_id, record.start_ms)
            before = self._state.broker.get(identity)
        if before is None:
            return False
        after = merged(before, of_record(record, record.start_ms))
        return replace(after, last_write_ms=before.last_write_ms) == before

    def see_branches(self, place: str, look: PlaceLook) -> None:
        """Note what a database's branches hold at this moment; it is not history."""
        with self._lock:
            before = self._state.looks.get(place)
            self._state.looks[place] = look
        if before is None or {k: d.locks for k, d in before.details.items()} != {
            k: d.locks for k, d in look.details.items()
        }:
            self.changed()

    def listed_branches(self, place: str) -> dict[str, BranchFacts]:
        """Return the branches that this database listed when it was looked at last, by their names there."""
        with self._lock:
            found = [b for b in self._state.branches.values() if b.place == place and b.is_listed]
        return {branch.transaction: branch for branch in found}

    def unproven_branches(self, resource_manager: str) -> list[str]:
        """Return the names of our branches whose end is due and was not told: no event, no outcome, no marker seen yet."""
        with self._lock:
            return branch_view.unproven_branches(self._state, resource_manager)

    def judged(self, *, settled: bool = False, at_ms: int | None = None, undone_since_ms: int = 0) -> list[Judged]:
        """Return the transactions in memory with their verdicts, in no order; with ``settled`` also the settled ones.

        Without those that were aborted before ``undone_since_ms`` and are of no known batch.
        """
        with self._lock:
            pipelines: dict[str, PipelineHistory] = {}
            found = transaction_view.views(self._state, settled=settled, undone_since_ms=undone_since_ms)
            cases = [self._case(view, at_ms or now_ms(), pipelines) for view in found]
        return [Judged(view=case.transaction, judgement=judge(case), pipeline=case.pipeline) for case in cases]

    def judged_of_batches(self, batches: Collection[tuple[str, int]], at_ms: int) -> list[Judged]:
        """Return every transaction in memory, settled or not, of those of these (life, batch) that several resource managers hold.

        With its verdict, in no order.
        """
        with self._lock:
            members: dict[tuple[str, int], list[ToldTransaction]] = {}
            for told in self._state.told.values():
                if told.about is not None and (told.about.life, told.about.batch) in batches:
                    members.setdefault((told.about.life, told.about.batch), []).append(told)
            shared = [of_it for of_it in members.values() if len({told.resource_manager for told in of_it}) > 1]
            found = [transaction_view.find(self._state, told.key) for of_it in shared for told in of_it]
            pipelines: dict[str, PipelineHistory] = {}
            cases = [self._case(view, at_ms, pipelines) for view in found if view is not None]
        return [Judged(view=case.transaction, judgement=judge(case), pipeline=case.pipeline) for case in cases]

    def find(self, key: str) -> Judged | None:
        """Return one transaction with its verdict now, or None when it is not in memory."""
        with self._lock:
            view = transaction_view.find(self._state, key)
            if view is None:
                return None
            case = self._case(view, now_ms(), {})
        return Judged(view=view, judgement=judge(case), pipeline=case.pipeline)

    def open_at_coordinators(self) -> list[BrokerTransaction]:
        """Return the transactions whose end was not seen, each the newest of its id, in no order."""
        with self._lock:
            newest = (i for i in self._state.open if self._state.latest_of_id.get(i.transaction) == i)
            return [self._state.broker[identity] for identity in newest]

    def ids_of_producers(self, producer_ids: Collection[int]) -> dict[int, frozenset[str]]:
        """Return the transactional ids that these producer ids were seen under, as far as they are in memory."""
        found: dict[int, set[str]] = {}
        with self._lock:
            for identity in self._state.broker:
                if identity.producer_id in producer_ids:
                    found.setdefault(identity.producer_id, set()).add(identity.transaction)
        return {producer_id: frozenset(ids) for producer_id, ids in found.items()}

    def abort_clues(self, undone_since_ms: int = 0) -> list[AbortClues]:
        """Return the aborted and lost transactions in memory with what may tell why, in no order; of the aborted those since."""
        undone = (TransactionState.ABORTED, TransactionState.LOST)
        with self._lock:
            views = transaction_view.views(self._state, settled=False, undone_since_ms=undone_since_ms)
            found = [view for view in views if view.state in undone]
            return [
                AbortClues(
                    view=view,
                    inits=self._state.inits.get(view.transaction, ()),
                    order=self._state.orders.get(view.key) or self._state.orders.get(view.key.rpartition("@")[0]),
                )
                for view in found
            ]

    def id_reports(self, *, fences: bool = True) -> list[PrefixReport]:
        """Return what there is to say about the transactional ids of each prefix, most ids first.

        Without ``fences`` nobody is looked for who takes ids from others: that is what takes time.
        """
        at_ms = now_ms()
        clues = self.abort_clues() if fences else []
        recent = [c for c in clues if (c.view.ended_ms or 0) >= at_ms - id_leaks.HOUR_MS]
        fenced = Counter(
            id_leaks.prefix_of(clues.view.transaction) for clues in recent if infer(clues)[0] is Cause.FENCED
        )
        with self._lock:
            lives = {prefix: self._state.ledger.lives(prefix) for prefix in self._state.ledger.prefixes()}
            return list(id_leaks.reports(self._state.ids, lives, fenced, at_ms))

    def losses(self, *, committed: bool = False, since_ms: int = 0) -> list[Loss]:
        """Return whether data was lost with each transaction in memory that was undone (with ``committed``: that has ended)."""
        with self._lock:
            found = transaction_view.views(self._state, settled=committed)
            ended = (view for view in found if (view.ended_ms or 0) >= since_ms)
            undone = (view for view in ended if committed or view.state in UNDONE)
            material = losses.material(self._state, self._sight[0], undone)
        return losses.judged(material)

    def losses_of(self, transaction: str) -> list[Loss]:
        """Return the same for every transaction of one id that history knows. Raises StoreFailed."""
        with self._lock:
            prefixes = self._state.ledger.prefixes()
        past = losses.past_of(transaction, self._store.rows, prefixes)
        with self._lock:
            material = losses.material_of_past(past, self._state, self._sight[0], transaction)
        return losses.judged(material)

    def loss(self, view: TransactionView) -> Loss | None:
        """Return the same for one transaction; None while it has not ended."""
        with self._lock:
            material = losses.material(self._state, self._sight[0], [view])
        return next(iter(losses.judged(material)), None)

    def causes(self, aborted: Sequence[Aborted]) -> list[str]:
        """Return why each of these was aborted, as far as memory tells: ``unknown`` for one that has left it."""
        clues = {clues.view.broker.identity: clues for clues in self.abort_clues() if clues.view.broker is not None}
        found = (clues.get(BrokerIdentity(*identity)) for identity in aborted)
        return [(infer(one)[0] if one is not None else Cause.UNKNOWN).value for one in found]

    def orders(self, key: str) -> list[OperatorOrder]:
        """Return the operators' orders about one transaction."""
        with self._lock:
            found = self._state.orders.get(key)
        return [found] if found else []

    def pipelines(self, names: Iterable[str]) -> dict[str, PipelineHistory]:
        """Return what is known of these pipelines, by name."""
        with self._lock:
            return {name: self._pipeline(name) for name in names}

    def checkpoints(self) -> list[CheckpointFacts]:
        """Return every checkpoint in memory, Spark's and Flink's, in no order."""
        with self._lock:
            return [*self._state.checkpoints.values(), *self._state.flink.checkpoint_facts()]

    def jobs(self) -> list[FlinkJobFacts]:
        """Return Flink's jobs, running ones first."""
        with self._lock:
            return newest_first(self._state.flink.jobs.values())

    def knows_flink(self, seen: FlinkCheckpoint | FlinkJob) -> bool:
        """Say whether folding it would tell nothing new: Flink tells its last ten checkpoints at every look."""
        with self._lock:
            return self._state.flink.knows(seen)

    def newest_runs(self) -> list[PipelineNow]:
        """Return every pipeline that ever started a run, with its newest one, in no order."""
        with self._lock:
            found = [self._pipeline_now(prefix) for prefix in self._state.ledger.prefixes()]
        return [one for one in found if one is not None]

    def newest_run(self, prefix: str) -> PipelineNow | None:
        """Return one pipeline with its newest run, or None when no run of it is known."""
        with self._lock:
            return self._pipeline_now(prefix)

    def _pipeline_now(self, prefix: str) -> PipelineNow | None:
        run = self._state.ledger.latest_run(prefix)
        if run is None:
            return None
        facts = self._state.pipelines.get(prefix) or PipelineFacts(pipeline=prefix)
        return PipelineNow(facts=facts, life=run[1].life, attempt=run[0], run_ms=run[1].at_ms)

    def transactions_of_batches(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return (pipeline, batch) -> (transactions, rows) of what was told of each batch's newest attempt."""
        with self._lock:
            told = list(self._state.told.values())
        newest: dict[tuple[str, int], tuple[int, int, int]] = {}
        for one in told:
            if one.about is None:
                continue
            key, rows = (one.pipeline, one.about.batch), one.handle.rows if one.handle is not None else 0
            attempt, count, total = newest.get(key, (one.about.attempt, 0, 0))
            if one.about.attempt > attempt:
                attempt, count, total = one.about.attempt, 0, 0
            if one.about.attempt == attempt:
                newest[key] = (attempt, count + 1, total + rows)
        return {key: (count, rows) for key, (_, count, rows) in newest.items()}

    def _case(self, view: TransactionView, at_ms: int, pipelines: dict[str, PipelineHistory]) -> Case:
        if view.ours and view.pipeline not in pipelines:
            pipelines[view.pipeline] = self._pipeline(view.pipeline)
        decided = self._state.last_decided.get(view.about.life) if view.about is not None else None
        return Case(
            transaction=view,
            pipeline=pipelines.get(view.pipeline) if view.ours else None,
            log_sight=self._sight[0],
            log_error=self._sight[1],
            replayed_ms=transaction_view.replayed_ms(self._state, view),
            later_batch_decided=view.about is not None and decided is not None and decided[0] > view.about.batch,
            limits=self._limits,
            now_ms=at_ms,
        )

    def _pipeline(self, prefix: str) -> PipelineHistory:
        facts = self._state.pipelines.get(prefix) or PipelineFacts(pipeline=prefix)
        run = self._state.ledger.latest_run(prefix)
        return PipelineHistory(
            facts=facts,
            latest_run_offset=run[0] if run else None,
            latest_run_ms=run[1].at_ms if run else None,
            checkpoint_p99_ms=self._checkpoint_p99_ms(prefix),
            interval_ms=facts.setting("interval_ms", DEFAULT_INTERVAL_MS),
            restart_delay_ms=facts.setting("restart_delay_ms", DEFAULT_RESTART_DELAY_MS),
        )

    def _checkpoint_p99_ms(self, prefix: str) -> int:
        facts = [c for c in self._state.checkpoints.values() if c.pipeline == prefix]
        newest = sorted(facts, key=lambda c: c.number)[-DURATIONS_CONSIDERED:]
        return percentile([c.duration_ms for c in newest if c.state is CheckpointState.COMPLETED], 0.99) or 0


def percentile(durations_ms: Iterable[int | None], share: float) -> int | None:
    """Return the nearest-rank percentile of the known durations, or None without any."""
    known = sorted(d for d in durations_ms if d is not None)
    return known[min(len(known) - 1, int(share * len(known)))] if known else None
