"""The second confirmation of an order that may lose data: what must be typed, checked here whatever a page has checked."""

from __future__ import annotations

from collections.abc import Sequence

from indoubt.collector.verdicts.judging import Judged
from indoubt.lifecycle.errors import OrderRefused
from indoubt.lifecycle.orders import common_beginning

MIN_PREFIX = 3


def confirmation_text(found: Sequence[Judged]) -> str:
    """Return what an abort of these takes as ``confirm``, empty where it loses nothing.

    It is the transactional id of the one that may lose data, or what the ids of several begin with.
    Raises OrderRefused when they have no beginning in common: one word cannot mean all of them.
    """
    ids = [judged.view.transaction for judged in found if judged.judgement.loses_data]
    common = common_beginning(ids)
    if ids and len(common) < min(MIN_PREFIX, min(map(len, ids))):
        raise OrderRefused(
            f"{len(ids)} of these transactions may lose data and their ids have no beginning of {MIN_PREFIX} or more "
            "characters in common: abort them in several orders"
        )
    return common


def require_beginning(confirm: str, found: Sequence[Judged]) -> None:
    """Raise OrderRefused unless ``confirm`` is a beginning of every id that may lose data, a part of all that it was typed for.

    It has three characters, or is a whole id that is shorter.
    """
    for judged in found:
        id_ = judged.view.transaction
        is_beginning = id_.startswith(confirm) and len(confirm) >= min(MIN_PREFIX, len(id_))
        if judged.judgement.loses_data and not is_beginning:
            raise OrderRefused(
                f"aborting {id_} may lose data: repeat in 'confirm' what the transactional ids begin with, at least {MIN_PREFIX} "
                "characters"
            )


def require_confirmation(confirm: str, found: Sequence[Judged]) -> None:
    """Raise OrderRefused unless ``confirm`` is what these transactions take."""
    wanted = confirmation_text(found)
    if wanted and confirm != wanted:
        several = sum(judged.judgement.loses_data for judged in found)
        which = wanted if several == 1 else f"{several} transactions"
        what = "its transactional id" if several == 1 else f"what their transactional ids begin with, {wanted!r},"
        raise OrderRefused(f"aborting {which} may lose data: repeat {what} in 'confirm'")
