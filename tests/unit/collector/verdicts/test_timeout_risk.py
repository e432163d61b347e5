"""Timeouts against what they must outlast: the rules as a table of cases."""

from __future__ import annotations

import pytest

from collector.records.facts import PipelineFacts
from collector.verdicts.timeout_risk import EndedLengths, Timeout, TimeoutRisk
from collector.verdicts.verdict_case import PipelineHistory


def timeout(**lengths: object) -> Timeout:
    """Return a foreign application's timeout of 60 s; 20 s are assumed for a restart."""
    known = EndedLengths(application="orders", **({"timeout_ms": 60_000, "ended": 100, "p99_ms": 5_000} | lengths))  # type: ignore[arg-type]
    return Timeout(lengths=known, open_now=None, pipeline=None, assumed_recovery_ms=20_000)


def ours(interval_ms: int, **lengths: object) -> Timeout:
    """Return a timeout of ours: a restart takes the interval, 3 s for the checkpoint and 10 s of delay."""
    history = PipelineHistory(facts=PipelineFacts(pipeline="orders"), checkpoint_p99_ms=3_000, interval_ms=interval_ms)
    return Timeout(lengths=timeout(**lengths).lengths, open_now=None, pipeline=history, assumed_recovery_ms=20_000)


@pytest.mark.parametrize(
    ("case", "risk", "advice"),
    [
        (
            timeout(),
            TimeoutRisk.ENOUGH,
            "60 s leave 35 s: a restart takes 20 s and transactions are open for up to 5.0 s (99 of 100).",
        ),
        (
            timeout(p99_ms=20_000),
            TimeoutRisk.ENOUGH,
            "60 s leave 20 s: a restart takes 20 s and transactions are open for up to 20 s (99 of 100).",
        ),
        (
            timeout(p99_ms=20_001),
            TimeoutRisk.TIGHT,
            "60 s leave 20 s: a restart takes 20 s and transactions are open for up to 20 s (99 of 100). "
            "Set transaction.timeout.ms to at least 70000.",
        ),
        (
            timeout(p99_ms=40_001),
            TimeoutRisk.TOO_SHORT,
            "60 s are 0.0 s too short: a restart takes 20 s and transactions are open for up to 40 s (99 of 100). "
            "Set transaction.timeout.ms to at least 90000.",
        ),
        (
            timeout(p99_ms=880_000, timeout_ms=900_000),
            TimeoutRisk.TIGHT,
            "15 min leave 0.0 s: a restart takes 20 s and transactions are open for up to 14 min 40 s (99 of 100). "
            "Set transaction.timeout.ms to at least 960000; brokers allow 15 min unless transaction.max.timeout.ms says more.",
        ),
        (
            timeout(ended=0, p99_ms=None),
            TimeoutRisk.ENOUGH,
            "60 s leave 40 s: a restart takes 20 s.",
        ),
        (
            timeout(ended=98, timed_out=2),
            TimeoutRisk.TIMED_OUT,
            "2 of 100 transactions were aborted at the timeout of 60 s: stuck or abandoned, since 99 of 100 others ended within "
            "5.0 s. 60 s leave 35 s: a restart takes 20 s and transactions are open for up to 5.0 s (99 of 100).",
        ),
        (
            timeout(ended=98, timed_out=2, p99_ms=59_000),
            TimeoutRisk.TIMED_OUT,
            "2 of 100 transactions were aborted at the timeout of 60 s. 60 s are 19 s too short: a restart takes 20 s and "
            "transactions are open for up to 59 s (99 of 100). Set transaction.timeout.ms to at least 100000.",
        ),
        (
            timeout(ended=0, timed_out=1, p99_ms=None),
            TimeoutRisk.TIMED_OUT,
            "Its one transaction was aborted at the timeout of 60 s. 60 s leave 40 s: a restart takes 20 s.",
        ),
        (
            ours(30_000, p99_ms=20_000),
            TimeoutRisk.TOO_SHORT,
            "60 s are 3.0 s too short: a restart takes 43 s and transactions are open for up to 20 s (99 of 100). "
            "Set transaction.timeout.ms to at least 110000, or the interval to 27 s.",
        ),
        (
            ours(3_000, p99_ms=47_000),
            TimeoutRisk.TOO_SHORT,
            "60 s are 3.0 s too short: a restart takes 16 s and transactions are open for up to 47 s (99 of 100). "
            "Set transaction.timeout.ms to at least 80000.",
        ),
    ],
)  # fmt: skip
def test_a_timeout_is_judged_by_what_it_must_outlast(case: Timeout, risk: TimeoutRisk, advice: str) -> None:
    assert case.risk is risk
    assert case.advice == advice


def test_what_a_restart_needs_is_shown_with_its_parts_or_as_assumed() -> None:
    assert ours(5_000).recovery == "18 s: interval 5.0 s + checkpoint 3.0 s + restart delay 10 s"
    assert timeout().recovery == "20 s, assumed: nothing is known of its restarts"
