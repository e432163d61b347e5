"""Was data lost? Told by the real records of a Flink that printed the same error for both, and by a table of cases."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.alerting import rules, snapshot_builder
from collector.alerting.findings import Severity
from collector.alerting.recent_losses import RecentLosses
from collector.config.alerts import AlertSettings
from collector.history.store import Store
from collector.records.application_ids import FlinkId
from collector.records.formats import flink_rest_answers
from collector.records.formats.flink_records import FlinkKind, FlinkStatus
from collector.records.formats.transaction_state import BrokerStatus
from collector.records.observations import (
    BrokerRecord,
    CheckpointFile,
    CheckpointFileKind,
    Observation,
    Observed,
    OffsetsSeen,
    Position,
)
from collector.state import transaction_join
from collector.state.flink_sinks import Naming, sinks
from collector.state.state import State, holds_offsets
from collector.state.transaction_view import TransactionView
from collector.verdicts import loss_cases
from collector.verdicts.abort_causes import AbortClues, Certainty, Inference
from collector.verdicts.data_loss import (
    Loss,
    LossCase,
    LossVerdict,
    judge_loss,
    rule_client,
    rule_empty,
    rule_offsets,
)
from collector.verdicts.flink_checkpoints import Evidence, Fate
from collector.verdicts.verdict_case import DecisionLogStatus, Limits
from collector.views import aborts_and_losses
from collector.views.current_state import CurrentState
from lifecycle.decisions import Settled
from lifecycle.events import EventType
from lifecycle.states import TransactionState
from lifecycle.verdicts import AbortCause
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER, FIRST_JOB, recorded, transaction_records
from tests.unit.collector.observations import (
    PREFIX,
    T0,
    broker_record,
    decided,
    event,
    folded,
    handle,
    only_view,
    outcome,
    run_started,
    transaction_event,
)

LOST, HARMLESS, NOT_LOST, UNKNOWN = LossVerdict.LOST, LossVerdict.HARMLESS, LossVerdict.NOT_LOST, LossVerdict.UNKNOWN
CERTAIN, LIKELY, GUESS = Certainty.CERTAIN, Certainty.LIKELY, Certainty.GUESS


def judged(state: State, status: DecisionLogStatus = DecisionLogStatus.READABLE) -> dict[tuple[str, int | None], Loss]:
    """Return the losses by id and start."""
    found = loss_cases.judged(loss_cases.loss_inputs(state, status, transaction_join.views(state, settled=True)))
    return {(loss.view.transaction, loss.view.opened_ms): loss for loss in found}


def told_by_rest(name: str, **changes: Any) -> list[Observation]:
    """Return what one recorded look at Flink tells."""
    (job,) = flink_rest_answers.jobs(CLUSTER, recorded(f"{name}_jobs_overview"))
    told = flink_rest_answers.checkpoints(job, recorded(f"{name}_checkpoints"))
    seen = replace(
        job, restored_number=told.restored_number, restored_ms=told.restored_ms, restored_path=told.restored_path
    )
    return [*told.checkpoints, replace(seen, **changes)]


def flinks(*rest: Observation) -> dict[str, Loss]:
    """Return the verdict about the first transaction of each id of the real sink."""
    found = judged(folded(*transaction_records("orders-eu"), *rest))
    first: dict[str, Loss] = {}
    for (id_, _), loss in sorted(found.items(), key=lambda item: item[0][1] or 0):
        first.setdefault(id_, loss)
    return first


GONE = told_by_rest("first", state="GONE", ended_ms=1795280384000)
RESTORED = told_by_rest("restored")


@pytest.mark.parametrize("rest", [[], told_by_rest("first"), [*GONE, *RESTORED]], ids=["no REST", "before", "after"])
def test_the_same_error_of_flink_is_not_mistaken(rest: list[Observation]) -> None:
    found = flinks(*rest)
    for subtask in (0, 1):
        assert found[f"orders-eu-{subtask}-4"].verdict is NOT_LOST
        assert "committed at 2026-11-21 16:58:48" in found[f"orders-eu-{subtask}-4"].why
        assert found[f"orders-eu-{subtask}-17"].verdict is LOST
        assert "timeout" in found[f"orders-eu-{subtask}-17"].why


@pytest.mark.parametrize(
    ("rest", "certainty", "says"),
    [
        ([], LIKELY, "never took its id again"),
        (told_by_rest("first"), LIKELY, "never took its id again"),
        ([*GONE, *RESTORED], CERTAIN, "a job was restored from it at 2026-11-21 16:59:44.845 UTC"),
    ],
    ids=["no REST", "before", "after"],
)
def test_what_a_job_was_restored_from_makes_it_certain(
    rest: list[Observation], certainty: Certainty, says: str
) -> None:
    loss = flinks(*rest)["orders-eu-0-17"]
    assert (loss.certainty, loss.checkpoint) == (certainty, 17)
    assert says in loss.why


@pytest.mark.parametrize("rest", [[], [*GONE, *RESTORED]], ids=["no REST", "REST"])
def test_what_is_written_again_is_harmless(rest: list[Observation]) -> None:
    found = flinks(*rest)
    assert {found[f"orders-eu-{subtask}-{number}"].verdict for subtask in (0, 1) for number in (5, 18)} == {HARMLESS}


def test_before_the_job_is_restored_nothing_is_claimed() -> None:
    """What was known in the outage: the job is gone, its transactions timed out, nobody took an id since."""
    outage = 1795280370000
    records = [record for record in transaction_records("orders-eu") if record.update_ms < outage]
    loss = judged(folded(*records, *GONE))[("orders-eu-0-17", 1795280343647)]
    assert (loss.verdict, loss.certainty) == (UNKNOWN, GUESS)
    assert "what a job is restored from will tell" in loss.why


def test_a_sink_is_known_by_what_became_of_its_ids() -> None:
    for prefix, naming in (("orders-eu", Naming.INCREMENTING), ("pooled", Naming.POOLING)):
        state = folded(*transaction_records(prefix))
        starts = {id_: newest.start_ms for id_, newest in state.latest_of_id.items()}
        assert sinks(starts, state.commits_of_id, state.inits, [prefix])[prefix].naming is naming


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("orders-eu-0-17", ("orders-eu", 0, 17)),
        ("a-10-0", ("a", 10, 0)),
        ("a-1-2-3", ("a-1", 2, 3)),
        ("orders-01-7", None),
        ("orders-0", None),
        ("-0-7", None),
        ("orders-0-7-", None),
        ("orders-0-٧", None),
    ],
)
def test_ids_of_flinks_form_are_parsed_whole(text: str, parsed: tuple[str, int, int] | None) -> None:
    found = FlinkId.parse(text)
    assert (found and (found.prefix, found.subtask, found.number)) == parsed


# --- a table of cases: one Flink-like transaction, opened at T0 + 20 s under number 3, and what else is known

PENDING, DONE, FAILED = FlinkStatus.IN_PROGRESS, FlinkStatus.COMPLETED, FlinkStatus.FAILED
TIMED_OUT = (82_500, 1)
"""When it ended and by how much its epoch moved."""


def transaction(
    number: int, opened: int, ended: int, *, subtask: int = 0, moved: int = 0, committed: bool = False
) -> list[BrokerRecord]:
    named: dict[str, Any] = {
        "transaction": f"sink-{subtask}-{number}",
        "producer_id": 100 * subtask + number,
        "start": opened,
    }
    end = (
        (BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
        if committed
        else (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)
    )
    records = [broker_record(BrokerStatus.ONGOING, opened, **named)]
    return records + [broker_record(status, ended, epoch=4 + moved, **named) for status in end]


EARLIER = [*transaction(1, 2_000, 11_100, committed=True), *transaction(2, 11_000, 21_100, committed=True)]
COMMITS = [*transaction(0, 100, 1_100, committed=True), *EARLIER]
THIS = transaction(3, 21_500, *TIMED_OUT[:1], moved=TIMED_OUT[1])
BEFORE = [checkpoint(0), checkpoint(1), checkpoint(2)]
OTHER_JOB = [
    job("b" * 32),
    *(checkpoint(n, job="b" * 32, triggered_ms=T0 + 3_000 * n, ended_ms=T0 + 3_000 * n + 10) for n in range(30, 40)),
]

CASES: list[tuple[str, list[Observation], LossVerdict, Certainty, str]] = [
    (
        "its checkpoint completed",
        [*COMMITS, job(), *BEFORE, checkpoint(3)],
        LOST,
        CERTAIN,
        "checkpoint 3 of eu/orders holds it",
    ),
    (
        "a later one completed, its own failed",
        [*COMMITS, job(), *BEFORE, checkpoint(3, FAILED), checkpoint(4)],
        LOST,
        CERTAIN,
        "checkpoint 4",
    ),
    (
        "a savepoint alone commits nothing",
        [*COMMITS, job(), *BEFORE, checkpoint(3, kind=FlinkKind.SAVEPOINT)],
        UNKNOWN,
        GUESS,
        "has ended, as far as Flink reported",
    ),
    (
        "stopped with a savepoint",
        [*COMMITS, job(), *BEFORE, checkpoint(3, kind=FlinkKind.SYNC_SAVEPOINT)],
        LOST,
        CERTAIN,
        "checkpoint 3",
    ),
    (
        "its checkpoint runs",
        [*COMMITS, job(), *BEFORE, checkpoint(3, PENDING)],
        UNKNOWN,
        GUESS,
        "if one completes, this is lost",
    ),
    (
        "it failed and the job was set back",
        [*COMMITS, job(restored=2, restored_at=35_000), *BEFORE, checkpoint(3, FAILED)],
        HARMLESS,
        CERTAIN,
        "set back to checkpoint 2",
    ),
    (
        "set back, and later ones completed",
        [*COMMITS, job(restored=2, restored_at=35_000), *BEFORE, checkpoint(3, FAILED), checkpoint(4), checkpoint(5)],
        HARMLESS,
        CERTAIN,
        "set back to checkpoint 2",
    ),
    (
        "restored from its own",
        [*COMMITS, job(restored=3, restored_at=35_000), *BEFORE, checkpoint(3, PENDING)],
        LOST,
        CERTAIN,
        "a job was restored from it",
    ),
    (
        "its job is over",
        [*COMMITS, job(state="CANCELED"), *BEFORE, checkpoint(3, FAILED)],
        HARMLESS,
        LIKELY,
        "eu/orders is CANCELED",
    ),
    (
        "its job went while it ran",
        [*COMMITS, job(state="GONE"), *BEFORE, checkpoint(3, PENDING)],
        UNKNOWN,
        GUESS,
        "the end of its checkpoint was not seen",
    ),
    ("its job went, it never was seen", [*COMMITS, job(state="GONE"), *BEFORE], UNKNOWN, GUESS, "will tell"),
    (
        "another job was restored from it",
        [
            *COMMITS,
            job(state="GONE"),
            *BEFORE,
            job(
                "c" * 32,
                restored=3,
                restored_at=90_000,
                started_ms=T0 + 89_000,
                restored_path=f"s3://b/{'a' * 32}/chk-3",
            ),
        ],
        LOST,
        CERTAIN,
        "restored from it",
    ),
    (
        "another job was restored from before it",
        [
            *COMMITS,
            job(state="GONE"),
            *BEFORE,
            job(
                "c" * 32,
                restored=2,
                restored_at=90_000,
                started_ms=T0 + 89_000,
                restored_path=f"s3://b/{'a' * 32}/chk-2",
            ),
        ],
        HARMLESS,
        CERTAIN,
        "set back to checkpoint 2",
    ),
    (
        "two jobs, the commits tell which",
        [*COMMITS, *OTHER_JOB, job(), *BEFORE, checkpoint(3)],
        LOST,
        CERTAIN,
        "eu/orders",
    ),
    ("two jobs, nothing tells which", [*OTHER_JOB, job(), checkpoint(3)], UNKNOWN, GUESS, "2 Flink jobs ran then"),
    ("no Flink is watched", [], UNKNOWN, GUESS, "--flink NAME=URL"),
    ("the job known ran later", [job(started_ms=T0 + 100_000)], UNKNOWN, GUESS, "no Flink job that ran then"),
]


@pytest.mark.parametrize(
    ("observed", "verdict", "certainty", "says"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_flinks_checkpoints_tell(
    observed: list[Observation], verdict: LossVerdict, certainty: Certainty, says: str
) -> None:
    loss = judged(folded(*THIS, *observed))[("sink-0-3", T0 + 21_500)]
    assert (loss.verdict, loss.certainty) == (verdict, certainty), loss.why
    assert says in loss.why


def pooled(opened: int, *rest: Observation) -> Loss:
    """Return the verdict about an aborted transaction of a pooling sink."""
    commits: list[Observation] = []
    for at in (100, 10_100, 20_100):
        commits += transaction(0, at - 50, at + 950, committed=True)
    return judged(folded(*commits, *transaction(1, opened, opened + 61_000, moved=1), *rest))[("sink-0-1", T0 + opened)]


@pytest.mark.parametrize(
    ("opened", "rest", "verdict"),
    [
        (21_500, [job(), *BEFORE, checkpoint(3)], LOST),
        (21_500, [job(), *BEFORE, checkpoint(3, FAILED)], UNKNOWN),
        (21_500, [job(restored=2, restored_at=35_000), *BEFORE, checkpoint(3, FAILED), checkpoint(4)], HARMLESS),
        (21_500, [job(restored=9, restored_at=35_000), *BEFORE], UNKNOWN),
        (21_500, [], UNKNOWN),
    ],
    ids=["completed", "failed, the job goes on", "set back", "set back to one that is not known", "nothing known"],
)
def test_pooled_ids_are_judged_by_time(opened: int, rest: list[Observation], verdict: LossVerdict) -> None:
    loss = pooled(opened, *rest)
    assert loss.verdict is verdict, loss.why
    assert loss.certainty is not CERTAIN


def test_few_commits_do_not_say_what_the_numbers_mean() -> None:
    """Number 0 may be free id 0 of a pool, or checkpoint 0: a job set back to checkpoint 1 writes it again in one case only."""
    records = transaction(0, 21_500, 82_500, moved=1)
    found = judged(folded(*records, job(restored=1, restored_at=35_000), *BEFORE, checkpoint(3, FAILED)))
    loss = found[("sink-0-0", T0 + 21_500)]
    assert loss.verdict is UNKNOWN, loss.why
    assert "after so few commits" in loss.why


def test_pooled_ids_do_not_tell_what_was_not_seen() -> None:
    other = job(
        "c" * 32, restored=4, restored_at=90_000, started_ms=T0 + 89_000, restored_path=f"s3://b/{'a' * 32}/chk-4"
    )
    unseen = pooled(21_500, job(state="GONE"), *BEFORE, other)
    assert unseen.verdict is UNKNOWN
    assert "a job was restored from checkpoint 4, but when that was taken was not seen" in unseen.why
    seen = pooled(21_500, job(state="GONE"), *BEFORE, checkpoint(4, PENDING), other)
    assert (seen.verdict, seen.certainty) == (LOST, LIKELY)


COMMITS_FILE = CheckpointFile(
    pipeline=PREFIX, number=41, kind=CheckpointFileKind.COMMITS, at_ms=T0 + 90_000, modified_ns=1
)
REPLAY = handle("ip-count-1-1", slot=1, producer_id=9)
REPLAYED = [run_started(2, at=70_000, run="run-2"), decided(3, REPLAY, at=90_000, attempt=2)]
OURS: list[tuple[str, list[Observation], DecisionLogStatus, LossVerdict, Certainty, str]] = [
    (
        "decided and timed out",
        [decided(1, handle())],
        DecisionLogStatus.READABLE,
        LOST,
        CERTAIN,
        "decision 1 lists it to be committed",
    ),
    ("never decided", [], DecisionLogStatus.READABLE, HARMLESS, CERTAIN, "its batch is written again"),
    ("the log cannot be read", [], DecisionLogStatus.UNREADABLE, UNKNOWN, GUESS, "the decision log cannot be read"),
    (
        "a decision that counts, the log unreadable now",
        [decided(1, handle())],
        DecisionLogStatus.UNREADABLE,
        LOST,
        CERTAIN,
        "decision 1",
    ),
    (
        "outcome lost",
        [decided(1, handle()), outcome(2, handle(), Settled.LOST)],
        DecisionLogStatus.READABLE,
        LOST,
        CERTAIN,
        "decision 1",
    ),
    (
        "replayed since, as its checkpoint directory says",
        [decided(1, handle()), COMMITS_FILE],
        DecisionLogStatus.READABLE,
        HARMLESS,
        CERTAIN,
        "its batch was completed again",
    ),
    (
        "replayed since, as the log says",
        [decided(1, handle()), *REPLAYED, outcome(4, REPLAY, Settled.COMMITTED)],
        DecisionLogStatus.READABLE,
        HARMLESS,
        CERTAIN,
        "its batch was completed again",
    ),
    (
        "decided again, not committed yet",
        [decided(1, handle()), *REPLAYED],
        DecisionLogStatus.READABLE,
        LOST,
        CERTAIN,
        "only a replay",
    ),
    (
        "an event claims that it was replayed",
        [decided(1, handle()), event(EventType.CHECKPOINT_COMPLETED, 90_000, batch=41)],
        DecisionLogStatus.READABLE,
        LOST,
        CERTAIN,
        "only a replay",
    ),
    (
        "a later batch was decided",
        [decided(1, handle()), decided(2, handle("ip-count-0-0", epoch=9), batch=42, at=95_000)],
        DecisionLogStatus.READABLE,
        HARMLESS,
        CERTAIN,
        "completed again",
    ),
]


@pytest.mark.parametrize(
    ("observed", "status", "verdict", "certainty", "says"), [c[1:] for c in OURS], ids=[c[0] for c in OURS]
)
def test_the_decision_log_tells_of_ours(
    observed: list[Observation], status: DecisionLogStatus, verdict: LossVerdict, certainty: Certainty, says: str
) -> None:
    aborted = [
        broker_record(BrokerStatus.ONGOING, 0),
        broker_record(BrokerStatus.PREPARE_ABORT, 61_000, epoch=5, version=2),
        broker_record(BrokerStatus.COMPLETE_ABORT, 61_004, epoch=5, version=2),
    ]
    told = transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=handle().to_json())
    loss = judged(folded(run_started(0), *aborted, told, *observed), status)[("ip-count-0-1", T0)]
    assert (loss.verdict, loss.certainty, loss.checkpoint) == (verdict, certainty, 41), loss.why
    assert says in loss.why


def foreign(ended: int, moved: int = 0, partitions: Iterable[str] = ("sink-0",), **fields: Any) -> Loss:
    """Return the verdict about a transaction of an application that is nobody's."""
    named: dict[str, Any] = {"transaction": "shop-writer", "partitions": tuple(partitions), **fields}
    records = [broker_record(BrokerStatus.ONGOING, 0, **named)]
    records += [
        broker_record(status, ended, **{**named, "epoch": 4 + moved})
        for status in (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)
    ]
    (loss,) = judged(folded(*records)).values()
    return loss


def test_of_others_only_what_proves_itself_is_claimed() -> None:
    assert (foreign(900).verdict, foreign(900).certainty) == (HARMLESS, LIKELY)
    assert "its own client gave it up" in foreign(900).why
    timed_out = foreign(61_000, moved=1)
    assert timed_out.verdict is UNKNOWN
    assert "only its owner knows" in timed_out.why
    assert foreign(900, moved=1).verdict is UNKNOWN
    with_offsets = foreign(61_000, moved=1, partitions=("out-0", "__consumer_offsets-7"))
    assert (with_offsets.verdict, with_offsets.certainty) == (HARMLESS, LIKELY)
    assert "the input is read again" in with_offsets.why


def test_an_abort_before_the_first_write_held_nothing() -> None:
    empty: dict[str, Any] = {"transaction": "shop-writer", "start": 5, "epoch": 5, "version": 2, "partitions": ()}
    records = [
        broker_record(status, 5, **empty) for status in (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)
    ]
    (loss,) = judged(folded(*records)).values()
    assert (loss.verdict, loss.certainty) == (HARMLESS, CERTAIN)


def test_an_open_transaction_is_not_judged() -> None:
    assert judged(folded(broker_record(BrokerStatus.ONGOING, 0))) == {}


def test_what_memory_has_let_go_is_answered_from_history(tmp_path: Path) -> None:
    store = Store(tmp_path / "history.duckdb")
    try:
        current = CurrentState(store, settled_kept=10, checkpoints_kept=100, limits=Limits())
        current.see_decision_log(DecisionLogStatus.ABSENT)
        records: list[Observation] = [*transaction_records("orders-eu"), *GONE, *RESTORED]
        for number in range(100):
            later = transaction(number, 1_000_000 + number, 1_000_100 + number, subtask=7, committed=True)
            records += [
                replace(one, start_ms=(one.start_ms or 0) + 10**9, update_ms=one.update_ms + 10**9) for one in later
            ]
        positions = [Position(source="test", partition=0, offset=number) for number in range(len(records))]
        current.observe([Observed(position=at, observation=one) for at, one in zip(positions, records, strict=True)])
        store.flushed()
        assert "orders-eu-0-17" not in {
            loss.view.transaction for loss in aborts_and_losses.losses_in_memory(current, committed=True)[0]
        }
        ((lost,), _) = aborts_and_losses.losses_in_history(current, store, "orders-eu-0-17")
        assert (lost.verdict, lost.certainty, lost.view.pipeline) == (LOST, CERTAIN, "orders-eu")
        ((committed,), _) = aborts_and_losses.losses_in_history(current, store, "orders-eu-1-4")
        assert committed.verdict is NOT_LOST
        assert aborts_and_losses.losses_in_history(current, store, "never-was-0-1") == ([], 0)
    finally:
        store.close()


def test_what_flink_lost_is_an_alert_for_an_hour(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "history.duckdb")) as store:
        current = CurrentState(store, settled_kept=1_000, checkpoints_kept=100, limits=Limits())
        current.see_decision_log(DecisionLogStatus.ABSENT)
        records: list[Observation] = [*transaction_records("orders-eu"), *GONE, *RESTORED]
        positions = [Position(source="test", partition=0, offset=number) for number in range(len(records))]
        current.observe([Observed(position=at, observation=one) for at, one in zip(positions, records, strict=True)])
        lost = {one.view.key: one for one in aborts_and_losses.losses_in_memory(current)[0] if one.verdict is LOST}
        assert {one.view.transaction for one in lost.values()} >= {"orders-eu-0-17", "orders-eu-1-17"}
        clock_s = 0.0
        recent = RecentLosses(
            lambda since_ms: aborts_and_losses.losses_in_memory(current, since_ms=since_ms)[0],
            lambda since_ms: aborts_and_losses.duplicates(current, since_ms),
            lambda: clock_s,
        )
        last_ms = max(one.view.ended_ms or 0 for one in lost.values())
        found = recent.at(last_ms)
        seen = snapshot_builder.take_snapshot(current, [], AlertSettings(), last_ms, losses=found)
        alerts = {one.subject: one for one in rules.findings(seen, AlertSettings()) if one.rule == "A7"}
        assert alerts.keys() == lost.keys()
        alert = next(one for one in alerts.values() if "orders-eu-0-17" in one.subject)
        assert (alert.severity, alert.subject_labels["pipeline"]) == (Severity.CRITICAL, "orders-eu")
        assert "lost the records of transaction orders-eu-0-17 (certain)" in alert.summary
        assert recent.at(last_ms + 2 * 3_600_000) == found, "not looked at again yet"
        clock_s = 10.0
        assert recent.at(last_ms + 2 * 3_600_000) == ()


def test_offsets_stand_beside_the_verdict() -> None:
    seen = OffsetsSeen(
        transaction="sink-0-3", producer_id=3, start_ms=T0 + 21_500, partition="sink-0", first=7, first_is_exact=True,
        next_offset=12, how="told by the leader", at_ms=T0,
    )  # fmt: skip
    loss = judged(folded(*THIS, seen))[("sink-0-3", T0 + 21_500)]
    assert loss.offsets == (seen,)


def test_both_jobs_of_the_recording_are_what_the_cases_say() -> None:
    state = folded(*GONE, *RESTORED)
    assert state.flink.restored_from(FIRST_JOB).keys() == {4, 17}


ABORTED = [
    broker_record(BrokerStatus.ONGOING, 0, transaction="shop-writer"),
    broker_record(BrokerStatus.COMPLETE_ABORT, 900, transaction="shop-writer", epoch=5),
]
FENCED = Inference(cause=AbortCause.FENCED, certainty=CERTAIN, why="")


def loss_case(view: TransactionView, **changes: Any) -> LossCase:
    fields: dict[str, Any] = {"log_status": DecisionLogStatus.READABLE, **changes}
    return LossCase(clues=AbortClues(view=view), **fields)


def judged_one(view: TransactionView, **changes: Any) -> tuple[LossVerdict, Certainty]:
    loss = judge_loss(loss_case(view, **changes))
    assert loss is not None
    return loss.verdict, loss.certainty


@pytest.mark.parametrize(
    ("fate", "sure", "verdict", "certainty"),
    [
        (Fate.COMPLETED, True, LOST, CERTAIN),
        (Fate.COMPLETED, False, LOST, LIKELY),
        (Fate.REPLAYED, True, HARMLESS, CERTAIN),
        (Fate.REPLAYED, False, HARMLESS, LIKELY),
        (Fate.NOT_COMPLETED, True, HARMLESS, LIKELY),
        (Fate.PENDING, True, UNKNOWN, GUESS),
        (Fate.UNSEEN, True, UNKNOWN, GUESS),
    ],
)
def test_each_fate_of_its_checkpoint_has_its_answer(
    fate: Fate, sure: bool, verdict: LossVerdict, certainty: Certainty
) -> None:
    found = Evidence(fate=fate, why="seen", sure=sure, checkpoint=3)
    view = only_view(*(replace(one, transaction="sink-0-3") for one in ABORTED))
    loss = judge_loss(loss_case(view, flink=found))
    assert loss is not None
    assert (loss.verdict, loss.certainty, loss.checkpoint) == (verdict, certainty, 3)
    assert loss.cause is not None
    assert loss.view is view


@pytest.mark.parametrize(
    ("fate", "sure", "verdict", "certainty"),
    [
        (Fate.REPLAYED, True, LossVerdict.DUPLICATED, CERTAIN),
        (Fate.REPLAYED, False, LossVerdict.DUPLICATED, LIKELY),
        (Fate.COMPLETED, True, NOT_LOST, CERTAIN),
        (None, False, NOT_LOST, CERTAIN),
    ],
)
def test_a_committed_one_is_twice_only_where_it_is_written_again(
    fate: Fate | None, sure: bool, verdict: LossVerdict, certainty: Certainty
) -> None:
    found = Evidence(fate=fate, why="seen", sure=sure, checkpoint=3) if fate is not None else None
    view = only_view(*transaction(3, 0, 900, committed=True))
    loss = judge_loss(loss_case(view, flink=found))
    assert loss is not None
    assert (loss.verdict, loss.certainty, loss.cause, loss.view) == (verdict, certainty, None, view)
    assert loss.checkpoint == (3 if found else None)


@pytest.mark.parametrize(
    ("status", "state", "ended"),
    [
        (BrokerStatus.PREPARE_COMMIT, TransactionState.COMMITTING, NOT_LOST),
        (BrokerStatus.COMPLETE_COMMIT, TransactionState.COMMITTED, NOT_LOST),
        (BrokerStatus.PREPARE_ABORT, TransactionState.ABORTING, UNKNOWN),
        (BrokerStatus.COMPLETE_ABORT, TransactionState.ABORTED, UNKNOWN),
    ],
)
def test_what_is_being_ended_is_judged_as_what_has_ended(
    status: BrokerStatus, state: TransactionState, ended: LossVerdict
) -> None:
    view = only_view(ABORTED[0], replace(ABORTED[1], status=status))
    assert view.state is state
    assert judged_one(view)[0] is ended
    assert judge_loss(loss_case(only_view(ABORTED[0]))) is None


@pytest.mark.parametrize(
    ("name", "ours", "is_explained"),
    [("sink-0-3", False, True), ("ip-count-0-1", True, False), ("shop-writer", False, False)],
)
def test_flinks_error_is_explained_for_its_committed_ones(name: str, ours: bool, is_explained: bool) -> None:
    ended = replace(ABORTED[1], transaction=name, status=BrokerStatus.COMPLETE_COMMIT)
    loss = judge_loss(loss_case(replace(only_view(ended), ours=ours)))
    assert loss is not None
    assert ("'already been fenced'" in loss.why) is is_explained


def test_what_a_decision_lists_is_lost_while_it_is_being_aborted() -> None:
    aborting = broker_record(BrokerStatus.PREPARE_ABORT, 61_000, epoch=5, version=2)
    view = only_view(run_started(0), broker_record(BrokerStatus.ONGOING, 0), decided(1, handle()), aborting)
    assert view.state is TransactionState.ABORTING
    assert judged_one(view) == (LOST, CERTAIN)


def test_lost_without_its_decision_at_hand_is_lost() -> None:
    view = replace(only_view(*ABORTED), state=TransactionState.LOST)
    assert judged_one(view) == (LOST, CERTAIN)
    assert judged_one(view, replayed_ms=T0) == (HARMLESS, CERTAIN)
    # Decided is decided, whoever can read the log now.
    assert judged_one(view, log_status=DecisionLogStatus.UNREADABLE) == (LOST, CERTAIN)


@pytest.mark.parametrize(
    ("name", "ours", "status", "verdict", "certainty"),
    [
        ("ip-count-0-1", True, DecisionLogStatus.READABLE, HARMLESS, CERTAIN),
        ("ip-count-0-1", True, DecisionLogStatus.UNREADABLE, UNKNOWN, GUESS),
        ("ip-count-0-1", True, DecisionLogStatus.ABSENT, UNKNOWN, GUESS),
        ("ip-count-0-1", False, DecisionLogStatus.UNREADABLE, UNKNOWN, GUESS),
        ("ip-count-0-1", False, DecisionLogStatus.READABLE, HARMLESS, LIKELY),
        ("shop-writer", False, DecisionLogStatus.UNREADABLE, HARMLESS, LIKELY),
    ],
)
def test_only_a_decision_log_that_is_read_makes_an_abort_of_ours_harmless(
    name: str, ours: bool, status: DecisionLogStatus, verdict: LossVerdict, certainty: Certainty
) -> None:
    # The epoch stays: its own client gave it up. That answers for others, and never for ours.
    own_end = [replace(one, transaction=name, producer_epoch=4) for one in ABORTED]
    view = replace(only_view(*own_end), ours=ours)
    assert judged_one(view, log_status=status) == (verdict, certainty)


def test_input_offsets_make_an_abort_harmless_but_of_an_id_of_our_form() -> None:
    view = only_view(*ABORTED)
    assert judged_one(view) == (UNKNOWN, GUESS)
    assert judged_one(view, reads_its_input=True) == (HARMLESS, LIKELY)
    like_ours = only_view(*(replace(one, transaction="ip-count-0-1") for one in ABORTED))
    assert judged_one(like_ours, reads_its_input=True) == (UNKNOWN, GUESS)
    assert rule_offsets(loss_case(replace(view, broker=None), reads_its_input=True), FENCED) is None
    assert judged_one(view, held_offsets=True) == (HARMLESS, LIKELY)
    assert judged_one(like_ours, held_offsets=True) == (UNKNOWN, GUESS)


@pytest.mark.parametrize(
    ("id_", "held", "certainty"),
    [
        ("shop-app-0_11", True, CERTAIN),
        ("shop-app-0_11", False, LIKELY),
        ("connect-cluster-jdbc-2", True, CERTAIN),
        ("connect-cluster-jdbc-2", False, LIKELY),
        ("shop-writer", True, LIKELY),
        ("shop-writer", False, LIKELY),
    ],
)
def test_offsets_that_it_held_itself_are_certain_where_its_program_goes_back_to_them(
    id_: str, held: bool, certainty: Certainty
) -> None:
    view = only_view(*(replace(one, transaction=id_) for one in ABORTED))
    assert judged_one(view, held_offsets=held, reads_its_input=True) == (HARMLESS, certainty)


@pytest.mark.parametrize(
    ("partitions", "holds"),
    [
        (("out-0", "__consumer_offsets-7"), True),
        (("connect-offsets-24",), True),
        (("etl-offsets-0",), True),
        (("my__consumer_offsets-7",), False),
        (("connect-offsets-copy-1",), False),
        (("connect-offsets",), False),
        ((), False),
    ],
)
def test_offsets_of_input_are_known_by_their_topics(partitions: tuple[str, ...], holds: bool) -> None:
    state = State(offsets_topics=("__consumer_offsets", "connect-offsets", "etl-offsets"))
    assert holds_offsets(state, partitions) is holds


@pytest.mark.parametrize(
    ("changes", "is_empty"),
    [
        ({}, True),
        ({"partitions": frozenset({"sink-0"})}, False),
        ({"ongoing_epoch": 4}, False),
        ({"prepare_abort_ms": T0 + 6, "complete_abort_ms": T0 + 6}, False),
    ],
    ids=["empty", "a partition", "it was seen open", "it ended later than it began"],
)
def test_nothing_was_written_only_where_its_end_opened_it(changes: dict[str, Any], is_empty: bool) -> None:
    fields: dict[str, Any] = {"transaction": "shop-writer", "start": 5, "epoch": 5, "version": 2, "partitions": ()}
    view = only_view(broker_record(BrokerStatus.COMPLETE_ABORT, 5, **fields))
    assert view.broker is not None
    changed = loss_case(replace(view, broker=replace(view.broker, **changes)))
    assert (rule_empty(changed, FENCED) is not None) is is_empty
    assert rule_empty(loss_case(replace(view, broker=None)), FENCED) is None


@pytest.mark.parametrize(
    ("cause", "certainty", "is_harmless"),
    [
        (AbortCause.CLIENT, CERTAIN, True),
        (AbortCause.CLIENT, LIKELY, True),
        (AbortCause.CLIENT, GUESS, False),
        (AbortCause.TIMEOUT, CERTAIN, False),
        (AbortCause.FENCED, CERTAIN, False),
        (AbortCause.OPERATOR, CERTAIN, False),
        (AbortCause.UNKNOWN, GUESS, False),
    ],
)
def test_its_own_client_knows_what_it_gave_up(cause: AbortCause, certainty: Certainty, is_harmless: bool) -> None:
    found = rule_client(loss_case(only_view(*ABORTED)), Inference(cause=cause, certainty=certainty, why=""))
    assert found is None or found[:2] == (HARMLESS, LIKELY)
    assert (found is not None) is is_harmless
