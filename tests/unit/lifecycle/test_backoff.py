"""Pauses double up to a limit, and a random share of half of one may be left out."""

from __future__ import annotations

from itertools import islice

from indoubt.lifecycle.backoff import Backoff

PAUSES = Backoff(first_s=0.25, max_s=2.0)


def test_pauses_double_up_to_the_longest_and_start_anew_with_each_iterator():
    assert list(islice(PAUSES.pauses(), 5)) == [0.25, 0.5, 1.0, 2.0, 2.0]
    assert next(PAUSES.pauses()) == 0.25


def test_after_any_number_of_tries_it_is_the_longest():
    assert PAUSES.pause_s(10_000) == 2.0


def test_a_share_takes_half_of_a_pause_at_most():
    assert [PAUSES.pause_s(3, share) for share in (0.0, 0.5, 1.0)] == [2.0, 1.5, 1.0]
