"""Whatever needs attention: which cards there are, their remedies, which alerts they name, and their order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.assess.attention.listing import in_progress
from indoubt.collector.assess.attention.pipelines import alive, awaited
from indoubt.collector.assess.attention.transactions import consequence, headline
from indoubt.collector.assess.rules import RULES
from indoubt.collector.assess.rules.observers import existing, up
from indoubt.collector.assess.transaction_groups import TransactionGroup
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.verdicts.driver_state import DriverCondition
from indoubt.collector.verdicts.judging import Judged
from indoubt.lifecycle.rows.attention import Attention, AttentionKind, Remedy, WaitingGroup
from indoubt.lifecycle.rows.overview import AwaitedPipeline
from indoubt.lifecycle.rows.pipelines import RestartUnderWay
from indoubt.lifecycle.rows.row_json import read_row, row_to_json
from indoubt.lifecycle.verdicts import Assumption, Certainty, Judgement, Verdict
from tests.unit.collector.assess.situations import (
    alert,
    cards,
    decided_and_open,
    driver,
    foreign,
    job,
    lost,
    observer,
    one,
    opened,
    situation,
)
from tests.unit.collector.observations import PREFIX, T0, TIMEOUT_MS, broker_record, only_view, pipeline
from tests.unit.collector.partition_sightings import partition_findings

ALIVE, FROZEN, FAILED = DriverCondition.ALIVE, DriverCondition.FROZEN, DriverCondition.FAILED
COMMIT_IT = one(5_000, decided_and_open())
COMMIT_KEY = COMMIT_IT.view.key
ABORT_IT = one(40_000, opened(), pipeline=pipeline(facts=pipeline().facts))
LOST = one(61_000, lost())
FOREIGN = one(40_000, foreign())
PIPELINE = f"pipeline:{PREFIX}"


def group(verdict: Verdict, keys: tuple[str, ...], *, pipeline: str = "eu/x", **fields: Any) -> TransactionGroup:
    """Return a group of transactions, of another application unless it is said."""
    return TransactionGroup(verdict=verdict, pipeline=pipeline, keys=keys, judgements=(), partitions=(), **fields)


@pytest.mark.parametrize(
    ("verdict", "rows", "said"),
    [
        (
            Verdict.LOST,
            40,
            "Batch 92 of ip-count was decided and then aborted: 40 rows are missing until the batch is written again.",
        ),
        (
            Verdict.LOST,
            None,
            "Batch 92 of ip-count was decided and then aborted: its rows are missing until the batch is written again.",
        ),
        (
            Verdict.COMMIT_IT,
            1,
            "ip-count decided to commit batch 92 (1 row) and has not done it. Commit it: that is safe.",
        ),
        (
            Verdict.COMMIT_IT,
            None,
            "ip-count decided to commit batch 92 (data) and has not done it. Commit it: that is safe.",
        ),
    ],
)
def test_a_headline_says_in_a_sentence_how_many_rows_it_is_about(verdict, rows, said):
    told = headline(group(verdict, ("a", "b"), pipeline="ip-count", batch=92, rows=rows, managed=True))
    assert told == said


@pytest.mark.parametrize(
    ("count", "condition", "said"),
    [
        (1, "", "1 transaction of eu/orders belongs to a Flink checkpoint that counts and is not committed. Commit it: an abort "
            "would lose data."),
        (2, "chk-3", "2 transactions of eu/orders belong to Flink checkpoint chk-3 and are not committed. Commit them only if the "
            "job goes on from chk-3 or a later one: an abort would lose data."),
    ],
)  # fmt: skip
def test_a_headline_about_flink_says_under_which_condition_to_commit(count: int, condition: str, said: str) -> None:
    keys = tuple(map(str, range(count)))
    assert headline(group(Verdict.COMMIT_IT, keys, pipeline="eu/orders", condition=condition)) == said


def test_a_headline_about_what_only_its_job_commits_offers_no_commit() -> None:
    keys = ("paimon:u@3/data-1@shop-file_sink",)
    assert headline(group(Verdict.COMMIT_IT, keys, pipeline="shop/orders")) == (
        "1 transaction of shop/orders is part of a Flink checkpoint and not committed. Restart the job from it: no order commits "
        "it."
    )


def of_checkpoint(condition: str, producer_id: int) -> Judged:
    """Return one of an application that is to be committed, where ``condition`` is typed."""
    seen = broker_record(BrokerStatus.ONGOING, 0, transaction=f"shop-{producer_id}", producer_id=producer_id)
    judgement = Judgement(
        verdict=Verdict.COMMIT_IT,
        rule=25,
        rests_on=(),
        assumes=(Assumption.JOB_GOES_ON_FROM_IT,) if condition else (),
        may_commit=True,
        commit_confirmation=condition,
    )
    return Judged(view=only_view(seen), judgement=judgement, pipeline=None)


def test_what_rests_on_several_checkpoints_has_a_card_for_each_which_one_order_can_take() -> None:
    found = cards(
        40_000, *(of_checkpoint(name, at) for at, name in enumerate(("", "chk-3", "chk-3", "chk-4"), start=7))
    )
    assert [(card.remedy, len(card.keys)) for card in found] == [
        (Remedy.COMMIT, 1),
        (Remedy.COMMIT, 2),
        (Remedy.COMMIT, 1),
    ]
    assert [card.key.rpartition("|")[2] for card in found] == ["shop", "chk-3", "chk-4"]
    assert ["chk-3" in card.headline for card in found] == [False, True, False]
    assert [card.certainty for card in found] == [Certainty.CERTAIN, Certainty.LIKELY, Certainty.LIKELY]


def only(found: list[Attention]) -> Attention:
    (card,) = found
    return card


@pytest.mark.parametrize(
    ("now", "transaction", "drivers", "verdict", "badge", "remedy", "target", "severity"),
    [
        (5_000, COMMIT_IT, ALIVE, Verdict.COMMIT_IT, "commit it", Remedy.COMMIT, "", "critical"),
        (40_000, ABORT_IT, ALIVE, Verdict.ABORT_IT, "abort it", Remedy.ABORT, "", "warning"),
        (61_000, LOST, ALIVE, Verdict.LOST, "lost", Remedy.RESTART, PIPELINE, "critical"),
        (61_000, LOST, DriverCondition.STOPPED, Verdict.LOST, "lost", Remedy.OPEN, "", "critical"),
        (40_000, FOREIGN, ALIVE, Verdict.FOREIGN, "foreign, stuck", Remedy.OPEN, "", "warning"),
        (55_000, one(55_000, opened(), pipeline=pipeline(interval_ms=20_000)), ALIVE,
         Verdict.AT_RISK, "at risk", Remedy.OPEN, "", "warning"),
    ],
    ids=["commit it", "abort it", "lost", "lost, nobody would answer a restart", "foreign", "at risk"],
)  # fmt: skip
def test_a_verdict_has_its_card_and_its_remedy(
    now: int, transaction: Any, drivers: DriverCondition, verdict: Verdict, badge: str, remedy: Remedy, target: str,
    severity: str,
) -> None:  # fmt: skip
    card = only(cards(now, transaction, drivers=[driver(drivers)]))
    assert (card.kind, card.verdict, card.badge) == (AttentionKind.TRANSACTIONS, verdict, badge)
    assert (card.remedy, card.target, card.severity) == (remedy, target, severity)
    assert card.keys == (transaction.view.key,)
    assert card.headline
    assert card.consequence


@pytest.mark.parametrize(
    ("deadline_ms", "says"), [(T0, "Kafka aborts it, which may lose rows"), (None, "stays prepared")]
)
def test_what_is_unknown_says_what_the_timeout_may_do_and_that_no_order_is_advised(
    deadline_ms: int | None, says: str
) -> None:
    text = consequence(group(Verdict.UNKNOWN, ("k",), deadline_ms=deadline_ms))
    assert says in text
    assert "No order is advised until the evidence is back." in text


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("postgres:payment 4711@postgres", "It stays prepared and holds its locks until its owner ends it."),
        ("kafka:billing-1:7:0", "It stays open, and what it holds back stays invisible, until its owner ends it."),
    ],
)
def test_a_foreign_branch_holds_locks_and_no_partitions(key: str, says: str) -> None:
    of_one = group(Verdict.FOREIGN, (key,), pipeline="payment 4711")
    told = (
        "payment 4711 left a transaction open for long. Only its owner knows what an abort loses: ask before you abort."
    )
    assert (headline(of_one), consequence(of_one)) == (told, says)


def test_a_card_says_since_when_until_when_and_what_is_lost_then() -> None:
    card = only(cards(5_000, COMMIT_IT))
    assert (card.since_ms, card.deadline_ms, card.rows) == (T0 + 1_000, T0 + TIMEOUT_MS, 100)
    assert "these 100 rows away" in card.consequence
    assert only(cards(61_000, LOST)).since_ms == T0 + 60_000


def test_what_goes_on_by_itself_makes_no_card_but_a_row() -> None:
    young = one(5_000, foreign())
    assert cards(5_000, one(5_000, opened()), young) == []
    theirs, managed = in_progress(situation(5_000, one(5_000, opened()), young))
    assert (theirs.pipeline, managed.pipeline) == ("billing", PREFIX)
    assert (managed.transactions, managed.oldest_opened_at_ms, managed.timeout_ms) == (1, T0, TIMEOUT_MS)
    assert in_progress(situation(5_000, COMMIT_IT)) == ()


@pytest.mark.parametrize(
    ("condition", "badge", "remedy"),
    [
        (FROZEN, "frozen", Remedy.RESTART),
        (DriverCondition.STUCK, "stuck", Remedy.RESTART),
        (DriverCondition.SILENT, "silent", Remedy.RESTART),
        (FAILED, "failed", Remedy.OPEN),
    ],
)
def test_a_driver_that_does_not_go_on_is_a_card(condition: DriverCondition, badge: str, remedy: Remedy) -> None:
    card = only(cards(240_000, drivers=[driver(condition)]))
    assert (card.kind, card.badge, card.pipeline) == (AttentionKind.PIPELINE, badge, PREFIX)
    assert (card.remedy, card.target, card.severity, card.since_ms) == (remedy, PIPELINE, "critical", T0)
    assert "4 min" in card.headline


@pytest.mark.parametrize(
    ("condition", "remedy"),
    [
        (FAILED, Remedy.START),
        (DriverCondition.SILENT, Remedy.START),
        (FROZEN, Remedy.RESTART),
        (DriverCondition.STUCK, Remedy.RESTART),
    ],
)
def test_a_pipeline_without_a_supervisor_is_started_where_that_is_possible(
    condition: DriverCondition, remedy: Remedy
) -> None:
    card = only(cards(240_000, drivers=[driver(condition)], startable=[PREFIX]))
    assert (card.remedy, card.target) == (remedy, PIPELINE)
    assert "on its machine" not in card.consequence
    assert only(cards(240_000, drivers=[driver(FAILED)], startable=["another"])).remedy is Remedy.OPEN


def test_a_lost_batch_of_a_stopped_pipeline_is_replayed_by_its_start() -> None:
    card = only(cards(61_000, LOST, drivers=[driver(DriverCondition.STOPPED)], startable=[PREFIX]))
    assert (card.verdict, card.remedy, card.target) == (Verdict.LOST, Remedy.START, PIPELINE)


def test_a_driver_that_lives_or_was_stopped_is_no_card() -> None:
    seen = situation(5_000, drivers=[driver(ALIVE), driver(DriverCondition.STOPPED)], jobs=[job("RUNNING")])
    assert cards(5_000, drivers=seen.drivers, jobs=seen.jobs) == []
    assert alive(seen) == 2


def test_a_flink_job_that_failed_is_a_card_until_it_runs_again() -> None:
    card = only(cards(5_000, jobs=[job("FAILED")]))
    assert (card.kind, card.badge, card.pipeline, card.remedy) == (
        AttentionKind.PIPELINE, "failed", "flink/billing", Remedy.OPEN,
    )  # fmt: skip
    assert cards(5_000, jobs=[job("FAILED"), job("RUNNING", "j2", started=1_000)]) == []


def test_every_rule_says_what_happens_if_nobody_acts() -> None:
    assert all(rule.consequence.endswith(".") for rule in RULES.values())


def test_the_groups_that_wait_stand_on_the_card_of_what_they_wait_for() -> None:
    card = only(cards(5_000, findings=partition_findings()))
    assert (card.verdict, card.certainty) == (Verdict.HANGING, Certainty.LIKELY)
    assert (card.badge, card.remedy) == ("hanging", Remedy.ABORT)
    assert card.waits == (WaitingGroup(group="readers", lag=5, since_ms=T0 + 1_000, partitions=1),)


@pytest.mark.parametrize(("now", "count"), [(30_999, 0), (31_000, 1)])
def test_groups_that_wait_behind_what_no_card_is_about_are_a_card(now: int, count: int) -> None:
    findings = partition_findings()
    behind_nobody = type(findings)(at_ms=findings.at_ms, blocked=findings.blocked)
    found = cards(now, findings=behind_nobody)
    assert len(found) == count
    for card in found:
        assert (card.kind, card.badge, card.target) == (AttentionKind.READERS, "waiting", "orders-3")
        assert [waiting.group for waiting in card.waits] == ["readers"]
    alerted = cards(now, findings=behind_nobody, alerts=[alert("A4", "orders-3", partition="orders-3")])
    assert only(alerted).group == "topic orders"


@pytest.mark.parametrize(
    ("seen", "badge", "severity"),
    [
        (observer("partitions", "down", error="refused"), "down", "warning"),
        (observer("decision log", "down"), "down", "critical"),
        (observer("decision log", "starting", delay=None, since=-15_000), "starting", "critical"),
        (observer("decision log", "starting", delay=None, since=-14_999), None, ""),
        (observer("decision log", "up", delay=15_000), "silent", "critical"),
        (observer("decision log", "up", delay=14_999), None, ""),
        (observer("decision log", "absent", delay=None, since=-900_000), None, ""),
    ],
)
def test_an_observer_that_sees_nothing_is_a_card(seen: Any, badge: str | None, severity: str) -> None:
    found = [(card.kind, card.badge, card.severity, card.target) for card in cards(0, observers=[seen])]
    assert found == ([(AttentionKind.OBSERVER, badge, severity, seen.name)] if badge else [])


@pytest.mark.parametrize(
    ("seen", "said", "since"),
    [
        (observer("partitions", "down", since=3_000, error="refused"), "refused", 3_000),
        (observer("decision log", "down", delay=9_000), "it does not answer", 0),
        (observer("decision log", "up", delay=16_000, since=1_000), "it does not answer", 4_000),
    ],
)
def test_a_card_says_why_an_observer_sees_nothing_and_since_when(seen: Any, said: str, since: int) -> None:
    found = {card.target: card for card in cards(20_000, observers=[seen], history_error="full")}
    card = found.pop(seen.name)
    assert (card.headline, card.since_ms) == (f"The collector does not see {seen.name!r}: {said}.", T0 + since)
    assert list(found) == ["history"]


@pytest.mark.parametrize(
    ("seen", "is_up", "exists"),
    [
        (observer("partitions", "up", delay=14_999), 1, 1),
        (observer("partitions", "up", delay=15_000), 0, 1),
        (observer("partitions", "down"), 0, 1),
        (observer("partitions", "starting", delay=None), 0, 1),
        (observer("partitions", "absent", delay=None), 0, 0),
    ],
)
def test_an_observer_is_up_that_saw_its_source_of_late(seen: Any, is_up: int, exists: int) -> None:
    of_it = situation(0, observers=[seen])
    assert (len(up(of_it)), len(existing(of_it))) == (is_up, exists)


def test_a_history_that_cannot_be_written_is_a_card() -> None:
    card = only(cards(0, history_error="no space left"))
    assert (card.kind, card.badge, card.severity, card.target) == (
        AttentionKind.OBSERVER, "not written", "critical", "history",
    )  # fmt: skip
    assert "no space left" in card.headline


def test_observers_whose_source_does_not_exist_are_not_counted() -> None:
    states = {"up": 0, "absent": 0, "down": 0, "starting": None}
    rows = [observer(f"database {state}", state, delay=delay) for state, delay in states.items()]
    seen = situation(0, observers=rows)
    assert (len(up(seen)), len(existing(seen))) == (1, 3)


def test_the_list_is_ordered_by_deadline_then_severity_then_age() -> None:
    found = cards(
        61_000,
        LOST,
        one(61_000, foreign()),
        drivers=[driver(FROZEN, since=2_000)],
    )
    assert [(card.kind, card.badge) for card in found] == [
        (AttentionKind.TRANSACTIONS, "foreign, stuck"),
        (AttentionKind.PIPELINE, "frozen"),
        (AttentionKind.TRANSACTIONS, "lost"),
    ]


def test_a_part_is_read_back_from_its_json() -> None:
    for card in cards(5_000, COMMIT_IT, findings=partition_findings(), history_error="full"):
        assert read_row(Attention, row_to_json(card)) == card


RESTART = RestartUnderWay(since_ms=T0 + 60_000, run=7, usually_ms=40_000, who="")


def test_no_second_restart_is_offered_while_one_goes_on() -> None:
    before = only(cards(61_000, LOST, drivers=[driver(ALIVE)]))
    assert before.remedy is Remedy.RESTART
    starting = replace(driver(ALIVE), restart=RESTART)
    card = only(cards(74_000, LOST, drivers=[starting]))
    assert (card.remedy, card.target) == (Remedy.OPEN, "")
    assert card.consequence.startswith("Run 7 is starting, 10 s of usually 40 s. Readers do not see")
    ordered = replace(driver(FROZEN), restart=replace(RESTART, run=None, usually_ms=None))
    frozen = only(cards(74_000, drivers=[ordered]))
    assert (frozen.remedy, frozen.consequence) == (Remedy.OPEN, "A restart is under way, 10 s.")


def test_a_pipeline_that_shows_no_life_is_awaited_and_not_counted_as_alive() -> None:
    late = replace(driver(ALIVE), is_late=True, allowed_ms=30_000)
    starting = replace(driver(ALIVE), restart=RESTART)
    found = situation(70_000, drivers=[starting, late, driver(ALIVE), driver(FROZEN), driver(DriverCondition.STOPPED)])
    silent = AwaitedPipeline(pipeline=PREFIX, silent_since_ms=T0, counted_after_ms=30_000, restart=None)
    restarts = replace(silent, silent_since_ms=None, counted_after_ms=None, restart=RESTART)
    assert (awaited(found), alive(found)) == ((silent, restarts), 1)
