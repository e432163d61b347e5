"""Which losses of the last hour raise alerts, and how seldom they are looked for."""

from __future__ import annotations

from dataclasses import replace

from indoubt.collector.assess.rules.losses import CHECK_EVERY_S, RECENT_MS, RecentLosses
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.verdicts.data_loss import Loss, LossVerdict
from indoubt.lifecycle.verdicts import Certainty
from tests.unit.collector.observations import T0, broker_record, only_view

VIEW = only_view(broker_record(BrokerStatus.COMPLETE_ABORT, 0, transaction="sink-0-3"))


def loss(verdict: LossVerdict, *, managed: bool = False) -> Loss:
    return Loss(view=replace(VIEW, managed=managed), verdict=verdict, certainty=Certainty.CERTAIN, why="")


LOST, TWICE = loss(LossVerdict.LOST), loss(LossVerdict.DUPLICATED)
FOUND = [loss(LossVerdict.HARMLESS), LOST, loss(LossVerdict.LOST, managed=True), loss(LossVerdict.UNKNOWN)]


def test_what_was_lost_or_written_twice_within_an_hour_is_returned() -> None:
    asked: list[tuple[str, int]] = []

    def lost(since_ms: int) -> list[Loss]:
        asked.append(("lost", since_ms))
        return FOUND

    def twice(since_ms: int) -> list[Loss]:
        asked.append(("twice", since_ms))
        return [TWICE]

    assert RecentLosses(lost, twice).at(T0) == (LOST, TWICE)
    assert asked == [("lost", T0 - RECENT_MS), ("twice", T0 - RECENT_MS)]
    assert RECENT_MS == 3_600_000


def test_it_is_looked_for_again_ten_seconds_after_the_last_look() -> None:
    looks, times = [], [0.0]

    def lost(since_ms: int) -> list[Loss]:
        looks.append(times[-1])
        return [LOST]

    recent = RecentLosses(lost, lambda since_ms: [], lambda: times[-1])
    for at_s in (0.0, 9.9, 10.0, 19.9, 20.0):
        times.append(at_s)
        assert recent.at(T0) == (LOST,)
    assert looks == [0.0, 10.0, 20.0]
    assert CHECK_EVERY_S == 10.0
