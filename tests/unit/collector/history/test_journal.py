"""Two histories that follow one journal; the journal is a list here, histories are real files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from indoubt.collector.history import sql
from indoubt.collector.history.journal import HistoriesDiffer, JournalledWrites, JournalUnanswered, NotLeading
from indoubt.collector.history.store import Store

TABLES = ("audit", "order_intents", "order_results", "order_answers", "silences", "notifications")


class ListedJournal:
    """A journal in memory. ``dies``: the collector ends behind its next entry."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.leads, self.dies = True, False

    def require_lead(self) -> None:
        if not self.leads:
            raise NotLeading("another one leads")

    def append(self, entries: Sequence[bytes]) -> list[int]:
        self.require_lead()
        self.entries += entries
        if self.dies:
            raise JournalUnanswered("it died")
        return list(range(len(self.entries) - len(entries) + 1, len(self.entries) + 1))


@pytest.fixture
def journal() -> ListedJournal:
    return ListedJournal()


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    pair = Store(tmp_path / "a" / "history.duckdb"), Store(tmp_path / "b" / "history.duckdb")
    yield pair
    for store in pair:
        store.close()


def follow(store: Store, journal: ListedJournal) -> JournalledWrites:
    writes = store.write_by(journal)
    writes.follow("journal")
    return writes


def read(writes: JournalledWrites, journal: ListedJournal) -> None:
    for end, entry in enumerate(journal.entries, 1):
        writes.carry_out(entry, end)


def audit(store: Store, reason: str) -> int:
    return store.append_audit((1, "anna", "commit", "[]", reason, "accepted", "", "[]"))


def reasons(store: Store) -> list[str]:
    return [row[5] for row in store.rows("select * from audit order by audit")]


def test_both_have_the_same_and_each_entry_once(stores: tuple[Store, Store], journal: ListedJournal) -> None:
    first, second = (follow(store, journal) for store in stores)
    first.begin()
    assert [audit(stores[0], reason) for reason in ("one", "two")] == [1, 2]
    for _ in range(2):
        read(second, journal)
        read(first, journal)
    assert reasons(stores[0]) == reasons(stores[1]) == ["one", "two"]
    # The other one leads now: it counts on.
    assert audit(stores[1], "three") == 3
    read(first, journal)
    assert reasons(stores[0]) == ["one", "two", "three"]
    first.check()


def test_who_does_not_lead_writes_nothing(stores: tuple[Store, Store], journal: ListedJournal) -> None:
    follow(stores[0], journal)
    journal.leads = False
    with pytest.raises(NotLeading):
        audit(stores[0], "refused")
    assert (reasons(stores[0]), journal.entries) == ([], [])


def test_what_the_journal_has_and_history_has_not_is_carried_out_at_the_next_start(
    stores: tuple[Store, Store], journal: ListedJournal
) -> None:
    writes = follow(stores[0], journal)
    journal.dies = True
    with pytest.raises(JournalUnanswered):
        audit(stores[0], "cut short")
    assert reasons(stores[0]) == []
    journal.dies = False
    read(writes, journal)
    assert reasons(stores[0]) == ["cut short"]
    assert audit(stores[0], "next") == 2


def test_a_history_that_was_alone_begins_the_journal_and_an_empty_one_gets_all_of_it(
    stores: tuple[Store, Store], journal: ListedJournal
) -> None:
    audit(stores[0], "alone")
    stores[0].write(lambda connection: connection.execute(sql.ADD_ORDER_ANSWER, ["anna", "key", "d", 1, 200, "{}"]))
    stores[0].transact([("insert into alerts values (?, ?, ?, ?, ?, ?)", ["A1:x", "firing", 1, 1, None, "{}"])])
    first, second = (follow(store, journal) for store in stores)
    first.begin()
    read(second, journal)
    for table in (*TABLES, "alerts"):
        assert stores[0].rows(f"from {table}") == stores[1].rows(f"from {table}"), table
    assert reasons(stores[1]) == ["alone"]
    first.check()
    second.check()


def test_a_history_with_an_audit_of_its_own_is_refused(stores: tuple[Store, Store], journal: ListedJournal) -> None:
    audit(stores[1], "of its own")
    first, second = (follow(store, journal) for store in stores)
    first.begin()
    audit(stores[0], "another")
    with pytest.raises(HistoriesDiffer, match="row 1 of audit is another one here"):
        read(second, journal)


def test_a_history_that_went_on_alone_is_refused(stores: tuple[Store, Store], journal: ListedJournal) -> None:
    first = follow(stores[0], journal)
    first.begin()
    audit(stores[0], "journalled")
    stores[0]._write_here(lambda connection: connection.execute("update audit set audit = 5"), keep=True)
    with pytest.raises(HistoriesDiffer, match="up to 5 and the journal of both collectors up to 1"):
        first.check()


def test_a_rebuilt_history_whose_audit_is_the_journals_goes_on(
    stores: tuple[Store, Store], journal: ListedJournal
) -> None:
    follow(stores[0], journal).begin()
    audit(stores[0], "one")
    rows = stores[0].rows("from audit")
    stores[1]._write_here(lambda connection: connection.execute(sql.ADD_AUDIT, list(rows[0])), keep=True)
    second = follow(stores[1], journal)
    read(second, journal)
    second.check()
    assert stores[1].rows("from audit") == rows


def test_a_statement_that_this_version_does_not_know_is_not_carried_out(
    stores: tuple[Store, Store], journal: ListedJournal
) -> None:
    writes = follow(stores[0], journal)
    with pytest.raises(ValueError, match="which this version does not know"):
        writes.carry_out(b'[["drop everything", []]]', 1)
    with pytest.raises(ValueError, match="the journal has no name"):
        stores[0].keep([("delete from audit", [])])
