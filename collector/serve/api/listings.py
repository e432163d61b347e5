"""Tables of transactions, which may have very many rows: only those of the page that is asked for are joined and judged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from indoubt.collector.assess.assessment import Assessment
from indoubt.collector.facts.transaction_pages import EndKey, end_sort_key
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.history.store import Store
from indoubt.collector.serve.api.paging import Page, behind, page, place_of
from indoubt.collector.verdicts.abort_causes import AbortClues, infer
from indoubt.collector.verdicts.data_loss import Loss
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.views import aborts_and_losses
from indoubt.collector.views.aborts_and_losses import EVERY
from indoubt.collector.views.batch_rows import batch_row
from indoubt.collector.views.batches import (
    VERDICTS,
    BatchVerdict,
    batch_sort_key,
    complete_sort_key,
    current_batches,
)
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.past_batches import Attempts
from indoubt.collector.views.transaction_rows import abort_row, loss_row, transaction_row, urgency
from indoubt.collector.views.undone_in_history import UndoneList, clues_of_past, losses_of_past, undone_page
from indoubt.lifecycle.rows.batches import OVER
from indoubt.lifecycle.verdicts import URGENCY, Certainty, Verdict

Undone = TypeVar("Undone", AbortClues, Loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """The filters and the page that a request asks a table for; None: any value. ``settled``: also what has ended as it should."""

    settled: bool = False
    verdict: str | None = None
    certainty: str | None = None
    pipeline: str | None = None
    resource_manager: str | None = None
    checkpoint: int | None = None
    words: str = ""
    until_ms: int | None = None
    """Of what has ended: at this time (epoch ms) or before."""
    limit: int
    after: str | None = None

    def selects(self, judged: Judged) -> bool:
        """Say whether a transaction passes the filters."""
        verdict = judged.judgement.verdict
        return (
            (self.settled or verdict is not Verdict.SETTLED)
            and self.verdict in (None, verdict.value)
            and self.certainty in (None, judged.judgement.certainty.value)
            and self.pipeline in (None, judged.view.pipeline)
            and self.resource_manager in (None, judged.view.resource_manager)
            and self.checkpoint in (None, judged.view.checkpoint)
        )


def transactions(current: CurrentState, assessed: Assessment, query: ListQuery) -> Page:
    """Return a page of GET /transactions: most urgent first, behind them the settled ones, newest opening first.

    Raises InvalidCursor.
    """
    after = place_of(query.after, int, int, int, str)
    if query.checkpoint is not None:
        held = [
            judged for judged in current.transactions.judged_of_checkpoint(query.checkpoint) if query.selects(judged)
        ]
        return page(held, urgency, transaction_row, query.limit, after)
    found, more = [judged for judged in assessed.judged if query.selects(judged)], 0
    if query.words:
        found = having(found, query.words)
    are_asked = query.verdict in (None, Verdict.SETTLED.value) and query.certainty in (None, Certainty.CERTAIN.value)
    if query.settled and are_asked:
        last = after[1:] if after is not None and after[0] == URGENCY.index(Verdict.SETTLED) else None
        # Those that are not settled come first and take their rows of the page. At least 1, so that ``more`` counts the rest.
        urgent = [judged for judged in found if judged.judgement.verdict is not Verdict.SETTLED]
        before = sum(1 for judged in urgent if after is None or urgency(judged) > after)
        settled, more = current.transactions.settled(
            most=max(1, query.limit - before),
            after=last,
            pipeline=query.pipeline,
            resource_manager=query.resource_manager,
            fits=partial(has, words=query.words) if query.words else None,
        )
        found += settled
    shown = page(found, urgency, transaction_row, query.limit, after)
    return Page(rows=shown.rows, more=shown.more + more, last=shown.last)


def aborts(current: CurrentState, store: Store, query: ListQuery, *, causes: Collection[str], since_ms: int) -> Page:
    """Return a page of GET /aborts, newest first. Raises InvalidCursor, StoreFailed."""

    def fits(clues: AbortClues) -> bool:
        is_of_cause = not causes or infer(clues)[0].value in causes
        return is_of_cause and query.pipeline in (None, clues.view.pipeline)

    def in_memory(before: EndKey | None, most: int) -> tuple[list[AbortClues], int]:
        # Why is told by what has been joined, so a cause is looked for among all.
        found, more = aborts_and_losses.abort_clues(
            current, since_ms, pipeline=query.pipeline, most=EVERY if causes else most, before=before
        )
        return _fitting(found, more, most, fits if causes else None)

    wanted = UndoneList(
        in_memory=in_memory,
        in_history=partial(clues_of_past, current, store),
        fits=fits,
        pipeline=query.pipeline,
        since_ms=since_ms,
    )
    shown = undone_page(current, store, wanted, before=_before(query), limit=query.limit)
    return Page(rows=[abort_row(clues) for clues in shown.found], more=shown.more, last=shown.last)


def losses(
    current: CurrentState,
    store: Store,
    query: ListQuery,
    *,
    verdicts: Collection[str],
    transaction: str | None,
    since_ms: int,
) -> Page:
    """Return a page of GET /losses, newest first. Raises InvalidCursor, StoreFailed."""
    before = _before(query)

    def fits(loss: Loss) -> bool:
        return (not verdicts or loss.verdict.value in verdicts) and query.pipeline in (None, loss.view.pipeline)

    def in_memory(before: EndKey | None, most: int) -> tuple[list[Loss], int]:
        found, more = aborts_and_losses.losses_in_memory(
            current,
            committed=query.settled,
            since_ms=since_ms,
            pipeline=query.pipeline,
            most=EVERY if verdicts else most,
            before=before,
        )
        return _fitting(found, more, most, fits if verdicts else None)

    if transaction:
        # Of the past both are known of what was judged only.
        is_filtered = bool(verdicts) or query.pipeline is not None
        most = EVERY if is_filtered else query.limit
        found, more = aborts_and_losses.losses_in_history(
            current, store, transaction, since_ms=since_ms, most=most, before=before
        )
        found, more = _fitting(found, more, query.limit, fits if is_filtered else None)
    elif query.settled:
        found, more = in_memory(before, query.limit)
    else:
        wanted = UndoneList(
            in_memory=in_memory,
            in_history=partial(losses_of_past, current, store),
            fits=fits,
            pipeline=query.pipeline,
            since_ms=since_ms,
        )
        shown = undone_page(current, store, wanted, before=before, limit=query.limit)
        return Page(rows=[loss_row(loss) for loss in shown.found], more=shown.more, last=shown.last)
    return Page(
        rows=[loss_row(loss) for loss in found], more=more, last=end_sort_key(found[-1].view) if found else None
    )


def _fitting(
    found: list[Undone], more: int, most: int, fits: Callable[[Undone], bool] | None
) -> tuple[list[Undone], int]:
    """Return the first ``most`` that fit, and how many more there are; ``fits`` None: they are these already."""
    if fits is None:
        return found, more
    fitting = [one for one in found if fits(one)]
    return fitting[:most], max(0, len(fitting) - most)


def _before(query: ListQuery) -> EndKey | None:
    """Return the place that a page of ended transactions begins behind. Raises InvalidCursor."""
    after: EndKey | None = place_of(query.after, int, str, int, int)
    if query.until_ms is None:
        return after
    first_later: EndKey = (query.until_ms + 1, "", 0, 0)
    return first_later if after is None else min(after, first_later)


def batches(
    current: CurrentState, attempts: Attempts, query: ListQuery, number: int | None, is_over: bool | None
) -> Page:
    """Return a page of GET /batches, most urgent first, then newest; ``number``: attempts at batches of that number only.

    Those of a pipeline's batch that has left memory are looked for in history. ``is_over``: only those that are, newest first
    whatever their verdict, or only the others. Raises InvalidCursor, StoreFailed.
    """
    if query.pipeline is None or number is None:
        return _batches_in_memory(current, query, number, is_over)
    fitting = [
        batch
        for batch in attempts.at(query.pipeline, number)
        if query.verdict in (None, batch.verdict.value) and is_over in (None, batch.verdict.value in OVER)
    ]
    return page(fitting, batch_sort_key, batch_row, query.limit, place_of(query.after, int, int, str))


def _batches_in_memory(current: CurrentState, query: ListQuery, number: int | None, is_over: bool | None) -> Page:
    after = place_of(query.after, int, int, str)
    complete = current.transactions.complete_attempts()
    sure = {batch_attempt for _, batch_attempt in complete}
    examined = current_batches(current, lambda a: number in (None, a.batch) and a not in sure, complete)
    sort_keys = {
        batch_sort_key(batch): batch.batch_attempt for batch in examined if query.verdict in (None, batch.verdict.value)
    }
    if query.verdict in (None, BatchVerdict.COMPLETE.value):
        attempts = ((*at, opened_ms) for at, opened_ms in complete.items() if number in (None, at[1].batch))
        sort_keys |= {complete_sort_key(*attempt): attempt[1] for attempt in attempts}
    if is_over is not None:
        # Those that are over stand in one order, whatever their verdict.
        sort_keys = {
            (0, *at[1:]) if is_over else at: attempt
            for at, attempt in sort_keys.items()
            if (VERDICTS[at[0]].value in OVER) is is_over
        }
    of_pipeline = [at for at in sort_keys if query.pipeline in (None, at[2].partition("/")[0])]
    shown, more = behind(of_pipeline, lambda at: at, query.limit, after)
    # Only now those that are complete are looked at: the others were.
    chosen = {sort_keys[at] for at in shown}
    found = {batch.key: batch for batch in (*examined, *current_batches(current, lambda a: a in chosen and a in sure))}
    rows = [batch_row(found[key]) for _, _, key in shown if key in found]
    return Page(rows=rows, more=more, last=shown[-1] if shown else None)


def having(found: Iterable[Judged], words: str) -> list[Judged]:
    """Return the transactions that have every word; of a batch of ours all, where they have them together.

    An order about a batch is about all of it, so a word that fits one of its slots finds the others too.
    """
    wanted = words.casefold().split()
    every = list(found)
    texts: dict[object, list[str]] = {}
    for judged in every:
        texts.setdefault(_identity(judged.view), []).append(_text(judged.view))
    fitting = {identity for identity, parts in texts.items() if _has("\n".join(parts), wanted)}
    return [judged for judged in every if _identity(judged.view) in fitting]


def has(view: TransactionView, words: str) -> bool:
    """Say whether one transaction has every word in its id, application, batch, resource manager or partitions."""
    return _has(_text(view), words.casefold().split())


def _has(text: str, wanted: list[str]) -> bool:
    return all(word in text for word in wanted)


def _identity(view: TransactionView) -> object:
    return (view.pipeline, view.batch_attempt) if view.managed and view.batch_attempt is not None else view.key


def _text(view: TransactionView) -> str:
    batch = "" if view.batch_attempt is None else f"batch {view.batch_attempt.batch}"
    partitions = () if view.broker is None else view.broker.partitions
    return "\n".join((view.transaction, view.pipeline, batch, view.resource_manager, *partitions)).casefold()
