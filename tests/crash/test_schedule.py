"""The schedule: everything from the seed, and every fault within ten seeds."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.crash.catalogue import FAULTS, LOCAL, S3, Own, Sink
from tests.crash.faults import IMPLEMENTED
from tests.crash.schedule import SEEDS_OF_A_DEAL, schedule_of

TEN = [schedule_of(seed) for seed in range(1, SEEDS_OF_A_DEAL + 1)]


def test_every_fault_is_implemented():
    assert FAULTS.keys() == IMPLEMENTED


@pytest.mark.parametrize("deal", [0, 1, 2, 77])
def test_ten_seeds_hold_every_fault_and_every_sink(deal):
    ten = [schedule_of(deal * SEEDS_OF_A_DEAL + place) for place in range(1, SEEDS_OF_A_DEAL + 1)]
    on_one_machine = {name for name, fault in FAULTS.items() if fault.own not in (Own.WHOLE_CLUSTER, Own.STORE)}
    assert {strike.fault for schedule in ten for strike in schedule.strikes} == on_one_machine
    assert {schedule.sink for schedule in ten} == {sink for sink in Sink if not sink.has_files}


@pytest.mark.parametrize("deal", [0, 1, 2, 77])
def test_ten_seeds_on_the_cluster_hold_every_fault_that_only_a_cluster_has(deal):
    seeds = range(deal * SEEDS_OF_A_DEAL + 1, (deal + 1) * SEEDS_OF_A_DEAL + 1)
    ten = [schedule_of(seed, on_cluster=True) for seed in seeds]
    only_there = {name for name, fault in FAULTS.items() if fault.own is Own.WHOLE_CLUSTER}
    assert {strike.fault for schedule in ten for strike in schedule.strikes} >= only_there
    assert all(schedule.broker is Own.WHOLE_CLUSTER and schedule.min_isr == 2 for schedule in ten)


@pytest.mark.parametrize("on_cluster", [False, True])
@pytest.mark.parametrize("seed", range(1, 101))
def test_a_seed_is_always_the_same_schedule_and_one_that_its_sink_allows(seed, on_cluster):
    schedule = schedule_of(seed, on_cluster=on_cluster)
    assert schedule == schedule_of(seed, on_cluster=on_cluster)
    for strike in schedule.strikes:
        fault = FAULTS[strike.fault]
        assert schedule.sink in fault.sinks
        assert strike.point in fault.points
        assert strike.point != "mid-commit" or schedule.partitions > 1


@pytest.mark.parametrize("where", [LOCAL, S3])
@pytest.mark.parametrize("seed", range(1, 31))
def test_a_seed_with_files_has_a_sink_of_files_and_faults_that_it_allows(seed, where):
    schedule = schedule_of(seed, files=where)
    assert schedule == schedule_of(seed, files=where)
    assert (schedule.files, schedule.broker) == (where, None)
    assert schedule.sink is (Sink.FILES if seed % 2 else Sink.TOPIC_AND_FILES)
    faults = [FAULTS[strike.fault] for strike in schedule.strikes]
    assert all(schedule.sink in fault.sinks and fault.goes_with_files(where) for fault in faults)
    assert sum(fault.own is Own.STORE for fault in faults) == (where == S3)


def test_a_fault_of_the_files_store_needs_it():
    with pytest.raises(ValueError, match="runs only with --files s3"):
        schedule_of(1, ["files-late"])
    with pytest.raises(ValueError, match="does not run with --files local"):
        schedule_of(1, ["files-late"], files=LOCAL)


def test_seeds_differ():
    assert all(schedule.strikes != next_.strikes for schedule, next_ in pairwise(TEN))
    assert [schedule_of(seed).strikes for seed in range(11, 21)] != [schedule.strikes for schedule in TEN]


def test_chosen_faults_come_in_their_order():
    schedule = schedule_of(5, ["large-record", "kill-driver-mid-commit"])
    assert [strike.fault for strike in schedule.strikes] == ["large-record", "kill-driver-mid-commit"]
    assert schedule == schedule_of(5, ["large-record", "kill-driver-mid-commit"])


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        (["no-such"], "unknown fault 'no-such'"),
        (["broker-away", "database-restart"], "no sink allows"),
        (["broker-of-two-lost", "expired-after-stop"], "need .* and two brokers"),
        (["node-killed"], "node-killed runs only with --cluster"),
    ],
)
def test_faults_that_cannot_be_are_refused(faults, said):
    with pytest.raises(ValueError, match=said):
        schedule_of(1, faults)


def test_a_fault_that_needs_another_server_is_refused_on_the_cluster():
    with pytest.raises(ValueError, match="disk-full does not run with --cluster"):
        schedule_of(1, ["disk-full"], on_cluster=True)


def test_a_seed_that_harms_a_server_has_it_for_itself():
    for schedule in TEN:
        harmed = {name for strike in schedule.strikes for name in ("broker", "database") if name in strike.fault}
        assert "broker" not in harmed or schedule.broker in (Own.BROKER, Own.CLUSTER)
        assert "database" not in harmed or Own.DATABASE in schedule.owns


@pytest.mark.parametrize("deal", range(10))
def test_a_seed_has_one_kind_of_broker_only(deal):
    for place in range(1, SEEDS_OF_A_DEAL + 1):
        assert len(schedule_of(deal * SEEDS_OF_A_DEAL + place).owns - {Own.DATABASE}) <= 1


def test_signals_at_random_times_kill_once_and_freeze_once_at_least():
    for name, fault in FAULTS.items():
        if not fault.hits:
            continue
        (strike,) = schedule_of(3, [name]).strikes
        assert {hit.kills for hit in strike.hits} == {True, False}
        assert len({hit.after_s for hit in strike.hits}) == len(strike.hits)


def test_some_seeds_give_the_checkpoint_as_a_uri_and_some_as_a_path():
    settings = {schedule.checkpoint_is_uri: schedule.checkpoint_setting(Path("/a b")) for schedule in TEN}
    assert settings == {True: "file:///a%20b", False: "/a b"}
