"""Transactional ids that leak: counted as they are seen, per prefix, cheaply."""

from __future__ import annotations

from pathlib import Path

import pytest

from indoubt.collector.facts import transactional_ids
from indoubt.collector.facts.transactional_ids import KnownIds, reports, takes_turns
from indoubt.collector.history.store import Store
from indoubt.collector.records.application_ids import name_by_id
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import IdExpired, Observation, Observed, Position
from indoubt.collector.views import aborts_and_losses
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.durations import HOUR_MS
from indoubt.lifecycle.rows.pipelines import IdsRow
from tests.unit.collector.flink_recordings import transaction_records
from tests.unit.collector.observations import T0, broker_record, run_started


def only(known: KnownIds, at_ms: int = T0, checkpoint_ids: tuple[str, ...] = (), fenced: int = 0) -> IdsRow:
    (report,) = reports(known, name_by_id, {"app": checkpoint_ids}, {"app": fenced}, at_ms)
    return report


def test_ids_that_never_come_back_are_a_leak() -> None:
    known = KnownIds()
    for number in range(1_000):
        known.see(f"app-0-{number}", T0 + number * HOUR_MS // 100)
    report = only(known, T0 + 10 * HOUR_MS)
    assert (report.prefix, report.ids, report.leaks, report.example) == ("app", 1_000, True, "app-0-999")
    assert report.growth_per_hour == pytest.approx(100, rel=0.2)
    assert 800 <= report.stale_ids <= 900
    assert "were not used again" in report.why


def test_ids_that_are_used_in_turn_are_none() -> None:
    known = KnownIds()
    for round_ in range(2_000):
        known.see(f"app-0-{round_ % 8}", T0 + round_ * HOUR_MS // 100)
    report = only(known, T0 + 20 * HOUR_MS)
    assert (report.ids, report.stale_ids, report.leaks, report.why) == (8, 0, False, "")


def test_an_application_that_stopped_does_not_leak() -> None:
    known = KnownIds()
    for number in range(1_000):
        known.see(f"app-0-{number}", T0)
    report = only(known, T0 + 100 * HOUR_MS)
    assert (report.stale_ids, report.leaks, report.growth_per_hour) == (0, False, 0.0)


def test_expired_ids_are_not_known_any_more() -> None:
    known = KnownIds()
    for number in range(10):
        known.see(f"app-0-{number}", T0)
    for number in range(9):
        known.expire(f"app-0-{number}")
    known.expire("never-was")
    assert (only(known).ids, len(known)) == (1, 1)
    known.expire("app-0-9")
    assert list(reports(known, name_by_id, {}, {}, T0)) == []


def test_the_number_of_each_hour_of_the_last_day_is_known() -> None:
    known = KnownIds()
    for number in range(30):
        known.see(f"app-0-{number}", T0 + number * HOUR_MS)
    known.expire("app-0-29")
    by_hour = only(known, T0 + 30 * HOUR_MS).ids_by_hour
    assert len(by_hour) == 24
    assert by_hour[:3] == (8, 9, 10)
    assert by_hour[-3:] == (29, 29, 29), "one came in the last hour but one, and one expired"


def test_expiring_as_fast_as_growing_is_no_growth() -> None:
    known = KnownIds()
    for number in range(2_000):
        known.see(f"app-0-{number}", T0 + number * HOUR_MS // 100)
        if number >= 500:
            known.expire(f"app-0-{number - 500}")
    assert abs(only(known, T0 + 20 * HOUR_MS).growth_per_hour) < 30


@pytest.mark.parametrize(
    ("checkpoint_ids", "turns"),
    [
        ((), False),
        (("a",), False),
        (("a", "a", "b", "b"), False),
        (("a", "b", "a"), True),
        (("a", "b", "c", "b"), True),
    ],
)
def test_checkpoint_ids_that_take_turns_share_a_prefix(checkpoint_ids: tuple[str, ...], turns: bool) -> None:
    assert takes_turns(checkpoint_ids) is turns
    known = KnownIds()
    known.see("app-0-1", T0)
    report = only(known, checkpoint_ids=checkpoint_ids)
    assert (report.shared, report.checkpoint_ids) == (turns, len(set(checkpoint_ids)))


def test_writers_that_take_each_others_ids_share_a_prefix() -> None:
    known = KnownIds()
    known.see("app-0-1", T0)
    assert only(known, fenced=2).shared is False
    report = only(known, fenced=3)
    assert report.shared is True
    assert "two writers share it" in report.why


def test_prefixes_that_leak_themselves_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_ids, "MAX_PREFIXES", 5)
    known = KnownIds()
    for number in range(100):
        known.see(f"app{chr(97 + number % 26)}{chr(97 + number // 26)}x-0-1", T0)
    found = {report.prefix: report.ids for report in reports(known, name_by_id, {}, {}, T0)}
    assert found[transactional_ids.OTHERS] == 90
    assert len(found) == 11


def test_prefixes_of_one_application_that_leak_are_still_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_ids, "MAX_PREFIXES", 5)
    known = KnownIds()
    for number in range(100):
        known.see(f"job-{1_732_200_000 + number}-0-1", T0)
    assert {report.prefix: report.ids for report in reports(known, name_by_id, {}, {}, T0)} == {"job": 100}


def test_hours_are_bounded_whatever_the_clock_says() -> None:
    known = KnownIds()
    for number in range(5_000):
        known.see("app-0-1" if number % 2 else f"app-0-{number}", number * 7 * HOUR_MS)
    for at_ms in (-(2**63), -1, 2**63 - 1):
        known.see("app-0-2", at_ms)
    assert all(len(form.last_used) <= 1_001 for form in known.forms.values())
    assert sum(sum(form.last_used.values()) for form in known.forms.values()) == only(known).ids == len(known)
    for number in range(0, 5_000, 2):
        known.expire(f"app-0-{number}")
    known.expire("app-0-1")
    assert len(known) == 0
    assert [form.last_used for form in known.forms.values()] == [{}, {}]


def test_a_million_ids_take_bounded_memory_per_id() -> None:
    """Bytes, not times: an entry of a dict and two numbers."""
    known = KnownIds()
    for number in range(2_000):
        known.see(f"app-0-{number}", T0 + number)
    assert all(isinstance(key, int) and isinstance(value, int) for key, value in known._ids.items())
    assert all(len(form.last_used) <= 2 for form in known.forms.values())


def test_flinks_own_ids_of_a_recording() -> None:
    known = KnownIds()
    for prefix in ("orders-eu", "pooled"):
        for record in transaction_records(prefix):
            known.see(record.transaction, record.update_ms)
    found = {report.prefix: report.ids for report in reports(known, name_by_id, {}, {}, T0)}
    assert found == {"orders-eu": 22, "pooled": 4}


def test_history_is_counted_at_start(tmp_path: Path) -> None:
    store = Store(tmp_path / "history.duckdb")
    try:
        seen: list[Observation] = [
            broker_record(BrokerStatus.EMPTY, 0, transaction=f"app-0-{n}", start=None) for n in range(50)
        ]
        seen += [broker_record(BrokerStatus.EMPTY, 5, transaction=f"app-0-{n}", start=None) for n in range(40)]
        seen += [IdExpired(transaction=f"app-0-{n}") for n in range(10)]
        seen += [run_started(0)]
        current = CurrentState(store, settled_kept=5, checkpoints_kept=5)
        positions = [Position(source="test", partition=0, offset=number) for number in range(len(seen))]
        current.observe([Observed(position=at, observation=one) for at, one in zip(positions, seen, strict=True)][:-1])
        store.flushed()
        again = CurrentState(store, settled_kept=5, checkpoints_kept=5)
        again.load()
        for state in (current, again):
            (report,) = aborts_and_losses.id_reports(state)
            assert (report.prefix, report.ids) == ("app", 40)
    finally:
        store.close()
