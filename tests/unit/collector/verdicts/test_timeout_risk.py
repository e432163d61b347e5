"""Timeouts against what they must outlast: the rules as a table of cases."""

from __future__ import annotations

import pytest

from indoubt.collector.records.facts import PipelineFacts
from indoubt.collector.verdicts.restarts import MeasuredRestarts
from indoubt.collector.verdicts.timeout_risk import EndedLengths, OpenNow, Timeout, TimeoutRisk, by_risk
from indoubt.collector.verdicts.verdict_case import PipelineHistory


def timeout(**lengths: object) -> Timeout:
    """Return a foreign application's timeout of 60 s; 20 s are assumed for a restart."""
    known = EndedLengths(**({"application": "orders", "timeout_ms": 60_000, "ended": 100, "p99_ms": 5_000} | lengths))  # type: ignore[arg-type]
    return Timeout(lengths=known, open_now=None, pipeline=None, assumed_recovery_ms=20_000)


def managed(interval_ms: int, **lengths: object) -> Timeout:
    """Return a timeout of ours: a restart takes the interval, 3 s for the checkpoint and 10 s of delay."""
    history = PipelineHistory(facts=PipelineFacts(pipeline="orders"), checkpoint_p99_ms=3_000, interval_ms=interval_ms)
    return Timeout(lengths=timeout(**lengths).lengths, open_now=None, pipeline=history, assumed_recovery_ms=20_000)


def measured(longest_ms: int) -> Timeout:
    """Return a timeout of ours of 60 s, of which transactions leave 55 s; the longest of three restarts took so long."""
    restarts = MeasuredRestarts(count=3, longest_ms=longest_ms, median_ms=9_000)
    history = PipelineHistory(facts=PipelineFacts(pipeline="orders"), interval_ms=3_000, restarts=restarts)
    return Timeout(lengths=timeout().lengths, open_now=None, pipeline=history, assumed_recovery_ms=20_000)


@pytest.mark.parametrize(
    ("case", "risk", "advice"),
    [
        (timeout(), TimeoutRisk.NOT_MEASURED,
            "Not measured yet: no restart was seen. Of 60 s, 55 s are left for a restart (99 of 100 transactions "
            "end within 5.0 s). A restart is assumed to take 20 s."),
        (timeout(p99_ms=20_000), TimeoutRisk.NOT_MEASURED,
            "Not measured yet: no restart was seen. Of 60 s, 40 s are left for a restart (99 of 100 transactions "
            "end within 20 s). A restart is assumed to take 20 s."),
        (timeout(p99_ms=20_001), TimeoutRisk.NOT_MEASURED,
            "Not measured yet: no restart was seen. Of 60 s, 40 s are left for a restart (99 of 100 transactions "
            "end within 20 s). A restart is assumed to take 20 s. Set transaction.timeout.ms=70000 (70 s) or more."),
        (timeout(p99_ms=40_001), TimeoutRisk.TOO_SHORT,
            "Of 60 s, 20 s are left for a restart (99 of 100 transactions end within 40 s). A restart is assumed "
            "to take 20 s (none was seen yet): too short. Set transaction.timeout.ms=90000 (90 s) or more."),
        (timeout(p99_ms=880_000, timeout_ms=900_000), TimeoutRisk.NOT_MEASURED,
            "Not measured yet: no restart was seen. Of 15 min, 20 s are left for a restart (99 of 100 transactions"
            " end within 14 min 40 s). A restart is assumed to take 20 s. Set transaction.timeout.ms=960000 (16 "
            "min) or more; brokers allow 15 min unless transaction.max.timeout.ms says more."),
        (timeout(p99_ms=40_000), TimeoutRisk.NOT_MEASURED,
            "Not measured yet: no restart was seen. Of 60 s, 20 s are left for a restart (99 of 100 transactions "
            "end within 40 s). A restart is assumed to take 20 s. Set transaction.timeout.ms=80000 (80 s) or more."),
        (timeout(timeout_ms=30_000, ended=0, p99_ms=None), TimeoutRisk.NOT_MEASURED,
            "Not measured yet: no restart was seen. Of 30 s, 30 s are left for a restart. A restart is assumed to "
            "take 20 s. Set transaction.timeout.ms=40000 (40 s) or more."),
        (timeout(timeout_ms=120_000, p99_ms=80_001), TimeoutRisk.NOT_MEASURED,
            "Not measured yet: no restart was seen. Of 2 min, 40 s are left for a restart (99 of 100 transactions "
            "end within 80 s). A restart is assumed to take 20 s. Set transaction.timeout.ms=180000 (3 min) or "
            "more."),
        (timeout(timeout_ms=880_000, p99_ms=850_000), TimeoutRisk.NOT_MEASURED,
            "Not measured yet: no restart was seen. Of 14 min 40 s, 30 s are left for a restart (99 of 100 "
            "transactions end within 14 min 10 s). A restart is assumed to take 20 s. Set "
            "transaction.timeout.ms=900000 (15 min) or more."),
        (timeout(ended=0, p99_ms=None), TimeoutRisk.NOT_MEASURED,
            "Not measured yet: no restart was seen. Of 60 s, 60 s are left for a restart. A restart is assumed to "
            "take 20 s."),
        (timeout(ended=98, timed_out=2), TimeoutRisk.TIMED_OUT,
            "2 of 100 transactions were aborted at the timeout of 60 s: stuck or abandoned, since 99 of 100 others"
            " ended within 5.0 s. Not measured yet: no restart was seen. Of 60 s, 55 s are left for a restart (99 "
            "of 100 transactions end within 5.0 s). A restart is assumed to take 20 s."),
        (timeout(ended=99, timed_out=1), TimeoutRisk.TIMED_OUT,
            "1 of 100 transactions was aborted at the timeout of 60 s: stuck or abandoned, since 99 of 100 others "
            "ended within 5.0 s. Not measured yet: no restart was seen. Of 60 s, 55 s are left for a restart (99 "
            "of 100 transactions end within 5.0 s). A restart is assumed to take 20 s."),
        (timeout(ended=1, timed_out=1), TimeoutRisk.TIMED_OUT,
            "1 of 2 transactions was aborted at the timeout of 60 s: stuck or abandoned, since 99 of 100 others "
            "ended within 5.0 s. Not measured yet: no restart was seen. Of 60 s, 55 s are left for a restart (99 "
            "of 100 transactions end within 5.0 s). A restart is assumed to take 20 s."),
        (timeout(ended=98, timed_out=2, p99_ms=30_000), TimeoutRisk.TIMED_OUT,
            "2 of 100 transactions were aborted at the timeout of 60 s: stuck or abandoned, since 99 of 100 others"
            " ended within 30 s. Not measured yet: no restart was seen. Of 60 s, 30 s are left for a restart (99 "
            "of 100 transactions end within 30 s). A restart is assumed to take 20 s. Set "
            "transaction.timeout.ms=70000 (70 s) or more."),
        (timeout(ended=98, timed_out=2, p99_ms=59_000), TimeoutRisk.TIMED_OUT,
            "2 of 100 transactions were aborted at the timeout of 60 s. Of 60 s, 1.0 s are left for a restart (99 "
            "of 100 transactions end within 59 s). A restart is assumed to take 20 s (none was seen yet): too "
            "short. Set transaction.timeout.ms=100000 (100 s) or more."),
        (timeout(ended=0, timed_out=1, p99_ms=None), TimeoutRisk.TIMED_OUT,
            "Its one transaction was aborted at the timeout of 60 s. Not measured yet: no restart was seen. Of 60 "
            "s, 60 s are left for a restart. A restart is assumed to take 20 s."),
        (managed(30_000, p99_ms=20_000), TimeoutRisk.TOO_SHORT,
            "Of 60 s, 40 s are left for a restart (99 of 100 transactions end within 20 s). By its settings a "
            "restart takes at least 43 s (none was seen yet): too short. Set transaction.timeout.ms=110000 (110 s)"
            " or more, or the interval to 27 s."),
        (managed(30_000, p99_ms=10_000), TimeoutRisk.NOT_MEASURED,
            "Not measured yet: no restart was seen. Of 60 s, 50 s are left for a restart (99 of 100 transactions "
            "end within 10 s). By its settings a restart takes at least 43 s. Set transaction.timeout.ms=100000 "
            "(100 s) or more."),
        (managed(4_000, p99_ms=43_000), TimeoutRisk.NOT_MEASURED,
            "Not measured yet: no restart was seen. Of 60 s, 17 s are left for a restart (99 of 100 transactions "
            "end within 43 s). By its settings a restart takes at least 17 s. Set transaction.timeout.ms=80000 (80"
            " s) or more."),
        (managed(4_000, p99_ms=45_600), TimeoutRisk.TOO_SHORT,
            "Of 60 s, 14 s are left for a restart (99 of 100 transactions end within 46 s). By its settings a "
            "restart takes at least 17 s (none was seen yet): too short. Set transaction.timeout.ms=80000 (80 s) "
            "or more, or the interval to 1.0 s."),
        (managed(3_000, p99_ms=47_000), TimeoutRisk.TOO_SHORT,
            "Of 60 s, 13 s are left for a restart (99 of 100 transactions end within 47 s). By its settings a "
            "restart takes at least 16 s (none was seen yet): too short. Set transaction.timeout.ms=80000 (80 s) "
            "or more."),
        (measured(20_000), TimeoutRisk.ENOUGH,
            "Of 60 s, 55 s are left for a restart (99 of 100 transactions end within 5.0 s). The last 3 restarts "
            "took up to 20 s: enough."),
        (measured(27_500), TimeoutRisk.ENOUGH,
            "Of 60 s, 55 s are left for a restart (99 of 100 transactions end within 5.0 s). The last 3 restarts "
            "took up to 28 s: enough."),
        (measured(27_501), TimeoutRisk.TIGHT,
            "Of 60 s, 55 s are left for a restart (99 of 100 transactions end within 5.0 s). The last 3 restarts "
            "took up to 28 s: enough for one, too short for two. Set transaction.timeout.ms=70000 (70 s) or more."),
        (measured(55_001), TimeoutRisk.TOO_SHORT,
            "Of 60 s, 55 s are left for a restart (99 of 100 transactions end within 5.0 s). The last 3 restarts "
            "took up to 55 s: too short. Set transaction.timeout.ms=120000 (2 min) or more, or the interval to 2.0"
            " s."),
    ],
)  # fmt: skip
def test_a_timeout_is_judged_by_what_it_must_outlast(case: Timeout, risk: TimeoutRisk, advice: str) -> None:
    assert case.risk is risk
    assert case.advice == advice


def test_what_a_restart_needs_is_shown_with_its_parts_or_as_assumed() -> None:
    assert (
        managed(5_000).recovery == "at least 18 s, not measured: interval 5.0 s + checkpoint 3.0 s + restart delay 10 s"
    )
    assert timeout().recovery == "20 s, assumed: none was seen"


@pytest.mark.parametrize(
    ("count", "recovery"),
    [(2, "122 s, the longest of its last 2, median 96 s"), (1, "122 s, measured: its last restart")],
)
def test_a_measured_restart_is_told_with_the_longest_the_median_and_the_count(count: int, recovery: str) -> None:
    restarts = MeasuredRestarts(count=count, longest_ms=122_000, median_ms=96_000)
    history = PipelineHistory(facts=PipelineFacts(pipeline="orders"), interval_ms=3_000, restarts=restarts)
    found = Timeout(lengths=timeout().lengths, open_now=None, pipeline=history, assumed_recovery_ms=20_000)
    assert (found.recovery_ms, found.restarts_measured, found.risk) == (122_000, count, TimeoutRisk.TOO_SHORT)
    assert found.recovery == recovery.replace("122 s", "2 min 2 s")
    took = {1: "The last restart took 2 min 2 s", 2: "The last 2 restarts took 96 s and 2 min 2 s"}[count]
    assert f" {took}: too short. Set transaction.timeout.ms=300000 (5 min) or more." in found.advice


def test_without_an_ended_transaction_all_but_the_restart_is_left() -> None:
    assert timeout(ended=0, p99_ms=None).left_ms == 40_000


def test_of_what_is_open_alone_none_has_ended() -> None:
    known = EndedLengths(application="orders", timeout_ms=60_000)
    assert (known.ended, known.timed_out) == (0, 0)


def test_the_worst_comes_first_then_the_least_that_is_left() -> None:
    wanted = [
        timeout(timed_out=1),
        timeout(p99_ms=59_000),
        timeout(p99_ms=50_000),
        measured(30_000),
        timeout(application="a"),
        timeout(application="b"),
        measured(20_000),
    ]
    given = [wanted[place] for place in (6, 5, 4, 3, 2, 1, 0)]
    assert sorted(given, key=by_risk) == wanted


@pytest.mark.parametrize(("timeout_ms", "deadline_ms"), [(60_000, 61_000), (None, None)])
def test_the_oldest_is_aborted_where_its_timeout_is_known(timeout_ms: int | None, deadline_ms: int | None) -> None:
    open_now = OpenNow(count=1, oldest_key="k", oldest_opened_ms=1_000, oldest_timeout_ms=timeout_ms)
    assert open_now.oldest_deadline_ms == deadline_ms
