"""Transactions that an operator must look at, in groups: by verdict, application, batch and condition of a commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from indoubt.collector.verdicts.hanging_transactions import Suspect, partition_name
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.verdicts.partition_state import PartitionFindings
from indoubt.collector.views.transaction_rows import urgency
from indoubt.lifecycle.application import Application
from indoubt.lifecycle.resource_manager_kinds import WATCHED
from indoubt.lifecycle.verdicts import URGENCY, Certainty, Judgement, Verdict, least_sure

_VERDICTS = frozenset(
    {Verdict.COMMIT_IT, Verdict.LOST, Verdict.HANGING, Verdict.ABORT_IT, Verdict.AT_RISK, Verdict.UNKNOWN}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionGroup:
    """Transactions of one batch, or one foreign transaction, with the judgement of each, in the order of ``keys``.

    ``rows``: None where they are not known. ``since_ms``: since when it needs an operator, if known. ``condition``: what must be
    typed to commit them, the same of each.
    """

    verdict: Verdict
    pipeline: str
    keys: tuple[str, ...]
    judgements: tuple[Judgement, ...]
    partitions: tuple[str, ...]
    managed: bool = False
    batch: int | None = None
    rows: int | None = None
    since_ms: int | None = None
    deadline_ms: int | None = None
    condition: str = ""

    @property
    def is_left_to_job(self) -> bool:
        """Say whether no order commits them: only their job does."""
        return all(not _takes_commits(key.partition(":")[0]) for key in self.keys)

    @property
    def certainty(self) -> Certainty:
        """Return that of the least sure of them."""
        return least_sure(judgement.certainty for judgement in self.judgements)


def required(
    judged: Iterable[Judged],
    findings: PartitionFindings,
    applications: Mapping[str, Application],
    at_ms: int,
    foreign_old_ms: int,
) -> tuple[TransactionGroup, ...]:
    """Return the groups of what requires an action, most urgent first; a foreign transaction does once it is open for long.

    ``applications``: by the keys of what hangs.
    """
    urgent = sorted((item for item in judged if _requires_action(item, at_ms, foreign_old_ms)), key=urgency)
    found: dict[tuple[tuple[Verdict, str, int | None, str], bool], list[Judged]] = {}
    for item in urgent:
        judgement, batch_attempt = item.judgement, item.view.batch_attempt
        batch = batch_attempt.batch if batch_attempt else None
        # One order takes one condition: a card of several would offer what is then refused.
        group = (judgement.verdict, item.view.pipeline, batch, judgement.commit_confirmation)
        found.setdefault((group, _takes_commits(item.view.resource_manager)), []).append(item)
    groups = [*_hanging(findings, applications), *(_group(*group, members) for (group, _), members in found.items())]
    return tuple(sorted(groups, key=lambda group: URGENCY.index(group.verdict)))


def _takes_commits(resource_manager: str) -> bool:
    kind = WATCHED.get(resource_manager)
    return kind is None or kind.takes_commits


def _requires_action(item: Judged, at_ms: int, foreign_old_ms: int) -> bool:
    if item.judgement.verdict is not Verdict.FOREIGN:
        return item.judgement.verdict in _VERDICTS
    opened_ms = item.view.opened_ms
    return item.view.is_running and opened_ms is not None and at_ms - opened_ms >= foreign_old_ms


def _group(
    verdict: Verdict, pipeline: str, batch: int | None, condition: str, members: Sequence[Judged]
) -> TransactionGroup:
    views = [item.view for item in members]
    decided_ms = min((v.listing[1].at_ms for v in views if v.listing is not None), default=None)
    opened = [v.ended_ms if verdict is Verdict.LOST else v.opened_ms for v in views]
    opened_ms = min((at for at in opened if at is not None), default=None)
    # The parts of a batch in each resource manager hold the same rows.
    held: dict[str, int] = {}
    for view in views:
        if view.handle is not None:
            held[view.resource_manager] = held.get(view.resource_manager, 0) + view.handle.rows
    return TransactionGroup(
        verdict=verdict,
        pipeline=pipeline,
        batch=batch,
        condition=condition,
        keys=tuple(view.key for view in views),
        judgements=tuple(item.judgement for item in members),
        managed=all(view.managed for view in views),
        rows=max(held.values(), default=None),
        since_ms=decided_ms if verdict is Verdict.COMMIT_IT and decided_ms is not None else opened_ms,
        deadline_ms=min((v.deadline_ms for v in views if v.deadline_ms is not None), default=None),
        partitions=tuple(
            sorted({name for view in views if view.broker is not None for name in view.broker.partitions})
        ),
    )


def _hanging(findings: PartitionFindings, applications: Mapping[str, Application]) -> list[TransactionGroup]:
    """Return what hangs, grouped by application, oldest first."""
    found: dict[str, list[Suspect]] = {}
    for suspect in sorted(findings.hanging, key=lambda suspect: (suspect.since_ms, suspect.key)):
        found.setdefault(applications[suspect.key].name, []).append(suspect)
    return [
        TransactionGroup(
            verdict=Verdict.HANGING,
            pipeline=name,
            keys=tuple(suspect.key for suspect in members),
            judgements=tuple(suspect.judgement for suspect in members),
            since_ms=members[0].since_ms,
            partitions=tuple(sorted({partition_name(suspect.producer.partition) for suspect in members})),
        )
        for name, members in found.items()
    ]
