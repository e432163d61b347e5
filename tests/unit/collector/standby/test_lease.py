"""Who may lead, by records and this machine's clock alone."""

from __future__ import annotations

from indoubt.collector.standby.lease import Lease
from indoubt.resource_managers.topics.collector_topic import Kind, Lead, Record

LASTS_S = 6.0


def lease(*, is_new: bool = False) -> Lease:
    return Lease(lasts_s=LASTS_S, heard_s=0.0, is_new=is_new, me="me")


def record(kind: Kind, holder: str = "other", term: int = 10, sent_s: float = 0.0, end: int = 11) -> Record:
    return Record(kind=kind, end=end, lead=Lead(holder=holder, term=term, until_ms=0, sent_s=sent_s))


def test_a_topic_without_any_lead_is_taken_at_once() -> None:
    assert lease(is_new=True).is_free(0.0)
    assert not lease().is_free(5.9), "who led before may still renew"
    assert lease().is_free(6.0)


def test_a_lead_is_free_once_its_last_renewal_was_read_a_lease_ago() -> None:
    seen = lease(is_new=True)
    seen.read(record(Kind.LEAD), 1.0)
    seen.read(record(Kind.RENEWAL), 3.0)
    assert not seen.is_free(8.9)
    assert seen.is_free(9.0)


def test_what_its_leader_wrote_down_is_a_sign_of_it_too() -> None:
    seen = lease()
    seen.read(record(Kind.LEAD), 1.0)
    seen.read(Record(kind=Kind.ENTRY, end=12), 5.0)
    assert not seen.is_free(10.9)


def test_while_the_topic_is_not_seen_nobody_is_silent() -> None:
    seen = lease()
    seen.read(record(Kind.LEAD), 1.0)
    seen.could_not_see(8.0)
    assert not seen.is_free(13.9)


def test_a_released_lead_is_free_at_once_and_can_be_taken_at_once() -> None:
    seen = lease()
    seen.read(record(Kind.LEAD), 1.0)
    seen.read(record(Kind.RELEASE), 2.0)
    assert seen.is_free(2.0)
    seen.read(record(Kind.LEAD, "me", 20, sent_s=2.0), 2.1)
    assert seen.leads(2.1)


def test_its_own_lead_lasts_from_when_it_was_sent_not_from_when_it_was_read_back() -> None:
    mine = lease(is_new=True)
    mine.read(record(Kind.LEAD, "me", sent_s=1.0), 3.0)
    assert mine.leads(6.9)
    assert not mine.leads(7.0)
    mine.read(record(Kind.RENEWAL, "me", sent_s=5.0), 6.0)
    assert mine.leads(10.9)


def test_it_waits_until_the_other_one_cannot_believe_any_more_that_it_leads() -> None:
    mine = lease()
    mine.read(record(Kind.LEAD, "other", 10), 4.0)
    mine.read(record(Kind.LEAD, "me", 20, sent_s=5.0), 5.0)
    assert not mine.leads(9.9)
    assert mine.leads(10.0)


def test_renewals_of_an_earlier_lead_count_for_nothing() -> None:
    mine = lease(is_new=True)
    mine.read(record(Kind.LEAD, "me", 20, sent_s=1.0), 1.0)
    mine.read(record(Kind.RENEWAL, "other", 10), 2.0)
    assert mine.leads(2.0)
    mine.read(record(Kind.LEAD, "other", 30), 3.0)
    mine.read(record(Kind.RENEWAL, "me", 20, sent_s=2.5), 3.1)
    assert not mine.leads(3.1)


def test_a_lead_that_was_given_up_is_not_held_again_by_its_late_renewals() -> None:
    mine = lease(is_new=True)
    mine.read(record(Kind.LEAD, "me", 20, sent_s=1.0), 1.0)
    mine.give_up()
    mine.read(record(Kind.RENEWAL, "me", 20, sent_s=2.0), 2.0)
    assert not mine.leads(2.0)
    assert not mine.is_mine
