"""Transactions that require an action, in the groups of the overview: by verdict, pipeline, batch and condition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from collector.rows.transactions import urgency
from collector.verdicts.hanging_transactions import Suspect, partition_name
from collector.verdicts.judging import Judged
from collector.verdicts.partition_state import PartitionFindings
from lifecycle.application import Application
from lifecycle.counted_nouns import counted
from lifecycle.rows.overview import ActionRequired
from lifecycle.verdicts import URGENCY, Judgement, Verdict, least_sure

_VERDICTS = frozenset(
    {Verdict.COMMIT_IT, Verdict.LOST, Verdict.HANGING, Verdict.ABORT_IT, Verdict.AT_RISK, Verdict.UNKNOWN}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredGroup:
    """A group with the verdicts of its members, in the order of its keys; ``since_ms``: since when it needs somebody, if known.

    ``condition``: what must be typed to commit them, the same of each.
    """

    needed: ActionRequired
    judgements: tuple[Judgement, ...]
    ours: bool
    since_ms: int | None
    condition: str = ""


def action_required(judged: Iterable[Judged], at_ms: int, foreign_old_ms: int) -> list[Judged]:
    """Return the transactions that require an action, most urgent first; a foreign one does once it is open for long."""
    return sorted((item for item in judged if _requires_action(item, at_ms, foreign_old_ms)), key=urgency)


def _requires_action(item: Judged, at_ms: int, foreign_old_ms: int) -> bool:
    if item.judgement.verdict is not Verdict.FOREIGN:
        return item.judgement.verdict in _VERDICTS
    opened_ms = item.view.opened_ms
    return item.view.is_running and opened_ms is not None and at_ms - opened_ms >= foreign_old_ms


def groups(urgent: Iterable[Judged]) -> tuple[RequiredGroup, ...]:
    """Return the same in groups, in the order given: by verdict, pipeline, batch and what must be typed to commit it."""
    found: dict[tuple[Verdict, str, int | None, str], list[Judged]] = {}
    for item in urgent:
        judgement, batch_attempt = item.judgement, item.view.batch_attempt
        batch = batch_attempt.batch if batch_attempt else None
        # One order takes one condition: a card of several would offer what is then refused.
        group = (judgement.verdict, item.view.pipeline, batch, judgement.commit_confirmation)
        found.setdefault(group, []).append(item)
    return tuple(_group(*key, members) for key, members in found.items())


def _group(
    verdict: Verdict, pipeline: str, batch: int | None, condition: str, members: Sequence[Judged]
) -> RequiredGroup:
    views = [item.view for item in members]
    decided_ms = min((v.listing[1].at_ms for v in views if v.listing is not None), default=None)
    deadlines = [v.deadline_ms for v in views if v.deadline_ms is not None]
    # The parts of a batch in each resource manager hold the same rows.
    held: dict[str, int] = {}
    for view in views:
        if view.handle is not None:
            held[view.resource_manager] = held.get(view.resource_manager, 0) + view.handle.rows
    rows = max(held.values(), default=None)
    ours = all(view.ours for view in views)
    judgements = tuple(item.judgement for item in members)
    needed = ActionRequired(
        verdict=verdict,
        certainty=least_sure(judgement.certainty for judgement in judgements),
        pipeline=pipeline,
        batch=batch,
        keys=tuple(view.key for view in views),
        rows=rows,
        decided_at_ms=decided_ms,
        deadline_ms=min(deadlines, default=None),
        headline=headline(verdict, pipeline, batch, len(views), rows, ours=ours, condition=condition),
        partitions=tuple(
            sorted({name for view in views if view.broker is not None for name in view.broker.partitions})
        ),
    )
    opened = [v.ended_ms if verdict is Verdict.LOST else v.opened_ms for v in views]
    opened_ms = min((at for at in opened if at is not None), default=None)
    since_ms = decided_ms if verdict is Verdict.COMMIT_IT and decided_ms is not None else opened_ms
    return RequiredGroup(needed=needed, judgements=judgements, ours=ours, since_ms=since_ms, condition=condition)


def headline(
    verdict: Verdict,
    pipeline: str,
    batch: int | None,
    count: int,
    rows: int | None,
    *,
    ours: bool = True,
    condition: str = "",
) -> str:
    """Return one sentence that says what stands and what follows from it; ``condition``: what must be typed to commit it."""
    what = f"{counted(count, 'transaction')} of {pipeline}{'' if batch is None else f', batch {batch}'}"
    is_single = count == 1
    is_, holds = ("is", "holds") if is_single else ("are", "hold")
    held = "data" if rows is None else counted(rows, "row")
    match verdict:
        case Verdict.COMMIT_IT if not ours:
            them = "it" if is_single else "them"
            belong = "belongs" if is_single else "belong"
            checkpoint = f"Flink checkpoint {condition}" if condition else "a Flink checkpoint that counts"
            only_if = f" only if the job goes on from {condition} or a later one" if condition else ""
            return f"{what} {belong} to {checkpoint} and {is_} not committed: commit {them}{only_if}, an abort would lose data."
        case Verdict.ABORT_IT if not ours:
            return f"{what} {is_} open, and the owner writes the rows again: abort, nothing is lost."
        case Verdict.COMMIT_IT:
            them = "it" if is_single else "them"
            return f"{what} {is_} decided but not committed: commit {them}, an abort would lose {held}."
        case Verdict.LOST:
            was = "was" if is_single else "were"
            missing = "" if rows is None else f", and {held} {'is' if rows == 1 else 'are'} missing"
            return f"{what} {was} decided and then aborted{missing}: the batch must be replayed."
        case Verdict.ABORT_IT:
            return f"{what} {is_} undecided and the driver is gone: abort, the batch will be replayed."
        case Verdict.AT_RISK:
            return f"{what} {'has' if is_single else 'have'} less time left than a recovery of the pipeline needs."
        case Verdict.HANGING:
            return f"{what} {holds} partitions open that no coordinator will end."
        case Verdict.UNKNOWN:
            return f"{what} cannot be judged: evidence is missing."
        case Verdict.FOREIGN:
            return f"{what} {is_} open for long: only its owner knows what an abort would lose."
        case Verdict.IN_PROGRESS | Verdict.SETTLED:
            return f"{what} {'needs' if is_single else 'need'} nothing."


def hanging_groups(findings: PartitionFindings, applications: Mapping[str, Application]) -> list[RequiredGroup]:
    """Return what hangs, grouped by application, oldest first; ``applications``: by the keys of what hangs."""
    found: dict[str, list[Suspect]] = {}
    for suspect in sorted(findings.hanging, key=lambda suspect: (suspect.since_ms, suspect.key)):
        found.setdefault(applications[suspect.key].name, []).append(suspect)
    return [_hanging_group(name, members) for name, members in found.items()]


def _hanging_group(name: str, members: Sequence[Suspect]) -> RequiredGroup:
    judgements = tuple(suspect.judgement for suspect in members)
    needed = ActionRequired(
        verdict=Verdict.HANGING,
        certainty=least_sure(judgement.certainty for judgement in judgements),
        pipeline=name,
        batch=None,
        keys=tuple(suspect.key for suspect in members),
        rows=None,
        decided_at_ms=None,
        deadline_ms=None,
        headline=headline(Verdict.HANGING, name, None, len(members), None),
        partitions=tuple(sorted({partition_name(suspect.producer.partition) for suspect in members})),
    )
    return RequiredGroup(needed=needed, judgements=judgements, ours=False, since_ms=members[0].since_ms)


def by_urgency(groups: Iterable[RequiredGroup]) -> tuple[RequiredGroup, ...]:
    """Return groups by the urgency of their verdicts, else as given."""
    return tuple(sorted(groups, key=lambda group: URGENCY.index(group.needed.verdict)))
