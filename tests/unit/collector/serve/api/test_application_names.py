"""The same application has the same name in every list, filter, metric and alert, whatever its ids look like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indoubt.collector.assess.rules import findings
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.records.application_ids import form_of
from indoubt.collector.records.formats.flink_records import (
    Committable,
    FlinkCheckpoint,
    FlinkCommittables,
    FlinkJob,
    FlinkKind,
    FlinkStatus,
)
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.serve.api.application_metrics import PipelineLabels
from indoubt.collector.verdicts.partition_state import PartitionFindings
from indoubt.collector.views import application_names
from indoubt.lifecycle.application import ApplicationKind
from indoubt.lifecycle.durations import HOUR_MS
from tests.unit.collector.assessments import situation_at
from tests.unit.collector.observations import T0, broker_record
from tests.unit.collector.partition_sightings import hanging, partition_findings
from tests.unit.collector.serve.api.served_api import VIEWER, Api, observed

PROCESS, OTHER_PROCESS = "6c7e1f0a-91b4-4a55-8f0e-0123456789ab", "AA7E1F0A-91B4-4A55-8F0E-0123456789AB"
FLINK_NAME = "eu/orders to lake"

NAMES = {
    # Flink, where a checkpoint names the prefix; the form alone is no evidence.
    "orders-2-0-17": FLINK_NAME,
    "orders-2-3-0": FLINK_NAME,
    "lake1-0-9": FLINK_NAME,
    "orders-0-17": "orders",
    # A pipeline of ours, and who only looks like it.
    "ip-count-0-1": "ip-count",
    "ip-count-0-17": "ip-count (other)",
    f"ip-count-{PROCESS}-1": "ip-count (kafka streams)",
    # Kafka Streams and Connect
    f"word-count-app-{PROCESS}-1": "word-count-app",
    f"word-count-app-{OTHER_PROCESS}-2": "word-count-app",
    "shop-app-0_11": "shop-app",
    "shop-2-10_3": "shop-2",
    "connect-cluster-jdbc-2": "connect-cluster-jdbc",
    # Others
    "bank-1f0a91b4": "bank",
    "bank-1f0a91b4-3": "bank",
    "job-1732200000-0-5": "job",
    f"writer.{PROCESS}.4": "writer",
    "tx12": "tx",
    "12345": "12345",
    "-0-0": "-0-0",
    "a\nb-0-1": "a\nb",
}
"""Transactional id -> the name of its application."""
ONE_BY_ONE = pytest.mark.parametrize(("id_", "name"), NAMES.items(), ids=repr)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """Return the API of a collector that watches one Flink job with two sinks; its own pipeline is ip-count."""
    served = Api(tmp_path)
    job = "a" * 32
    watched = FlinkJob(cluster="eu", job=job, name="orders to lake", state="RUNNING", started_ms=1, changed_ms=1)
    served.current.observe([observed(50, watched)])
    listed = FlinkCommittables(
        cluster="eu", job=job, number=3, path="/chk-3", kind=FlinkKind.CHECKPOINT, written_ms=5, read_ms=6,
        prefixes=frozenset({"orders-2", "lake1"}),
    )  # fmt: skip
    served.current.flink.see_committables([listed])
    yield served
    served.store.close()


def open_all(api: Api, *ids: str) -> None:
    """Let transactions of these ids begin, each of a producer of its own."""
    api.current.observe([
        observed(60 + n, broker_record(BrokerStatus.ONGOING, 100, transaction=id_, producer_id=77 + n))
        for n, id_ in enumerate(ids)
    ])  # fmt: skip


def hang(api: Api, *ids: str) -> None:
    """Let these ids hold partitions open that no coordinator will end."""
    held = [hanging(partition=("sink", number), producer_id=900 + number) for number in range(len(ids))]
    named = [replace(one, doubt=replace(one.doubt, transaction=id_)) for one, id_ in zip(held, ids, strict=True)]
    api.findings = PartitionFindings(at_ms=T0, hanging=tuple(named))


def hold_back(api: Api, id_: str) -> None:
    """Let this id hold a partition back whose group waits."""
    found = partition_findings()
    held = tuple(
        replace(one, holder=replace(one.holder, transaction=id_)) if one.holder is not None else one
        for one in found.blocked
    )
    api.findings = replace(found, blocked=held)


def overview(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = api.client.get("/api/v1/overview", headers=VIEWER).json()
    return found


def parts(api: Api) -> list[dict[str, Any]]:
    return [part for one in overview(api)["incidents"] for part in one["parts"]]


def fired(api: Api, rule: str) -> list[dict[str, str]]:
    """Return the labels of what an alert rule finds."""
    limits = AlertSettings()
    snapshot = situation_at(api.current, [], limits, now_ms(), api.findings)
    return [dict(finding.labels) for finding in findings(snapshot) if finding.rule == rule]


def test_open_transactions(api: Api) -> None:
    open_all(api, *NAMES)
    for row in (found := [row for row in api.rows("transactions") if row["producer_id"] >= 77]):
        name = NAMES[row["transaction"]]
        assert (row["pipeline"], row["application"]["name"]) == (name, name)
    views = [view for judged in api.current.transactions.judged() if (view := judged.view).producer_id >= 77]
    assert len(found) == len(views) == len(NAMES)
    for view in views:
        # Of an application that nothing is known of, a metric has no label of its own.
        is_known = view.managed or view.application.kind is not ApplicationKind.OTHER
        label = PipelineLabels(most=10).of_transaction(view)
        assert label == (NAMES[view.transaction] if is_known else "foreign"), view.transaction


def test_hanging_transactions_and_their_alerts(api: Api) -> None:
    hang(api, *NAMES)
    rows = api.rows("hanging")
    assert {row["transaction"]: row["application"]["name"] for row in rows} == NAMES
    cards = [one for one in parts(api) if one["verdict"] == "hanging"]
    assert {key: one["pipeline"] for one in cards for key in one["keys"]} == {
        row["key"]: NAMES[row["transaction"]] for row in rows
    }
    assert sorted(labels["pipeline"] for labels in fired(api, "A3")) == sorted(NAMES.values())


def test_the_holder_of_a_partition(api: Api) -> None:
    open_all(api, *NAMES)
    opened = {row["transaction"]: row for row in api.rows("transactions") if row["producer_id"] >= 77}
    for id_ in NAMES:
        hold_back(api, id_)
        (row,) = api.rows("blocked")
        assert row["application"] == opened[id_]["application"], id_
        on_its_page = api.client.get("/api/v1/partitions/orders/3", headers=VIEWER).json()["readers"]
        assert on_its_page["application"] == row["application"], id_


def test_a_holder_without_an_id_goes_by_its_producer(api: Api) -> None:
    assert [row["application"]["name"] for row in api.rows("blocked")] == ["producer 7"]
    assert [row["application"] for row in api.rows("blocked?all=true&topic=quiet")] == [None]


@pytest.mark.parametrize(
    ("id_", "words"),
    [
        (f"word-count-app-{PROCESS}-1", f"Kafka Streams application word-count-app, process {PROCESS}, thread 1"),
        ("shop-app-0_11", "Kafka Streams application shop-app, task 0_11"),
        ("orders-2-3-0", f"Flink job {FLINK_NAME}, sink orders-2, subtask 3"),
        ("ip-count-0-1", "pipeline ip-count, slot 0"),
        ("connect-cluster-jdbc-2", "Kafka Connect connector connect-cluster-jdbc, task 2"),
        ("bank-1f0a91b4", None),
    ],
)
def test_the_evidence_says_which_part_of_an_application_wrote(api: Api, id_: str, words: str | None) -> None:
    hang(api, id_)
    open_all(api, id_)
    (opened,) = [row for row in api.rows("transactions") if row["producer_id"] == 77]
    answer = api.client.get(f"/api/v1/transactions/{quote(opened['key'], safe='')}", headers=VIEWER).json()
    for row in (opened, answer, *api.rows("hanging")):
        told = [fact["fact"] for fact in row["evidence"] if fact["source"] == "transactional id"]
        assert told == ([f"by its id: {words}"] if words else [])


@ONE_BY_ONE
def test_transactions_that_ended(api: Api, id_: str, name: str) -> None:
    began = now_ms() - T0 - 120_000
    api.current.observe([
        observed(60 + n, broker_record(status, began + at, transaction=id_, producer_id=77, start=began))
        for n, (status, at) in enumerate((
            (BrokerStatus.ONGOING, 0), (BrokerStatus.PREPARE_ABORT, 61_000), (BrokerStatus.COMPLETE_ABORT, 61_000),
        ))
    ])  # fmt: skip
    api.store.flushed()
    assert {row["pipeline"] for row in api.rows("aborts") if row["transaction"] == id_} == {name}
    assert {row["pipeline"] for row in api.rows(f"losses?pipeline={quote(name)}") if row["transaction"] == id_} == {
        name
    }
    assert [row["timed_out"] for row in api.rows(f"timeouts?pipeline={quote(name)}")] == [1]
    for minutes in (15, 60):
        series = api.client.get(f"/api/v1/series?minutes={minutes}&pipeline={quote(name)}", headers=VIEWER).json()
        assert [sum(filter(None, one["aborts"] + one["lost"])) for one in series["applications"]] == [1]
    assert [row["ids"] for row in api.rows("ids") if row["example"] == id_ and row["prefix"] == name] == [1]


def test_an_application_whose_ids_leak(api: Api) -> None:
    """Flink's sinks with new ids for each checkpoint, under two prefixes of one job."""
    began = now_ms() - T0 - 10 * HOUR_MS
    ids = [f"{prefix}-0-{number}" for number in range(500) for prefix in ("orders-2", "lake1")]
    api.current.observe(
        observed(1_000 + n, broker_record(BrokerStatus.EMPTY, began + n * HOUR_MS // 100, transaction=id_, start=None))
        for n, id_ in enumerate(ids)
    )
    assert {row["prefix"]: (row["ids"], row["leaks"]) for row in api.rows("ids")}[FLINK_NAME] == (1_000, True)
    assert [labels["pipeline"] for labels in fired(api, "A8")] == [FLINK_NAME]


def test_a_flink_checkpoint_leads_to_its_transactions_and_back(api: Api) -> None:
    held = [Committable(f"orders-2-{subtask}-3", 40 + subtask, 4) for subtask in range(3)]
    listed = FlinkCommittables(
        cluster="eu", job="a" * 32, number=7, path="/chk-7", kind=FlinkKind.CHECKPOINT, written_ms=T0 + 900, read_ms=T0 + 901,
        prefixes=frozenset({"orders-2"}), committables=tuple(held),
    )  # fmt: skip
    completed = FlinkCheckpoint(
        cluster="eu", job="a" * 32, job_name="orders to lake", number=7, status=FlinkStatus.COMPLETED,
        kind=FlinkKind.CHECKPOINT, triggered_ms=T0,
        ended_ms=T0 + 950, path="/chk-7",
    )  # fmt: skip
    records = [
        broker_record(BrokerStatus.ONGOING, 0, transaction=one.transaction, producer_id=one.producer_id, epoch=4)
        for one in (*held, Committable("orders-2-3-3", 43, 4))
    ]
    done = [
        broker_record(status, 1_000, transaction=held[0].transaction, producer_id=held[0].producer_id, epoch=5)
        for status in (BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
    ]
    api.current.observe([observed(60 + n, one) for n, one in enumerate([completed, *records, *done])])
    api.current.flink.see_committables([listed])
    (row,) = [row for row in api.rows("checkpoints") if row["number"] == 7]
    assert (row["pipeline"], row["transactions"]) == (FLINK_NAME, 3)
    of_it = f"transactions?checkpoint={row['number']}&pipeline={quote(row['pipeline'])}"
    assert {one["transaction"] for one in api.rows(f"{of_it}&all=true")} == {one.transaction for one in held}
    assert {one["transaction"] for one in api.rows(of_it)} == {one.transaction for one in held[1:]}, "one is settled"
    assert {one["checkpoint"] for one in api.rows(f"{of_it}&all=true")} == {7}
    others = {one["transaction"]: one["checkpoint"] for one in api.rows("transactions") if one["checkpoint"] != 7}
    assert others == {"ip-count-0-1": 41, "flink-orders-3": None, "orders-2-3-3": None}
    assert [one["transaction"] for one in api.rows("transactions?checkpoint=41")] == ["ip-count-0-1"], "a batch"


def test_two_thousand_open_ids_of_one_application_are_one_row_and_one_card(api: Api) -> None:
    opened = now_ms() - T0 - 40_000
    ids = [f"bank-{number:08x}-91b4-4a55-8f0e-0123456789ab-1" for number in range(2_000)]
    api.current.observe([
        observed(60 + n, broker_record(
            BrokerStatus.ONGOING, opened, transaction=id_, producer_id=100 + n, start=opened, timeout_ms=900_000
        ))
        for n, id_ in enumerate(ids)
    ])  # fmt: skip
    found = [row for row in api.rows("transaction-counts") if row["pipeline"] == "bank"]
    assert [(row["kind"], row["verdict"], row["transactions"]) for row in found] == [
        ("kafka streams", "foreign", 2_000)
    ]
    assert found[0]["oldest_opened_at_ms"] == T0 + opened
    (card,) = [one for one in parts(api) if one["pipeline"] == "bank"]
    assert (len(card["keys"]), card["keys_total"]) == (1_000, 2_000)
    (asked, *_) = [
        row["key"] for row in api.rows("transactions?pipeline=bank&limit=2000") if row["key"] not in card["keys"]
    ]
    (incident,) = api.rows(f"incidents?key={quote(asked)}")
    (about,) = incident["parts"]
    assert (about["key"], about["keys"][0], about["keys_total"]) == (card["key"], asked, 2_000)
    assert [row["open"] for row in api.rows("timeouts?pipeline=bank")] == [2_000]
    assert [row["ids"] for row in api.rows("ids") if row["prefix"] == "bank"] == [2_000]


IDS_OF_ALL_KINDS = st.builds(
    "{}{}".format,
    st.sampled_from(["orders-2", "lake1", "ip-count", "shop", "connect-cluster-a", "a\nb", "", "tx-7", "x-123456"]),
    st.lists(
        st.sampled_from(["-0", "-1", "-17", "_4", ".", "-", f"-{PROCESS}", f".{OTHER_PROCESS}", "-1f0a91b4", "-1732200000", "9"]),
        max_size=4,
    ).map("".join),
)  # fmt: skip


def test_what_counts_go_by_has_the_same_name_as_the_id(api: Api) -> None:
    @settings(max_examples=500, deadline=None)
    @given(IDS_OF_ALL_KINDS)
    def has_the_same_name(id_: str) -> None:
        assert application_names.name_of_id(state, form_of(id_)) == application_names.name_of_id(state, id_)
        assert form_of(form_of(id_)) == form_of(id_)

    with api.current.reading() as state:
        has_the_same_name()


def test_hanging_transactions_of_one_application_are_one_group(api: Api) -> None:
    hang(api, f"shop-{PROCESS}-1", f"shop-{OTHER_PROCESS}-1", "orders-2-0-17", "lake1-1-4", "")
    shown = [one for one in parts(api) if one["verdict"] == "hanging"]
    assert {one["pipeline"]: len(one["keys"]) for one in shown} == {"shop": 2, FLINK_NAME: 2, "producer 904": 1}
