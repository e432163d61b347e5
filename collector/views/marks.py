"""What happened at a moment, as charts mark it: orders, starts and stops, lost and duplicated transactions, alerts that fired."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from indoubt.collector.history import sql, transaction_sql
from indoubt.collector.history.store import Store
from indoubt.collector.verdicts.data_loss import LossVerdict
from indoubt.collector.views import aborts_and_losses, application_names
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.rows.series import MarkKind, SeriesMark

MOST = 200
LOOKED_AT = 500
"""Of transactions that were undone the newest: whether one is lost takes a look at each."""
_KINDS = {
    EventType.PIPELINE_STARTED.value: MarkKind.START,
    EventType.PIPELINE_RESTARTING.value: MarkKind.RESTART,
    EventType.PIPELINE_STOPPED.value: MarkKind.STOP,
}
_LOSSES = {LossVerdict.LOST: MarkKind.LOST, LossVerdict.DUPLICATED: MarkKind.DUPLICATED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Transactions of one application that were lost, or written twice, at one moment (epoch ms); their ids sorted."""

    kind: MarkKind
    pipeline: str
    at_ms: int
    transactions: tuple[str, ...]


def marks(current: CurrentState, store: Store, lost: Iterable[Losses], from_ms: int, until_ms: int) -> list[SeriesMark]:
    """Return the marks of a time (epoch ms), the newest 200 of each source, oldest first. Raises StoreFailed.

    ``lost``: what ``losses`` returns.
    """
    found = [
        *_orders(current, store, from_ms, until_ms),
        *_of_pipelines(store, from_ms, until_ms),
        *_restores(current, from_ms, until_ms),
        *map(_mark_of, lost),
        *_alerts(store, from_ms, until_ms),
    ]
    return sorted(found, key=lambda mark: (mark.at_ms, mark.kind.value, mark.pipeline))


def _orders(current: CurrentState, store: Store, from_ms: int, until_ms: int) -> Iterator[SeriesMark]:
    rows = store.rows(sql.ORDERS_OF_TIME, from_ms, until_ms, MOST)
    keys = {row[0]: json.loads(row[4]) for row in rows}
    past_ids = _ids_of_producers(store, {key for of in keys.values() for key in of})
    with current.reading() as state:
        named = {
            audit: {application_names.name_of_key(state, key, past_ids) for key in of} for audit, of in keys.items()
        }
    for audit, at_ms, who, action, _, outcome in rows:
        # A batch's order has its transactions' keys too, and not every key names an application.
        for name in sorted(named[audit] - {""}) or [""]:
            how = "" if outcome == "accepted" else f", {outcome}"
            text = f"{action} by {who}{how} (audit {audit})"
            yield SeriesMark(at_ms=at_ms, kind=MarkKind.ORDER, pipeline=name, text=text)


def _ids_of_producers(store: Store, keys: Iterable[str]) -> dict[int, set[str]]:
    """Return the transactional ids that history has of the producers of hanging transactions."""
    producers = {producer for key in keys if (producer := application_names.producer_of_key(key)) is not None}
    found: dict[int, set[str]] = {}
    for producer, id_ in store.rows(transaction_sql.IDS_OF_PRODUCERS, sorted(producers)) if producers else ():
        found.setdefault(producer, set()).add(id_)
    return found


def _of_pipelines(store: Store, from_ms: int, until_ms: int) -> Iterator[SeriesMark]:
    for type_, at_ms, pipeline, reason in store.rows(sql.PIPELINE_EVENTS_OF_TIME, from_ms, until_ms, MOST):
        what = type_.removeprefix("pipeline.")
        text = f"{what}: {reason}" if reason else what
        yield SeriesMark(at_ms=at_ms, kind=_KINDS[type_], pipeline=pipeline, text=text)


def _restores(current: CurrentState, from_ms: int, until_ms: int) -> Iterator[SeriesMark]:
    for job in current.jobs():
        for restore in job.restores:
            if from_ms <= restore.at_ms < until_ms:
                text = f"restored from checkpoint {restore.number}"
                yield SeriesMark(at_ms=restore.at_ms, kind=MarkKind.RESTART, pipeline=job.pipeline, text=text)


def losses(current: CurrentState, from_ms: int, until_ms: int) -> list[Losses]:
    """Return the newest transactions that were lost or duplicated in a time (epoch ms), those of a moment together, in no order."""
    judged, _ = aborts_and_losses.losses_in_memory(current, since_ms=from_ms, most=LOOKED_AT)
    together: dict[tuple[MarkKind, str, int], list[tuple[int, str]]] = {}
    for loss in judged:
        kind, ended_ms = _LOSSES.get(loss.verdict), loss.view.ended_ms
        if kind is not None and ended_ms is not None and ended_ms < until_ms:
            # Those of a batch end within a moment: one mark stands for all of them.
            key = (kind, loss.view.pipeline, ended_ms // 1000)
            together.setdefault(key, []).append((ended_ms, loss.view.transaction))
    return [
        Losses(kind=kind, pipeline=pipeline, at_ms=min(ended)[0], transactions=tuple(sorted(id_ for _, id_ in ended)))
        for (kind, pipeline, _), ended in together.items()
    ]


def _mark_of(losses: Losses) -> SeriesMark:
    first, number = losses.transactions[0], len(losses.transactions)
    what = first if number == 1 else f"{number} transactions, {first} among them"
    return SeriesMark(
        at_ms=losses.at_ms, kind=losses.kind, pipeline=losses.pipeline, text=f"{losses.kind.value}: {what}"
    )


def _alerts(store: Store, from_ms: int, until_ms: int) -> Iterator[SeriesMark]:
    for fired_ms, finding in store.rows(sql.ALERTS_OF_TIME, from_ms, until_ms, MOST):
        found: dict[str, Any] = json.loads(finding)
        pipeline = str(found["subject_labels"].get("pipeline", ""))
        text = f"{found['rule']}: {found['summary']}"
        yield SeriesMark(at_ms=fired_ms, kind=MarkKind.ALERT, pipeline=pipeline, text=text)
