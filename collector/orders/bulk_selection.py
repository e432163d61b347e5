"""Orders by filter: which transactions a filter means now, and the fingerprint by which an order says which it was shown."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collector.orders.confirmation import confirmation_text
from collector.rows.transactions import transaction_row, urgency
from collector.verdicts.judging import Judged
from lifecycle.errors import OrderRefused
from lifecycle.orders import Action
from lifecycle.rows.order_request import MAX_KEYS, Filter
from lifecycle.rows.orders import LeftOut, OrderPreview, PreviewedCondition, PreviewedVerdict
from lifecycle.verdicts import Certainty, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a filter means: ``chosen`` may be ended so, ``left_out`` fits the filter and may not. Most urgent first."""

    action: Action
    chosen: tuple[Judged, ...]
    left_out: tuple[Judged, ...]

    @property
    def fingerprint(self) -> str:
        """Return a text that changes when another transaction is chosen, or one of them changed."""
        return fingerprint([(judged.view.key, judged.view.revision) for judged in self.chosen])

    def preview(self, chosen_by: Filter) -> OrderPreview:
        """Return what the API shows of it. Raises OrderRefused when no typed text could mean all of an abort."""
        conditions = self._conditions()
        return OrderPreview(
            action=self.action,
            filter=chosen_by.to_json(),
            fingerprint=self.fingerprint,
            keys=tuple(judged.view.key for judged in self.chosen),
            seen={judged.view.key: judged.view.revision for judged in self.chosen},
            confirm=conditions[0].confirm if len(conditions) == 1 else "",
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
                confirm=confirm, keys=tuple(judged.view.key for judged in found), summary=tuple(_summary(found))
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


def require_takeable(selection: Selection) -> None:
    """Raise OrderRefused when a filter means more than one order takes."""
    if len(selection.chosen) > MAX_KEYS:
        raise OrderRefused(
            f"the filter means {len(selection.chosen)} transactions and an order takes {MAX_KEYS}: narrow it, or order the keys of "
            "its preview in parts"
        )


def fingerprint(revisions: Sequence[tuple[str, str]]) -> str:
    """Return the fingerprint of (key, revision) pairs, whatever their order."""
    lines = sorted(f"{key} {revision}" for key, revision in revisions)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def require_unchanged(selection: Selection, seen: str) -> None:
    """Raise OrderRefused unless the order was shown just this selection."""
    if not selection.chosen:
        raise OrderRefused("the filter means no transaction that may be aborted (any more): look again")
    if seen != selection.fingerprint:
        raise OrderRefused(
            f"the filter means other transactions, or changed ones, than its preview showed: {len(selection.chosen)} now; "
            "ask for the preview again. Nothing was aborted"
        )


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
