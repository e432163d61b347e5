"""Which open transaction on a partition hangs, and that it takes two polls with the coordinator's answer between them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.verdicts.hanging_transactions import (
    CoordinatorView,
    Doubt,
    Remedy,
    Suspect,
    doubt,
    followed,
    key_of,
)
from indoubt.lifecycle.verdicts import Verdict
from indoubt.resource_managers.kafka.partitions import OpenProducer
from tests.unit.collector.observations import T0
from tests.unit.collector.partition_sightings import PARTITION, at_coordinator, ended, hanging, producer, told
from tests.unit.collector.verdicts.case_tables import table

OVERDUE = T0 + 60_000 + 60_000
"""A minute past its timeout."""
EXPLAINED = (None, None, None)
ENDED_ONE = at_coordinator("Empty", 2, partitions=(), transaction="other")


ELSEWHERE = (("orders", 4),)
LATE = OVERDUE + 1
RULES = [
    # name; what the coordinator says of the producer; when; the rule, whether an abort is offered, whether it may lose rows
    ("open with this partition", told(at_coordinator()), T0, *EXPLAINED),
    ("its commit is accepted, markers are on their way", told(at_coordinator("PrepareCommit", 3)), T0, *EXPLAINED),
    ("its abort is accepted", told(at_coordinator("PrepareAbort", 3)), T0, *EXPLAINED),
    ("prepared: no timeout", told(at_coordinator("PrepareCommit", 3)), LATE, *EXPLAINED),
    ("a later one holds this partition, too", told(at_coordinator("Ongoing", 9)), T0, *EXPLAINED),
    # An absence may be a lack of permission, so it takes a typed confirmation.
    ("nobody has the producer id", told(), T0, 1, True, True),
    ("its id has another producer id now", told(moved=("billing",)), T0, 2, True, True),
    ("so it has, and another id has this one", told(at_coordinator(), moved=("old-billing",)), T0, *EXPLAINED),
    # How this one ended it does not know any more.
    ("no open transaction", told(at_coordinator("Empty", 3, partitions=())), T0, 3, True, True),
    ("committed the last one", told(at_coordinator("CompleteCommit", 4, partitions=())), T0, 3, True, True),
    ("at the same epoch: it may start over here", told(at_coordinator("CompleteCommit", 2, partitions=())), T0, 3, True, True),
    # Below transaction.version 2 that may be the end of the next one, since init moves the epoch, too.
    ("aborted, one epoch on", told(at_coordinator("CompleteAbort", 3, partitions=())), T0, 3, True, True),
    ("committed, one epoch on", told(at_coordinator("CompleteCommit", 3, partitions=())), T0, 3, True, True),
    ("open elsewhere, at a higher epoch", told(at_coordinator("Ongoing", 3, partitions=ELSEWHERE)), T0, 4, True, True),
    ("at the same epoch: a marker could tear it", told(at_coordinator("Ongoing", 2, partitions=ELSEWHERE)), T0, 4, False, True),
    ("of two ids, one has it open", told(ENDED_ONE, at_coordinator("Ongoing", 3, partitions=ELSEWHERE)), T0, 4, True, True),
    ("of two ids, one holds the partition", told(at_coordinator("Ongoing", 3, partitions=ELSEWHERE), at_coordinator("Ongoing", 3)),
        T0, *EXPLAINED),
    # Open at the coordinator for longer than it ever lets one be.
    ("open for as long as it may be", told(at_coordinator()), OVERDUE, *EXPLAINED),
    ("open for longer", told(at_coordinator()), LATE, 5, True, True),
    ("open for longer, of two ids", told(ENDED_ONE, at_coordinator()), LATE, 5, True, True),
    ("its start is not known", told(at_coordinator(started_at_ms=None)), LATE, *EXPLAINED),
    ("its timeout is not known", told(at_coordinator(timeout_ms=None)), LATE, *EXPLAINED),
    ("it has no timeout", told(at_coordinator(timeout_ms=0)), LATE, *EXPLAINED),
    ("late here, and elsewhere, too", told(at_coordinator(start=1), at_coordinator(partitions=ELSEWHERE)), LATE, *EXPLAINED),
    # It is proven how this very transaction ended; committed, only a commit marker may end it.
    ("proven: aborted", told(at_coordinator("CompleteAbort", 3, partitions=()), end=ended(commit=False)), T0, 6, True, False),
    ("proven: committed", told(at_coordinator("CompleteCommit", 3, partitions=()), end=ended(commit=True)), T0, 6, False, False),
    ("proven, whatever its producer did since", told(end=ended(commit=True)), T0, 6, False, False),
    ("proven, its id moved on", told(moved=("billing",), end=ended(commit=False)), T0, 6, True, False),
    ("proven, a later one is open", told(at_coordinator("Ongoing", 3), end=ended(commit=True)), T0, 6, False, False),
    ("this very one may be under way", told(at_coordinator("PrepareCommit", 3), end=ended(commit=True)), T0, *EXPLAINED),
    ("this very one may be open", told(at_coordinator("Ongoing", 2), end=ended(commit=True)), T0, *EXPLAINED),
    ("so it may be, of two ids", told(ENDED_ONE, at_coordinator("Ongoing", 2), end=ended(commit=True)), T0, *EXPLAINED),
]  # fmt: skip


@table("view, at_ms, rule, may_abort, loses_data", RULES)
def test_rules(
    view: CoordinatorView, at_ms: int, rule: int | None, may_abort: bool | None, loses_data: bool | None
) -> None:
    found = doubt(producer(), view, at_ms)
    assert (found.rule if found else None) == rule
    assert (found.may_abort if found else None) == may_abort
    assert (found.loses_data if found else None) == loses_data
    if found is not None:
        remedies = {5: Remedy.ORDINARY, 6: Remedy.MARKER if may_abort else Remedy.COMMIT_MARKER}
        assert found.remedy is remedies.get(rule or 0, Remedy.MARKER)
        assert found.may_commit is (rule == 6 and not may_abort)


@pytest.mark.parametrize(("state", "says_so"), [("CompleteCommit", True), ("CompleteAbort", False), ("Empty", False)])
def test_what_an_abort_may_lose_is_said_where_the_last_one_was_committed(state: str, says_so: bool) -> None:
    found = doubt(producer(), told(at_coordinator(state, 2, partitions=())), T0)
    assert found is not None
    assert ("an abort loses them" in found.evidence.fact) is says_so


DOUBT = hanging().doubt


def step(
    before: dict[str, Suspect],
    at: int,
    *seen: OpenProducer,
    doubted: Doubt | None = DOUBT,
    **changes: Any,
) -> dict[str, Suspect]:
    """One look at ``at`` ms, answered by the coordinator 10 ms later."""
    doubts = changes.get("doubts", {key_of(one): doubted for one in seen})
    polled = changes.get("polled", [PARTITION])
    return followed(before, polled, seen, doubts, polled_ms=T0 + at, answered_ms=T0 + at + 10, confirm_ms=2_000)


def found_ms(suspects: dict[str, Suspect]) -> list[int | None]:
    return [suspect.found_ms - T0 if suspect.found_ms is not None else None for suspect in suspects.values()]


def test_it_is_proven_by_a_poll_long_enough_after_the_first_answer() -> None:
    first = step({}, 0, producer())
    early = step(first, 2_000, producer())
    proven = step(early, 2_010, producer())
    later = step(proven, 9_000, producer())
    assert [found_ms(s) for s in (first, early, proven, later)] == [[None], [None], [2_010], [2_010]]
    (suspect,) = later.values()
    assert suspect.since_ms == T0 + 10
    assert suspect.judgement.verdict is Verdict.HANGING
    assert suspect.key == "hanging:orders-3:7:2:100"
    assert [fact.source for fact in suspect.judgement.rests_on] == [
        "partition leader",
        "transaction coordinator",
        "partition leader",
    ]


def test_a_transaction_that_ended_between_two_polls_is_not_hanging() -> None:
    assert step(step({}, 0, producer()), 3_000) == {}


def test_a_new_transaction_of_the_same_producer_begins_its_own_time() -> None:
    assert found_ms(step(step({}, 0, producer()), 3_000, producer(start_offset=140))) == [None]


def test_what_the_coordinator_explains_later_is_dropped() -> None:
    explained = step(step({}, 0, producer()), 1_000, producer(), doubted=None)
    assert explained == {}
    assert found_ms(step(explained, 3_000, producer())) == [None]


def test_without_the_coordinator_nothing_is_proven_or_forgotten() -> None:
    first = step({}, 0, producer())
    assert step(first, 5_000, producer(), doubts={}) == first
    assert step({}, 5_000, producer(), doubts={}) == {}


def test_while_the_partitions_leader_is_down_nothing_is_forgotten() -> None:
    first = step({}, 0, producer())
    assert step(first, 5_000, polled=[]) == first


def test_the_revision_changes_with_what_it_rests_on() -> None:
    base = hanging()
    other_rule = Suspect(producer=base.producer, doubt=_h6(), since_ms=base.since_ms, found_ms=base.found_ms)
    same_later = Suspect(producer=base.producer, doubt=base.doubt, since_ms=base.since_ms, found_ms=T0 + 9_000)
    assert base.revision == same_later.revision
    assert len({base.revision, other_rule.revision, hanging(start_offset=101).revision}) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"rule": 2},
        {"transaction": "billing"},
        {"remedy": Remedy.ORDINARY},
        {"may_abort": False},
        {"assumes": ()},
    ],
    ids=str,
)
def test_an_order_for_another_doubt_has_another_revision(changes: dict[str, Any]) -> None:
    base = hanging()
    assert len(base.revision) == 16
    assert replace(base, doubt=replace(DOUBT, **changes)).revision != base.revision


def test_its_revision_has_the_transactional_id_that_no_order_repeats() -> None:
    harmless = replace(hanging(), doubt=replace(DOUBT, assumes=()))
    named = replace(harmless, doubt=replace(harmless.doubt, transaction="billing"))
    assert harmless.confirmation == named.confirmation == ""
    assert harmless.revision != named.revision


def test_a_later_look_replaces_what_is_known() -> None:
    first = step({}, 0, producer())
    (later,) = step(first, 1_000, producer(last_timestamp_ms=T0 + 900), doubted=_h6()).values()
    assert (later.producer.last_timestamp_ms, later.doubt, later.since_ms) == (T0 + 900, _h6(), T0 + 10)


def test_its_times_move_with_the_clock_that_gave_them() -> None:
    proven = hanging().shifted(500)
    assert (proven.since_ms, proven.found_ms) == (T0 + 1_500, T0 + 3_600)
    doubted = replace(hanging(), found_ms=None).shifted(500)
    assert (doubted.since_ms, doubted.found_ms) == (T0 + 1_500, None)


@pytest.mark.parametrize("commit", [True, False])
def test_the_verdict_offers_the_marker_of_its_doubt(commit: bool) -> None:
    found = doubt(producer(), told(end=ended(commit=commit)), T0)
    assert found is not None
    assert found.transaction == "billing"
    judgement = Suspect(producer=producer(), doubt=found, since_ms=T0).judgement
    assert (judgement.rule, judgement.may_commit, judgement.may_abort) == (6, commit, not commit)
    assert not judgement.loses_data
    assert len(judgement.evidence) == 2, "it is not proven yet"
    assert hanging().judgement.loses_data


def test_a_transactional_id_that_went_on_is_repeated() -> None:
    for view in (told(moved=("billing",)), told(at_coordinator("Empty", 3, partitions=()))):
        found = doubt(producer(), view, T0)
        assert found is not None
        assert Suspect(producer=producer(), doubt=found, since_ms=T0).confirmation == "billing"


@pytest.mark.parametrize(
    ("suspect", "confirmation"),
    [(hanging(), "orders-3"), (Suspect(producer=producer(), doubt=DOUBT, since_ms=0), "orders-3")],
)
def test_without_a_transactional_id_the_partition_is_repeated(suspect: Suspect, confirmation: str) -> None:
    assert suspect.confirmation == confirmation


def test_what_loses_nothing_takes_no_confirmation() -> None:
    assert Suspect(producer=producer(), doubt=_h6(), since_ms=0).confirmation == ""


def _h6() -> Doubt:
    found = doubt(producer(), told(end=ended(commit=False)), T0)
    assert found is not None
    return found
