"""Orders by filter: which transactions a filter means now, and the fingerprint by which an order says which it was shown."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass

from indoubt.collector.act.orders.confirmation import confirmation_text
from indoubt.collector.records.orders import Order
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.transaction_rows import transaction_row, urgency
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.order_request import MAX_KEYS, Filter, in_words
from indoubt.lifecycle.rows.orders import LeftOut, OrderPreview, PreviewedCondition, PreviewedVerdict
from indoubt.lifecycle.verdicts import Certainty, Verdict

PART = 250
"""Transactions that are ordered at once: other orders are carried out between two parts."""
MOST_PREVIEWED = 100_000
"""Transactions of previews that are kept; the newest preview is kept however many it names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a filter means: ``chosen`` may be ended so, ``left_out`` fits the filter and may not. Most urgent first."""

    action: Action
    chosen: tuple[Judged, ...]
    left_out: tuple[Judged, ...]

    def preview(self, chosen_by: Filter) -> OrderPreview:
        """Return what the API shows of it. Raises OrderRefused when no typed text could mean all of an abort."""
        conditions = self._conditions()
        return OrderPreview(
            action=self.action,
            filter=chosen_by.to_json(),
            keys=tuple(judged.view.key for judged in self.chosen),
            conditions=tuple(conditions),
            summary=tuple(_summary(self.chosen)),
            rows=tuple(transaction_row(judged) for judged in self.chosen[:MAX_KEYS]),
            left_out=tuple(
                LeftOut(
                    key=judged.view.key,
                    transaction=judged.view.transaction,
                    verdict=judged.judgement.verdict,
                    certainty=judged.judgement.certainty,
                )
                for judged in self.left_out[:MAX_KEYS]
            ),
            left_out_total=len(self.left_out),
        )

    def _conditions(self) -> list[PreviewedCondition]:
        """Return what must be typed for which: an abort takes one text for all, commits may rest on several checkpoints."""
        members: dict[str, list[Judged]] = {}
        of_all = confirmation_text(self.chosen) if self.action is Action.ABORT else ""
        for judged in self.chosen:
            members.setdefault(of_all or judged.judgement.commit_confirmation, []).append(judged)
        return [
            PreviewedCondition(
                fingerprint=fingerprint(found),
                parts=parts_of(found),
                confirm=confirm,
                keys=tuple(judged.view.key for judged in found),
                summary=tuple(_summary(found)),
            )
            for confirm, found in members.items()
        ]


def select(judged: Iterable[Judged], wanted: Filter, at_ms: int, action: Action = Action.ABORT) -> Selection:
    """Return what the filter means among these, most urgent first."""
    fitting = sorted((each for each in judged if _fits(each, wanted, at_ms)), key=urgency)
    may = [each.judgement.may_commit if action is Action.COMMIT else each.judgement.may_abort for each in fitting]
    chosen = tuple(each for each, is_allowed in zip(fitting, may, strict=True) if is_allowed)
    left_out = tuple(each for each, is_allowed in zip(fitting, may, strict=True) if not is_allowed)
    return Selection(action=action, chosen=chosen, left_out=left_out)


def _summary(chosen: Sequence[Judged]) -> list[PreviewedVerdict]:
    """Return what is known of the chosen, one row for each verdict, certainty and rule, with the evidence of the most urgent."""
    members: dict[tuple[Verdict, Certainty, int], list[Judged]] = {}
    for judged in chosen:
        of = (judged.judgement.verdict, judged.judgement.certainty, judged.judgement.rule)
        members.setdefault(of, []).append(judged)
    return [
        PreviewedVerdict(
            verdict=verdict,
            certainty=certainty,
            rule=rule,
            transactions=len(found),
            loses_data=sum(judged.judgement.loses_data for judged in found),
            pipelines=len({judged.view.pipeline for judged in found}),
            example=found[0].view.transaction,
            evidence=tuple(found[0].judgement.evidence),
        )
        for (verdict, certainty, rule), found in members.items()
    ]


def parts_of(chosen: Sized) -> int:
    """Return in how many parts these are ordered."""
    return -(-len(chosen) // PART)


def fingerprint(found: Iterable[Judged]) -> str:
    """Return a text that changes when another transaction is among these, or one of them changed, whatever their order."""
    lines = sorted(f"{judged.view.key} {judged.view.revision}" for judged in found)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def _fits(judged: Judged, wanted: Filter, at_ms: int) -> bool:
    view, opened = judged.view, judged.view.opened_ms
    return (
        judged.judgement.verdict is not Verdict.SETTLED
        and wanted.pipeline in ("", view.pipeline)
        and wanted.verdict in ("", judged.judgement.verdict.value)
        and wanted.certainty in ("", judged.judgement.certainty.value)
        and wanted.resource_manager in ("", view.resource_manager)
        and view.transaction.startswith(wanted.transaction_prefix)
        and (not wanted.open_for_ms or (opened is not None and at_ms - opened >= wanted.open_for_ms))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Previewed:
    """What a condition of a preview was about: the revision of each key, most urgent first, what must be typed, and it in words."""

    seen: Mapping[str, str]
    confirm: str
    what: str


class Previews:
    """Says what filters mean, and keeps it for the orders that follow: these are about just what was shown. Thread-safe."""

    def __init__(self, current: CurrentState) -> None:
        self._current, self._lock = current, threading.Lock()
        self._kept: dict[tuple[Action, Filter | None, str], Previewed] = {}

    def preview(self, action: Action, wanted: Filter) -> OrderPreview:
        """Return what an order with this filter would mean now. Raises OrderRefused when no typed text could mean all of it."""
        at_ms = now_ms()
        selection = select(self._current.transactions.judged(at_ms=at_ms), wanted, at_ms, action)
        preview = selection.preview(wanted)
        seen = {judged.view.key: judged.view.revision for judged in selection.chosen}
        with self._lock:
            for condition in preview.conditions:
                which = f", {condition.confirm or 'without a text to type'}" if len(preview.conditions) > 1 else ""
                self._kept.pop((action, wanted, condition.fingerprint), None)
                self._kept[action, wanted, condition.fingerprint] = Previewed(
                    seen={key: seen[key] for key in condition.keys},
                    confirm=condition.confirm,
                    what=in_words(preview.filter) + which,
                )
            older = list(self._kept)[: len(self._kept) - len(preview.conditions)]
            kept = sum(len(previewed.seen) for previewed in self._kept.values())
            for oldest in older:
                if kept > MOST_PREVIEWED:
                    kept -= len(self._kept.pop(oldest).seen)
        return preview

    def find(self, order: Order) -> Previewed | None:
        """Return what an order by filter was shown, None where that is not kept (any more)."""
        with self._lock:
            return self._kept.get((order.action, order.filter, order.fingerprint))
