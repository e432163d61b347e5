"""What a standing order never does, whatever the case."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indoubt.collector.act.standing_orders.decision import COORDINATORS, WAITING, Candidate, Circumstances, decide
from indoubt.collector.config.standing_orders import StandingOrder
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.verdicts import Assumption, Certainty, Judgement, Verdict
from tests.unit.collector.act.standing_orders.test_decision import (
    ACT,
    APPLICATION,
    DRY_RUN,
    HOLD_BACK,
    OBSERVERS,
    SILENT_MS,
    candidate,
    view,
)
from tests.unit.collector.observations import T0

PROPERTY = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""The first draw takes seconds on a busy machine: hypothesis looks through all modules for constants."""
JUDGEMENTS = st.builds(
    Judgement,
    verdict=st.sampled_from([Verdict.COMMIT_IT, Verdict.ABORT_IT, *Verdict]),
    rule=st.just(1),
    rests_on=st.just(()),
    assumes=st.sampled_from([(), (), *((each,) for each in Assumption)]),
    may_commit=st.booleans(),
    may_abort=st.booleans(),
    loses_data=st.booleans(),
    commit_confirmation=st.sampled_from(["", "", "chk-3"]),
)
ORDERS = st.builds(
    StandingOrder,
    name=st.just("o"),
    act=st.sampled_from([Action.COMMIT, Action.ABORT]),
    applications=st.sampled_from([frozenset({"*"}), frozenset({APPLICATION})]),
    most_per_hour=st.integers(1, 3),
    less_than_s_left=st.integers(1, 60),
    driver_gone=st.booleans(),
    older_than_minutes=st.integers(1, 2),
    dry_run=st.booleans(),
)
STATUSES = st.builds(
    ObserverStatus,
    kind=st.sampled_from(ObserverKind),
    state=st.sampled_from([ObserverState.UP, *ObserverState]),
    delay_ms=st.sampled_from([0, 0, SILENT_MS + 1, None]),
    since_ms=st.just(T0),
    error=st.just(""),
    records=st.just(0),
    has_caught_up=st.sampled_from([True, True, False]),
    source_is_missing=st.booleans(),
)


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    found = []
    for number in range(draw(st.integers(1, 5))):
        judgement = draw(JUDGEMENTS)
        earlier = draw(st.lists(st.sampled_from([Verdict.IN_PROGRESS, *Verdict]), max_size=3))
        made = candidate(judgement, number, verdicts=(*earlier, judgement.verdict), driver_gone=draw(st.booleans()))
        found.append(replace(made, application=draw(st.sampled_from([APPLICATION, "other"]))))
    return found


OTHERS = ("other 1", "other 2", "other 3")
CIRCUMSTANCES = st.builds(
    Circumstances,
    now_ms=st.integers(T0, T0 + 180_000),
    observers=st.lists(STATUSES, max_size=4).map(lambda more: [*OBSERVERS, *more]) | st.lists(STATUSES, max_size=3),
    silent_ms=st.just(SILENT_MS),
    stopped=st.sampled_from([False, False, True]),
    read_only=st.sampled_from([False, False, True]),
    clock_doubt=st.sampled_from(["", "", "off"]),
    counted=st.sets(st.sampled_from([*OTHERS, *(view(number).key for number in range(5))]), max_size=4).map(frozenset),
    done=st.sets(st.sampled_from([view(number).key for number in range(5)]), max_size=2).map(frozenset),
)


@PROPERTY
@given(order=ORDERS, found=candidates(), when=CIRCUMSTANCES)
def test_it_never_acts_in_doubt(order: StandingOrder, found: list[Candidate], when: Circumstances) -> None:
    given_now = [decision.candidate for decision in decide(order, found, when) if decision.move is not HOLD_BACK]
    new = [key for key in given_now if key not in when.counted]
    assert len(new) <= max(0, order.most_per_hour - len(when.counted))
    for acted in given_now:
        judgement, transaction = acted.judged.judgement, acted.judged.view
        assert [when.stopped, when.read_only, when.clock_doubt] == [False, False, ""]
        assert acted.application in order.applications or "*" in order.applications
        assert transaction.key not in when.done
        assert judgement.certainty is Certainty.CERTAIN
        assert not judgement.assumes
        if order.act is Action.COMMIT:
            assert judgement.verdict is Verdict.COMMIT_IT
            assert judgement.may_commit
            assert not judgement.commit_confirmation, "nothing is typed"
        else:
            assert judgement.verdict is Verdict.ABORT_IT
            assert judgement.may_abort
            assert not judgement.loses_data
        settled_once = list(itertools.dropwhile(WAITING[order.act].__contains__, acted.verdicts))
        assert settled_once == [judgement.verdict], "another verdict within the minute"
        ups = [each.kind for each in when.observers if each.state is ObserverState.UP]
        assert COORDINATORS & set(ups)
        for status in when.observers:
            may_be_down = {ObserverKind.OFFSETS} | COORDINATORS
            if order.act is Action.COMMIT:
                may_be_down |= {ObserverKind.PARTITIONS} | ({ObserverKind.FLINK} if status.has_caught_up else set())
            if status.kind is ObserverKind.LIFECYCLE_EVENTS and status.source_is_missing:
                may_be_down.add(status.kind)
            if status.kind not in may_be_down:
                assert status.state in (ObserverState.UP, ObserverState.ABSENT)


@PROPERTY
@given(order=ORDERS, found=candidates(), when=CIRCUMSTANCES)
def test_a_dry_run_never_acts(order: StandingOrder, found: list[Candidate], when: Circumstances) -> None:
    moves = {decision.move for decision in decide(order, found, when)}
    assert not (moves & {ACT if order.dry_run else DRY_RUN})
