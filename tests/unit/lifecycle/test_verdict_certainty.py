"""How sure a verdict is."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.verdicts import Certainty, Judgement, Verdict, least_sure

CERTAIN, LIKELY, GUESS = Certainty.CERTAIN, Certainty.LIKELY, Certainty.GUESS


def sure(verdict: Verdict, rule: int = 1, **changes: Any) -> Certainty:
    return Judgement(verdict=verdict, rule=rule, evidence=(), **changes).certainty


@pytest.mark.parametrize(
    ("verdict", "rule", "changes", "certainty"),
    [
        (Verdict.COMMIT_IT, 8, {"may_commit": True, "loses_data": True}, CERTAIN),
        (Verdict.COMMIT_IT, 25, {"may_commit": True, "commit_confirmation": "chk-3"}, LIKELY),
        (Verdict.ABORT_IT, 13, {"may_abort": True}, CERTAIN),
        (Verdict.ABORT_IT, 13, {"may_abort": True, "loses_data": True}, LIKELY),
        (Verdict.HANGING, 6, {"may_commit": True}, CERTAIN),
        (Verdict.HANGING, 1, {"may_abort": True, "loses_data": True}, LIKELY),
        (Verdict.LOST, 3, {}, CERTAIN),
        (Verdict.SETTLED, 1, {}, CERTAIN),
        (Verdict.SETTLED, 4, {}, LIKELY),
        (Verdict.IN_PROGRESS, 6, {}, CERTAIN),
        (Verdict.IN_PROGRESS, 4, {}, LIKELY),
        (Verdict.IN_PROGRESS, 15, {}, LIKELY),
        (Verdict.AT_RISK, 14, {}, LIKELY),
        (Verdict.UNKNOWN, 5, {}, GUESS),
        (Verdict.UNKNOWN, 10, {"may_commit": True}, GUESS),
        (Verdict.FOREIGN, 7, {"may_abort": True, "loses_data": True}, GUESS),
    ],
)
def test_what_was_not_seen_makes_a_verdict_less_sure(
    verdict: Verdict, rule: int, changes: dict[str, Any], certainty: Certainty
) -> None:
    assert sure(verdict, rule, **changes) is certainty


def test_several_answers_are_as_sure_as_the_least_sure_one() -> None:
    assert least_sure([CERTAIN]) is CERTAIN
    assert least_sure([LIKELY, CERTAIN]) is LIKELY
    assert least_sure([CERTAIN, GUESS, LIKELY]) is GUESS
