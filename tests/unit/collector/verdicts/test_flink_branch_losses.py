"""Branches of Flink's JDBC sinks that an order ended: was data lost, or is it written twice?"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indoubt.collector.history.store import Store
from indoubt.collector.records.observations import Observation, OperatorOrder
from indoubt.collector.verdicts.data_loss import LossVerdict
from indoubt.lifecycle.verdicts import Certainty
from tests.unit.collector.flink_observations import checkpoint
from tests.unit.collector.observations import T0, branch_gone, branch_listed, database_handle, folded
from tests.unit.collector.verdicts.case_tables import table
from tests.unit.collector.verdicts.flink_given import FAILED, FROM_2, FROM_3, STARTED_ANEW, THIRD, heir, itself
from tests.unit.collector.verdicts.loss_observations import (
    CERTAIN,
    GUESS,
    HARMLESS,
    LIKELY,
    LOST,
    NOT_LOST,
    TWICE,
    UNKNOWN,
    check,
    folded_with_lists,
    judged,
)
from tests.unit.collector.verdicts.test_flink_branches import BANK, FUNCTION, LISTS, PREPARED
from tests.unit.collector.verdicts.watched_losses import Watched

ENDED = 50_000


def ended(action: str, xid: Any = FUNCTION) -> list[Observation]:
    """Return that a branch was prepared, and that an order ended it; no action: that it left its database."""
    of = replace(database_handle("mysql"), transaction=str(xid))
    listed = branch_listed(of, at=PREPARED)
    key = next(iter(folded(listed).branches))
    ordered = OperatorOrder(key=key, action=action, who="anna", at_ms=T0 + ENDED - 100, audit=1)
    return [listed, *([ordered] if action else []), branch_gone(of, None, at=ENDED)]


BACK_TO_IT = heir(3, 70_000, id_=THIRD)
COMPLETED = [FAILED, checkpoint(3), LISTS]
CASES = [
    # name, what was ordered, what was seen of Flink, whether data was lost, how sure that is, what tells it
    ("rolled back, its checkpoint completed", "abort", COMPLETED, LOST, CERTAIN, "checkpoint 3 of eu/orders lists it, and counts"),
    ("rolled back, restored from it", "abort", [FAILED, FROM_3, LISTS], LOST, LIKELY, "restored from checkpoint 3"),
    ("rolled back, set back", "abort", [*COMPLETED, FROM_2], HARMLESS, LIKELY, "its rows are written again"),
    ("rolled back, set back itself", "abort", [itself(2), *COMPLETED[1:]], HARMLESS, CERTAIN, "set back to checkpoint 2"),
    ("rolled back, its end not seen", "abort", [LISTS], UNKNOWN, GUESS, "anna ordered it"),
    ("rolled back, a job of its name since", "abort", [*COMPLETED, STARTED_ANEW], UNKNOWN, GUESS, "is not known"),
    ("rolled back, no list", "abort", [FAILED, checkpoint(3)], UNKNOWN, GUESS, "no checkpoint that was read lists it"),
    ("committed", "commit", COMPLETED, NOT_LOST, CERTAIN, "readers see its records"),
    ("committed, restored from it", "commit", [*COMPLETED, FROM_3], NOT_LOST, CERTAIN, "readers see its records"),
    ("committed, set back", "commit", [*COMPLETED, FROM_2], TWICE, LIKELY, "set back to checkpoint 2"),
    ("committed, set back itself", "commit", [itself(2), *COMPLETED[1:]], TWICE, CERTAIN, "set back to checkpoint 2"),
    ("committed, set back, then restored from it", "commit", [*COMPLETED, FROM_2, BACK_TO_IT], TWICE, LIKELY, "checkpoint 2"),
    ("committed, no list", "commit", [FAILED, checkpoint(3), FROM_2], NOT_LOST, CERTAIN, "readers see its records"),
]  # fmt: skip


@table("action, seen, verdict, certainty, says", CASES)
def test_case(action: str, seen: list[Any], verdict: LossVerdict, certainty: Certainty, says: str) -> None:
    (loss,) = judged(folded_with_lists([*ended(action), *seen])).values()
    check(loss, verdict, certainty, says)


def test_a_branch_that_is_seen_gone_before_its_order_is_noted_was_ended_by_it() -> None:
    listed, ordered, gone = ended("abort")
    assert isinstance(ordered, OperatorOrder)
    for late, is_ended in ((5_000, True), (30_000, False)):
        noted = replace(ordered, at_ms=T0 + ENDED + late)
        assert bool(judged(folded(listed, noted, gone, FAILED, checkpoint(3)))) is is_ended


def test_of_a_branch_that_left_by_itself_nothing_is_claimed() -> None:
    assert judged(folded(*ended(""), FAILED, checkpoint(3))) == {}


def test_a_branch_of_another_program_is_not_flinks() -> None:
    (loss,) = judged(folded(*ended("abort", BANK), FAILED, checkpoint(3))).values()
    check(loss, UNKNOWN, GUESS, "only its owner knows")


@pytest.mark.parametrize(("action", "seen", "rule"), [("abort", [], "A7"), ("commit", [FROM_2], "A12")])
def test_both_are_listed_and_raise_alerts(tmp_path: Path, action: str, seen: list[Any], rule: str) -> None:
    with closing(Store(tmp_path / "history.duckdb")) as store:
        watched = Watched(store)
        watched.see(*ended(action), FAILED, checkpoint(3), *seen, LISTS)
        (listed,) = watched.losses()
        assert listed.verdict is (LOST if action == "abort" else TWICE)
        assert [(each.rule, each.subject) for each in watched.findings(90_000)] == [(rule, listed.view.key)]
