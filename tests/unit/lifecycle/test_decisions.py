"""The rules of the decision log, as numbered cases, and what a ledger answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import BatchAttempt, Kept, Settled, decode, encode
from indoubt.lifecycle.identity import Marker
from tests.unit.lifecycle.decision_records import ABORT, SNAPSHOT, decision, outcome, run, taken_over
from tests.unit.lifecycle.ledgers import fold
from tests.unit.lifecycle.test_identity import HANDLE


def counting(*records):
    """Return for each record, in log order from offset 0, whether it counts."""
    ledger = DecisionLedger()
    return [ledger.apply(offset, record) for offset, record in enumerate(records)]


@pytest.mark.parametrize(
    ("records", "counts"),
    [
        pytest.param([run(), decision(0), decision(0)], [1, 1, 0], id="rule 1: the second commit is void"),
        pytest.param([run(), decision(0, ruling=ABORT), decision(0)], [1, 1, 0], id="rule 1: abort first wins"),
        pytest.param([run(), decision(0), decision(0, ruling=ABORT)], [1, 1, 0], id="rule 1: commit first wins"),
        pytest.param([run(), decision(0), decision(0, batch=1)], [1, 1, 1], id="rule 1: each batch for itself"),
        pytest.param([run(), run(), decision(0)], [1, 1, 0], id="rule 2: a newer run makes a commit void"),
        pytest.param(
            [run(), run(), decision(0), decision(1)], [1, 1, 0, 1], id="rule 2: the newer run's commit counts"
        ),
        pytest.param([run(), decision(0), run()], [1, 1, 1], id="rule 2: a run that starts later changes nothing"),
        pytest.param(
            [run(), run(checkpoint_id="M"), decision(0)], [1, 1, 0], id="rule 2: another checkpoint_id, same prefix"
        ),
        pytest.param(
            [run(), run(prefix="p2"), decision(0)], [1, 1, 0], id="rule 2: same checkpoint_id, another prefix"
        ),
        pytest.param(
            [run(), run(prefix="p2"), decision(0), decision(1, prefix="p2")],
            [1, 1, 0, 1],
            id="rule 2: the newer prefix",
        ),
        pytest.param(
            [run(), run(prefix="p2", checkpoint_id="M"), decision(0)],
            [1, 1, 1],
            id="rule 2: another prefix and checkpoint id do not matter",
        ),
        pytest.param(
            [run(), run(prefix="p_2", checkpoint_id="M"), run(prefix="p-0", checkpoint_id="N"), decision(0)],
            [1, 1, 1, 1],
            id="rule 2: nor prefixes that are like it",
        ),
        pytest.param([run(), run(), decision(0, ruling=ABORT)], [1, 1, 1], id="rule 2: an abort always counts"),
        pytest.param(
            [run(), run(), decision(0), decision(0, ruling=ABORT)],
            [1, 1, 0, 0],
            id="rule 1 + 2: a void commit was still the first",
        ),
        pytest.param([run(), decision(7)], [1, 0], id="rule 2: a commit of a run that never started"),
        pytest.param([decision(0)], [0], id="rule 2: a commit where no run ever started"),
        pytest.param(
            [run(checkpoint_id="M"), decision(0, checkpoint_id="L")],
            [1, 0],
            id="rule 2: a copied attempt of another checkpoint id",
        ),
        pytest.param(
            [run(), decision(0, batch=4), run(), decision(2, batch=3)],
            [1, 1, 1, 0],
            id="rule 4: a batch below the last",
        ),
        pytest.param(
            [run(), decision(0, batch=4), run(), decision(2, batch=4)], [1, 1, 1, 1], id="rule 4: the last one again"
        ),
        pytest.param(
            [run(), decision(0, batch=4), run(checkpoint_id="M"), decision(2, batch=3, checkpoint_id="M")],
            [1, 1, 1, 1],
            id="rule 4: another checkpoint id starts over",
        ),
        pytest.param(
            [run(), decision(0, batch=4, ruling=ABORT), decision(0, batch=3)],
            [1, 1, 1],
            id="rule 4: an abort is no last",
        ),
        pytest.param(
            [run(), run(), decision(0, batch=4), decision(1, batch=3)], [1, 1, 0, 1], id="rule 4: nor is a void commit"
        ),
        pytest.param(
            [run(), decision(0, batch=4), decision(0, batch=3, ruling=ABORT)], [1, 1, 1], id="rule 4: an abort counts"
        ),
        pytest.param(
            [run(), run(prefix="p2"), taken_over(1), run(), decision(3), decision(3, batch=1, ruling=ABORT)],
            [1, 1, 1, 1, 0, 1],
            id="rule 5: a run of a checkpoint id that was taken over decides nothing",
        ),
        pytest.param(
            [run(), run(prefix="p2"), run(), taken_over(1), decision(2)],
            [1, 1, 1, 0, 1],
            id="rule 5: a run that started meanwhile keeps its checkpoint id",
        ),
        pytest.param(
            [run(), run(prefix="p2"), taken_over(1), taken_over(1, new_checkpoint_id="O")],
            [1, 1, 1, 0],
            id="rule 5: the first counts",
        ),
        pytest.param(
            [
                run(),
                run(prefix="p2"),
                run(prefix="p2", checkpoint_id="N"),
                taken_over(1),
                decision(2, checkpoint_id="N", prefix="p2"),
            ],
            [1, 1, 1, 1, 1],
            id="rule 5: the new checkpoint id's run changes nothing, and decides",
        ),
        pytest.param([run(), taken_over(1)], [1, 0], id="rule 5: by a run that never started"),
    ],
)
def test_which_decision_counts(records, counts):
    assert counting(*records) == [bool(value) for value in counts]


def test_the_marker_of_a_batch_names_batch_attempt_and_checkpoint_id():
    assert decision(7, batch=3).batch_attempt.marker == Marker(batch=3, attempt=7, checkpoint_id="L")


def test_rule_3_the_first_outcome_counts():
    decided = decision(0)
    ledger = fold(enumerate([run(), decided, outcome(decided, Settled.LOST), outcome(decided, Settled.COMMITTED)]))
    found = ledger.outcome(HANDLE.key)
    assert ledger.ids_with_outcome() == {HANDLE.transaction}
    assert found is not None
    assert found.settled is Settled.LOST


def test_what_was_lost_is_what_its_first_outcome_says_was():
    others = [replace(HANDLE, producer_epoch=epoch) for epoch in (8, 9)]
    decided = decision(0, handles=(HANDLE, *others))
    ledger = fold(enumerate([run(), decided]))
    assert ledger.lost_keys() == set()
    ledger.apply(2, outcome(decided, Settled.LOST, HANDLE))
    ledger.apply(3, outcome(decided, Settled.COMMITTED, HANDLE, others[0]))
    assert ledger.lost_keys() == {HANDLE.key}
    ledger.apply(4, outcome(decided, Settled.LOST, *others))
    assert ledger.lost_keys() == {HANDLE.key, others[1].key}


def test_rule_3_holds_for_each_handle_of_an_outcome():
    other = replace(HANDLE, producer_epoch=9)
    decided = decision(0, handles=(HANDLE, other))
    both = outcome(decided, Settled.COMMITTED, HANDLE, other)
    ledger = fold(enumerate([run(), decided]))
    assert ledger.apply(2, outcome(decided, Settled.LOST, HANDLE))
    assert ledger.apply(3, both), "one of its handles had none"
    assert ledger.outcome(HANDLE.key).settled is Settled.LOST
    assert ledger.outcome(other.key).settled is Settled.COMMITTED
    assert not ledger.apply(4, both), "each of its handles had an outcome"


@pytest.mark.parametrize(
    ("records", "newest"),
    [
        ([run()], None),
        ([run(), run(name="new")], (1, "new")),
        ([run(), run(name="new", checkpoint_id="M")], (1, "new")),
        ([run(), run(name="new", prefix="p2")], (1, "new")),
        ([run(), run(prefix="p2"), run(name="new", checkpoint_id="M")], (2, "new")),
        ([run(), run(prefix="p2", checkpoint_id="M")], None),
    ],
)
def test_a_newer_run_is_one_of_the_prefix_or_of_the_checkpoint_id(records, newest):
    found = fold(enumerate(records)).newer_run("p", "L", 0)
    assert (found and (found[0], found[1].run)) == newest


def test_the_last_decided_batch_is_that_of_commits_that_count():
    ledger = fold(enumerate([run(), decision(0, batch=3), decision(0, batch=9, ruling=ABORT), decision(7, batch=8)]))
    assert ledger.last_decided_batch("L") == 3
    assert ledger.last_decided_batch("M") is None


def test_a_record_folded_twice_counts_once():
    ledger = fold([(0, run()), (1, decision(0))])
    assert not ledger.apply(1, decision(0))
    assert not ledger.apply(0, run(checkpoint_id="M"))
    assert ledger.counting(BatchAttempt(checkpoint_id="L", batch=0, attempt=0)) is not None
    assert ledger.next_offset == 2


def test_only_handles_of_a_counting_commit_are_listed():
    other = replace(HANDLE, producer_epoch=9)
    void = replace(HANDLE, producer_epoch=10)
    ledger = fold(
        enumerate(
            [
                run(),
                decision(0, handles=(HANDLE,)),
                decision(0, batch=1, ruling=ABORT, handles=(other,)),
                run(),
                decision(0, batch=2, handles=(void,)),
            ]
        )
    )
    listing = ledger.listing(HANDLE.key)
    assert listing is not None
    assert listing[0] == 1
    assert ledger.listing(other.key) is None
    assert ledger.listing(void.key) is None


def test_the_last_batch_without_an_outcome_is_unsettled():
    one, two = HANDLE, replace(HANDLE, transaction="p-1-1")
    old, last = decision(0, batch=0), decision(0, batch=1, handles=(one, two))
    other = decision(4, batch=7, checkpoint_id="M", handles=(replace(HANDLE, producer_epoch=8),))
    records = [run(), old, last, outcome(last, Settled.COMMITTED), run(checkpoint_id="M"), other]
    ledger = fold(enumerate(records))
    assert [
        (d.batch_attempt.checkpoint_id, d.batch_attempt.batch, h.transaction) for d, h in ledger.unsettled("p")
    ] == [
        ("L", 1, "p-1-1"),
        ("M", 7, "word-3-1"),
    ]
    assert ledger.unsettled("p2") == []


def test_commits_of_a_replayed_batch_come_in_log_order():
    first, second = decision(0), decision(2, handles=())
    ledger = fold(enumerate([run(), first, run(), second]))
    assert [d.batch_attempt.attempt for d in ledger.commits_of("L", 0)] == [0, 2]
    assert ledger.latest_run("p") == (2, run())
    assert ledger.prefixes() == {"p"}


def test_what_a_ledger_answers_about_each_attempt():
    other = replace(HANDLE, producer_epoch=9)
    first, void, aborted = decision(0), decision(0, batch=1), decision(0, batch=2, ruling=ABORT)
    elsewhere = decision(5, batch=7, checkpoint_id="M", handles=(other,))
    of_another = decision(7, batch=0, checkpoint_id="N", prefix="q", handles=())
    log = [run(), first, run(), void, aborted, run(checkpoint_id="M"), elsewhere, run(checkpoint_id="N", prefix="q")]
    ledger = fold(enumerate(log))
    assert ledger.apply(8, of_another)
    for one, counts, offset in ((first, True, 1), (void, False, 3), (aborted, True, 4), (elsewhere, True, 6)):
        assert ledger.first(one.batch_attempt) == (offset, one, counts)
        assert ledger.counting(one.batch_attempt) == (one if counts else None)
    unknown = BatchAttempt(checkpoint_id="L", batch=9, attempt=0)
    assert ledger.counting(unknown) is ledger.first(unknown) is None
    assert ledger.commit_decisions("p") == [(1, first), (6, elsewhere)]
    assert ledger.commit_decisions("p", "L") == [(1, first)]
    assert ledger.commit_decisions("q", "M") == []
    assert ledger.checkpoint_commits("L") == [first]
    assert ledger.checkpoint_commits("M") == [elsewhere]
    assert ledger.commits_of("L", 0) == [first]
    assert ledger.commits_of("L", 1) == ledger.commits_of("L", 2) == ledger.commits_of("M", 0) == []
    assert ledger.listing(HANDLE.key) == (1, first)
    assert ledger.listing("unknown") is ledger.outcome("unknown") is ledger.outcome(HANDLE.key) is None
    assert ledger.latest_run("p") == (5, run(checkpoint_id="M"))
    assert ledger.latest_run("unknown") is None


def test_what_a_ledger_answers_about_runs():
    ledger = fold(enumerate([run(), run(prefix="p2"), taken_over(1), run(checkpoint_id="M"), run(prefix="p2")]))
    assert ledger.taken_over("L") == (2, taken_over(1))
    assert ledger.taken_over("M") is None
    assert ledger.checkpoint_id_of("p", 0) == "L"
    assert ledger.checkpoint_id_of("p", 3) == "M"
    assert ledger.checkpoint_id_of("p", 1) is ledger.checkpoint_id_of("unknown", 0) is None
    assert ledger.checkpoint_ids("p") == ("L", "M")
    assert ledger.checkpoint_ids("unknown") == ()
    assert ledger.newer_run("unknown", "unknown", -1) is None
    assert ledger.newer_run("unknown", "M", 2) == (3, run(checkpoint_id="M"))
    assert ledger.newer_run("p", "L", 0) == (4, run(prefix="p2"))


def test_a_checkpoint_id_that_no_run_had_is_not_taken_over():
    assert counting(taken_over(0)) == [False]


def test_only_the_last_decided_batch_can_be_unsettled():
    old, last = decision(0), decision(0, batch=1, handles=(replace(HANDLE, slot=3),))
    assert [found for found, _ in fold(enumerate([run(), old, last])).unsettled("p")] == [last]


def test_a_repeated_record_counts_as_it_did():
    void = decision(0, batch=1, handles=(replace(HANDLE, producer_epoch=9),))
    lost = outcome(decision(0), Settled.LOST)
    repeated = [(run(), True), (decision(0), True), (void, False), (lost, True), (taken_over(0), True)]
    ledger = DecisionLedger()
    for offset, (record, counts) in enumerate(repeated):
        kept = Kept(offset=offset, counts=counts, record=record)
        assert ledger.repeat(kept) is counts
        assert ledger.next_offset == offset + 1
        assert not ledger.repeat(kept), "an offset that was folded before is ignored"
    assert ledger.latest_run("p") == (0, run())
    assert ledger.counting(decision(0).batch_attempt) == decision(0)
    assert ledger.first(void.batch_attempt) == (2, void, False)
    assert ledger.outcome(HANDLE.key) == lost
    assert ledger.taken_over("L") == (4, taken_over(0))
    ledger.repeat(Kept(offset=5, counts=False, record=replace(void, who="later")))
    assert ledger.first(void.batch_attempt) == (2, void, False), "the first decision stays the first"
    ledger.repeat(Kept(offset=6, counts=False, record=taken_over(9)))
    assert ledger.taken_over("L") == (4, taken_over(0)), "what did not count then does not now"


def test_what_is_forgotten_leaves_nothing_behind():
    one = decision(0)
    ledger = fold(enumerate([run(), one, outcome(one, Settled.LOST)]))
    ledger.forget(one.batch_attempt)
    assert ledger.first(one.batch_attempt) is ledger.listing(HANDLE.key) is ledger.outcome(HANDLE.key) is None
    ledger.forget(one.batch_attempt)
    assert ledger.next_offset == 3


def test_a_snapshot_counts_and_changes_nothing():
    ledger = fold(enumerate([run(), decision(0)]))
    before = ledger.kept()
    assert ledger.apply(2, replace(SNAPSHOT, covers=2, kept=before))
    assert (ledger.kept(), ledger.next_offset) == (before, 3)


def test_a_record_that_is_passed_over_does_not_stop_the_log():
    ledger = DecisionLedger()
    ledger.apply(0, run())
    ledger.skip(1)
    assert ledger.next_offset == 2
    assert ledger.apply(2, decision(0))


def test_left_behind_is_where_a_run_wrote_and_no_later_one_recovers():
    def started(writes_to, recovers_in):
        return replace(run(), writes_to=tuple(writes_to.split()), recovers_in=tuple(recovers_in.split()))

    ledger = DecisionLedger()
    assert ledger.left_behind("p") == frozenset()
    for offset, (record, left) in enumerate(
        [
            (started("kafka mysql", "kafka mysql"), set()),
            (started("kafka postgres", "kafka postgres"), {"mysql"}),
            (started("kafka", "kafka"), {"mysql", "postgres"}),
            (started("kafka", "kafka mysql"), {"postgres"}),
            (started("mysql", "kafka mysql"), {"postgres"}),
            (started("kafka", "kafka mysql postgres"), set()),
        ]
    ):
        ledger.apply(offset, record)
        assert ledger.left_behind("p") == left
        assert decode(encode(record)) == record
    assert ledger.left_behind("q") == frozenset()
