"""The texts about one run and about many."""

from __future__ import annotations

from collections import Counter

from tests.crash.judge import Anomaly, Kind
from tests.crash.schedule import schedule_of
from tests.crash.verdict import Verdict, again, figures, summary

LOST = Anomaly(kind=Kind.LOST_WRITE, where="out", count=3, examples="k 1 0 times")


def verdict(seed: int, *anomalies: Anomaly, struck: int | None = None) -> Verdict:
    schedule = schedule_of(seed, ["kill-driver-mid-commit", "random-worker"])
    return Verdict(
        schedule=schedule,
        anomalies=anomalies,
        records=1000,
        rows_checked=2000,
        struck=2 if struck is None else struck,
        signals=Counter({"SIGKILL driver": 1, "SIGSTOP worker": 2}),
        seconds=60.0 + seed,
        restarts=4,
        lost_rows=0,
        notes=("seen on the way",),
        log_tail="the end",
    )


def test_a_failed_run_is_reported_with_its_schedule_and_command():
    failed = verdict(3, LOST)
    assert not failed.clean
    assert "lost write in out: 3 (k 1 0 times)" in str(failed)
    report = failed.report()
    for part in (str(failed.schedule), "note: seen on the way", "the end", again(failed.schedule)):
        assert part in report
    assert again(failed.schedule).endswith("--seed 3 --faults kill-driver-mid-commit,random-worker")


def test_the_figures_add_up_what_all_runs_did():
    report = figures([verdict(1), verdict(2, LOST, struck=1)], 100.0)
    assert "2 seeds in 100 s; one takes 62 s, the longest (2) 62 s" in report
    assert "2,000 records produced, 4,000 rows checked, 8 restarts" in report
    assert "3 faults struck: kill-driver-mid-commit 2, random-worker 1" in report
    assert "6 signals: SIGKILL driver 2, SIGSTOP worker 4" in report


def test_the_last_line_names_the_seeds_that_failed_or_were_not_judged():
    assert summary([verdict(1)], [], 70.0) == "1 of 1 seeds clean: 2,000 rows checked, 2 faults, 3 signals, 70 s"
    assert summary([verdict(1), verdict(2, LOST)], [2, 9], 70.0).startswith("1 of 3 seeds clean: ")
    assert summary([verdict(1), verdict(2, LOST)], [2, 9], 70.0).endswith("; failed: 2, 9")


def test_without_a_verdict_there_are_no_figures():
    assert figures([], 5.0) == "no seed was judged"
