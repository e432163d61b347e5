"""The three rules of the decision log, as numbered cases, and its codec."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lifecycle.decisions import (
    BatchAttempt,
    Decision,
    DecisionLedger,
    Outcome,
    Ruling,
    RunStarted,
    Settled,
    decode,
    encode,
    fold,
)
from lifecycle.errors import MalformedRecord, UnknownVersion
from tests.unit.test_lifecycle_identity import HANDLE


def run(life="L", prefix="p", name="r"):
    return RunStarted(prefix=prefix, life=life, run=name, at_ms=1)


def decision(attempt, batch=0, ruling=Ruling.COMMIT, life="L", prefix="p", who="run", handles=(HANDLE,)):
    about = BatchAttempt(life=life, batch=batch, attempt=attempt)
    return Decision(prefix=prefix, about=about, ruling=ruling, handles=handles, who=who, at_ms=2)


def outcome(of, settled, handle=HANDLE):
    return Outcome(prefix=of.prefix, about=of.about, handle_key=handle.key, settled=settled, who="recovery", at_ms=3)


def counting(*records):
    """Return for each record, in log order from offset 0, whether it counts."""
    ledger = DecisionLedger()
    return [ledger.apply(offset, record) for offset, record in enumerate(records)]


COMMIT, ABORT = Ruling.COMMIT, Ruling.ABORT


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
        pytest.param([run(), run(life="M"), decision(0)], [1, 1, 0], id="rule 2: another life, same prefix"),
        pytest.param([run(), run(prefix="p2"), decision(0)], [1, 1, 1], id="rule 2: another prefix does not matter"),
        pytest.param([run(), run(prefix="p_2"), run(prefix="p-0"), decision(0)], [1, 1, 1, 1], id="rule 2: nor like"),
        pytest.param([run(), run(), decision(0, ruling=ABORT)], [1, 1, 1], id="rule 2: an abort always counts"),
        pytest.param(
            [run(), run(), decision(0), decision(0, ruling=ABORT)],
            [1, 1, 0, 0],
            id="rule 1 + 2: a void commit was still the first",
        ),
        pytest.param([decision(0)], [0], id="rule 2: a commit without any run"),
        pytest.param([run(life="M"), decision(0, life="L")], [1, 0], id="rule 2: a copied attempt of another life"),
    ],
)
def test_which_decision_counts(records, counts):
    assert counting(*records) == [bool(value) for value in counts]


def test_rule_3_the_first_outcome_counts():
    decided = decision(0)
    ledger = fold(enumerate([run(), decided, outcome(decided, Settled.LOST), outcome(decided, Settled.COMMITTED)]))
    found = ledger.outcome(HANDLE.key)
    assert found is not None
    assert found.settled is Settled.LOST


def test_a_record_folded_twice_counts_once():
    ledger = fold([(0, run()), (1, decision(0))])
    assert not ledger.apply(1, decision(0))
    assert not ledger.apply(0, run(life="M"))
    assert ledger.counting(BatchAttempt(life="L", batch=0, attempt=0)) is not None
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


def test_unsettled_are_the_last_batch_of_each_life_without_outcome():
    one, two = HANDLE, replace(HANDLE, transaction="p-1-1")
    old, last = decision(0, batch=0), decision(0, batch=1, handles=(one, two))
    other = decision(4, batch=7, life="M", handles=(replace(HANDLE, producer_epoch=8),))
    records = [run(), old, last, outcome(last, Settled.COMMITTED), run(life="M"), other]
    ledger = fold(enumerate(records))
    assert [(d.about.life, d.about.batch, h.transaction) for d, h in ledger.unsettled("p")] == [
        ("L", 1, "p-1-1"),
        ("M", 7, "word-3-1"),
    ]
    assert ledger.unsettled("p2") == []


def test_commits_of_a_replayed_batch_come_in_log_order():
    first, second = decision(0), decision(2, handles=())
    ledger = fold(enumerate([run(), first, run(), second]))
    assert [d.about.attempt for d in ledger.commits_of("L", 0)] == [0, 2]
    assert ledger.latest_run("p") == (2, run())
    assert ledger.prefixes() == {"p"}


@pytest.mark.parametrize(
    "record",
    [run(), decision(3), decision(3, ruling=ABORT, handles=()), outcome(decision(3), Settled.LOST)],
    ids=["run started", "commit", "abort", "outcome"],
)
def test_codec_reads_back_what_it_wrote(record):
    assert decode(encode(record)) == record


def broken(record, **changes):
    fields = json.loads(encode(record)) | changes
    return json.dumps({name: value for name, value in fields.items() if value is not ...}, default=str).encode()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "JSON"),
        (b"", "JSON"),
        (b"\xff\xfe", "JSON"),
        (b"[1]", "object"),
        (b"7", "object"),
        (broken(run(), type="other"), "other"),
        (broken(run(), run=5), "run"),
        (broken(run(), at_ms="x"), "at_ms"),
        (broken(run(), at_ms=True), "at_ms"),
        (broken(decision(0), ruling="maybe"), "maybe"),
        (broken(decision(0), handles=[{}]), "resource_manager"),
        (broken(decision(0), handles=5), "decision record"),
        (broken(decision(0), batch=None), "batch"),
        (broken(outcome(decision(0), Settled.LOST), settled=""), "Settled"),
        (json.dumps({"version": 1, "prefix": "p", "at_ms": 1}).encode(), "type"),
        (json.dumps({"version": 1, "type": "run_started"}).encode(), "prefix"),
    ],
)
def test_a_malformed_record_is_refused_and_says_why(value, said):
    with pytest.raises(MalformedRecord, match=said):
        decode(value)


def test_a_newer_version_is_told_from_nonsense():
    with pytest.raises(UnknownVersion, match="2"):
        decode(broken(run(), version=2))


def test_a_record_that_is_passed_over_does_not_stop_the_log():
    ledger = DecisionLedger()
    ledger.apply(0, run())
    ledger.skip(1)
    assert ledger.next_offset == 2
    assert ledger.apply(2, decision(0))
