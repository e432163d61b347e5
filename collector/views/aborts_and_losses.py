"""What was undone, why, and whether data was lost with it; asked of current state, and of history for what has left memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from indoubt.collector.facts import transaction_join, transaction_pages, transactional_ids
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_pages import EndKey, Newest, end_sort_key
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.history import sql
from indoubt.collector.history.rollups import Aborted
from indoubt.collector.history.store import Store
from indoubt.collector.records.application_ids import FlinkId
from indoubt.collector.records.facts import BrokerIdentity
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts import loss_cases
from indoubt.collector.verdicts.abort_causes import AbortClues, infer
from indoubt.collector.verdicts.data_loss import COMMITTED, UNDONE, Loss, LossVerdict
from indoubt.collector.verdicts.loss_cases import LossInputs
from indoubt.collector.views import application_names, past_of_identities
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.past_of_identities import AROUND_MS
from indoubt.collector.views.past_transactions import likely_ms, newest_of_id
from indoubt.collector.views.time_buckets import bucket_length_ms
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS, MINUTE_MS
from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER
from indoubt.lifecycle.rows.ends import AbortCount, AbortCounts
from indoubt.lifecycle.rows.events import EARLIER_COUNTED
from indoubt.lifecycle.rows.pipelines import IdsRow
from indoubt.lifecycle.states import ROLLED_BACK, TransactionState
from indoubt.lifecycle.verdicts import AbortCause

EVERY = 1 << 40
"""More than memory holds: no limit."""
MOST_OF_WINDOW = 1_000
"""Larger pages of one id's transactions are put together of all of them."""
OUT_OF_PLACE = 3
"""So many of an id's newest transactions may take no place: the one that is open, the one that a page begins behind."""
MOST_BUCKETS = 120
LEAST_MS, USUAL_MS = 30 * MINUTE_MS, 30 * DAY_MS
"""The shortest time; and so far back it goes where no beginning is asked for."""
CLOCKS_DIFFER_MS = 10_000
"""Coordinators' clocks differ by less: an id's transactions end in the order in which they began, but for that."""


def abort_clues(
    current: CurrentState,
    since_ms: int = 0,
    *,
    pipeline: str | None = None,
    most: int = EVERY,
    before: EndKey | None = None,
) -> tuple[list[AbortClues], int]:
    """Return up to ``most`` transactions that were aborted or lost, newest first, with what may tell why.

    And how many more there are. ``since_ms``: those that ended since; ``before``: those behind that one; ``pipeline``: of
    this application only.
    """
    with current.reading() as state:
        found = transaction_pages.ended(
            state, ROLLED_BACK, most=most, before=before, since_ms=since_ms, pipeline=pipeline
        )
        return [loss_cases.clues(state, view) for view in found.views], found.more


def causes(current: CurrentState, aborted: Sequence[Aborted]) -> list[str]:
    """Return why each of these was aborted, as far as memory shows: ``unknown`` for one that has left it."""
    identities = [BrokerIdentity(*identity) for identity in aborted]
    with current.reading() as state:
        known = [identity for identity in identities if identity in state.broker]
        clues = {
            identity: loss_cases.clues(state, transaction_join.at_coordinator(state, identity)) for identity in known
        }
    found = (clues.get(identity) for identity in identities)
    return [(infer(clues)[0] if clues is not None else AbortCause.UNKNOWN).value for clues in found]


def losses_in_memory(
    current: CurrentState,
    *,
    committed: bool = False,
    since_ms: int = 0,
    pipeline: str | None = None,
    most: int = EVERY,
    before: EndKey | None = None,
) -> tuple[list[Loss], int]:
    """Return whether data was lost with each of the newest ``most`` transactions in memory that were undone, newest first.

    And how many more there are. Committed ones are among them where they are written again, and all of them with
    ``committed``; ``since_ms``: those that ended since; ``pipeline``: of this application only; ``before``: those behind
    that one.
    """
    wanted, status = (*COMMITTED, *UNDONE) if committed else UNDONE, current.decision_log_status[0]
    with current.reading() as state:
        again = [] if committed else loss_cases.committed_and_written_again(state)
        branches = [] if committed else loss_cases.branches_written_again(state)
        all_or_most = EVERY if again or branches else most
        found = transaction_pages.ended(
            state,
            wanted,
            most=all_or_most,
            before=before,
            since_ms=since_ms,
            pipeline=pipeline,
            also=again,
            also_branches=branches,
        )
        inputs = loss_cases.loss_inputs(state, status, found.views)
    judged = loss_cases.judged(inputs)
    if not (again or branches):
        return judged, found.more
    # Which of them are written again is known of what was judged only.
    kept = [loss for loss in judged if loss.verdict is not LossVerdict.NOT_LOST]
    return kept[:most], max(0, len(kept) - most)


def duplicates(current: CurrentState, since_ms: int) -> list[Loss]:
    """Return the transactions in memory that were committed and are written again after a restore since then (epoch ms)."""
    status = current.decision_log_status[0]
    with current.reading() as state:
        again = loss_cases.committed_and_written_again(state, since_ms)
        views = [transaction_join.at_coordinator(state, identity) for identity in again]
        views += loss_cases.branches_written_again(state, since_ms)
        inputs = loss_cases.loss_inputs(state, status, views)
    return [loss for loss in loss_cases.judged(inputs) if loss.verdict is LossVerdict.DUPLICATED]


def losses_in_history(
    current: CurrentState,
    store: Store,
    transaction: str,
    *,
    since_ms: int = 0,
    most: int = EVERY,
    before: EndKey | None = None,
) -> tuple[list[Loss], int]:
    """Return the same for every transaction of one id that history knows, committed ones too. Raises StoreFailed.

    Of an id with very many no more than EARLIER_COUNTED are counted behind the page.
    """
    # What was seen a moment ago is in memory alone.
    store.catch_up()
    starts = _starts_of_many(current, store, transaction, most, before)
    with current.reading() as state:
        watches_flink = bool(state.flink.jobs or state.flink.lists.committables)
    # Of a sink of Flink the ids beside it tell too, and what was before; without its checkpoints only where ids are used once.
    is_alone = bool(starts) and (not watches_flink or FlinkId.parse(transaction) is None)
    margin_ms = CLOCKS_DIFFER_MS if is_alone else AROUND_MS
    # First a page, with as much behind it as is counted; then what is counted too; then all.
    firsts_ms = [starts[most + OUT_OF_PLACE - 1] - margin_ms, starts[-1] - margin_ms] if starts else []
    behind = 0 if since_ms else EARLIER_COUNTED
    for first_ms in (*firsts_ms, 0):
        past = _past_of(current, store, transaction, first_ms, alone=is_alone)
        found, inputs = _page_of(current, past, transaction, since_ms=since_ms, most=most, before=before)
        oldest_ms = min((view.opened_ms or 0 for view in found.views), default=0)
        is_page = len(found.views) == most and oldest_ms - margin_ms >= first_ms
        if (is_page and max(found.more, behind) >= EARLIER_COUNTED) or since_ms - 2 * margin_ms >= first_ms:
            break
        behind = 0
    more = max(found.more, behind) if first_ms else found.more
    return loss_cases.judged(inputs), min(more, EARLIER_COUNTED) if starts else more


def of_all_history(current: CurrentState, store: Store, view: TransactionView) -> Loss | None:
    """Return the same for one transaction by all that history has of its id. Raises StoreFailed."""
    ended_ms, id_, producer_id, start_ms = end_sort_key(view)
    behind = (ended_ms, id_, producer_id, start_ms + 1)
    found, _ = losses_in_history(current, store, view.transaction, most=1, before=behind)
    return next((one for one in found if one.view.key == view.key), None)


def with_its_replay(current: CurrentState, store: Store, view: TransactionView) -> TransactionView:
    """Return a lost one of the past as all of history has it: its batch may have been written again long after.

    Raises StoreFailed.
    """
    if view.state is not TransactionState.LOST:
        return view
    told = of_all_history(current, store, view)
    return told.view if told is not None else view


def _past_of(current: CurrentState, store: Store, transaction: str, first_ms: int, *, alone: bool) -> State:
    """Return what history has of an id's transactions that began at ``first_ms`` or later, with what only memory has."""
    with current.reading() as state:
        prefixes, offsets_topics = state.ledger.prefixes(), state.offsets_topics
    past = past_of_identities.past_of_id(transaction, store.rows, prefixes, offsets_topics, first_ms, alone=alone)
    with current.reading() as state:
        loss_cases.share(past, state)
    return past


def _page_of(
    current: CurrentState,
    past: State,
    transaction: str,
    *,
    most: int,
    since_ms: int = 0,
    before: EndKey | None = None,
) -> tuple[Newest, LossInputs]:
    """Return a page of an id's transactions in a past, and what judges them."""
    wanted, status = (*COMMITTED, *UNDONE), current.decision_log_status[0]
    with current.reading():
        found = transaction_pages.ended(
            past, wanted, most=most, before=before, since_ms=since_ms, transaction=transaction
        )
        return found, loss_cases.loss_inputs(past, status, found.views)


def _starts_of_many(
    current: CurrentState, store: Store, transaction: str, most: int, before: EndKey | None
) -> list[int]:
    """Return when an id's newest transactions began, newest first (epoch ms): those of a page, and EARLIER_COUNTED behind it.

    Empty where it has no more, or the page is large: then all of them are read. An id that is used again and again has
    thousands, and what became of one of them the later ones tell.
    """
    if most > MOST_OF_WINDOW:
        return []
    wanted = most + EARLIER_COUNTED + OUT_OF_PLACE
    last_ms = now_ms() if before is None else before[0] + 1
    place = (MAX_WHOLE_NUMBER if before is None else last_ms, 0)
    newest = newest_of_id(store, transaction, place, last_ms, wanted, likely_ms(current, transaction, wanted))
    return [start_ms for _, start_ms in newest] if len(newest) == wanted else []


def loss(current: CurrentState, view: TransactionView) -> Loss | None:
    """Return the same for one transaction; None while it has not ended."""
    with current.reading() as state:
        inputs = loss_cases.loss_inputs(state, current.decision_log_status[0], [view])
    return next(iter(loss_cases.judged(inputs)), None)


def id_reports(current: CurrentState, *, fences: bool = True) -> list[IdsRow]:
    """Return what there is to say about the transactional ids of each application, most ids first.

    Without ``fences`` producers that take the ids of others are not searched for: that takes time.
    """
    at_ms = now_ms()
    recent = abort_clues(current, at_ms - HOUR_MS)[0] if fences else []
    fenced = Counter(clues.view.pipeline for clues in recent if infer(clues)[0] is AbortCause.FENCED)
    with current.reading() as state:
        checkpoint_ids = {prefix: state.ledger.checkpoint_ids(prefix) for prefix in state.ledger.prefixes()}
        name_of = partial(application_names.name_of_id, state)
        return list(transactional_ids.reports(state.ids, name_of, checkpoint_ids, fenced, at_ms))


def abort_counts(
    current: CurrentState, store: Store, pipeline: str | None, from_ms: int | None, until_ms: int | None, now_ms: int
) -> AbortCounts:
    """Return the counts of an application (None: of all) from then (None: the first, 30 days at most) until then (None: now).

    An abort is counted ten seconds after it, when its cause has shown. Raises StoreFailed.
    """
    end_ms = now_ms if until_ms is None else until_ms
    if from_ms is None:
        ((first_ms,),) = store.rows(sql.FIRST_ABORT)
        from_ms = max(end_ms - USUAL_MS, end_ms if first_ms is None else first_ms)
    from_ms = max(0, min(from_ms, end_ms - LEAST_MS))
    bucket_ms = bucket_length_ms(end_ms - from_ms, MOST_BUCKETS, least_ms=MINUTE_MS)
    from_ms = from_ms // bucket_ms * bucket_ms
    count = (end_ms - from_ms) // bucket_ms + 1
    rows = store.rows(sql.ABORTS_BY_CAUSE, from_ms, bucket_ms, from_ms, from_ms + count * bucket_ms)
    with current.reading() as state:
        names = {form: application_names.name_of_id(state, form) for form in {row[1] for row in rows}}
    counted: Counter[tuple[int, str]] = Counter()
    for place, form, cause, number in rows:
        if pipeline in (None, names[form]):
            counted[place, cause] += number
    return AbortCounts(
        from_ms=from_ms,
        bucket_ms=bucket_ms,
        buckets=count,
        counts=tuple(
            AbortCount(bucket=place, cause=AbortCause(cause), transactions=number)
            for (place, cause), number in sorted(counted.items())
        ),
    )
