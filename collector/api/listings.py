"""Tables of transactions, which may have very many rows: only those of the page that is asked for are joined and judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collector import undone
from collector.abort_causes import AbortClues
from collector.batch_rows import batch_row
from collector.batches import BatchVerdict, batch_place, complete_place, current_batches
from collector.current_state import CurrentState
from collector.data_loss import Loss
from collector.judging import Judged
from collector.loss_rows import loss_row
from collector.newest_transactions import EndPlace, end_place
from collector.paging import Page, Row, behind, page, place_of
from collector.store import Store
from collector.transaction_rows import abort_row, transaction_row, urgency
from collector.undone import EVERY
from lifecycle.verdicts import URGENCY, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked of a table; None: whatever it is. ``settled``: also what has ended as it should."""

    settled: bool = False
    verdict: str | None = None
    pipeline: str | None = None
    resource_manager: str | None = None
    limit: int
    after: str | None = None

    def fits(self, one: Judged) -> bool:
        """Say whether a transaction is asked for."""
        verdict = one.judgement.verdict
        return (
            (self.settled or verdict is not Verdict.SETTLED)
            and self.verdict in (None, verdict.value)
            and self.pipeline in (None, one.view.pipeline)
            and self.resource_manager in (None, one.view.resource_manager)
        )


def transactions(current: CurrentState, wanted: Wanted) -> Page:
    """Return a page of GET /transactions: most urgent first, behind them the settled ones, newest opening first.

    Raises InvalidCursor.
    """
    after = place_of(wanted.after, int, int, int, str)
    found, more = [one for one in current.judged() if wanted.fits(one)], 0
    if wanted.settled and wanted.verdict in (None, Verdict.SETTLED.value):
        last = after[1:] if after is not None and after[0] == URGENCY.index(Verdict.SETTLED) else None
        # What needs a hand stands before all of these, and takes its rows of the page. One at least: so ``more`` counts the rest.
        urgent = [one for one in found if one.judgement.verdict is not Verdict.SETTLED]
        before = sum(1 for one in urgent if after is None or urgency(one) > after)
        settled, more = current.settled(
            most=max(1, wanted.limit - before),
            after=last,
            pipeline=wanted.pipeline,
            resource_manager=wanted.resource_manager,
        )
        found += settled
    shown = page(found, urgency, transaction_row, wanted.limit, after)
    return Page(rows=shown.rows, more=shown.more + more, last=shown.last)


def aborts(current: CurrentState, *, since_ms: int, cause: str | None, limit: int, after: str | None) -> Page:
    """Return a page of GET /aborts, newest first. Raises InvalidCursor."""
    before = place_of(after, int, str, int, int)
    # Why is told by what has been joined, so a cause is looked for among all.
    found, more = undone.abort_clues(current, since_ms, most=limit if cause is None else EVERY, before=before)
    if cause is None:
        return _newest(found, [abort_row(one) for one in found], more)
    rows = [(one, row) for one in found if (row := abort_row(one))["cause"] == cause]
    return _newest([one for one, _ in rows[:limit]], [row for _, row in rows[:limit]], max(0, len(rows) - limit))


def losses(current: CurrentState, store: Store, wanted: Wanted, *, transaction: str | None, since_ms: int) -> Page:
    """Return a page of GET /losses, newest first. Raises InvalidCursor, StoreFailed."""
    before: EndPlace | None = place_of(wanted.after, int, str, int, int)
    # Both are known of what was judged only.
    is_filtered = wanted.verdict is not None or wanted.pipeline is not None
    most = EVERY if is_filtered else wanted.limit
    if transaction:
        found, more = undone.losses_in_history(current, store, transaction, since_ms=since_ms, most=most, before=before)
    else:
        found, more = undone.losses_in_memory(
            current, committed=wanted.settled, since_ms=since_ms, most=most, before=before
        )
    if is_filtered:
        fitting = [
            loss
            for loss in found
            if wanted.verdict in (None, loss.verdict.value) and wanted.pipeline in (None, loss.pipeline)
        ]
        found, more = fitting[: wanted.limit], max(0, len(fitting) - wanted.limit)
    return _newest(found, [loss_row(loss) for loss in found], more)


def batches(current: CurrentState, wanted: Wanted, number: int | None) -> Page:
    """Return a page of GET /batches, most urgent first, then newest; ``number``: attempts at batches of that number only.

    Raises InvalidCursor.
    """
    after = place_of(wanted.after, int, int, str)
    complete = current.complete_attempts()
    sure = {about for _, about in complete}
    looked_at = current_batches(current, lambda a: number in (None, a.batch) and a not in sure, complete)
    places = {batch_place(batch): batch.about for batch in looked_at if wanted.verdict in (None, batch.verdict.value)}
    if wanted.verdict in (None, BatchVerdict.COMPLETE.value):
        some = ((*at, opened_ms) for at, opened_ms in complete.items() if number in (None, at[1].batch))
        places |= {complete_place(*one): one[1] for one in some}
    of_pipeline = [at for at in places if wanted.pipeline in (None, at[2].partition("/")[0])]
    shown, more = behind(of_pipeline, lambda at: at, wanted.limit, after)
    # Only now those that are complete are looked at: the others were.
    chosen = {places[at] for at in shown}
    found = {one.key: one for one in (*looked_at, *current_batches(current, lambda a: a in chosen and a in sure))}
    rows = [batch_row(found[key]) for _, _, key in shown if key in found]
    return Page(rows=rows, more=more, last=shown[-1] if shown else None)


def _newest(found: Sequence[AbortClues | Loss], rows: list[Row], more: int) -> Page:
    return Page(rows=rows, more=more, last=end_place(found[-1].view) if found else None)
