"""One application has one name, whatever its ids look like; what only looks like Flink's is not called Flink's."""

from __future__ import annotations

import pytest

from indoubt.collector.facts.applications import application_of, application_of_branch
from indoubt.collector.records.application_ids import name_by_id
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.formats.flink_records import FlinkCommittables, FlinkJob, FlinkKind
from indoubt.lifecycle.application import Application, ApplicationKind
from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.identity import TransactionalId

PROCESS = "6c7e1f0a-91b4-4a55-8f0e-0123456789ab"
DIGITS_ALONE = "11111111-2222-3333-4444-555555555555"
PIPELINE, FLINK, STREAMS = ApplicationKind.PIPELINE, ApplicationKind.FLINK, ApplicationKind.STREAMS
CONNECT, OTHER = ApplicationKind.CONNECT, ApplicationKind.OTHER


def watched_flink() -> FlinkState:
    """Return what is known of one job that REST reports and of one that only a checkpoint's directory tells of."""
    state = FlinkState()
    state.see_job(
        FlinkJob(cluster="eu", job="a" * 32, name="orders to lake", state="RUNNING", started_ms=1, changed_ms=1)
    )
    for job, prefix in (("a" * 32, "orders-2"), ("b" * 32, "clicks")):
        listed = FlinkCommittables(
            cluster="eu", job=job, number=3, path=f"/{job}/chk-3", kind=FlinkKind.CHECKPOINT, written_ms=5, read_ms=6,
            prefixes=frozenset({prefix}),
        )  # fmt: skip
        state.see_committables(listed)
    return state


@pytest.mark.parametrize(
    ("id_", "kind", "name", "instance", "task"),
    [
        # Flink: a checkpoint names the prefix. Both naming strategies build the same form.
        ("orders-2-0-17", FLINK, "eu/orders to lake", "orders-2", "0"),
        ("orders-2-3-0", FLINK, "eu/orders to lake", "orders-2", "3"),
        ("clicks-1-5", FLINK, f"eu/{'b' * 32}", "clicks", "1"),
        # The form alone is no evidence.
        ("ip-count-0-9", OTHER, "ip-count", "", ""),
        ("orders-0-17", OTHER, "orders", "", ""),
        ("orders-2-0", OTHER, "orders", "", ""),
        # Kafka Streams, exactly_once_v2, with and without the thread
        (f"word-count-app-{PROCESS}-1", STREAMS, "word-count-app", PROCESS, "1"),
        (f"word-count-app-{PROCESS}-12", STREAMS, "word-count-app", PROCESS, "12"),
        (f"word-count-app-{PROCESS}", STREAMS, "word-count-app", PROCESS, ""),
        (f"shop-2-{DIGITS_ALONE}-1", STREAMS, "shop-2", DIGITS_ALONE, "1"),
        (f"orders-2-{PROCESS}-1", STREAMS, "orders-2", PROCESS, "1"),
        # Kafka Streams, the former exactly_once
        ("shop-app-0_11", STREAMS, "shop-app", "", "0_11"),
        ("shop-2-10_3", STREAMS, "shop-2", "", "10_3"),
        # Connect: a source task, and the workers' own producer
        ("connect-cluster-jdbc-2", CONNECT, "connect-cluster-jdbc", "", "2"),
        ("connect-cluster-eu", OTHER, "connect-cluster-eu", "", ""),
        # Pods of a deployment of Kubernetes, and ULIDs
        ("orders-7d9f8b6c5-x2x9k-0", OTHER, "orders", "", ""),
        ("orders-7d9f8b6c5-p4qzl-0", OTHER, "orders", "", ""),
        ("orders-svc-5f7d8c9b4d-bcdfg-tx-3", OTHER, "orders-svc-tx", "", ""),
        ("payments-01HZXK5Y3N8Q7W2M4R6T9V0BCD-0", OTHER, "payments", "", ""),
        ("crypt-rhythm-0", OTHER, "crypt-rhythm", "", ""),
        # Others, with odd characters
        ("tx-0", OTHER, "tx", "", ""),
        ("tx12", OTHER, "tx", "", ""),
        (PROCESS, OTHER, PROCESS, "", ""),
        (f"writer.{PROCESS}.4", OTHER, "writer", "", ""),
        ("bank-1f0a91b4", OTHER, "bank", "", ""),
        ("bank-1f0a91b4-3", OTHER, "bank", "", ""),
        ("bank-feedface", OTHER, "bank-feedface", "", ""),
        ("12345", OTHER, "12345", "", ""),
        ("заказы-7", OTHER, "заказы", "", ""),
        ("a\nb-0-1", OTHER, "a\nb", "", ""),
        ("line\n-0_1", STREAMS, "line\n", "", "0_1"),
        ("<b>-1", OTHER, "<b>", "", ""),
        (" ", OTHER, " ", "", ""),
        ("-0-0", OTHER, "-0-0", "", ""),
        ("", OTHER, "", "", ""),
    ],
)
def test_the_application_of_an_id(id_: str, kind: ApplicationKind, name: str, instance: str, task: str) -> None:
    found = application_of(id_, None, watched_flink(), frozenset({"wc"}))
    assert found == Application(kind=kind, name=name, instance=instance, task=task)


def test_an_id_of_ours_goes_by_its_prefix_even_where_flink_has_it_too() -> None:
    parsed = TransactionalId.parse("orders-2-3-0")
    found = application_of("orders-2-3-0", parsed, watched_flink(), frozenset({"orders-2"}))
    assert found == Application(kind=PIPELINE, name="orders-2", task="3")


@pytest.mark.parametrize(
    ("id_", "name"),
    [
        ("wc-0-17", "wc (other)"),
        (f"wc-{PROCESS}-1", "wc (kafka streams)"),
        ("wc-7-0_1", "wc-7"),
    ],
)
def test_no_other_application_gets_the_name_of_a_pipeline(id_: str, name: str) -> None:
    assert application_of(id_, None, watched_flink(), frozenset({"wc"})).name == name


def test_two_thousand_ids_of_one_application_have_one_name() -> None:
    flink, own = watched_flink(), frozenset({"wc"})
    ids = [f"shop-{number:08x}-91b4-4a55-8f0e-0123456789ab-1" for number in range(2_000)]
    assert {application_of(id_, None, flink, own).name for id_ in ids} == {"shop"}
    assert {application_of(f"orders-2-{n % 8}-{n}", None, flink, own).name for n in range(2_000)} == {
        "eu/orders to lake"
    }


JOB, ON_DISK, FROM_CHECKPOINT, NOT_KNOWN = "a" * 32, "b" * 32, "c" * 32, "d" * 32


def of_branch(name: str, resource_manager: str = "mysql") -> Application:
    """Return the application of a foreign branch, where the pipeline wc ran."""
    flink = watched_flink()
    flink.see_job(
        FlinkJob(
            cluster="eu", job="e" * 32, name="clicks", state="RUNNING", started_ms=9, changed_ms=9,
            restored_ms=9, restored_number=3, restored_path=f"s3://c/{FROM_CHECKPOINT}/chk-3",
        )
    )  # fmt: skip
    for state in (flink, flink.copy()):
        found = application_of_branch(resource_manager, name, None, state, frozenset({"wc", "Narayana wc"}))
    return found


def flink_xid(job: str, subtask: int = 3) -> str:
    return f"X'{job}{subtask.to_bytes(4, 'little').hex()}{bytes(8).hex()}',X'00000000',201"


def jta(node: str) -> str:
    return f"X'{bytes(28).hex()}{node.encode().hex()}',X'00',131077"


@pytest.mark.parametrize(
    ("name", "kind", "expected", "task"),
    [
        # The job's name as REST has it, as the job has it that goes on from it, or its id where only its checkpoints are read.
        (flink_xid(JOB), FLINK, "eu/orders to lake", "3"),
        (flink_xid(FROM_CHECKPOINT), FLINK, "eu/clicks", "3"),
        (flink_xid(ON_DISK), FLINK, f"eu/{ON_DISK}", "3"),
        (flink_xid(NOT_KNOWN), OTHER, f"Flink's JDBC sink job {NOT_KNOWN}", ""),
        (jta("node-1"), OTHER, "Narayana node-1", ""),
        (jta(""), OTHER, "Narayana", ""),
        ("'10.27.69.168.tm150959391749109556','1',1096044365", OTHER, "Atomikos 10.27.69.168.tm", ""),
        ("'10.0.0.1:8091:2612345678','-2612345679',9752", OTHER, "Seata 10.0.0.1:8091", ""),
        ("'shop-0-1','',1", OTHER, "'shop-0-1','',1", ""),
        # No other application gets the name of a pipeline.
        ("wc", OTHER, "wc (other)", ""),
        (jta("wc"), OTHER, "Narayana wc (other)", ""),
    ],
)
def test_a_foreign_branch_goes_by_what_made_its_xid(name: str, kind: ApplicationKind, expected: str, task: str) -> None:
    assert of_branch(name) == Application(kind=kind, name=expected, task=task)


def test_a_name_is_read_as_its_database_lists_it() -> None:
    assert of_branch(flink_xid(JOB), "postgres").name == flink_xid(JOB)
    assert of_branch("shop-0-1", "postgres").name == "shop-0-1"


def test_a_branch_of_ours_goes_by_its_prefix() -> None:
    branch = BranchId.parse("wc:7:12:3:0a1b2c3d")
    assert branch is not None
    found = application_of_branch("mysql", str(branch), branch, watched_flink(), frozenset({"wc"}))
    assert found == Application(kind=PIPELINE, name="wc", task="3")


def test_two_thousand_branches_of_one_application_have_one_name() -> None:
    assert {of_branch(flink_xid(JOB, number % 8)).name for number in range(2_000)} == {"eu/orders to lake"}
    ids = [f"'10.27.69.168.tm1509593917{number:08d}','1',1096044365" for number in range(2_000)]
    assert {of_branch(id_).name for id_ in ids} == {"Atomikos 10.27.69.168.tm"}


@pytest.mark.parametrize("part", ["1", "1-", "12345678-", "a1b2c3d4.", "-", "0-0-", "1_1-"])
def test_an_id_that_is_all_numbers_is_named_at_once(part: str) -> None:
    """With a way back inside the numbers this would take longer than the universe has."""
    assert name_by_id(part * (32_000 // len(part)) + "x")
    assert name_by_id("x" + part * (32_000 // len(part)))


@pytest.mark.parametrize(
    ("id_", "name"),
    [
        ("orders-eu-0-17", "orders-eu"),
        ("job-2-0-17", "job-2"),
        ("job-1732200000-0-5", "job"),
        (f"shop-app-{PROCESS}-12-3", "shop-app"),
        ("sink-connector-7", "sink-connector"),
        ("a--1", "a"),
    ],
)
def test_the_name_that_an_id_alone_gives(id_: str, name: str) -> None:
    assert name_by_id(id_) == name
