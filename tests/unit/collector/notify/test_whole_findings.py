"""Every field of what each alert rule finds, but for its texts, and the limits of the rules to the millisecond."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.assess import rules
from indoubt.collector.assess.findings import SOURCES_GROUP, STANDING_ORDERS_GROUP, Finding, Severity
from indoubt.collector.assess.rules.applications import AbortSeen
from indoubt.collector.assess.rules.batches import OneSidedBatch
from indoubt.collector.assess.rules.checkpoints import CheckpointHistory
from indoubt.collector.assess.rules.hanging import HangingTransaction
from indoubt.collector.assess.rules.readers import BlockedPartition
from indoubt.collector.assess.rules.sources import UnreadCheckpoints
from indoubt.collector.assess.situation import Situation
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.records.formats.flink_records import SinkCommits, UnreadCheckpoint
from indoubt.collector.records.log_settings import LogSettings
from indoubt.collector.records.standing_orders import HeldBack, OrderReport, StandingAct
from indoubt.collector.runtime.clock import ClockOffset
from indoubt.collector.verdicts.data_loss import Loss, LossVerdict
from indoubt.collector.verdicts.driver_state import DriverCondition
from indoubt.collector.verdicts.flink_announced import CommitsInDoubt
from indoubt.collector.verdicts.judging import Judged
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.attention import Remedy
from indoubt.lifecycle.verdicts import AbortCause, Certainty, Judgement, Verdict
from indoubt.resource_managers.topics.decision_log_topic import FORGETS_NOTHING
from tests.unit.collector.assess.situations import driver
from tests.unit.collector.assessments import changed, leaking, look
from tests.unit.collector.notify.rule_findings import COMMITTED, DECIDED, FOREIGN, LOST, of_transaction
from tests.unit.collector.observations import PREFIX, T0, observer_of, only_view, pipeline

CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING
PIPELINE = f"application {PREFIX}"
KEY, PAGE = f"kafka:ip-count-0-1:0:4@{T0}", f"/transaction?key=kafka%3Aip-count-0-1%3A0%3A4%40{T0}"
FLINK_KEY, FLINK_PAGE = f"kafka:flink-orders-3:0:4@{T0}", f"/transaction?key=kafka%3Aflink-orders-3%3A0%3A4%40{T0}"
OURS = {"pipeline": PREFIX, "resource_manager": "kafka", "transaction": "ip-count-0-1", "batch": "41"}
FLINKS = {"pipeline": "flink-orders", "resource_manager": "kafka", "transaction": "flink-orders-3"}
FLINK, PIPELINE_PAGE = "application flink-orders", f"/pipeline?name={PREFIX}"
READ, READ_PAGE = {"partition": "my-topic-12"}, "/partition?topic=my-topic&partition=12"
WAITS_FOR, OF_US, BATCH = {"transaction": "ip-count-0-1"}, {"pipeline": PREFIX}, {"batch": "41"}
SAVE, READER = {"standing_order": "save"}, "flink checkpoints eu"

JOB = "a" * 32
LEFT = CommitsInDoubt(
    pipeline="eu/orders",
    job=JOB,
    job_state="FAILED",
    number=41,
    completed_ms=T0,
    job_ended_ms=T0 + 2_000,
    sinks=(SinkCommits("ledger", "unknown", 12),),
    path="/c/chk-41",
    is_seen=True,
)


def only(rule: str, snapshot: Situation) -> Finding:
    """Return the one thing that a rule finds, with its texts."""
    (finding,) = [one for one in rules.findings(snapshot) if one.rule == rule]
    return finding


def seen(**fields: Any) -> Situation:
    return look(**{"now_ms": T0 + 50_000, **fields})


def of_flink(verdict: Verdict, at: int = 50_000, **fields: Any) -> Situation:
    judgement = Judgement(verdict=verdict, rule=23, rests_on=(), **fields)
    return seen(now_ms=T0 + at, judged=(Judged(view=only_view(*FOREIGN), judgement=judgement, pipeline=None),))


def unread(name: str) -> UnreadCheckpoints:
    each = UnreadCheckpoint("/s/job/chk-7", "job", 7, "denied")
    return UnreadCheckpoints(observer="flink checkpoints eu", directory="/s/job", pipeline=name, unread=(each,))


def loss(verdict: LossVerdict, certainty: Certainty = Certainty.CERTAIN) -> Situation:
    found = Loss(view=only_view(*FOREIGN), verdict=verdict, certainty=certainty, why="w")
    return seen(losses=(found,))


HANGING = HangingTransaction(
    partition="my-topic-12", producer_id=7, producer_epoch=2, since_ms=T0, application="producer 7"
)
BLOCKED = BlockedPartition(partition="my-topic-12", since_ms=T0, groups=("orders",))
BEHIND = replace(BLOCKED, transaction="ip-count-0-1")
FAILING = CheckpointHistory(
    pipeline=PREFIX,
    newest=CheckpointFacts(pipeline=PREFIX, number=41, started_ms=T0, failed_ms=T0),
    completed_ms=None,
    failures=3,
)
ABORTS = tuple(
    AbortSeen(application="a/b", transaction=f"t-{number}", at_ms=T0 + number, cause=AbortCause.TIMEOUT)
    for number in range(5)
)
DOWN = ObserverStatus(
    **observer_of("lifecycle events"), state=ObserverState.DOWN, delay_ms=0, since_ms=T0, error="refused", records=0
)
ONE_SIDED = OneSidedBatch(pipeline=PREFIX, batch=41, done_in=("kafka",), missing_in=("mysql",), since_ms=T0)
FINITE = LogSettings.of("transaction_decisions", FORGETS_NOTHING | {"retention.ms": "1"}, T0)
ACT = StandingAct(key="k", application="orders", at_ms=T0, audit=1, outcome="accepted")
HELD = HeldBack(key="k", application="orders", deadline_ms=None, why="a doubt")
KNOWN = {PREFIX: pipeline(latest_run_offset=0)}
RUNS = (driver(DriverCondition.ALIVE),)


def standing(**fields: Any) -> Situation:
    return seen(orders=(OrderReport(name="save", act=Action.COMMIT, **fields),))


def of(rule: str, subject: str, group: str, severity: Severity, path: str, **fields: Any) -> Finding:
    labels = fields.pop("labels", {})
    return Finding(
        rule=rule,
        subject=subject,
        group=group,
        severity=severity,
        summary="",
        evidence=(),
        subject_labels=labels,
        object_path=path,
        **fields,
    )


def of_source(rule: str, subject: str, severity: Severity = WARNING, **fields: Any) -> Finding:
    return of(rule, subject, SOURCES_GROUP, severity, "/collector", **fields)


WHOLE = [
    (of_transaction(50_000, *DECIDED), of("A1", KEY, PIPELINE, CRITICAL, PAGE, labels=OURS, remedy=Remedy.COMMIT)),
    (of_transaction(50_000, *FOREIGN), of("A1", FLINK_KEY, FLINK, WARNING, FLINK_PAGE, labels=FLINKS)),
    (of_transaction(50_000, *DECIDED), of("A2", KEY, PIPELINE, CRITICAL, PAGE, labels=OURS, remedy=Remedy.COMMIT)),
    (
        of_flink(Verdict.COMMIT_IT, may_commit=True),
        of("A2", FLINK_KEY, FLINK, CRITICAL, FLINK_PAGE, labels=FLINKS, remedy=Remedy.COMMIT),
    ),
    (
        seen(hanging=(HANGING,)),
        of("A3", "my-topic-12|7|2", "application producer 7", CRITICAL, READ_PAGE, labels=READ, for_ms=10_000),
    ),
    (seen(blocked=(BLOCKED,)), of("A4", "my-topic-12", "topic my-topic", WARNING, READ_PAGE, labels=READ)),
    (seen(blocked=(BEHIND,)), of("A4", "my-topic-12", "topic my-topic", WARNING, READ_PAGE, labels=READ | WAITS_FOR)),
    (
        changed(of_transaction(50_000, *DECIDED), blocked=(BEHIND,)),
        of("A4", "my-topic-12", PIPELINE, WARNING, READ_PAGE, labels=READ | WAITS_FOR | OF_US, remedy=Remedy.COMMIT),
    ),
    (
        seen(aborts=ABORTS),
        of("A5", "a/b", "application a/b", WARNING, "/pipeline?name=a%2Fb", labels={"pipeline": "a/b"}),
    ),
    (
        seen(checkpoints=(FAILING,), pipelines=KNOWN, drivers=RUNS),
        of("A6", PREFIX, PIPELINE, CRITICAL, PIPELINE_PAGE, labels=OF_US | BATCH, remedy=Remedy.RESTART),
    ),
    (
        changed(of_transaction(90_000, *LOST, latest_run_offset=0), drivers=RUNS),
        of("A7", KEY, PIPELINE, CRITICAL, PAGE, labels=OURS, remedy=Remedy.RESTART),
    ),
    (loss(LossVerdict.LOST), of("A7", FLINK_KEY, FLINK, CRITICAL, FLINK_PAGE, labels=FLINKS)),
    (
        seen(id_leaks=(leaking("a/b", 9, "new ids"),)),
        of("A8", "a/b", "application a/b", WARNING, "/pipeline?name=a%2Fb", labels={"pipeline": "a/b"}, for_ms=60_000),
    ),
    (seen(observers=(DOWN,)), of_source("A9", "lifecycle events", labels={"observer": "lifecycle events"})),
    (
        seen(one_sided=(ONE_SIDED,), drivers=RUNS),
        of(
            *("A10", f"{PREFIX}|41", PIPELINE, CRITICAL, f"/batch?pipeline={PREFIX}&number=41"),
            **{"labels": OF_US | BATCH, "remedy": Remedy.RESTART, "for_ms": 10_000},
        ),
    ),
    (
        seen(log_settings=FINITE),
        of_source("A11", "transaction_decisions", severity=CRITICAL, labels={"observer": "decision log"}),
    ),
    (loss(LossVerdict.DUPLICATED), of("A12", FLINK_KEY, FLINK, CRITICAL, FLINK_PAGE, labels=FLINKS)),
    (standing(acts=(ACT,)), of("A13", "save", STANDING_ORDERS_GROUP, WARNING, "", labels=SAVE)),
    (standing(held=(HELD,)), of("A14", "save", STANDING_ORDERS_GROUP, CRITICAL, "", labels=SAVE, for_ms=3_000)),
    (
        seen(unread_checkpoints=(unread("eu/orders"),)),
        of_source("A15", f"{READER}|/s/job", labels={"observer": READER, "pipeline": "eu/orders"}, for_ms=15_000),
    ),
    (
        seen(unread_checkpoints=(unread(""),)),
        of_source("A15", f"{READER}|/s/job", labels={"observer": READER}, for_ms=15_000),
    ),
    (
        seen(clocks=(ClockOffset(owner="broker 1", ahead_ms=1_500, error_ms=100),)),
        of_source("A16", "broker 1", labels={"observer": "clocks"}, for_ms=5_000),
    ),
    (
        seen(announced_commits=(LEFT,)),
        of(
            *("A17", f"{JOB}|41", "application eu/orders", WARNING, "/batch?pipeline=eu%2Forders&number=41"),
            **{"labels": {"pipeline": "eu/orders"} | BATCH, "for_ms": 60_000},
        ),
    ),
]


@pytest.mark.parametrize(
    ("snapshot", "whole"),
    WHOLE,
    ids=lambda value: value.rule if isinstance(value, Finding) else "",
)
def test_what_is_found_is_whole(snapshot: Situation, whole: Finding) -> None:
    assert replace(only(whole.rule, snapshot), summary="", evidence=()) == whole


@pytest.mark.parametrize(
    ("certainty", "of_lost", "of_twice"),
    [
        (Certainty.CERTAIN, CRITICAL, CRITICAL),
        (Certainty.LIKELY, CRITICAL, WARNING),
        (Certainty.GUESS, WARNING, WARNING),
    ],
)
def test_how_sure_a_loss_is_tells_how_soon_to_act(certainty: Certainty, of_lost: Severity, of_twice: Severity) -> None:
    assert only("A7", loss(LossVerdict.LOST, certainty)).severity is of_lost
    assert only("A12", loss(LossVerdict.DUPLICATED, certainty)).severity is of_twice


def found(snapshot: Situation) -> set[str]:
    return {finding.rule for finding in rules.findings(snapshot)}


@pytest.mark.parametrize("verdict", [one for one in Verdict if one is not Verdict.COMMIT_IT])
def test_only_commit_it_makes_a_flink_transaction_overdue(verdict: Verdict) -> None:
    assert "A2" not in found(of_flink(verdict))


@pytest.mark.parametrize("verdict", [LossVerdict.HARMLESS, LossVerdict.NOT_LOST, LossVerdict.UNKNOWN])
def test_an_end_that_lost_nothing_is_no_alert(verdict: LossVerdict) -> None:
    assert not found(loss(verdict))


def test_the_newest_abort_is_named() -> None:
    assert only("A5", seen(aborts=ABORTS)).evidence[1].fact == "the newest is t-4"


def test_readers_do_not_wait_for_what_has_ended() -> None:
    waiting = only("A4", changed(of_transaction(50_000, *COMMITTED), blocked=(BEHIND,)))
    assert (waiting.group, waiting.remedy) == ("topic my-topic", Remedy.OPEN)


def test_how_many_readers_wait_and_behind_what_is_told() -> None:
    assert only("A4", seen(blocked=(BLOCKED,))).summary == "1 reader of my-topic-12 blocked for 50 s"
    two = replace(BEHIND, groups=("a", "b"))
    assert (
        only("A4", seen(blocked=(two,))).summary
        == "2 readers of my-topic-12 blocked for 50 s behind transaction ip-count-0-1"
    )


def test_commits_left_are_named_with_their_sink_and_held_while_flink_does_not_answer() -> None:
    finding = only("A17", seen(announced_commits=(LEFT,)))
    assert finding.summary == (
        "checkpoint 41 of eu/orders completed, 12 commits of sink ledger that nobody will do if they are not done: the job is over "
        "(FAILED)"
    )
    away = seen(announced_commits=(replace(LEFT, is_seen=False),))
    assert not [one for one in rules.findings(away) if one.rule == "A17"]
    assert f"A17|{JOB}|41" in rules.held(away)
