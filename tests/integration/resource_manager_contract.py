"""What every resource manager promises, as tests: what ``resource_managers/protocol.py`` says, judged from outside.

A new one inherits ``ResourceManagerContract`` and gives it a ``SinkUnderTest``; what is its own it tests beside that.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from uuid import uuid4

import pyarrow as pa
import pytest

from indoubt.lifecycle.errors import DecisionMissing, ResourceManagerError, ZombieWriter
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.lifecycle.identity import Fingerprint, Handle, Marker
from indoubt.lifecycle.outcomes import AlreadyCommitted, CommitOutcome, Committed, Lost, RetryLater, RolledBack, Unknown
from indoubt.resource_managers.fingerprint import RunningFingerprint
from indoubt.resource_managers.protocol import OpenTransaction, ResourceManager, SlotAttempt
from tests.integration.kafka_fixtures import wait_until

LIMIT_S = 30.0


class SinkUnderTest(ABC):
    """A sink (a topic, a table) and a prefix that no other test uses, on a server that runs.

    What reads it (``visible``, ``prepared``) has none of the code under test in its way: the driver alone, another client.
    """

    takes_every_column = False
    """True where rows of any columns can be written: files have no schema of their own."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.checkpoint_id = uuid4().hex

    @abstractmethod
    def manager(self) -> ResourceManager:
        """Return a new manager that writes into the sink; it shares nothing with those that were returned before."""

    @abstractmethod
    def manager_without_a_server(self) -> ResourceManager:
        """Return a manager whose address nobody listens at."""

    @abstractmethod
    def managers_by_other_ways(self) -> Sequence[ResourceManager]:
        """Return managers of this very sink, reached or spelled in other ways (localhost, a name with its schema); may be none."""

    @abstractmethod
    def manager_of_another_sink(self) -> ResourceManager:
        """Return a manager of another sink of the same server."""

    @abstractmethod
    def rows(self, *words: str) -> pa.RecordBatch:
        """Return a row for each word. No test has a word in two transactions at once: the one may wait for the other."""

    @abstractmethod
    def visible(self) -> list[str]:
        """Return the words that a reader of committed rows sees, sorted; a word that is there twice, twice."""

    @abstractmethod
    def prepared(self) -> list[str]:
        """Return the names of this prefix's transactions that are open with their marker in them, sorted."""

    def marker(self, batch: int = 0, attempt: int = 1) -> Marker:
        """Return the marker of a batch and attempt of this checkpoint id."""
        return Marker(batch=batch, attempt=attempt, checkpoint_id=self.checkpoint_id)

    def of_another_pipeline(self, prefix: str) -> SinkUnderTest:
        """Return the same sink as another pipeline writes into it: under another prefix and checkpoint id."""
        other = copy.copy(self)
        other.prefix, other.checkpoint_id = prefix, uuid4().hex
        return other

    def begin(
        self, *words: str, batch: int = 0, attempt: int = 1, slot: int = 0, decided: Collection[int] = ()
    ) -> OpenTransaction:
        """Begin a transaction and write these words into it."""
        marker = self.marker(batch, attempt)
        transaction = self.manager().begin(
            SlotAttempt(prefix=self.prefix, slot=slot, marker=marker, decided=frozenset(decided))
        )
        if words:
            transaction.write(self.rows(*words))
        return transaction

    def fingerprint(self, *words: str) -> Fingerprint:
        """Return the fingerprint of the rows of these words."""
        running = RunningFingerprint()
        running.add_batch(self.rows(*words))
        return running.value

    def prepare(self, *words: str, batch: int = 0, attempt: int = 1, slot: int = 0) -> Handle:
        """Begin, write, prepare."""
        transaction = self.begin(*words, batch=batch, attempt=attempt, slot=slot)
        return transaction.prepare(self.fingerprint(*words))

    def commit(self, handle: Handle, *, batch: int = 0, attempt: int = 1) -> CommitOutcome:
        """Return the outcome of one commit, by a manager of its own."""
        return self.manager().commit([handle], [self.marker(batch, attempt)], LIMIT_S)[0]

    def roll_back(self, *handles: Handle) -> None:
        """Roll back what is open; expect that it was."""
        assert self.manager().rollback(handles, LIMIT_S) == [RolledBack(handle=handle) for handle in handles]

    def expect(self, *words: str) -> None:
        """Wait until as many words are visible; expect them to be these."""
        wait_until(f"{len(words)} visible rows", lambda: len(self.visible()) >= len(words))
        assert self.visible() == sorted(words)


class ResourceManagerContract:
    """The tests. A subclass named ``Test...`` has a fixture ``sink`` that returns or yields its SinkUnderTest."""

    def test_prepared_rows_are_invisible_until_another_manager_commits_them(self, sink: SinkUnderTest) -> None:
        handle = sink.prepare("a", "b")
        assert sink.visible() == []
        assert sink.prepared() == [handle.transaction]
        assert sink.commit(Handle.from_json(json.loads(json.dumps(handle.to_json())))) == Committed(handle=handle)
        sink.expect("a", "b")
        wait_until("nothing is prepared", lambda: sink.prepared() == [])

    def test_the_handle_says_what_it_holds(self, sink: SinkUnderTest) -> None:
        transaction = sink.begin("a", "b", slot=3)
        provisional = transaction.provisional_handle
        assert provisional.fingerprint == ""
        handle = transaction.prepare(sink.fingerprint("a", "b"))
        assert provisional.key == handle.key, "events name it before it is prepared"
        assert (handle.resource_manager, handle.slot, handle.rows) == (sink.manager().name, 3, 2)
        assert handle.fingerprint == str(sink.fingerprint("a", "b"))
        assert handle.bytes > 0
        assert handle.opened_at_ms <= handle.prepared_at_ms

    def test_commit_again_is_committed_and_doubles_nothing(self, sink: SinkUnderTest) -> None:
        handle = sink.prepare("a")
        assert sink.commit(handle) == Committed(handle=handle)
        assert isinstance(sink.commit(handle), Committed | AlreadyCommitted)
        sink.expect("a")

    def test_commit_after_a_later_batch_committed_is_already_committed(self, sink: SinkUnderTest) -> None:
        first = sink.prepare("a")
        sink.commit(first)
        for batch in (1, 2):
            sink.commit(sink.prepare(f"b{batch}", batch=batch), batch=batch)
        assert sink.commit(first) == AlreadyCommitted(handle=first)
        sink.expect("a", "b1", "b2")

    def test_commit_after_a_rollback_is_lost_and_stays_so(self, sink: SinkUnderTest) -> None:
        handle = sink.prepare("a")
        sink.roll_back(handle)
        assert isinstance(sink.commit(handle), Lost)
        assert isinstance(sink.commit(handle), Lost), "asked again, it is lost still"
        assert sink.visible() == []
        assert sink.prepared() == []

    def test_commit_of_a_fenced_handle_without_any_newer_commit_is_lost(self, sink: SinkUnderTest) -> None:
        handle = sink.prepare("a", attempt=1)
        sink.roll_back(sink.prepare("b", attempt=2))
        assert isinstance(sink.commit(handle, attempt=1), Lost)

    @pytest.mark.parametrize("batch", [4, 5], ids=["the same batch", "the next batch"])
    def test_a_stale_handle_does_not_commit_what_a_newer_attempt_has_open(
        self, sink: SinkUnderTest, batch: int
    ) -> None:
        handle = sink.prepare("a", batch=4, attempt=1)
        newer = sink.prepare("b", batch=batch, attempt=2)
        assert isinstance(sink.commit(handle, batch=4, attempt=1), Lost)
        assert sink.manager().check([newer])[0].reason == ""
        assert sink.commit(newer, batch=batch, attempt=2) == Committed(handle=newer)
        sink.expect("b")

    def test_a_name_that_is_not_ours_is_unknown_never_lost(self, sink: SinkUnderTest) -> None:
        handle = sink.prepare("a")
        assert isinstance(sink.commit(dataclasses.replace(handle, transaction="somebody's own")), Unknown)
        sink.roll_back(handle)

    def test_each_handle_gets_its_own_answer_in_order(self, sink: SinkUnderTest) -> None:
        committed, open_, lost = (sink.prepare(f"w{slot}", slot=slot) for slot in range(3))
        sink.commit(committed)
        sink.commit(sink.prepare("later", batch=2), batch=2)
        sink.roll_back(lost)
        given = [lost, open_, committed]
        readiness = sink.manager().check(given)
        assert [(answer.handle, answer.ready) for answer in readiness] == [
            (handle, handle is open_) for handle in given
        ]
        answers = sink.manager().commit(given, [sink.marker()] * 3, LIMIT_S)
        assert [type(answer) for answer in answers] == [Lost, Committed, AlreadyCommitted]
        assert [answer.handle for answer in answers] == given
        sink.expect("w0", "w1", "later")

    def test_rollback_of_a_committed_one_is_already_committed(self, sink: SinkUnderTest) -> None:
        handle = sink.prepare("a")
        sink.commit(handle)
        assert sink.manager().rollback([handle], LIMIT_S) == [AlreadyCommitted(handle=handle)]
        sink.expect("a")

    def test_rollback_never_hits_a_later_transaction_of_the_same_slot(self, sink: SinkUnderTest) -> None:
        old = sink.prepare("a", batch=0)
        sink.commit(old, batch=0)
        new = sink.prepare("b", batch=2)
        sink.manager().rollback([old], LIMIT_S)
        assert sink.commit(new, batch=2) == Committed(handle=new)
        sink.expect("a", "b")

    def test_check_says_whether_a_commit_would_succeed(self, sink: SinkUnderTest) -> None:
        open_, ended, committed = (sink.prepare(f"w{slot}", slot=slot) for slot in range(3))
        sink.roll_back(ended)
        sink.commit(committed)
        ready, *gone = sink.manager().check([open_, ended, committed])
        assert (ready.ready, ready.reason) == (True, "")
        assert not open_.timeout_ms or 0 < ready.time_left_ms <= open_.timeout_ms
        assert [answer.ready for answer in gone] == [False, False]
        assert all(answer.reason for answer in gone)

    def test_recover_returns_this_prefix_only(self, sink: SinkUnderTest) -> None:
        mine = sink.prepare("a")
        suffixes = (".more", "_count", "-0", "2")
        others = [sink.of_another_pipeline(sink.prefix + suffix) for suffix in suffixes]
        left = [other.prepare(f"word{other.prefix}") for other in others]
        manager = sink.manager()
        recovered, listed = manager.recover(sink.prefix), manager.list_transactions()
        sink.roll_back(mine, *left)
        assert [(view.resource_manager, view.key) for view in recovered] == [(manager.name, mine.key)]
        assert {handle.key for handle in (mine, *left)} <= {view.key for view in listed}
        assert manager.recover(sink.prefix) == []

    def test_fence_ends_what_recover_found_and_again_is_no_error(self, sink: SinkUnderTest) -> None:
        handle = sink.prepare("a")
        views = sink.manager().recover(sink.prefix)
        assert sink.manager().fence(views, LIMIT_S) == [""]
        assert (sink.prepared(), sink.manager().recover(sink.prefix)) == ([], [])
        assert sink.manager().fence(views, LIMIT_S) == [""], "gone is gone"
        assert isinstance(sink.commit(handle), Lost)
        assert sink.visible() == []

    def test_fence_never_hits_a_later_transaction_of_the_same_slot(self, sink: SinkUnderTest) -> None:
        sink.prepare("a", attempt=1)
        views = sink.manager().recover(sink.prefix)
        newer = sink.prepare("b", attempt=2)
        sink.manager().fence(views, 2.0)
        assert sink.commit(newer, attempt=2) == Committed(handle=newer)
        sink.expect("b")

    def test_nothing_to_do_is_no_error_and_needs_no_server(self, sink: SinkUnderTest) -> None:
        nowhere = sink.manager_without_a_server()
        assert (nowhere.commit([], [], 1), nowhere.rollback([], 1), nowhere.fence([], 1)) == ([], [], [])
        assert nowhere.check([]) == []

    def test_without_a_server_each_is_to_be_tried_again_when_the_limit_has_passed(self, sink: SinkUnderTest) -> None:
        handle = sink.prepare("a")
        views = sink.manager().recover(sink.prefix)
        # No question comes before these: a first connection is what fails.
        nowhere, limit_s = sink.manager_without_a_server(), 2.0
        for ask in (
            lambda: nowhere.commit([handle], [sink.marker()], limit_s),
            lambda: nowhere.rollback([handle], limit_s),
            lambda: nowhere.fence(views, limit_s),
        ):
            asked_s = time.monotonic()
            (answer,) = ask()
            assert time.monotonic() - asked_s < limit_s + 3.0
            if isinstance(answer, str):
                assert handle.transaction in answer
            else:
                assert isinstance(answer, RetryLater)
                assert answer.handle == handle
                assert answer.reason
        assert sink.commit(handle) == Committed(handle=handle)

    def test_an_empty_slot_is_prepared_and_committed_too(self, sink: SinkUnderTest) -> None:
        handle = sink.prepare()
        assert (handle.rows, handle.bytes) == (0, 0)
        assert sink.manager().check([handle])[0].ready
        assert sink.prepared() == [handle.transaction]
        assert sink.commit(handle) == Committed(handle=handle)
        with pytest.raises(ZombieWriter):
            sink.begin()

    def test_flushed_is_called_when_the_marker_is_not_there_yet(self, sink: SinkUnderTest) -> None:
        transaction = sink.begin("a")
        called: list[list[str]] = []
        handle = transaction.prepare(sink.fingerprint("a"), flushed=lambda: called.append(sink.prepared()))
        assert called == [[]], "once, before anything was prepared"
        assert sink.prepared() == [handle.transaction]

    def test_what_fails_in_flushed_leaves_nothing(self, sink: SinkUnderTest) -> None:
        transaction = sink.begin("a", "b")
        with pytest.raises(ZeroDivisionError):
            transaction.prepare(sink.fingerprint("a", "b"), flushed=lambda: 1 // 0)  # type: ignore[arg-type]
        transaction.abort()
        assert (sink.prepared(), sink.manager().recover(sink.prefix)) == ([], [])
        sink.commit(sink.prepare("a"))
        sink.expect("a")

    def test_abort_leaves_nothing_and_may_be_called_twice(self, sink: SinkUnderTest) -> None:
        transaction = sink.begin("a", "b")
        transaction.abort()
        transaction.abort()
        assert (sink.visible(), sink.prepared(), sink.manager().recover(sink.prefix)) == ([], [], [])
        sink.commit(sink.prepare("a"))
        sink.expect("a")

    def test_abort_after_prepare_does_nothing(self, sink: SinkUnderTest) -> None:
        transaction = sink.begin("a")
        handle = transaction.prepare(sink.fingerprint("a"))
        transaction.abort()
        assert sink.prepared() == [handle.transaction]
        assert sink.commit(handle) == Committed(handle=handle)
        sink.expect("a")

    @pytest.mark.parametrize(("batch", "attempt"), [(4, 7), (4, 6), (3, 7), (3, 9)])
    def test_a_writer_at_or_behind_the_slots_marker_is_a_zombie(
        self, sink: SinkUnderTest, batch: int, attempt: int
    ) -> None:
        sink.commit(sink.prepare("a", batch=4, attempt=7), batch=4, attempt=7)
        with pytest.raises(ZombieWriter, match=r"batch 4.*attempt 7.*superseded"):
            sink.begin(batch=batch, attempt=attempt)
        assert sink.prepared() == []

    def test_a_slots_marker_does_not_stop_another_batch_or_slot(self, sink: SinkUnderTest) -> None:
        sink.commit(sink.prepare("a", batch=4, attempt=7), batch=4, attempt=7)
        sink.begin(batch=5, attempt=7).abort()
        sink.begin(batch=4, attempt=7, slot=1).abort()
        sink.begin(batch=4, attempt=8, decided={7}).abort()
        sink.of_another_pipeline(f"{sink.prefix}.other").begin().abort()
        # A new checkpoint id starts from batch 0: markers of another checkpoint id prove nothing about it.
        sink.of_another_pipeline(sink.prefix).begin(attempt=9).abort()

    def test_begin_refuses_where_an_earlier_attempt_was_committed_undecided(self, sink: SinkUnderTest) -> None:
        sink.commit(sink.prepare("a", batch=4, attempt=7), batch=4, attempt=7)
        with pytest.raises(DecisionMissing, match="attempt 7"):
            sink.begin(batch=4, attempt=8, decided={6})
        assert sink.manager().recover(sink.prefix) == []
        sink.expect("a")

    @pytest.mark.parametrize("live_batch", [5, 6], ids=["the next batch", "the one after it"])
    def test_a_zombie_that_begins_spares_what_the_live_attempt_prepared(
        self, sink: SinkUnderTest, live_batch: int
    ) -> None:
        for batch in range(4, live_batch):
            sink.commit(sink.prepare(f"w{batch}", batch=batch, attempt=8), batch=batch, attempt=8)
        live = sink.prepare("live", batch=live_batch, attempt=8)
        with pytest.raises(ZombieWriter):
            sink.begin(batch=4, attempt=3)
        assert sink.manager().check([live])[0].ready
        assert sink.commit(live, batch=live_batch, attempt=8) == Committed(handle=live)

    def test_begin_takes_the_slot_from_a_writer_that_left_another_batch_open(self, sink: SinkUnderTest) -> None:
        left = sink.prepare("a", batch=1, attempt=1)
        handle = sink.prepare("a", batch=2, attempt=2)
        assert not sink.manager().check([left])[0].ready
        assert sink.commit(handle, batch=2, attempt=2) == Committed(handle=handle)
        sink.expect("a")

    def test_a_writer_whose_slot_was_taken_cannot_prepare(self, sink: SinkUnderTest) -> None:
        transaction = sink.begin("a", attempt=1)
        sink.begin(attempt=2).abort()
        with pytest.raises(ResourceManagerError):
            transaction.prepare(sink.fingerprint("a"))
        transaction.abort()
        assert (sink.visible(), sink.prepared()) == ([], [])

    def test_identity_is_the_same_however_it_is_reached(self, sink: SinkUnderTest) -> None:
        mine = sink.manager().identity()
        assert mine != ""
        assert {manager.identity() for manager in sink.managers_by_other_ways()} <= {mine}
        assert sink.manager_of_another_sink().identity() not in ("", mine)

    def test_verify_returns_the_columns_that_are_written_here(self, sink: SinkUnderTest) -> None:
        schema = sink.rows().schema
        columns = list(zip(schema.names, schema.types, strict=True))
        taken = frozenset([*schema.names, "of_another_sink"] if sink.takes_every_column else schema.names)
        assert sink.manager().verify([*columns, ("of_another_sink", pa.int64())]) == taken
        assert sink.visible() == []

    def test_at_least_once_has_stored_every_row_when_it_is_finished(self, sink: SinkUnderTest) -> None:
        writer = sink.manager().begin_without_transaction(DeliveryGuarantee.AT_LEAST_ONCE)
        writer.write(sink.rows("a"))
        writer.write(sink.rows("b"))
        writer.finish()
        assert sink.visible() == ["a", "b"]
        assert writer.rows == 2
        assert writer.bytes > 0
        writer.abort()
        writer.abort()
        assert sink.visible() == ["a", "b"], "abort after finish does nothing"
