"""The timeouts of the last day against what they had to outlast, gathered from history and from what is open now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from indoubt.collector.history import sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.facts import BrokerTransaction
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.runtime.timed_cache import TtlCache
from indoubt.collector.verdicts.restarts import each_restart
from indoubt.collector.verdicts.timeout_risk import EndedLengths, OpenNow, Timeout
from indoubt.collector.verdicts.verdict_case import PipelineHistory
from indoubt.collector.views import application_names
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.durations import DAY_MS
from indoubt.lifecycle.rows.pipelines import MeasuredRestart

RECOUNT_MS = 5_000


def cached_lengths(current: CurrentState, store: Store) -> TtlCache[Sequence[EndedLengths]]:
    """Return how long transactions were open in the last 24 hours, as of at most 5 s ago, each application once, in no order.

    It raises StoreFailed.
    """

    def counted(at_ms: int) -> Sequence[EndedLengths]:
        since_ms = at_ms - DAY_MS
        forms = [form for (form,) in store.rows(sql.LENGTHS_COUNTED_SINCE, since_ms)]
        with current.reading() as state:
            names = [application_names.name_of_id(state, form) for form in forms]
        return [EndedLengths(**row) for row in store.named_rows(sql.LENGTHS_SINCE, since_ms, forms, names)]

    return TtlCache(counted, RECOUNT_MS)


def timeouts(
    current: CurrentState, lengths: TtlCache[Sequence[EndedLengths]], assumed_recovery_ms: int
) -> list[Timeout]:
    """Return the timeout of every application with a transaction in the last 24 hours or open now, in no order.

    Raises StoreFailed.
    """
    known = {durations.application: durations for durations in lengths.at(now_ms())}
    running = current.transactions.open_at_coordinators()
    with current.reading() as state:
        names = {id_: application_names.name_of_id(state, id_) for id_ in {one.identity.transaction for one in running}}
    opened = open_now(running, names.__getitem__)
    for name, found in opened.items():
        if name not in known and found.oldest_timeout_ms:
            known[name] = EndedLengths(application=name, timeout_ms=found.oldest_timeout_ms)
    managed = current.pipelines(run.facts.pipeline for run in current.newest_runs())
    return [
        Timeout(
            lengths=durations,
            open_now=opened.get(name),
            pipeline=managed.get(name),
            assumed_recovery_ms=assumed_recovery_ms,
            restarts=_restarts(current, managed.get(name)),
        )
        for name, durations in known.items()
    ]


def _restarts(current: CurrentState, pipeline: PipelineHistory | None) -> tuple[MeasuredRestart, ...]:
    return each_restart(pipeline.facts, pipeline.silent_after_ms(current.limits)) if pipeline is not None else ()


def open_now(transactions: Iterable[BrokerTransaction], name_of: Callable[[str], str]) -> dict[str, OpenNow]:
    """Return of each application what is open; ``name_of``: gives an id the name of its application."""
    of_each: dict[str, list[BrokerTransaction]] = {}
    for transaction in transactions:
        of_each.setdefault(name_of(transaction.identity.transaction), []).append(transaction)
    return {name: _open_now(members) for name, members in of_each.items()}


def _open_now(members: Sequence[BrokerTransaction]) -> OpenNow:
    oldest = min(members, key=lambda transaction: transaction.identity.start_ms)
    return OpenNow(
        count=len(members),
        oldest_key=oldest.key,
        oldest_opened_ms=oldest.identity.start_ms,
        oldest_timeout_ms=oldest.timeout_ms,
    )
