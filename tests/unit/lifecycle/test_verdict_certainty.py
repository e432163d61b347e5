"""How sure a verdict is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.lifecycle.verdicts import Assumption, Certainty, Evidence, Judgement, Verdict, least_sure

CERTAIN, LIKELY, GUESS = Certainty.CERTAIN, Certainty.LIKELY, Certainty.GUESS


@pytest.mark.parametrize("verdict", Verdict)
def test_what_assumes_anything_is_not_certain(verdict: Verdict) -> None:
    sure = Judgement(verdict=verdict, rule=1, rests_on=())
    is_guess = verdict in (Verdict.UNKNOWN, Verdict.FOREIGN)
    assert sure.certainty is (GUESS if is_guess else CERTAIN)
    for assumption in Assumption:
        assert replace(sure, assumes=(assumption,)).certainty is (GUESS if is_guess else LIKELY)


def test_what_is_assumed_is_shown_behind_what_was_read() -> None:
    read = Evidence(fact="no heartbeat", source="events", at_ms=7)
    found = Judgement(verdict=Verdict.ABORT_IT, rule=13, rests_on=(read,), assumes=(Assumption.SILENT_IS_GONE,))
    assumed = Evidence(fact=f"assumed: {Assumption.SILENT_IS_GONE.value}", source="assumed")
    assert found.evidence == (read, assumed)


def test_several_answers_are_as_sure_as_the_least_sure_one() -> None:
    assert least_sure([CERTAIN]) is CERTAIN
    assert least_sure([LIKELY, CERTAIN]) is LIKELY
    assert least_sure([CERTAIN, GUESS, LIKELY]) is GUESS
