"""What a restore from a checkpoint would lose or write twice: given the job's transactions, then what becomes of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from indoubt.collector.records.formats.flink_metadata.sink_states import SinkKind
from indoubt.collector.records.formats.flink_records import Committable, FlinkCheckpoint, FlinkStatus, SinkCommits
from indoubt.collector.verdicts.flink_restores import End, RestoreOutcome, Written, outcomes
from tests.unit.collector.flink_observations import job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0
from tests.unit.collector.verdicts.case_tables import table
from tests.unit.collector.verdicts.flink_given import (
    COMPLETED_2,
    COMPLETED_3,
    COMPLETED_4,
    FAILED,
    FROM_2,
    JOB,
    flink_state,
    itself,
    listing,
)

IN_2, IN_3, IN_4 = Committable("orders-0-2", 5, 0), Committable("orders-0-3", 7, 0), Committable("orders-0-4", 8, 0)
LISTS = [
    listing(2, IN_2, written=20_100),
    listing(3, IN_3, written=30_100),
    listing(4, IN_4, written=40_100),
]
TOLD = [FAILED, COMPLETED_2, COMPLETED_3, COMPLETED_4, *LISTS]


def written(listed: Committable | None, start: int, end: End, deadline: int | None = None) -> Written:
    key = listed.transaction if listed is not None else "unlisted"
    at = T0 + deadline if deadline is not None else None
    return Written(key=key, listed=listed, start_ms=T0 + start, end=end, deadline_ms=at)


def told(outcome: RestoreOutcome) -> str:
    """Return what becomes of which transactions, or ``nothing``."""
    said = (f"{kind.value}: {', '.join(keys)}" for kind, keys in sorted(outcome.keys.items(), key=lambda k: k[0].name))
    return "; ".join(said) or "nothing"


def of(number: int, given: Sequence[Any], *transactions: Written, is_all: bool = True) -> RestoreOutcome:
    found = outcomes(flink_state(given), CLUSTER, JOB, transactions, is_all=is_all)
    return next(each for each in found if each.checkpoint.number == number)


O2, O3, O4 = (
    written(IN_2, 12_000, End.COMMITTED),
    written(IN_3, 22_000, End.COMMITTED),
    written(IN_4, 32_000, End.OPEN),
)
ONE_TRANSACTION = [
    ("listed and committed", 3, written(IN_3, 22_000, End.COMMITTED), "nothing"),
    ("listed and open", 3, written(IN_3, 22_000, End.OPEN), "committed by the restore: orders-0-3"),
    ("listed, only its job commits it", 3, replace(written(IN_3, 22_000, End.OPEN), is_left_to_job=True), "nothing"),
    (
        "the same of a later one",
        3,
        replace(written(IN_4, 32_000, End.OPEN), is_left_to_job=True),
        "rolled back: orders-0-4",
    ),
    ("listed and timed out", 3, written(IN_3, 22_000, End.UNDONE), "lost: orders-0-3"),
    ("listed, its end unseen", 3, written(IN_3, 22_000, End.UNSEEN), "unknown: orders-0-3"),
    ("committed by an earlier one", 3, written(IN_2, 12_000, End.COMMITTED), "nothing"),
    ("lost with an earlier one", 3, written(IN_2, 12_000, End.UNDONE), "nothing"),
    ("committed by a later one", 3, written(IN_4, 32_000, End.COMMITTED), "twice: orders-0-4"),
    ("of a later one, open", 3, written(IN_4, 32_000, End.OPEN), "rolled back: orders-0-4"),
    ("of a later one, undone", 3, written(IN_4, 32_000, End.UNDONE), "nothing"),
    ("of a later one, its end unseen", 3, written(IN_4, 32_000, End.UNSEEN), "unknown: orders-0-4"),
    ("in no list, begun behind it", 4, written(None, 41_000, End.OPEN), "rolled back: unlisted"),
    ("in no list, begun while it was written", 4, written(None, 40_050, End.COMMITTED), "twice: unlisted"),
    ("in no list, begun before it", 4, written(None, 38_999, End.COMMITTED), "nothing"),
    ("its coordinator's clock is an hour ahead", 3, written(IN_2, 3_600_000, End.COMMITTED), "nothing"),
    ("its coordinator's clock is behind", 3, written(IN_4, 2_000, End.COMMITTED), "twice: orders-0-4"),
    ("in no list, begun as it was written", 4, written(None, 40_100, End.COMMITTED), "twice: unlisted"),
    ("in no list, begun as it was triggered", 4, written(None, 39_000, End.COMMITTED), "twice: unlisted"),
    ("in no list, begun behind it and undone", 4, written(None, 41_000, End.UNDONE), "nothing"),
]


@table("number, transaction, becomes", ONE_TRANSACTION)
def test_what_becomes_of_a_transaction(number: int, transaction: Written, becomes: str) -> None:
    found = of(number, TOLD, transaction)
    assert told(found) == becomes
    assert found.doubts == ()


def test_the_newest_is_first_and_what_is_deleted_is_no_choice() -> None:
    given = [*TOLD, replace(LISTS[0], is_gone=True)]
    found = outcomes(flink_state(given), CLUSTER, JOB, [O2, O3, O4], is_all=True)
    assert [(each.checkpoint.number, told(each)) for each in found] == [
        (4, "committed by the restore: orders-0-4"),
        (3, "rolled back: orders-0-4"),
    ]


def test_what_an_earlier_list_has_was_written_before_whatever_a_later_one_repeats() -> None:
    again = replace(LISTS[2], committables=frozenset({IN_2, IN_4}))
    assert told(of(3, [*TOLD, again], written(IN_2, 12_000, End.COMMITTED))) == "nothing"


def test_of_two_that_were_written_at_once_neither_has_the_other_ones_transactions() -> None:
    at_once = [FAILED, COMPLETED_3, COMPLETED_4, LISTS[1], replace(LISTS[2], written_ms=LISTS[1].written_ms)]
    assert told(of(3, at_once, written(IN_4, 22_000, End.COMMITTED))) == "twice: orders-0-4"


def test_the_order_is_that_of_the_times_since_numbers_are_taken_again() -> None:
    given = [*TOLD, listing(3, IN_3, written=60_000, path="file:///checkpoints/again/chk-3")]
    found = outcomes(flink_state(given), CLUSTER, JOB, [], is_all=True)
    assert [each.checkpoint.written_ms - T0 for each in found] == [60_000, 40_100, 30_100, 20_100]


def test_the_first_timeout_of_what_the_restore_commits_is_told() -> None:
    both = replace(LISTS[2], committables=frozenset({IN_3, IN_4}))
    transactions = [written(IN_3, 22_000, End.OPEN, 82_000), written(IN_4, 32_000, End.OPEN, 62_000)]
    assert of(4, [*TOLD, both], *transactions).deadline_ms == T0 + 62_000
    behind = written(None, 41_000, End.OPEN, 50_000)
    assert of(4, [*TOLD, both], *transactions, behind).deadline_ms == T0 + 62_000, "a restore rolls that one back"
    assert of(4, TOLD, O4).deadline_ms is None, "it never times out"
    either = [written(IN_3, 22_000, End.OPEN), written(IN_4, 32_000, End.OPEN, 62_000)]
    assert of(4, [*TOLD, both], *either).deadline_ms == T0 + 62_000


WITHOUT_REST: list[tuple[str, list[Any], Written, str]] = [
    ("behind the list before", LISTS, written(None, 30_200, End.COMMITTED), "twice: unlisted"),
    ("before the list before", LISTS, written(None, 29_000, End.COMMITTED), "nothing"),
    ("the list before was not read", LISTS[2:], written(None, 29_000, End.COMMITTED), "unknown: unlisted"),
    ("it began behind this one", LISTS[2:], written(None, 40_100, End.COMMITTED), "twice: unlisted"),
    (
        "the list before was written again later",
        [*LISTS[::2], listing(3, IN_3, written=60_000)],
        written(None, 29_000, End.COMMITTED),
        "unknown: unlisted",
    ),
    (
        "the list before stands twice",
        [*LISTS, listing(3, IN_3, written=9_000, path="file:///checkpoints/b/chk-3")],
        written(None, 29_000, End.COMMITTED),
        "nothing",
    ),
    ("as the list before was written", LISTS, written(None, 30_100, End.COMMITTED), "twice: unlisted"),
    (
        "the list before was written at once",
        [LISTS[2], replace(LISTS[1], written_ms=LISTS[2].written_ms)],
        written(None, 29_000, End.COMMITTED),
        "unknown: unlisted",
    ),
    ("a list further back was read", [LISTS[0], LISTS[2]], written(None, 29_000, End.COMMITTED), "unknown: unlisted"),
]


WITHOUT_THE_LIST_BEFORE = [
    ("REST told when it was triggered", COMPLETED_4, "nothing"),
    ("REST told that it failed", replace(COMPLETED_4, status=FlinkStatus.FAILED), "unknown: unlisted"),
]


@table("told_of_4, becomes", WITHOUT_THE_LIST_BEFORE)
def test_without_the_list_before_rest_tells(told_of_4: FlinkCheckpoint, becomes: str) -> None:
    assert told(of(4, [FAILED, told_of_4, LISTS[2]], written(None, 29_000, End.COMMITTED))) == becomes


@table("lists, transaction, becomes", WITHOUT_REST)
def test_without_rest_the_list_before_tells(lists: list[Any], transaction: Written, becomes: str) -> None:
    found = of(4, lists, transaction)
    assert told(found) == becomes
    assert "REST API does not know the job" in found.doubts[0]


NOT_COMPLETED = [FAILED, COMPLETED_2, COMPLETED_3, *LISTS]
DOUBTS = [
    ("a list in part", [*TOLD, replace(LISTS[2], error="byte 17: damaged")], True, ["not read whole: byte 17: damaged"]),
    ("a sink of an unknown kind", [*TOLD, replace(LISTS[2], sinks=(SinkCommits("lake", SinkKind.UNKNOWN.value, 12),))],
     True, ["announces 12 commits of sink lake, whose kind is not known here"]),
    ("that announces nothing", [*TOLD, replace(LISTS[2], sinks=(SinkCommits("lake", SinkKind.UNKNOWN.value, 0),))], True, []),
    ("a sink whose kind is known", [*TOLD, replace(LISTS[2], sinks=(SinkCommits("orders", SinkKind.KAFKA.value, 2),))],
     True, []),
    ("too many", TOLD, False, ["more transactions behind it"]),
    ("set back since", [*TOLD, itself(2)], True, ["was set back to checkpoint 2"]),
    ("set back as it was written", [*TOLD, itself(2, at=40_100)], True, ["was set back to checkpoint 2"]),
    ("set back before it was written", [*TOLD, itself(2, at=33_000)], True, []),
    ("another job went on", [*TOLD, FROM_2], True, ["was restored from checkpoint 2", "is not counted"]),
    ("not known to be completed", NOT_COMPLETED, True, ["nothing shows that it was completed"]),
    ("restored from it since", [*NOT_COMPLETED, itself(4)], True, []),
    ("the job runs", [*TOLD, job()], True, []),
    ("several clusters", [*TOLD, job(cluster="us")], True, ["have a job of the same id"]),
]  # fmt: skip


@table("given, is_all, doubts", DOUBTS)
def test_what_makes_it_doubtful(given: list[Any], is_all: bool, doubts: list[str]) -> None:
    found = of(4, given, O4, is_all=is_all)
    assert told(found) == "committed by the restore: orders-0-4"
    assert bool(found.doubts) is bool(doubts)
    for doubt in doubts:
        assert doubt in " ".join(found.doubts)
