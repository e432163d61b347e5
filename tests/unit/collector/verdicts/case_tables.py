"""Tables of cases: one row a case, its name first, then what is given, and last the rule and what it must say, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from indoubt.lifecycle.verdicts import Judgement

NO_VERDICT = "no verdict"


def table(columns: str, rows: Sequence[tuple[Any, ...]]) -> pytest.MarkDecorator:
    """Return the mark that runs a test once a row: the first value names the row, the others are its arguments."""
    return pytest.mark.parametrize(columns, [pytest.param(*row[1:], id=row[0]) for row in rows])


def told(found: Judgement | None) -> tuple[int, str]:
    """Return the rule that answered, and its verdict, certainty and offers: ``abort it, likely: typed abort``.

    ``typed``: the offer takes a typed confirmation; what must be typed for a commit follows. A ``typed abort`` may lose rows.
    """
    if found is None:
        return 0, NO_VERDICT
    offers = []
    if found.may_commit:
        offers.append(f"typed commit {found.commit_confirmation}" if found.commit_confirmation else "commit")
    if found.may_abort:
        offers.append("typed abort" if found.loses_data else "abort")
    return found.rule, f"{found.verdict.value}, {found.certainty.value}: {', '.join(offers) or 'no offer'}"
