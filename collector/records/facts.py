"""What is known about one transaction, pipeline and checkpoint, each merged from facts that arrive in any order.

Every step takes a minimum, a maximum, a union or a first-known value, so that the order does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, NamedTuple

from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BrokerRecord
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.records.pipeline_runs import RunFacts
from indoubt.lifecycle.checkpoints import CheckpointState
from indoubt.lifecycle.decisions import BatchAttempt
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.identity import Handle, transaction_key
from indoubt.lifecycle.resource_manager_kinds import KAFKA as KAFKA_KIND

KAFKA = KAFKA_KIND.name
_STARTED = (BrokerStatus.ONGOING,)
_ABORTING = (BrokerStatus.PREPARE_ABORT, BrokerStatus.PREPARE_EPOCH_FENCE)
_ENDED = (BrokerStatus.PREPARE_COMMIT, *_ABORTING, BrokerStatus.COMPLETE_COMMIT, BrokerStatus.COMPLETE_ABORT)


class BrokerIdentity(NamedTuple):
    """One transaction of the coordinator: its start time stays while its epoch may move."""

    transaction: str
    producer_id: int
    start_ms: int


class HandleIdentity(NamedTuple):
    """One transaction as its writer knew it: the epoch as at Ongoing. None where a resource manager has no producers."""

    transaction: str
    producer_id: int | None
    producer_epoch: int | None


def handle_identity(handle: Handle) -> HandleIdentity:
    """Return the identity that a handle names."""
    return HandleIdentity(handle.transaction, handle.producer_id, handle.producer_epoch)


class FromRecords(NamedTuple):
    """How a field of BrokerTransaction follows from records: the minimum or the maximum of theirs in ``statuses``."""

    field: str
    statuses: tuple[BrokerStatus, ...]
    takes_min: bool


def _min(of: str, statuses: tuple[BrokerStatus, ...]) -> Any:
    return field(default=None, metadata={"from": FromRecords(of, statuses, True)})


def _max(of: str, statuses: tuple[BrokerStatus, ...]) -> Any:
    return field(default=None, metadata={"from": FromRecords(of, statuses, False)})


@dataclass(frozen=True, slots=True)
class BrokerTransaction:
    """The coordinator's view of one transaction. Times are epoch ms by the broker's clock, None: not seen."""

    identity: BrokerIdentity
    partitions: frozenset[str] = frozenset()
    source: str = ""
    timeout_ms: int | None = _max("timeout_ms", tuple(BrokerStatus))
    ongoing_epoch: int | None = _min("producer_epoch", _STARTED)
    end_epoch: int | None = _max("producer_epoch", _ENDED)
    ongoing_version: int | None = _min("client_transaction_version", _STARTED)
    end_version: int | None = _max("client_transaction_version", _ENDED)
    last_write_ms: int | None = _max("update_ms", _STARTED)
    prepare_commit_ms: int | None = _min("update_ms", (BrokerStatus.PREPARE_COMMIT,))
    prepare_abort_ms: int | None = _min("update_ms", _ABORTING)
    complete_commit_ms: int | None = _min("update_ms", (BrokerStatus.COMPLETE_COMMIT,))
    complete_abort_ms: int | None = _min("update_ms", (BrokerStatus.COMPLETE_ABORT,))
    gone_ms: int | None = _min("update_ms", (BrokerStatus.DEAD,))
    """When its coordinator was first seen without it, by the collector's clock: it had ended, and how was not seen."""

    @property
    def handle_identity(self) -> HandleIdentity:
        """Return the identity at Ongoing."""
        return HandleIdentity(self.identity.transaction, self.identity.producer_id, self.handle_epoch)

    @property
    def handle_epoch(self) -> int | None:
        """Return the epoch at Ongoing; where only the end was seen, transaction version 2 has moved it by one."""
        if self.ongoing_epoch is not None or self.end_epoch is None:
            return self.ongoing_epoch
        return self.end_epoch - 1 if (self.end_version or 0) >= 2 else self.end_epoch

    @property
    def client_transaction_version(self) -> int | None:
        """Return the transaction version of its client; None where only polling saw it, since no request returns it."""
        if self.source == ObserverKind.TRANSACTION_POLLING.value:
            return None
        return self.end_version if self.ongoing_version is None else self.ongoing_version

    @property
    def key(self) -> str:
        """Return the text that names it and no later one of the same id: what TransactionView.key is."""
        handle = self.handle_identity
        return f"kafka:{handle.transaction}:{handle.producer_id}:{handle.producer_epoch}@{self.identity.start_ms}"

    @property
    def is_committing(self) -> bool:
        """True once the coordinator has accepted the commit."""
        return self.prepare_commit_ms is not None or self.complete_commit_ms is not None

    @property
    def is_aborting(self) -> bool:
        """True once the coordinator undoes it."""
        return self.prepare_abort_ms is not None or self.complete_abort_ms is not None

    @property
    def is_final(self) -> bool:
        """True when the coordinator is done with it."""
        return self.complete_commit_ms is not None or self.complete_abort_ms is not None

    @property
    def ended_ms(self) -> int | None:
        """Return when its end began: a commit's or abort's first time that was seen, else when it was seen to be gone."""
        first = self.prepare_commit_ms
        # Asked of thousands at once: so without min() over a generator, and first whether it is committed as nearly all are.
        if first is not None and self.prepare_abort_ms is None and self.complete_abort_ms is None:
            complete_ms = self.complete_commit_ms
            return first if complete_ms is None or first <= complete_ms else complete_ms
        for at in (self.prepare_abort_ms, self.complete_commit_ms, self.complete_abort_ms):
            if at is not None and (first is None or at < first):
                first = at
        return self.gone_ms if first is None else first


FROM_RECORDS: dict[str, FromRecords] = {f.name: f.metadata["from"] for f in fields(BrokerTransaction) if f.metadata}
"""The fields of BrokerTransaction behind ``source``, in their order: for one record, for columns and for SQL."""
_OF_STATUS = {
    status: [(name, rule.field) for name, rule in FROM_RECORDS.items() if status in rule.statuses]
    for status in BrokerStatus
}
_FOUND = attrgetter(*FROM_RECORDS)
_PICKS = [min if rule.takes_min else max for rule in FROM_RECORDS.values()]


def of_record(record: BrokerRecord, start_ms: int) -> BrokerTransaction:
    """Return what one record alone tells about its transaction, which began at ``start_ms``."""
    identity = BrokerIdentity(record.transaction, record.producer_id, start_ms)
    found = {name: getattr(record, of) for name, of in _OF_STATUS[record.status]}
    return BrokerTransaction(identity, frozenset(record.partitions), record.source, **found)


def merged(known: BrokerTransaction, new: BrokerTransaction) -> BrokerTransaction:
    """Return one transaction from two parts of what is known of it."""
    return BrokerTransaction(
        known.identity,
        known.partitions if new.partitions <= known.partitions else known.partitions | new.partitions,
        min(known.source, new.source) if known.source and new.source else known.source or new.source,
        *[
            left if right is None or left == right else right if left is None else pick(left, right)
            for pick, left, right in zip(_PICKS, _FOUND(known), _FOUND(new), strict=True)
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Init:
    """A producer took a transactional id (InitProducerId)."""

    at_ms: int
    producer_id: int
    producer_epoch: int


class Listed(NamedTuple):
    """What the first decision that lists a transaction says of it, whatever its ruling and whether it counts or not."""

    batch_attempt: BatchAttempt
    handle: Handle


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedTransaction:
    """What events and decisions tell about one transaction; ``event_times`` has the first time of each kind of event.

    Whoever may write to the lifecycle topic can claim anything: what was reported is shown. What is ``listed`` stands in the
    decision log: it is evidence.
    """

    identity: HandleIdentity
    reported_manager: str = ""
    """The resource manager that events name; only of transactions without producers."""
    reported_batch_attempt: BatchAttempt | None = None
    reported_handle: Handle | None = None
    event_times: Mapping[EventType, int] = field(default_factory=dict)
    lost_reason: str = ""
    listed: Listed | None = None
    _key: str = field(default="", init=False, repr=False, compare=False)
    """Put together when it is first asked for: lists ask thousands for it, again and again."""

    @property
    def resource_manager(self) -> str:
        """Return the resource manager's name: only Kafka has producers."""
        if self.identity.producer_id is not None:
            return KAFKA
        return self.listed.handle.resource_manager if self.listed is not None else self.reported_manager

    @property
    def batch_attempt(self) -> BatchAttempt | None:
        """Return its batch and attempt: as a decision says, else as events claim."""
        return self.listed.batch_attempt if self.listed is not None else self.reported_batch_attempt

    @property
    def handle(self) -> Handle | None:
        """Return its handle: as a decision has it, else as events claim."""
        return self.listed.handle if self.listed is not None else self.reported_handle

    @property
    def key(self) -> str:
        """Return the handle's key, also before the handle is known."""
        if not self._key:
            object.__setattr__(self, "_key", transaction_key(self.resource_manager, *self.identity))
        return self._key


def merged_reports(known: ReportedTransaction, new: ReportedTransaction) -> ReportedTransaction:
    """Return what was reported of one transaction from two parts of it; ``known`` was reported first."""
    times = dict(known.event_times)
    for type_, at_ms in new.event_times.items():
        times[type_] = min(at_ms, times.get(type_, at_ms))
    return ReportedTransaction(
        identity=known.identity,
        reported_manager=max(known.reported_manager, new.reported_manager),
        reported_batch_attempt=known.reported_batch_attempt or new.reported_batch_attempt,
        reported_handle=known.reported_handle or new.reported_handle,
        event_times=times,
        lost_reason=max(known.lost_reason, new.lost_reason),
        listed=known.listed or new.listed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFacts:
    """One pipeline of ours, by its prefix. Times are epoch ms of the newest event of the kind."""

    pipeline: str
    started_ms: int | None = None
    stopped_ms: int | None = None
    stopped_on_request_ms: int | None = None
    restarting_ms: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    last_seen_ms: int | None = None
    last_heartbeat: str = ""
    alive_ms: int | None = None
    """When its driver said last that it runs. It says so also while a batch stands still: only without a batch it counts."""
    logged_ms: int | None = None
    """Its newest record in the decision log that no operator wrote."""
    started_attempt: int = -1
    """Run offset of the newest run whose query started."""
    restart_answer: tuple[int, str] = (-1, "")
    """When it reported last that it restarts, and the operator's order that it did so for, or empty."""
    stop_answer: tuple[int, str] = (-1, "")
    runs: Mapping[int, RunFacts] = field(default_factory=dict)
    """Its newest runs, by where they began in the decision log."""
    restarts_ms: tuple[int, ...] = ()
    """When its supervisor reported the newest restarts, oldest first."""
    ordered_ms: int | None = None
    """When a person ordered the restart, or the start, that its supervisor has not answered yet; not history."""
    ordered_by: str = ""

    def setting(self, name: str, default: int) -> int:
        """Return a numeric setting that the pipeline reported at its start, or its default."""
        value = self.settings.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFacts:
    """One checkpoint. Times are epoch ms; the newest of each kind, since an attempt that failed is tried again."""

    pipeline: str
    number: int
    planned_ms: int | None = None
    started_ms: int | None = None
    completed_ms: int | None = None
    failed_ms: int | None = None
    failures: int = 0
    proven_ms: int | None = None
    """When it was completed as its checkpoint directory says: ``completed_ms`` may be a claim of an event."""
    reported_duration_ms: int | None = None
    rows: int | None = None
    reason: str = ""
    sources: frozenset[str] = frozenset()
    kind: str = "checkpoint"
    """``checkpoint``, or Flink's ``savepoint``."""
    job: str = ""
    """Flink's job id."""
    state_bytes: int | None = None
    path: str = ""

    @property
    def begun_ms(self) -> int | None:
        """Return when its newest attempt began: as its driver reported, else as its offset log says."""
        return self.started_ms if self.started_ms is not None else self.planned_ms

    @property
    def state(self) -> CheckpointState:
        """Return where it stands: whatever happened last."""
        begun, failed, completed = self.begun_ms, self.failed_ms, self.completed_ms
        begun = -1 if begun is None else begun
        failed = -1 if failed is None else failed
        if completed is not None and completed >= 0 and completed >= begun and completed >= failed:
            return CheckpointState.COMPLETED
        return CheckpointState.FAILED if failed >= 0 and failed >= begun else CheckpointState.STARTED

    @property
    def ended_ms(self) -> int | None:
        """Return when its newest attempt ended, or None while it runs."""
        match self.state:
            case CheckpointState.COMPLETED:
                return self.completed_ms
            case CheckpointState.FAILED:
                return self.failed_ms
            case CheckpointState.STARTED:
                return None

    @property
    def duration_ms(self) -> int | None:
        """Return how long its newest attempt took, or None while it runs."""
        state, begun_ms = self.state, self.begun_ms
        if state is CheckpointState.COMPLETED and self.reported_duration_ms is not None:
            return self.reported_duration_ms
        ended_ms = self.completed_ms if state is CheckpointState.COMPLETED else self.failed_ms
        if state is CheckpointState.STARTED or begun_ms is None or ended_ms is None:
            return None
        return max(0, ended_ms - begun_ms)
