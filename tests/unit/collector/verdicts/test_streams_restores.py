"""Restores of Kafka Streams: which application restores from a changelog that is held back, though no group says so."""

from __future__ import annotations

import pytest

from indoubt.collector.assess.rules.readers import blocked_partitions
from indoubt.collector.records.facts import BrokerIdentity, BrokerTransaction
from indoubt.collector.verdicts.partition_state import Holder, PartitionFindings, PartitionTracker
from indoubt.collector.verdicts.streams_restores import find_restores
from indoubt.collector.verdicts.streams_topics import changelog_of, is_repartition_of, own_topics
from indoubt.resource_managers.kafka.group_members import GroupMembers
from indoubt.resource_managers.kafka.partitions import Partition
from tests.unit.collector.observations import T0
from tests.unit.collector.partition_sightings import producer
from tests.unit.collector.verdicts.case_tables import table

CHANGELOG: Partition = ("shop-app-counts-changelog", 0)
PROCESS, OTHER = "6c7e1f0a-91b4-4a55-8f0e-0123456789ab", "0d7e1f0a-91b4-4a55-8f0e-0123456789ab"
ID = f"shop-app-{PROCESS}-1"
OPENED_MS = T0 - 10_000


def opened(id_: str = ID) -> BrokerTransaction:
    return BrokerTransaction(identity=BrokerIdentity(id_, 7, OPENED_MS))


def held(holder: str | None = ID, opened_ms: int | None = OPENED_MS) -> PartitionTracker:
    """Return a tracker that has seen a changelog's last stable offset stand."""
    tracker = PartitionTracker(stalled_ms=30_000)
    for ms in (0, 1_000):
        tracker.saw_partition(CHANGELOG, 100, 105, T0 + ms)
    if holder is not None:
        one = Holder(producer=producer(partition=CHANGELOG), key="k", transaction=holder, opened_ms=opened_ms)
        tracker.saw_holder(CHANGELOG, one)
    return tracker


def members(*processes: str) -> dict[str, GroupMembers]:
    clients = frozenset(f"shop-app-{process}-StreamThread-1-consumer" for process in processes)
    state = "Stable" if clients else "Empty"
    return {"shop-app": GroupMembers(group="shop-app", state=state, client_ids=clients, at_ms=T0)}


def waiting(tracker: PartitionTracker) -> list[tuple[str, str]]:
    return [(reader.group, reader.certainty.value) for one in tracker.blocked() for reader in one.waiting]


@table(
    "tracker, open_, groups, asked, found",
    [
        ("another process has taken over", held(), [opened()], {"shop-app": "Stable"}, members(OTHER), "likely"),
        ("its members were not asked yet", held(), [opened()], {"shop-app": "Stable"}, {}, "likely"),
        ("nobody is there", held(), [opened()], {"shop-app": "Empty"}, members(), "guess"),
        ("it has no group", held(), [opened()], {}, {}, "guess"),
        ("its own process is there: it has the store", held(), [opened()], {"shop-app": "Stable"}, members(PROCESS),
            None),
        ("the holder is not known, the group is", held(None), [], {"shop-app": "Stable"}, {}, "likely"),
        ("a hanging one with the application's id", held(ID, None), [], {}, {}, "guess"),
        ("the same, its process is there: since when it is open is not known", held(ID, None), [], {"shop-app": "Stable"},
            members(PROCESS), "likely"),
        ("no application has such a topic", held("billing"), [opened("billing")], {"billing": "Stable"}, {}, None),
        ("the application is known by another transaction", held("billing"), [opened("billing"), opened()], {}, {},
            "guess"),
    ],
)  # fmt: skip
def test_who_restores_from_a_held_changelog(
    tracker: PartitionTracker,
    open_: list[BrokerTransaction],
    groups: dict[str, str],
    asked: dict[str, GroupMembers],
    found: str | None,
) -> None:
    find_restores(tracker, open_, groups, asked, T0 + 1_000)
    assert waiting(tracker) == ([] if found is None else [("shop-app (restoring counts)", found)])


def test_a_restore_goes_on_once_its_changelog_is_free() -> None:
    tracker = held()
    find_restores(tracker, [opened()], {"shop-app": "Stable"}, {}, T0 + 1_000)
    (blocked,) = tracker.blocked()
    assert blocked.waiting[0].since_ms == T0 + 1_000
    (alerted,) = blocked_partitions(PartitionFindings(at_ms=T0, blocked=tracker.blocked()))
    assert (alerted.groups, alerted.transaction) == (("shop-app (restoring counts)",), ID)
    tracker.shift(500)
    assert tracker.blocked()[0].waiting[0].since_ms == T0 + 1_500
    tracker.saw_partition(CHANGELOG, 106, 106, T0 + 2_500)
    find_restores(tracker, [], {"shop-app": "Stable"}, {}, T0 + 2_500)
    assert tracker.blocked() == ()


def test_nobody_restores_once_the_process_that_holds_it_is_there() -> None:
    tracker = held()
    find_restores(tracker, [opened()], {"shop-app": "Stable"}, members(OTHER), T0 + 1_000)
    assert waiting(tracker)
    find_restores(tracker, [opened()], {"shop-app": "Stable"}, members(PROCESS, OTHER), T0 + 1_500)
    assert not waiting(tracker)


def test_no_alert_waits_for_an_application_without_members() -> None:
    tracker = held()
    find_restores(tracker, [opened()], {"shop-app": "Empty"}, {}, T0 + 1_000)
    assert blocked_partitions(PartitionFindings(at_ms=T0, blocked=tracker.blocked())) == ()


@pytest.mark.parametrize(
    ("topic", "applications", "preferred", "found"),
    [
        ("shop-app-counts-changelog", {"shop-app"}, "", ("shop-app", "counts")),
        ("shop-app-counts-changelog", {"shop", "shop-app"}, "", ("shop-app", "counts")),
        ("shop-app-counts-changelog", {"shop", "shop-app"}, "shop", ("shop", "app-counts")),
        ("shop-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog", {"shop"}, "",
         ("shop", "KSTREAM-AGGREGATE-STATE-STORE-0000000003")),
        ("shop-counts-changelog", {"other"}, "other", None),
        ("shop-changelog", {"shop"}, "shop", None),
        ("shop--changelog", {"shop"}, "", None),
        ("shop-counts", {"shop"}, "shop", None),
        ("shop--changelog", {"shop"}, "shop", None),
        ("-counts-changelog", {"shop"}, "", None),
        ("s-c-changelog", {"s"}, "", ("s", "c")),
    ],
)  # fmt: skip
def test_a_changelog_names_application_and_store(
    topic: str, applications: set[str], preferred: str, found: tuple[str, str] | None
) -> None:
    assert changelog_of(topic, applications, preferred) == found


def test_an_applications_own_topics_are_sorted() -> None:
    partitions = (
        "shop-sums-changelog-0",
        "shop-out-0",
        "shop-by-user-repartition-1",
        "shop-app",
        "other-x-changelog-0",
    )
    assert own_topics("shop", partitions) == ["shop-by-user-repartition-1", "shop-sums-changelog-0"]


def test_a_repartition_topic_is_its_applications_alone() -> None:
    assert is_repartition_of("shop-app-by-user-repartition", "shop-app")
    assert not is_repartition_of("shop-app-by-user-repartition", "shop-a")
    assert not is_repartition_of("shop-app-by-user", "shop-app")
