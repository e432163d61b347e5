"""What history adds to the question "was data lost?": the transactions of one id and of those beside it, and who decided them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from indoubt.collector.facts import transaction_join
from indoubt.collector.facts.fold import put_transaction
from indoubt.collector.facts.state import State, holds_offsets
from indoubt.collector.facts.transaction_pages import end_sort_key
from indoubt.collector.history import transaction_sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.facts import BrokerTransaction, Init
from indoubt.collector.records.formats.flink_records import FlinkCommittables, FlinkJob, FlinkKind
from indoubt.collector.records.observations import (
    BranchProof,
    BrokerRecord,
    DecisionSeen,
    EventSeen,
    Observation,
    Observed,
    OperatorOrder,
    Position,
)
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.data_loss import LossVerdict
from indoubt.collector.verdicts.loss_cases import share
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits
from indoubt.collector.views import aborts_and_losses, past_of_identities, past_transactions
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.past_of_identities import MAX_RECORDS, past_of_id
from indoubt.lifecycle import decisions, events
from indoubt.lifecycle.decisions import Handle, Settled
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.rows.events import EARLIER_COUNTED
from tests.unit.collector.flink_observations import job
from tests.unit.collector.observations import (
    CHECKPOINT_ID,
    PREFIX,
    T0,
    batch_attempt,
    branch_gone,
    branch_listed,
    database_handle,
    decided,
    handle,
    outcome,
    run_started,
    transaction_event,
)
from tests.unit.collector.verdicts.case_tables import table
from tests.unit.collector.verdicts.loss_observations import taken, transaction
from tests.unit.collector.verdicts.test_loss_inputs import of_id

MINE = database_handle()
LISTED, COMMITTED, LOST, UNDONE = (database_handle(held_by, nonce=f"0000000{n}") for n, held_by in enumerate(
    ("mysql", "mysql", "postgres", "postgres")
))  # fmt: skip
FOREIGN = replace(MINE, transaction="'bank','7',1")
ORDERED = OperatorOrder(key=f"mysql:{FOREIGN.transaction}@mysql", action="abort", who="anna", at_ms=T0 + 3_000, audit=1)
SEEN: list[Observation] = [
    run_started(),
    *transaction(2, 11_000, 21_100, committed=True),
    *transaction(3, 21_500, 40_000),
    *transaction(3, 21_500, 40_000, subtask=1),
    taken(41_000),
    *of_id("writer"),
    *of_id(f"{PREFIX}-0-1", committed=True),
    decided(1, handle()),
    decided(2, COMMITTED, LOST, batch=42),
    outcome(3, COMMITTED, Settled.COMMITTED),
    *(branch_listed(one) for one in (LISTED, COMMITTED, LOST, UNDONE, FOREIGN)),
    branch_gone(COMMITTED, BranchProof.COMMITTED),
    branch_gone(LOST, BranchProof.TOMBSTONE),
    branch_gone(UNDONE, BranchProof.NO_MARKER),
    branch_gone(FOREIGN, None),
    transaction_event(EventType.TRANSACTION_PREPARED, 500, UNDONE, handle=UNDONE.to_json()),
]


def observed(number: int, one: Observation) -> Observed:
    raw = decisions.encode(one.record).decode() if isinstance(one, DecisionSeen) else ""
    if isinstance(one, EventSeen):
        raw = events.encode(one.event).decode()
    return Observed(position=Position(source="test", partition=0, offset=number), observation=one, raw=raw)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a history that holds what was seen."""
    path: Path = tmp_path_factory.mktemp("history") / "history.duckdb"
    with closing(Store(path)) as kept:
        current = CurrentState(kept, settled_kept=1_000, checkpoints_kept=100, limits=Limits())
        current.see_decision_log(DecisionLogStatus.READABLE)
        current.observe([observed(number, one) for number, one in enumerate(SEEN)])
        kept.flushed()
        yield kept


def past(store: Store, id_: str, prefixes: frozenset[str] = frozenset({PREFIX})) -> State:
    return past_of_id(id_, store.rows, prefixes, ("our_offsets",))


@table(
    "id_, found",
    [
        ("and those of its subtask", "sink-0-3", {"sink-0-2", "sink-0-3"}),
        ("of another subtask", "sink-1-3", {"sink-1-3"}),
        ("of another form", "writer", {"writer"}),
        ("managed", f"{PREFIX}-0-1", {f"{PREFIX}-0-1"}),
        ("unknown", "never-was", set()),
    ],
)
def test_history_returns_an_id_and_those_beside_it(store: Store, id_: str, found: set[str]) -> None:
    assert {identity.transaction for identity in past(store, id_).broker} == found


@pytest.mark.parametrize(("id_", "found"), [("sink-0-3", {"sink-0-3"}), ("sink-0", set())])
def test_an_id_alone_is_read_without_those_beside_it(store: Store, id_: str, found: set[str]) -> None:
    alone = past_of_id(id_, store.rows, frozenset(), (), alone=True)
    assert {identity.transaction for identity in alone.broker} == found


def test_history_returns_who_took_an_id(store: Store) -> None:
    assert past(store, "sink-0-3").inits == {"sink-0-3": (Init(at_ms=T0 + 41_000, producer_id=3, producer_epoch=6),)}
    assert past(store, "sink-1-3").inits == {}


@table(
    "id_, prefixes, is_decided",
    [
        ("managed", f"{PREFIX}-0-1", frozenset({PREFIX}), True),
        ("of no pipeline", f"{PREFIX}-0-1", frozenset({"sink"}), False),
        ("foreign", "sink-0-3", frozenset({PREFIX}), False),
        ("of another form", "writer", frozenset({PREFIX}), False),
    ],
)
def test_decisions_are_read_for_an_id_of_ours(
    store: Store, id_: str, prefixes: frozenset[str], is_decided: bool
) -> None:
    ledger = past(store, id_, prefixes).ledger
    assert (ledger.counting(batch_attempt()) is not None) is is_decided
    assert ledger.checkpoint_ids(PREFIX) == ((CHECKPOINT_ID,) if is_decided else ())


@pytest.mark.parametrize(
    ("id_", "reported"), [(UNDONE.transaction, [UNDONE.key]), (LISTED.transaction, []), ("writer", [])]
)
def test_events_are_read_for_a_branch_of_ours(store: Store, id_: str, reported: list[str]) -> None:
    assert [each.key for each in past(store, id_, frozenset()).reported.values()] == reported


def test_nothing_that_was_read_of_history_is_let_go(store: Store) -> None:
    found = past(store, "sink-0-3")
    assert found.ended.kept == MAX_RECORDS
    assert holds_offsets(found, ["our_offsets-0"])
    assert not holds_offsets(found, ["__consumer_offsets-0"])


@table(
    "branch, answer",
    [
        ("still listed", LISTED, []),
        ("committed", COMMITTED, [LossVerdict.NOT_LOST]),
        ("decided and rolled back", LOST, [LossVerdict.LOST]),
        ("never decided", UNDONE, [LossVerdict.HARMLESS]),
        ("foreign, aborted by order", FOREIGN, [LossVerdict.UNKNOWN]),
        ("unknown", replace(MINE, transaction="never-was"), []),
    ],
)
def test_branches_that_left_memory_are_judged_from_history(
    store: Store, branch: Handle, answer: list[LossVerdict]
) -> None:
    current = CurrentState(store, settled_kept=10, checkpoints_kept=10, limits=Limits())
    current.see_decision_log(DecisionLogStatus.READABLE)
    current.observe([observed(0, run_started())])
    current.executed(ORDERED)
    found, more = aborts_and_losses.losses_in_history(current, store, branch.transaction)
    assert ([loss.verdict for loss in found], more) == (answer, 0)
    assert all(loss.view.transaction == branch.transaction and loss.view.ended_ms for loss in found)


def test_a_past_is_given_what_only_memory_has(store: Store) -> None:
    found, state = past(store, "sink-0-3"), State()
    share(found, state)
    assert found.flink is state.flink
    assert found.checkpoints is state.checkpoints
    assert found.orders is state.orders
    assert found.offsets is state.offsets


def test_of_an_id_with_very_many_transactions_a_page_is_put_together_of_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aborts_and_losses, "AROUND_MS", 10)
    monkeypatch.setattr(aborts_and_losses, "CLOCKS_DIFFER_MS", 10)
    with closing(Store(tmp_path / "history.duckdb")) as kept:
        current = CurrentState(kept, settled_kept=0, checkpoints_kept=10, limits=Limits())
        begun = now_ms() - T0 - 1_000_000
        for number in range(150):
            records = transaction(3, begun + number * 1_000, begun + number * 1_000 + 500, committed=number % 2 == 0)
            current.observe([observed(number * 10 + at, one) for at, one in enumerate(records)])
        kept.flushed()
        whole, none = aborts_and_losses.losses_in_history(current, kept, "sink-0-3")
        assert (len(whole), none) == (150, 0)
        page, more = aborts_and_losses.losses_in_history(current, kept, "sink-0-3", most=20)
        assert (page, more) == (whole[:20], EARLIER_COUNTED)
        read: list[BrokerTransaction] = []

        def put(past: State, one: BrokerTransaction) -> None:
            read.append(one)
            put_transaction(past, one)

        monkeypatch.setattr(past_of_identities, "put_transaction", put)
        behind, left = aborts_and_losses.losses_in_history(
            current, kept, "sink-0-3", most=10, before=end_sort_key(page[-1].view)
        )
        assert (behind, left, len(read)) == (whole[20:30], EARLIER_COUNTED, 32)
        last, left = aborts_and_losses.losses_in_history(
            current, kept, "sink-0-3", most=60, before=end_sort_key(behind[-1].view)
        )
        assert (last, left) == (whole[30:90], 60)


LISTING = FlinkCommittables(
    cluster="eu", job="b" * 32, number=1, path="file:/c/chk-1", kind=FlinkKind.CHECKPOINT, written_ms=T0, read_ms=T0
)


@dataclass(frozen=True, kw_only=True)
class Used:
    """An id that is used each 20 s, and then each second."""

    id_: str = "sink-0-3"
    slow: int = 200
    fast: int
    jobs: tuple[FlinkJob, ...] = ()
    """What Flink's REST API tells."""
    listings: tuple[FlinkCommittables, ...] = ()
    """What its checkpoints on disk list."""
    reads: int = 1
    """How often it is read."""
    reads_others: bool = False
    """Whether the ids beside it are read, too."""
    without_end: tuple[int, ...] = (5,)
    """Those of which history has no end, counted from the newest: they take no place on the page."""
    early_ms: int = 0
    """So much before its place the tenth from the end began, by the clock of its coordinator."""
    margin_ms: int = 10
    """What is read before its page."""

    def records(self, first_ms: int) -> Iterator[list[BrokerRecord]]:
        """Yield those of each transaction. The first one alone, of all, holds the offsets of its input."""
        at = first_ms
        for number in range(self.slow + self.fast):
            at += 20_000 if number < self.slow else 1_000
            from_newest = self.slow + self.fast - number
            early_ms = self.early_ms if from_newest == 10 else 0
            records = transaction(3, at - early_ms, at + 500, committed=number % 4 > 0 or not number)
            partitions = ("__consumer_offsets-7",) if not number else ("sink-0",)
            yield [
                replace(one, transaction=self.id_, partitions=partitions)
                for one in records[: 1 if from_newest in self.without_end else None]
            ]


@table(
    "used",
    [
        ("often all along", Used(slow=0, fast=150)),
        ("often since a while", Used(fast=40)),
        ("of another form", Used(fast=40, id_="shop")),
        ("of another form, Flink watched", Used(fast=40, id_="shop", jobs=(job(),))),
        ("Flink watched", Used(fast=40, jobs=(job(),), reads_others=True)),
        ("Flink's checkpoints watched, and no REST API", Used(fast=40, listings=(LISTING,), reads_others=True)),
        ("too few behind the page", Used(slow=0, fast=100, reads_others=True)),
        ("often for a moment", Used(fast=10)),
        ("one began early", Used(fast=40, early_ms=14_800, margin_ms=5_000, reads=2)),
        ("history has no end of some", Used(fast=40, without_end=(5, 7, 8, 9), reads=3)),
    ],
)
def test_how_often_memory_saw_an_id_tells_where_its_newest_page_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: Used
) -> None:
    monkeypatch.setattr(aborts_and_losses, "AROUND_MS", used.margin_ms)
    monkeypatch.setattr(aborts_and_losses, "CLOCKS_DIFFER_MS", used.margin_ms)
    read = past_of_identities.past_of_id
    alone: list[bool] = []

    def noted(*asked_for: Any, **how: Any) -> State:
        alone.append(how["alone"])
        return read(*asked_for, **how)

    with closing(Store(tmp_path / "history.duckdb")) as kept:
        offsets = ("__consumer_offsets",)
        current = CurrentState(kept, settled_kept=12, checkpoints_kept=10, limits=Limits(), offsets_topics=offsets)
        current.observe([observed(9_999, one) for one in used.jobs])
        current.flink.see_committables(used.listings)
        for number, records in enumerate(used.records(now_ms() - T0 - 10_000_000)):
            current.observe([observed(number * 10 + at_record, one) for at_record, one in enumerate(records)])
        kept.flushed()
        whole, _ = aborts_and_losses.losses_in_history(current, kept, used.id_)
        assert len(whole) == used.slow + used.fast - len(used.without_end)
        monkeypatch.setattr(past_of_identities, "past_of_id", noted)
        found = aborts_and_losses.losses_in_history(current, kept, used.id_, most=20)
        assert found == (whole[:20], min(EARLIER_COUNTED, len(whole) - 20))
        assert alone == [not used.reads_others] * used.reads
        of_some_time = aborts_and_losses.losses_in_history(
            current, kept, used.id_, most=20, since_ms=whole[29].view.ended_ms or 0
        )
        assert of_some_time == (whole[:20], 10)


@pytest.mark.parametrize(("fast", "looks"), [(200, 1), (60, 2)], ids=["often", "often since a while"])
def test_how_often_memory_saw_an_id_tells_in_how_much_time_its_earlier_ones_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast: int, looks: int
) -> None:
    with closing(Store(tmp_path / "history.duckdb")) as kept:
        current = CurrentState(kept, settled_kept=12, checkpoints_kept=10, limits=Limits())
        for number, records in enumerate(Used(fast=fast).records(0)):
            current.observe([observed(number * 10 + at_record, one) for at_record, one in enumerate(records)])
        kept.flushed()
        with current.reading() as state:
            newest = transaction_join.at_coordinator(state, state.latest_of_id["sink-0-3"])
        asked: list[int] = []
        rows = kept.rows

        def noted(query: str, *values: Any, **times: int) -> list[tuple[Any, ...]]:
            if query == transaction_sql.OF_ID_BEFORE:
                asked.append(values[3])
            return rows(query, *values, **times)

        monkeypatch.setattr(kept, "rows", noted)
        found, more = past_transactions.earlier(current, kept, newest, before=None, most=20)
    starts = [view.opened_ms for view in found]
    assert starts == [(newest.opened_ms or 0) - 1_000 * number for number in range(1, 21)]
    assert more == EARLIER_COUNTED
    assert len(asked) == looks
    assert asked[0] > (newest.opened_ms or 0) - past_transactions.WINDOWS_MS[0]
