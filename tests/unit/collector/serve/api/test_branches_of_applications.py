"""A branch in a database belongs to the application that made its xid: by one name in every list, filter, alert and order."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from indoubt.collector.config.standing_orders import StandingOrder
from indoubt.collector.records.formats.flink_records import FlinkCommittables, FlinkJob, FlinkKind
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchListed
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.serve.api.application_metrics import PipelineLabels
from indoubt.collector.views import application_names
from indoubt.lifecycle.orders import Action
from indoubt.resource_managers.mysql.xa_xid import XaXid
from tests.unit.collector.observations import T0, branch_gone, branch_listed, broker_record, database_handle
from tests.unit.collector.serve.api.served_api import VIEWER, Api, observed

JOB, STRANGE_JOB = "a" * 32, "b" * 32
FLINK_NAME = "eu/orders to lake"
NARAYANA = "Narayana node-1"


def function(job: str, subtask: int = 0, number: int = 3, random: bytes = b"rand") -> XaXid:
    """Return an xid of Flink's JdbcXaSinkFunction."""
    gtrid = bytes.fromhex(job) + subtask.to_bytes(4, "little") + number.to_bytes(8, "little")
    return XaXid(format_id=201, gtrid=gtrid, bqual=random)


def jta(number: int, node: bytes = b"node-1") -> XaXid:
    """Return an xid of Narayana."""
    return XaXid(format_id=131077, gtrid=number.to_bytes(28, "big") + node, bqual=b"b")


def gid(xid: XaXid) -> str:
    """Return an xid as PostgreSQL's JDBC driver writes it."""
    return "_".join([str(xid.format_id), *(base64.b64encode(part).decode() for part in (xid.gtrid, xid.bqual))])


def listed(kind: str, xid: XaXid, at: int = 1_000, **changes: Any) -> BranchListed:
    name = gid(xid) if kind == "postgres" else str(xid)
    return branch_listed(replace(database_handle(kind), transaction=name), at, **changes)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """Return the API of a collector that knows one Flink job; its own pipeline is ip-count."""
    served = Api(tmp_path)
    watched = FlinkJob(cluster="eu", job=JOB, name="orders to lake", state="RUNNING", started_ms=1, changed_ms=1)
    served.current.observe([observed(50, watched)])
    yield served
    served.store.close()


def see(api: Api, *branches: BranchListed) -> None:
    api.current.observe([observed(100 + number, one) for number, one in enumerate(branches)])


def rows_of(api: Api, name: str, path: str = "transactions?limit=5000&") -> list[dict[str, Any]]:
    return api.rows(f"{path}pipeline={quote(name)}")


@pytest.mark.parametrize("kind", ["mysql", "postgres"])
@pytest.mark.parametrize(
    ("xid", "application", "name", "task", "label"),
    [
        (function(JOB, subtask=2), "flink", FLINK_NAME, "2", FLINK_NAME),
        (function(STRANGE_JOB), "other", f"Flink's JDBC sink job {STRANGE_JOB}", "", "foreign"),
        (jta(7), "other", NARAYANA, "", "foreign"),
    ],
    ids=["a job that is known", "another job", "Narayana"],
)
def test_a_branch_goes_by_its_application(
    api: Api, kind: str, xid: XaXid, application: str, name: str, task: str, label: str
) -> None:
    see(api, listed(kind, xid))
    (row,) = rows_of(api, name)
    assert row["application"] == {"kind": application, "name": name, "instance": "", "task": task}
    assert row["pipeline"] == name
    (view,) = [one.view for one in api.current.transactions.judged() if one.view.key == row["key"]]
    assert PipelineLabels(most=10).of_transaction(view) == label
    assert [one["kind"] for one in api.rows("transaction-counts") if one["pipeline"] == name] == [application]
    order = StandingOrder(name="o", act=Action.ABORT, applications=frozenset({name}), most_per_hour=1)
    assert order.covers(view.pipeline)
    with api.current.reading() as state:
        assert application_names.name_of_key(state, row["key"], {}) == name


def test_the_evidence_names_the_job_and_the_subtask(api: Api) -> None:
    see(api, listed("postgres", function(JOB, subtask=2)))
    (row,) = rows_of(api, FLINK_NAME)
    assert f"by its id: Flink job {FLINK_NAME}, subtask 2" in [fact["fact"] for fact in row["evidence"]]


def test_branches_and_transactions_in_kafka_of_one_job_stand_under_one_name(api: Api) -> None:
    see(api, listed("postgres", function(JOB)), listed("mysql", function(JOB, random=b"else")))
    api.current.observe([
        observed(60, broker_record(BrokerStatus.ONGOING, 100, transaction="orders-2-0-3", producer_id=9))
    ])  # fmt: skip
    names_the_prefix = FlinkCommittables(
        cluster="eu", job=JOB, number=3, path="/chk-3", kind=FlinkKind.CHECKPOINT, written_ms=5, read_ms=6,
        prefixes=frozenset({"orders-2"}),
    )  # fmt: skip
    api.current.flink.see_committables([names_the_prefix])
    assert {row["resource_manager"] for row in rows_of(api, FLINK_NAME)} == {"kafka", "mysql", "postgres"}
    assert {row["resource_manager"] for row in rows_of(api, FLINK_NAME, "transactions?all=true&")} == {
        "kafka", "mysql", "postgres",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("xids", "name", "kind"),
    [
        ([function(JOB, subtask=number % 8, number=number) for number in range(2_000)], FLINK_NAME, "flink"),
        ([jta(number) for number in range(2_000)], NARAYANA, "other"),
    ],
    ids=["Flink", "Narayana"],
)
def test_two_thousand_branches_of_one_application_are_one_row_and_one_card(
    api: Api, xids: list[XaXid], name: str, kind: str
) -> None:
    at = now_ms() - T0 - 3_600_000
    see(api, *(listed("postgres", xid, at, prepared_ms=T0 + at) for xid in xids))
    counted = [row for row in api.rows("transaction-counts") if row["pipeline"] == name]
    assert [(row["kind"], row["transactions"]) for row in counted] == [(kind, 2_000)]
    answer = api.client.get("/api/v1/overview", headers=VIEWER).json()
    (card,) = [part for one in answer["incidents"] for part in one["parts"] if part["pipeline"] == name]
    assert card["keys_total"] == 2_000


def test_a_search_of_history_finds_branches_by_their_application(api: Api) -> None:
    """History is asked by name, and an xid does not begin with the name of its application."""
    of_job, of_bank = listed("postgres", function(JOB)), listed("mysql", jta(1))
    see(api, of_job, of_bank, listed("postgres", function(STRANGE_JOB)))
    gone = [
        branch_gone(replace(database_handle(one.resource_manager), transaction=one.transaction), None)
        for one in (of_job, of_bank)
    ]
    api.current.observe([observed(200 + number, one) for number, one in enumerate(gone)])
    api.store.flushed()
    for name, branch in ((FLINK_NAME, of_job), (NARAYANA, of_bank)):
        answer = api.client.get(f"/api/v1/search?pipeline={quote(name)}", headers=VIEWER).json()
        assert [row["transaction"] for row in answer["rows"]] == [branch.transaction]


def test_an_orders_key_names_the_application_of_a_branch_that_memory_has_not(api: Api) -> None:
    with api.current.reading() as state:
        for key, name in (
            (f"postgres:{gid(function(JOB))}@bank", FLINK_NAME),
            (f"mysql:{function(JOB)}@10.0.0.1:3306", FLINK_NAME),
            (f"mysql:{jta(1)}@mysql", NARAYANA),
            ("postgres:bank-7@bank", ""),
            ("postgres:ip-count:41:0:0:0a1b2c3d", "ip-count"),
            ("postgres:other:41:0:0:0a1b2c3d", ""),
        ):
            assert application_names.name_of_key(state, key, {}) == name
