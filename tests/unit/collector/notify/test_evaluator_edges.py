"""What an alerting shows and keeps at its edges: the order of alerts, silences that ended, times to come, a look that fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indoubt.collector.assess.rules.readers import BlockedPartition
from indoubt.collector.assess.situation import Situation
from indoubt.collector.history import sql
from indoubt.collector.history.store import StoreFailed
from indoubt.collector.notify import silences
from indoubt.collector.notify.evaluator import AlertEvaluator
from indoubt.collector.notify.state_machine import AlertState
from indoubt.collector.runtime.clock import now_ms
from tests.unit.collector.assessments import look
from tests.unit.collector.notify.test_evaluator import HELD, SETTINGS, Stage

FIRING, PENDING, RESOLVED = AlertState.FIRING, AlertState.PENDING, AlertState.RESOLVED
BODY = {"matchers": {"pipeline": "p"}, "reason": "maintenance", "duration_ms": 3_600_000}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close()


def shown(stage: Stage) -> list[tuple[AlertState, str]]:
    alerts = (one.alert for one in stage.evaluator.alerts())
    return [(alert.state, alert.finding.labels.get("batch", alert.finding.rule)) for alert in alerts]


def test_what_fires_comes_first_then_the_most_severe_the_newest_and_the_name(stage: Stage) -> None:
    gone, newer, latest = (replace(HELD, batch=number) for number in (4, 2, 3))
    equal = tuple(replace(HELD, batch=number) for number in (9, 6, 5, 8, 1, 7))
    waits = BlockedPartition(partition="orders-0", since_ms=0, groups=("g",))
    stage.judge(0, one_sided=(*equal, gone))
    stage.judge(10_000)
    stage.judge(1_000, one_sided=equal)
    stage.judge(1_000, one_sided=(*equal, newer), blocked=(waits,))
    stage.judge(10_000)
    stage.judge(1_000, one_sided=(*equal, newer, latest))
    expected = [(FIRING, name) for name in ("2", "1", "5", "6", "7", "8", "9", "A4")]
    expected += [(PENDING, "3"), (RESOLVED, "4")]
    assert shown(stage) == expected
    assert shown(stage) == expected, "shown again"
    stage.judge(10_000)
    assert shown(stage)[0] == (FIRING, "3")


def test_nothing_is_kept_or_told_while_nothing_changes(stage: Stage) -> None:
    stage.judge(0, one_sided=(HELD,))
    assert (stage.changes, stage.notified) == (1, 0)
    stage.judge(1_000)
    assert (stage.changes, stage.notified) == (1, 0)
    stage.judge(10_000)
    assert (stage.changes, stage.notified) == (2, 1)


def test_silences_stand_newest_first_and_one_that_ended_stays_as_it_was(stage: Stage) -> None:
    made = [stage.evaluator.silence(silences.read(BODY, "anna", now_ms())) for _ in range(3)]
    assert stage.evaluator.silences() == made[::-1]
    assert stage.changes == 3
    ended = stage.evaluator.end_silence(2, "ben", "done with it")
    assert ended is not None
    assert ended.ends_ms <= now_ms() < made[1].ends_ms
    assert stage.evaluator.silences() == [made[2], ended, made[0]]
    assert stage.changes == 4
    past = stage.evaluator.silence(replace(silences.read(BODY, "anna", now_ms()), starts_ms=1, ends_ms=2))
    again = stage.evaluator.end_silence(past.number, "ben", "again")
    assert again is not None
    assert again.ends_ms == 2
    stage.restart()
    assert stage.evaluator.silences() == [past, made[2], ended, made[0]]


def test_only_the_alerts_that_a_silence_covers_show_it(stage: Stage) -> None:
    stage.judge(0, one_sided=(HELD, replace(HELD, pipeline="q")))
    assert [one.silence for one in stage.evaluator.alerts()] == [None, None]
    made = stage.evaluator.silence(silences.read(BODY, "anna", now_ms()))
    found = {one.alert.finding.labels["pipeline"]: one.silence for one in stage.evaluator.alerts()}
    assert found == {"p": made, "q": None}


def test_a_caller_who_may_not_silence_is_written_down(stage: Stage) -> None:
    number = stage.evaluator.refuse("eve", "silence", "quiet please", "no right")
    (row,) = stage.store.named_rows(sql.AUDIT, "", [], *sql.AUDIT_FROM_NEWEST, 10)
    assert (row["audit"], row["who"], row["action"], row["outcome"]) == (number, "eve", "silence", "refused")


def test_no_alert_waits_for_a_time_that_is_still_to_come(stage: Stage) -> None:
    stage.judge(3_600_000, one_sided=(HELD,))
    (before,) = stage.evaluator.alerts()
    assert before.alert.found_ms > now_ms()
    stage.restart()
    (after,) = stage.evaluator.alerts()
    assert after.alert.found_ms <= now_ms()
    assert after.alert.found_ms > now_ms() - 600_000


def test_alerts_are_judged_on_after_a_look_that_failed(stage: Stage) -> None:
    looks, judged = [StoreFailed("no answer"), RuntimeError("a fault")], threading.Event()

    class Look:
        @property
        def situation(self) -> Situation:
            if looks:
                raise looks.pop(0)
            return look(now_ms=now_ms(), one_sided=(HELD,))

    def again(stopping: threading.Event) -> Iterator[Any]:
        while not stopping.wait(0.001):
            yield Look()

    evaluator = AlertEvaluator(
        stage.kept,
        again,
        settings=SETTINGS,
        receivers=[],
        changed=judged.set,
        notified=lambda: None,
    )
    before = set(threading.enumerate())
    evaluator.start()
    assert judged.wait(10)
    evaluator.stop()
    assert set(threading.enumerate()) <= before, "its thread has ended"
    assert [one.alert.state for one in evaluator.alerts()] == [PENDING]
