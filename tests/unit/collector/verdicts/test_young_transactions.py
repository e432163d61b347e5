"""Rule 35: what a living application has just begun is in progress, and offers no abort; cases, and their boundaries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from indoubt.collector.facts.transaction_join import views
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import Observation
from indoubt.collector.verdicts.judging import EvaluationContext, Judged, judged
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits, is_young, young
from indoubt.lifecycle.verdicts import Verdict
from tests.unit.collector.flink_observations import job
from tests.unit.collector.observations import T0, branch_listed, broker_record, database_handle, folded, run_started
from tests.unit.collector.verdicts.case_tables import table

ID, OLD_MS, BEGUN = "shop-7", 30_000, 20_000


def of(status: BrokerStatus, at: int, id_: str = ID, **fields: Any) -> Observation:
    return broker_record(status, at, transaction=id_, **{"producer_id": 7, "epoch": 0, "start": at, **fields})


OPEN = of(BrokerStatus.ONGOING, BEGUN)
ENDED = {"start": 0, "epoch": 1}
COMMITTED, ABORTED = (of(s, 400, **ENDED) for s in (BrokerStatus.COMPLETE_COMMIT, BrokerStatus.COMPLETE_ABORT))
COMMITTING = of(BrokerStatus.PREPARE_COMMIT, 400, **ENDED)
BY_ANOTHER = of(BrokerStatus.COMPLETE_COMMIT, 400, "shop-8", producer_id=8, **ENDED)
BY_A_STRANGER = of(BrokerStatus.COMPLETE_COMMIT, 400, "bank-7", producer_id=9, **ENDED)
WITH_OFFSETS = of(BrokerStatus.COMPLETE_COMMIT, 400, partitions=("__consumer_offsets-3",), **ENDED)

CASES = [
    # name, what was seen before it began, ms that it is open, verdict, rule
    ("its id was committed", [COMMITTED], 300, Verdict.IN_PROGRESS, 35),
    ("its id is being committed", [COMMITTING], 300, Verdict.IN_PROGRESS, 35),
    ("another id of its application was", [BY_ANOTHER], 300, Verdict.IN_PROGRESS, 35),
    ("its clock is ahead", [COMMITTED], -5_000, Verdict.IN_PROGRESS, 35),
    ("still young", [COMMITTED], OLD_MS - 1, Verdict.IN_PROGRESS, 35),
    ("old", [COMMITTED], OLD_MS, Verdict.FOREIGN, 7),
    ("nothing of it was seen", [], 300, Verdict.FOREIGN, 7),
    ("it only ever aborted", [ABORTED], 300, Verdict.FOREIGN, 7),
    ("another application committed", [BY_A_STRANGER], 300, Verdict.FOREIGN, 7),
    ("it reads its input", [WITH_OFFSETS], 300, Verdict.IN_PROGRESS, 29),
]


def judged_at(at: int, *seen: Observation) -> Judged:
    """Return the open one, judged ``at`` ms after T0."""
    context = EvaluationContext(
        limits=Limits(foreign_old_ms=OLD_MS), log_status=(DecisionLogStatus.READABLE, ""), now_ms=T0 + at
    )
    state = folded(*seen)
    (found,) = [one for one in judged(context.cases(state, views(state, settled=True))) if one.view.is_running]
    return found


@table("seen, open_ms, verdict, rule", CASES)
def test_case(seen: list[Observation], open_ms: int, verdict: Verdict, rule: int) -> None:
    found = judged_at(BEGUN + open_ms, *seen, OPEN).judgement
    assert (found.verdict, found.rule) == (verdict, rule)
    assert (found.may_commit, found.may_abort) == (False, verdict is Verdict.FOREIGN)
    assert found.loses_data is (rule != 29)


def test_its_evidence_says_who_was_seen_and_how_long_it_counts_as_young() -> None:
    (evidence,) = judged_at(BEGUN + 300, COMMITTED, OPEN).judgement.evidence[:1]
    assert "shop has committed others, and this one is open for less than 30 s" in evidence.fact
    assert (evidence.source, evidence.at_ms) == ("transaction coordinator", T0 + BEGUN)


def test_what_is_ours_ended_or_in_a_database_has_no_case() -> None:
    state = folded(COMMITTED, OPEN)
    view = next(view for view in views(state, settled=False) if view.is_running)
    limits = {"foreign_old_ms": OLD_MS, "now_ms": T0 + BEGUN}
    assert young(state, view, **limits) is not None
    assert young(state, replace(view, managed=True), **limits) is None
    assert young(state, replace(view, superseded=True), **limits) is None
    assert young(state, replace(view, broker=None, outcome=object()), **limits) is None
    (branch,) = views(folded(branch_listed(database_handle("postgres"), prepared_ms=T0)), settled=False)
    assert not is_young(branch, OLD_MS, T0)


def test_ours_and_flinks_are_judged_by_their_own_rules_before() -> None:
    managed = {"transaction": "ip-count-0-1", "producer_id": 7}
    before = broker_record(BrokerStatus.COMPLETE_COMMIT, 400, epoch=1, start=0, **managed)
    begun = broker_record(BrokerStatus.ONGOING, BEGUN, epoch=2, start=BEGUN, **managed)
    assert judged_at(BEGUN + 300, run_started(), before, begun).judgement.rule != 35
    assert judged_at(BEGUN + 300, job(), COMMITTED, OPEN).judgement.rule == 35, "its prefix is in no list yet"
