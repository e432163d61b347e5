"""What is said beside a verdict: which part of which application wrote it, what a branch locks and who waits behind it."""

from __future__ import annotations

import pytest

from indoubt.collector.facts.transaction_join import views
from indoubt.collector.records.branches import BranchDetail
from indoubt.collector.verdicts.told_evidence import listed, part_of_application
from indoubt.lifecycle.application import Application, ApplicationKind
from indoubt.resource_managers.database.session import BranchLocks, HeldLock, WaitingSession
from tests.unit.collector.observations import T0, branch_listed, database_handle, folded

K = ApplicationKind


@pytest.mark.parametrize(
    ("kind", "instance", "task", "said"),
    [
        (K.PIPELINE, "", "2", "pipeline shop, slot 2"),
        (K.PIPELINE, "", "", None),
        (K.FLINK, "orders", "2", "Flink job shop, sink orders, subtask 2"),
        (K.FLINK, "orders", "", "Flink job shop, sink orders"),
        (K.FLINK, "", "2", "Flink job shop, subtask 2"),
        (K.FLINK, "", "", None),
        (K.STREAMS, "0a1b", "2", "Kafka Streams application shop, process 0a1b, thread 2"),
        (K.STREAMS, "0a1b", "", "Kafka Streams application shop, process 0a1b"),
        (K.STREAMS, "", "0_2", "Kafka Streams application shop, task 0_2"),
        (K.CONNECT, "", "2", "Kafka Connect connector shop, task 2"),
        (K.CONNECT, "", "", None),
        (K.OTHER, "", "2", None),
    ],
)
def test_the_part_of_an_application_that_an_id_names_is_told(
    kind: ApplicationKind, instance: str, task: str, said: str | None
) -> None:
    found = part_of_application(Application(kind=kind, name="shop", instance=instance, task=task))
    assert [one.fact for one in found] == ([] if said is None else [f"by its id: {said}"])


def session(process: int, **fields: str) -> WaitingSession:
    told = {"user": "", "application": "", "relation": "", "mode": "", **fields}
    return WaitingSession(process=process, since_ms=T0 + process, **told)


def facts(**locks: tuple[HeldLock, ...] | tuple[WaitingSession, ...]) -> list[str]:
    (view,) = views(folded(branch_listed(database_handle("postgres"))), settled=True)
    assert view.branch is not None
    detail = BranchDetail(locks=BranchLocks(**locks))  # type: ignore[arg-type]
    return [one.fact for one in listed(view.branch, detail, T0)][1:]


@pytest.mark.parametrize(
    ("relations", "said"),
    [
        ("a", "a (x)"),
        ("abc", "a (x), b (x), c (x)"),
        ("abcd", "a (x), b (x), c (x) and 1 more"),
        ("abcde", "a (x), b (x), c (x) and 2 more"),
    ],
)
def test_three_of_the_locked_relations_are_named_and_the_others_counted(relations: str, said: str) -> None:
    locks = tuple(HeldLock(relation=name, mode="x") for name in relations)
    assert facts(held=locks) == [f"it holds locks on {said}"]


def test_who_waits_behind_a_branch_is_named() -> None:
    one, other = session(7, user="anna", application="shop", relation="orders"), session(8, user="ben")
    assert facts(waiting=(one,)) == ["1 session waits behind it: process 7 (anna, shop) for orders"]
    assert facts(waiting=(one, other)) == [
        "2 sessions wait behind it: process 7 (anna, shop) for orders, process 8 (ben) for a row"
    ]
