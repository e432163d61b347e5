"""Which verdicts count as those of the last minute."""

from __future__ import annotations

import pytest

from indoubt.collector.act.standing_orders.given_orders import VerdictHistory
from indoubt.lifecycle.verdicts import Verdict

P, C, U = Verdict.IN_PROGRESS, Verdict.COMMIT_IT, Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("seen", "within"),
    [
        ([(0, C)], (C,)),
        ([(0, C), (1, C), (59, C)], (C,)),
        ([(0, P), (1, C)], (P, C)),
        # The change at 1 s lies within the minute until 61 s.
        ([(0, U), (1, C), (60.9, C)], (U, C)),
        ([(0, U), (1, C), (61, C)], (C,)),
        ([(0, C), (1, P), (2, C)], (C, P, C)),
        ([(0, C), (1, P), (30, C), (61, C)], (P, C)),
    ],
)
def test_the_verdicts_of_the_last_minute(seen: list[tuple[float, Verdict]], within: tuple[Verdict, ...]) -> None:
    history = VerdictHistory()
    for at_s, verdict in seen:
        history.see({"k": verdict}, at_s)
    assert history.of("k") == within


def test_what_was_not_seen_for_a_minute_is_forgotten_and_not_before() -> None:
    history = VerdictHistory()
    history.see({"k": U}, 0)
    history.see({}, 30)
    history.see({"k": C}, 59)
    assert history.of("k") == (U, C)
    history.see({}, 119)
    assert history.of("k") == (U, C)
    history.see({}, 119.1)
    assert history.of("k") == ()
