"""Current state behind one lock: observers fold into it, readers take frozen snapshots out of it.

An observation is in memory, and so in the API, before history has it on disk.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from indoubt.collector.facts import branch_view, eviction, transactions_of_batches
from indoubt.collector.facts.fold import apply, put_events, put_records
from indoubt.collector.facts.state import NO_FORM, State
from indoubt.collector.history import row_coding
from indoubt.collector.history.store import HistoryDamaged, Store
from indoubt.collector.history.write_queue import Offsets
from indoubt.collector.records.branches import BranchFacts, DatabaseSnapshot
from indoubt.collector.records.broker_record_batch import BrokerRecords
from indoubt.collector.records.facts import (
    BrokerIdentity,
    CheckpointFacts,
    PipelineFacts,
    merged,
    of_record,
)
from indoubt.collector.records.flink_job_facts import FlinkJobFacts, newest_first
from indoubt.collector.records.formats.lifecycle_event_batch import EventColumns
from indoubt.collector.records.iceberg_connect import ConnectSeen
from indoubt.collector.records.log_settings import LogSettings
from indoubt.collector.records.observations import BrokerRecord, Observed, OperatorOrder, Quarantined
from indoubt.collector.runtime.clock import CLOCK, ClockOffsets, now_ms
from indoubt.collector.verdicts import judging
from indoubt.collector.verdicts.judging import EvaluationContext, PipelineNow
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits, PipelineHistory
from indoubt.collector.views import replay
from indoubt.collector.views.application_names import application_of_id
from indoubt.collector.views.current_flink import CurrentFlink
from indoubt.collector.views.current_transactions import CurrentTransactions
from indoubt.lifecycle.application import Application
from indoubt.lifecycle.errors import MalformedRecord
from indoubt.lifecycle.offsets_topics import CONNECT_OFFSETS, CONSUMER_OFFSETS
from indoubt.resource_managers.kafka.group_members import GroupMembers, HeldOffsets

SETTLED_KEPT, CHECKPOINTS_KEPT = 10_000, 2_000
"""Ended transactions in memory, besides up to as many lost ones that nothing replayed; checkpoints of each pipeline."""
USUAL_LIMITS = Limits()


class CurrentState:
    """Thread-safe: ``observe`` is called by observers, everything else by readers. ``transactions`` and ``flink`` are its parts."""

    def __init__(
        self,
        store: Store,
        *,
        settled_kept: int = SETTLED_KEPT,
        checkpoints_kept: int = CHECKPOINTS_KEPT,
        limits: Limits = USUAL_LIMITS,
        offsets_topics: tuple[str, ...] = (CONSUMER_OFFSETS, CONNECT_OFFSETS),
        flink_writes_here: Mapping[str, bool] | None = None,
    ) -> None:
        self._store = store
        self._new_state = partial(
            State,
            settled_kept=settled_kept,
            checkpoints_kept=checkpoints_kept,
            offsets_topics=offsets_topics,
            flink_writes_here=flink_writes_here or {},
        )
        self._state = self._new_state()
        self._lock = threading.Lock()
        self._limits = limits
        self._log_status = (DecisionLogStatus.UNREADABLE, "")
        self._listeners: list[Callable[[int], None]] = []
        self.log_settings: LogSettings | None = None
        self.version = 0
        self.flink = CurrentFlink(self.reading, self.changed)
        self.transactions = CurrentTransactions(self.reading, self._moment)
        self.clocks = ClockOffsets()
        self.iceberg_connect: Mapping[str, ConnectSeen] = {}
        """Control topic -> what its observer saw last."""

    def load(self) -> None:
        """Rebuild state from history; a damaged file is set aside, and what it had comes again. Raises StoreFailed."""
        try:
            loaded = self._loaded()
        except HistoryDamaged as damage:
            self._store.begin_anew(damage)
            loaded = self._loaded()
        # Those are of old; whoever lives gives a sign from now on.
        loaded.signs.heard_of.clear()
        loaded.signs.listening_ms = CLOCK.steady_ms()
        with self._lock:
            self._state = loaded

    def _loaded(self) -> State:
        # What observers are made from: found damaged later, nothing could begin anew.
        self._store.check_sources()
        state = self._new_state()
        replay.load(self._store, state)
        return state

    def observe(self, arrived: Sequence[Observed], offsets: Offsets | None = None) -> None:
        """Fold observations, notify listeners, then hand them to history. Call it from one thread per source, in order.

        ``offsets``: how far the sources were read with them; by default up to the last observation of each.
        """
        self._observe(arrived, {}, offsets, lambda: None)

    def observe_records(self, records: BrokerRecords, others: Sequence[Observed], offsets: Offsets) -> None:
        """Do the same with states of the coordinator's log in columns, and with the odd ones that were among them."""
        tables = {"transaction_records": row_coding.records_table(records)}
        self._observe(others, tables, offsets, lambda: put_records(self._state, records))

    def observe_events(
        self, events: EventColumns, table: pa.Table, others: Sequence[Observed], offsets: Offsets
    ) -> None:
        """Do the same with lifecycle events in columns; ``table``: their rows of history."""
        self._observe(others, {"lifecycle_events": table}, offsets, lambda: put_events(self._state, events))

    def _observe(
        self,
        others: Sequence[Observed],
        tables: Mapping[str, pa.Table],
        offsets: Offsets | None,
        put_columns: Callable[[], None],
    ) -> None:
        with self._lock:
            # A tombstone drops what is known of an id: what was written after it must not be folded before it.
            kept = self._folded(others)
            put_columns()
            self._state.signs.note(CLOCK.steady_ms())
        self.changed()
        self._store.append(kept, tables, offsets)

    def _folded(self, arrived: Sequence[Observed]) -> list[Observed]:
        kept: list[Observed] = []
        for observed in arrived:
            try:
                folded = apply(self._state, observed.observation)
                if folded is not observed.observation:
                    observed = replace(observed, observation=folded)
            except MalformedRecord as error:
                quarantined = Quarantined(error=str(error), value=observed.raw[:200], at_ms=now_ms())
                observed = replace(observed, observation=quarantined)
                apply(self._state, quarantined)
            kept.append(observed)
        return kept

    def forget_decisions(self) -> None:
        """Drop what the decision log said: another one has taken its place."""
        with self._lock:
            eviction.forget_decisions(self._state)
        self.changed()

    def forget_open_transactions(self) -> None:
        """Drop what the coordinator's log said of open transactions: another log has taken its place."""
        with self._lock:
            eviction.forget_open_transactions(self._state)
        self.changed()

    def executed(self, order: OperatorOrder) -> None:
        """Fold an order of this collector's operator; its audit row is history already."""
        with self._lock:
            apply(self._state, order)
        self.changed()

    def restart_ordered(self, prefix: str, at_ms: int | None, who: str) -> None:
        """Note that a person ordered a restart or a start of a pipeline now, or (None) that nothing came of it."""
        with self._lock:
            facts = self._state.pipelines.get(prefix) or PipelineFacts(pipeline=prefix)
            self._state.pipelines[prefix] = replace(facts, ordered_ms=at_ms, ordered_by=who)
        self.changed()

    def changed(self) -> None:
        """Move the version on and notify listeners."""
        self.version += 1
        for listener in self._listeners:
            listener(self.version)

    def listen(self, listener: Callable[[int], None]) -> None:
        """Have ``listener`` called with each new version, from any thread; it must not block."""
        self._listeners.append(listener)

    def see_decision_log(self, status: DecisionLogStatus, error: str = "") -> None:
        """Note whether the decision log can be trusted."""
        if status is DecisionLogStatus.READABLE and self._state.newer_decision:
            status, error = DecisionLogStatus.UNREADABLE, f"{self._state.newer_decision}. Update the collector"
        if self._log_status != (status, error):
            self._log_status = (status, error)
            self.changed()

    def see_log_settings(self, settings: LogSettings | None) -> None:
        """Note how the decision log's topic is configured, or that it is unknown."""
        before, self.log_settings = self.log_settings, settings
        if (before and before.wrong) != (settings and settings.wrong):
            self.changed()

    @property
    def commit_overdue_ms(self) -> int:
        """Return how long after its decision a commit is overdue."""
        return self._limits.commit_overdue_ms

    @property
    def limits(self) -> Limits:
        """Return the times that verdicts use."""
        return self._limits

    @property
    def decision_log_status(self) -> tuple[DecisionLogStatus, str]:
        """Return whether the decision log can be trusted, and what is wrong with it."""
        return self._log_status

    def counts(self) -> tuple[int, int]:
        """Return how many observations were folded and how many records were quarantined, since history began."""
        with self._lock:
            return self._state.events, self._state.malformed

    def ends(self) -> tuple[int, int]:
        """Return how many transactions were seen to be committed and to be aborted since this process began."""
        with self._lock:
            return self._state.ends.committed, self._state.ends.rolled_back

    def take_ends(self) -> list[tuple[Application | None, int, int]]:
        """Return how many transactions of which application were committed and aborted since the last call; None: of many others.

        Each is told once: whoever calls it adds them up. An application goes by the name that it has now.
        """
        with self._lock:
            state = self._state
            return [
                (application_of_id(state, form) if form != NO_FORM else None, committed, aborted)
                for form, (committed, aborted) in state.ends.take().items()
            ]

    def lost_forgotten(self) -> int:
        """Return how many lost transactions left memory before their batch was replayed, as there were too many of them."""
        with self._lock:
            return self._state.ended.lost_forgotten

    def knows(self, record: BrokerRecord) -> bool:
        """Say whether folding this record would add nothing (polling sees the same state again and again)."""
        with self._lock:
            if record.start_ms is None:
                return False
            identity = BrokerIdentity(record.transaction, record.producer_id, record.start_ms)
            before = self._state.broker.get(identity)
        if before is None:
            return False
        after = merged(before, of_record(record, record.start_ms))
        return replace(after, last_write_ms=before.last_write_ms) == before

    def see_branches(self, instance: str, snapshot: DatabaseSnapshot) -> None:
        """Note what a database's branches hold at this moment; it is not history."""
        with self._lock:
            before = self._state.database_snapshots.get(instance)
            self._state.database_snapshots[instance] = snapshot
        if before is None or before.shown != snapshot.shown:
            self.changed()

    def forget_branches_of(self, instance: str) -> None:
        """Forget what a database's branches held when it was asked last: it is not asked any more."""
        with self._lock:
            self._state.database_snapshots.pop(instance, None)
        self.changed()

    def see_groups(self, seen: Mapping[str, GroupMembers], held: Mapping[str, HeldOffsets]) -> None:
        """Note who is in these consumer groups, and whose offsets are held; the others are forgotten, it is not history."""
        with self._lock:
            before, self._state.groups = self._state.groups, dict(seen)
            held_before, self._state.held_offsets = self._state.held_offsets, dict(held)
        if {name: (g.state, g.client_ids) for name, g in before.items()} != {
            name: (g.state, g.client_ids) for name, g in seen.items()
        } or {name: h.since_ms for name, h in held_before.items()} != {name: h.since_ms for name, h in held.items()}:
            self.changed()

    def listed_branches(self, instance: str) -> dict[str, BranchFacts]:
        """Return the branches that this database listed when it was polled last, by their names there."""
        with self._lock:
            found = [b for b in self._state.branches.values() if b.instance == instance and b.is_listed]
        return {branch.transaction: branch for branch in found}

    def unproven_branches(self, resource_manager: str) -> list[str]:
        """Return the names of our branches whose end is due and was not reported: no event, no outcome, no marker seen yet."""
        with self._lock:
            return branch_view.unproven_branches(self._state, resource_manager)

    def orders(self, key: str) -> list[OperatorOrder]:
        """Return the operators' orders about one transaction."""
        with self._lock:
            found = self._state.orders.get(key)
        return [found] if found else []

    def pipelines(self, names: Iterable[str]) -> dict[str, PipelineHistory]:
        """Return what is known of these pipelines, by name."""
        with self._lock:
            return judging.pipeline_histories(self._state, names, self._limits)

    def checkpoints(self) -> list[CheckpointFacts]:
        """Return every checkpoint in memory, Spark's and Flink's, in no order."""
        with self._lock:
            return [*self._state.checkpoints.values(), *self._state.flink.checkpoint_facts()]

    def jobs(self) -> list[FlinkJobFacts]:
        """Return Flink's jobs, running ones first."""
        with self._lock:
            return newest_first(self._state.flink.jobs.values())

    def newest_runs(self) -> list[PipelineNow]:
        """Return every pipeline that ever started a run, with its newest one, in no order."""
        with self._lock:
            found = [judging.pipeline_now(self._state, prefix) for prefix in self._state.ledger.prefixes()]
        return [view for view in found if view is not None]

    def newest_run(self, prefix: str) -> PipelineNow | None:
        """Return one pipeline with its newest run, or None when no run of it is known."""
        with self._lock:
            return judging.pipeline_now(self._state, prefix)

    def transactions_of_batches(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return (pipeline, batch) -> (transactions, rows) of what was reported of each batch's newest attempt."""
        with self._lock:
            reported = list(self._state.reported.values())
        return transactions_of_batches.counted_by_batch(reported)

    @contextlib.contextmanager
    def reading(self) -> Iterator[State]:
        """Give the state under its lock, for a short read by another module: observers wait meanwhile."""
        with self._lock:
            yield self._state

    def _moment(self, at_ms: int | None) -> EvaluationContext:
        return EvaluationContext(
            limits=self._limits, log_status=self._log_status, now_ms=at_ms or now_ms(), steady_ms=CLOCK.steady_ms()
        )
